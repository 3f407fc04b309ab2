"""Several clusters: workloads are offered to them, run where there is room first, and are followed there."""
