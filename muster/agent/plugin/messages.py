"""The messages of the kubelet's device plugins (v1beta1) and of its list of pods and their devices (v1), as tables.

Names and numbers are Kubernetes'; what Muster has no use for is not here and is passed over.
"""

from __future__ import annotations

from muster.agent.plugin.protobuf import Field, Kind, Table

VERSION = "v1beta1"
REGISTRATION, PLUGIN, PODS = "v1beta1.Registration", "v1beta1.DevicePlugin", "v1.PodResourcesLister"
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"

EMPTY: Table = {}
OPTIONS: Table = {
    "pre_start_required": Field(1, Kind.FLAG),
    "get_preferred_allocation_available": Field(2, Kind.FLAG),
}
REGISTER: Table = {
    "version": Field(1),
    "endpoint": Field(2),
    "resource_name": Field(3),
    "options": Field(4, Kind.MESSAGE, OPTIONS),
}
_NUMA: Table = {"ID": Field(1, Kind.WHOLE)}
_TOPOLOGY: Table = {"nodes": Field(1, Kind.MESSAGES, _NUMA)}
_DEVICE: Table = {"ID": Field(1), "health": Field(2), "topology": Field(3, Kind.MESSAGE, _TOPOLOGY)}
DEVICES: Table = {"devices": Field(1, Kind.MESSAGES, _DEVICE)}

_WANTED: Table = {
    "available": Field(1, Kind.TEXTS),
    "must_include": Field(2, Kind.TEXTS),
    "size": Field(3, Kind.WHOLE),
}
PREFERENCE: Table = {"container_requests": Field(1, Kind.MESSAGES, _WANTED)}
_IDS: Table = {"ids": Field(1, Kind.TEXTS)}
PREFERRED: Table = {"container_responses": Field(1, Kind.MESSAGES, _IDS)}

ALLOCATE: Table = {"container_requests": Field(1, Kind.MESSAGES, _IDS)}
_MOUNT: Table = {"container_path": Field(1), "host_path": Field(2), "read_only": Field(3, Kind.FLAG)}
_FILE: Table = {"container_path": Field(1), "host_path": Field(2), "permissions": Field(3)}
_CDI: Table = {"name": Field(1)}
_ALLOCATED: Table = {
    "envs": Field(1, Kind.MAP),
    "mounts": Field(2, Kind.MESSAGES, _MOUNT),
    "devices": Field(3, Kind.MESSAGES, _FILE),
    "annotations": Field(4, Kind.MAP),
    "cdi_devices": Field(5, Kind.MESSAGES, _CDI),
}
ALLOCATED: Table = {"container_responses": Field(1, Kind.MESSAGES, _ALLOCATED)}
PRE_START: Table = {"ids": Field(1, Kind.TEXTS)}

_HELD: Table = {"resource_name": Field(1), "ids": Field(2, Kind.TEXTS)}
_CONTAINER: Table = {"name": Field(1), "devices": Field(2, Kind.MESSAGES, _HELD)}
_POD: Table = {"name": Field(1), "namespace": Field(2), "containers": Field(3, Kind.MESSAGES, _CONTAINER)}
POD_LIST: Table = {"pod_resources": Field(1, Kind.MESSAGES, _POD)}
