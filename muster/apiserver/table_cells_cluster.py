"""What tables show of nodes, networks, storage and the small kinds of the core. Part of `table_cells`."""

from __future__ import annotations

from muster.apiserver.table_texts import (
    NONE,
    UNKNOWN,
    UNSET,
    Cell,
    Cells,
    Object,
    at,
    condition,
    count,
    field,
    filled,
    joined,
    labels,
    quantity,
    quantity_text,
    reference,
    selector,
    shortened,
)

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ADDRESSES_SHOWN = 3
_ACCESS_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


# Nodes ---------------------------------------------------------------------------------------------------------------


def _node_status(node: Object, _: float) -> str:
    ready = condition(node, "Ready")
    if ready is None:
        status = "Unknown"
    else:
        status = "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{status},SchedulingDisabled" if at(node, "spec.unschedulable") else status


def _node_roles(node: Object, _: float) -> str:
    given = at(node, "metadata.labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in given if key.startswith(_ROLE_PREFIX)}
    roles.add(given.get("kubernetes.io/role", ""))
    return ",".join(sorted(roles - {""})) or NONE


def _node_address(kind: str) -> Cell:
    def cell(node: Object, _: float) -> str:
        found = (one["address"] for one in at(node, "status.addresses") or () if one.get("type") == kind)
        return next(found, NONE)

    return cell


def _kernel(node: Object, _: float) -> str:
    kernel = at(node, "status.nodeInfo.kernelVersion") or UNKNOWN
    architecture = at(node, "status.nodeInfo.architecture")
    return f"{kernel} ({architecture})" if architecture else str(kernel)


NODE: Cells = {
    "Status": _node_status,
    "Roles": _node_roles,
    "Version": field("status.nodeInfo.kubeletVersion"),
    "Internal-IP": _node_address("InternalIP"),
    "External-IP": _node_address("ExternalIP"),
    "OS-Image": filled("status.nodeInfo.osImage", UNKNOWN),
    "Kernel-Version": _kernel,
    "Container-Runtime": filled("status.nodeInfo.containerRuntimeVersion", UNKNOWN),
}
LEASE: Cells = {"Holder": field("spec.holderIdentity")}
RUNTIME_CLASS: Cells = {"Handler": field("handler")}


# Small kinds of the core ---------------------------------------------------------------------------------------------


def _quota(is_of_limits: bool) -> Cell:
    def cell(item: Object, _: float) -> str:
        hard, used = at(item, "status.hard") or {}, at(item, "status.used") or {}
        names = sorted(name for name in hard if name.startswith("limits.") == is_of_limits)
        return ", ".join(f"{name}: {quantity_text(used.get(name))}/{quantity_text(hard[name])}" for name in names)

    return cell


def _health(name: str) -> Cell:
    def cell(item: Object, _: float) -> str:
        found = (one.get(name, "") for one in item.get("conditions") or () if one.get("type") == "Healthy")
        return next(found, "")

    return cell


def _health_status(item: Object, now_s: float) -> str:
    return {"": "Unknown", "True": "Healthy"}.get(_health("status")(item, now_s), "Unhealthy")


CONFIG_MAP: Cells = {"Data": lambda item, _: len(item.get("data") or ()) + len(item.get("binaryData") or ())}
SECRET: Cells = {"Type": field("type"), "Data": count("data")}
NAMESPACE: Cells = {"Status": field("status.phase")}
RESOURCE_QUOTA: Cells = {"Request": _quota(is_of_limits=False), "Limit": _quota(is_of_limits=True)}
COMPONENT_STATUS: Cells = {"Status": _health_status, "Message": _health("message"), "Error": _health("error")}


# Networks ------------------------------------------------------------------------------------------------------------


def _external_address(service: Object, _: float) -> str:
    kind, given = at(service, "spec.type"), at(service, "spec.externalIPs") or []
    if kind == "ExternalName":
        return str(at(service, "spec.externalName") or "")
    if kind == "LoadBalancer":
        return ",".join([*_balancer_addresses(service), *given]) or "<pending>"
    return ",".join(given) or NONE


def _balancer_addresses(item: Object) -> list[str]:
    ingress = at(item, "status.loadBalancer.ingress") or ()
    return sorted({one.get("ip") or one.get("hostname") or "" for one in ingress} - {""})


def _service_ports(service: Object, _: float) -> str:
    ports = at(service, "spec.ports") or ()
    return ",".join(_service_port(one) for one in ports) or NONE


def _service_port(port: Object) -> str:
    outside = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{outside}/{port.get('protocol', 'TCP')}"


def _endpoints(item: Object, _: float) -> str:
    subsets = item.get("subsets") or ()
    texts = [text for subset in subsets for text in _subset_texts(subset)]
    return shortened(texts, _ADDRESSES_SHOWN) if subsets else NONE


def _subset_texts(subset: Object) -> list[str]:
    addresses = [one["ip"] for one in subset.get("addresses") or ()]
    ports = subset.get("ports") or ()
    return [_with_port(one, port["port"]) for port in ports for one in addresses] if ports else addresses


def _with_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _slice_ports(item: Object, _: float) -> str:
    texts = [str(one.get("port", one.get("name", "*"))) for one in item.get("ports") or ()]
    return shortened(texts, _ADDRESSES_SHOWN) or UNSET


def _slice_addresses(item: Object, _: float) -> str:
    texts = [address for one in item.get("endpoints") or () for address in one.get("addresses") or ()]
    return shortened(texts, _ADDRESSES_SHOWN) or UNSET


def _hosts(ingress: Object, _: float) -> str:
    """The first hosts; rules without one count among those not shown, as they do in Kubernetes."""
    rules = at(ingress, "spec.rules") or ()
    named = [(index, one["host"]) for index, one in enumerate(rules) if one.get("host")][:_ADDRESSES_SHOWN]
    text = ",".join(host for _, host in named) or "*"
    is_cut = len(named) == _ADDRESSES_SHOWN and named[-1][0] < len(rules) - 1
    return f"{text} + {len(rules) - _ADDRESSES_SHOWN} more..." if is_cut else text


def _default_name(*annotations: str) -> Cell:
    """The name, and whether an annotation says that it is the one to take where none is named."""

    def cell(item: Object, _: float) -> str:
        given = at(item, "metadata.annotations") or {}
        is_default = any(given.get(one) == "true" for one in annotations)
        return f"{at(item, 'metadata.name')}{' (default)' if is_default else ''}"

    return cell


def _class_parameters(item: Object, _: float) -> str:
    parameters = at(item, "spec.parameters")
    if not parameters:
        return NONE
    group = parameters.get("apiGroup")
    return f"{parameters['kind']}{'' if group is None else f'.{group}'}/{parameters['name']}"


def _parent(address: Object, _: float) -> str:
    parent = at(address, "spec.parentRef")
    if not parent:
        return NONE
    resource = ".".join(filter(None, (parent.get("resource"), parent.get("group")))).lower()
    return "/".join(filter(None, (resource, parent.get("namespace"), parent.get("name"))))


SERVICE: Cells = {
    "Type": field("spec.type"),
    "Cluster-IP": lambda item, _: (at(item, "spec.clusterIPs") or [at(item, "spec.clusterIP") or NONE])[0],
    "External-IP": _external_address,
    "Port(s)": _service_ports,
    "Selector": labels("spec.selector"),
}
ENDPOINTS: Cells = {"Endpoints": _endpoints}
ENDPOINT_SLICE: Cells = {"AddressType": field("addressType"), "Ports": _slice_ports, "Endpoints": _slice_addresses}
INGRESS: Cells = {
    "Class": field("spec.ingressClassName", NONE),
    "Hosts": _hosts,
    "Address": lambda item, _: ",".join(_balancer_addresses(item)),
    "Ports": lambda item, _: "80, 443" if at(item, "spec.tls") else "80",
}
INGRESS_CLASS: Cells = {
    "Name": _default_name("ingressclass.kubernetes.io/is-default-class"),
    "Controller": field("spec.controller"),
    "Parameters": _class_parameters,
}
NETWORK_POLICY: Cells = {"Pod-Selector": selector("spec.podSelector")}
SERVICE_CIDR: Cells = {"CIDRs": joined("spec.cidrs")}
IP_ADDRESS: Cells = {"ParentRef": _parent}


# Storage -------------------------------------------------------------------------------------------------------------


def _access_modes(path: str) -> Cell:
    def cell(item: Object, _: float) -> str:
        given = at(item, path) or ()
        return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in given)

    return cell


def _unless_deleted(path: str) -> Cell:
    return lambda item, _: "Terminating" if at(item, "metadata.deletionTimestamp") else at(item, path) or ""


def _if_bound(cell: Cell) -> Cell:
    return lambda claim, now_s: cell(claim, now_s) if at(claim, "spec.volumeName") else ""


def _storage_class(item: Object, _: float) -> str:
    older = (at(item, "metadata.annotations") or {}).get(_OLD_CLASS)
    return str(at(item, "spec.storageClassName") or "") if older is None else str(older)


def _claim(volume: Object, now_s: float) -> str:
    if not at(volume, "spec.claimRef"):
        return ""
    return str(reference("spec.claimRef.namespace", "spec.claimRef.name")(volume, now_s))


def _audiences(driver: Object, _: float) -> str:
    requests = at(driver, "spec.tokenRequests")
    return UNSET if requests is None else ",".join(one.get("audience", "") for one in requests)


PERSISTENT_VOLUME: Cells = {
    "Capacity": quantity("spec.capacity.storage"),
    "Access Modes": _access_modes("spec.accessModes"),
    "Reclaim Policy": field("spec.persistentVolumeReclaimPolicy"),
    "Status": _unless_deleted("status.phase"),
    "Claim": _claim,
    "StorageClass": _storage_class,
    "VolumeAttributesClass": field("spec.volumeAttributesClassName", UNSET),
    "Reason": field("status.reason"),
    "VolumeMode": field("spec.volumeMode", UNSET),
}
PERSISTENT_VOLUME_CLAIM: Cells = {
    "Status": _unless_deleted("status.phase"),
    "Volume": field("spec.volumeName"),
    "Capacity": _if_bound(quantity("status.capacity.storage")),
    "Access Modes": _if_bound(_access_modes("status.accessModes")),
    "StorageClass": _storage_class,
    "VolumeAttributesClass": field("spec.volumeAttributesClassName", UNSET),
    "VolumeMode": field("spec.volumeMode", UNSET),
}
STORAGE_CLASS: Cells = {
    "Name": _default_name(
        "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"
    ),
    "Provisioner": field("provisioner"),
    "ReclaimPolicy": field("reclaimPolicy", "Delete"),
    "VolumeBindingMode": field("volumeBindingMode", "Immediate"),
    "AllowVolumeExpansion": field("allowVolumeExpansion", False),
}
VOLUME_ATTACHMENT: Cells = {
    "Attacher": field("spec.attacher"),
    "PV": field("spec.source.persistentVolumeName"),
    "Node": field("spec.nodeName"),
    "Attached": field("status.attached", False),
}
VOLUME_ATTRIBUTES_CLASS: Cells = {"DriverName": field("driverName")}
CSI_NODE: Cells = {"Drivers": count("spec.drivers")}
CSI_DRIVER: Cells = {
    "AttachRequired": field("spec.attachRequired", True),
    "PodInfoOnMount": field("spec.podInfoOnMount", False),
    "StorageCapacity": field("spec.storageCapacity", False),
    "TokenRequests": _audiences,
    "RequiresRepublish": field("spec.requiresRepublish", False),
    "Modes": joined("spec.volumeLifecycleModes", empty=NONE),
}
