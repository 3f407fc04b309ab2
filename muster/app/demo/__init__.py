"""Stories of a cluster, told with real objects: `muster demo` plays them, and tests play them with kubectl as well."""
