"""Volcano's kinds but those that hold a job: queues, groups of pods, topology, commands and what nodes tell of theirs.

Whatever Volcano's own definitions accept is accepted here, with the same defaults. `definitions` puts names, columns
and rules to the shapes; `kinds_jobs` has the rest of them.
"""

from __future__ import annotations

from muster.model.definitions import root
from muster.model.shapes import Amount, Flag, ListOf, MapOf, Moment, Struct, Text, Whole
from muster.model.shapes_conditions import CONDITION
from muster.model.shapes_notation import fields, listed
from muster.model.shapes_pod import LABEL_SELECTOR
from muster.model.texts import DNS_SUBDOMAIN

TEXT = Text()
COUNT = Whole(least=0)
QUANTITIES = MapOf(item=Amount(is_free=True))
PLAIN_TEXTS = ListOf(item=TEXT)
SHORT_TEXT = Text(most=253)
NAME = Text(most=253, form=DNS_SUBDOMAIN)
UNSIZED_COUNT = Whole(least=0, is_unsized=True)
NETWORK_TOPOLOGY = Struct(
    fields={
        "highestTierAllowed": UNSIZED_COUNT,
        "highestTierName": SHORT_TEXT,
        "mode": Text(choices=("hard", "soft")),
    },
    defaults={"mode": "hard"},
)

# Queues and groups ------------------------------------------------------------------------------------------------

_NODE_GROUPS = Struct(
    fields=dict.fromkeys(
        ("preferredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingIgnoredDuringExecution"),
        PLAIN_TEXTS,
    )
)
_QUEUE_SPEC = Struct(
    fields={
        "affinity": Struct(fields={"nodeGroupAffinity": _NODE_GROUPS, "nodeGroupAntiAffinity": _NODE_GROUPS}),
        "capability": QUANTITIES,
        "dequeueStrategy": Text(choices=("fifo", "traverse")),
        "deserved": QUANTITIES,
        "extendClusters": ListOf(item=Struct(fields={"capacity": QUANTITIES, "name": TEXT, "weight": Whole()})),
        "guarantee": Struct(fields={"resource": QUANTITIES}),
        "parent": NAME,
        "priority": COUNT,
        "reclaimable": Flag(),
        "type": SHORT_TEXT,
        "weight": Whole(least=1, most=65535),
    },
    defaults={"dequeueStrategy": "traverse", "weight": 1},
)
_QUEUE_COUNTS = ("completed", "inqueue", "pending", "running", "unknown")
_QUEUE_STATUS = Struct(
    fields={
        **dict.fromkeys(_QUEUE_COUNTS, COUNT),
        "allocated": QUANTITIES,
        "reservation": Struct(fields={"nodes": PLAIN_TEXTS, "resource": QUANTITIES}),
        "state": Text(choices=("Open", "Closed", "Closing", "Unknown")),
    }
)
QUEUE = root(spec=_QUEUE_SPEC, status=_QUEUE_STATUS)

_SUBGROUP = Struct(
    fields={
        "labelSelector": LABEL_SELECTOR,
        "matchLabelKeys": ListOf(item=TEXT, is_atomic=True),
        "minSubGroups": COUNT,
        "name": SHORT_TEXT,
        "networkTopology": NETWORK_TOPOLOGY,
        "subGroupSize": Whole(least=1),
    },
    defaults={"minSubGroups": 0, "subGroupSize": 1},
)
_POD_GROUP_SPEC = Struct(
    fields={
        "minMember": COUNT,
        "minResources": QUANTITIES,
        "minTaskMember": MapOf(item=Whole()),
        "networkTopology": NETWORK_TOPOLOGY,
        "priorityClassName": SHORT_TEXT,
        "queue": NAME,
        "subGroupPolicy": ListOf(item=_SUBGROUP),
    },
    defaults={"queue": "default"},
)
_POD_GROUP_CONDITION = Struct(
    fields={
        **dict.fromkeys(("message", "reason", "status", "transitionID", "type"), TEXT),
        "lastTransitionTime": Moment(),
    }
)
_POD_GROUP_STATUS = Struct(
    fields={
        **dict.fromkeys(("failed", "running", "succeeded"), COUNT),
        "conditions": ListOf(item=_POD_GROUP_CONDITION),
        "phase": Text(choices=("Pending", "Running", "Unknown", "Inqueue", "Completed")),
    }
)
POD_GROUP = root(spec=_POD_GROUP_SPEC, status=_POD_GROUP_STATUS)

# Topology ---------------------------------------------------------------------------------------------------------

_MEMBER_SELECTOR = Struct(
    fields={
        "exactMatch": Struct(fields={"name": Text(least=1, most=253, form=DNS_SUBDOMAIN)}, required=("name",)),
        "labelMatch": LABEL_SELECTOR,
        "regexMatch": Struct(fields={"pattern": Text(least=1)}, required=("pattern",)),
    }
)
_MEMBER = Struct(fields={"selector": _MEMBER_SELECTOR, "type": Text(choices=("Node", "HyperNode"))}, required=("type",))
HYPER_NODE = root(
    spec=Struct(
        fields={"members": ListOf(item=_MEMBER, least=1), "tier": UNSIZED_COUNT, "tierName": SHORT_TEXT},
        required=("tier",),
    ),
    status=Struct(fields={"conditions": ListOf(item=CONDITION), "nodeCount": Whole(least=0, is_long=True)}),
)

_CPU = Struct(fields=dict.fromkeys(("core", "numa", "socket"), UNSIZED_COUNT))
_RESOURCE = Struct(fields={"allocatable": TEXT, "capacity": Whole(is_unsized=True)})
_CONTAINER_ALLOCATION = fields("allocations{} name")
_POD_ALLOCATION = fields("name namespace uid", containerAllocations=ListOf(item=_CONTAINER_ALLOCATION))
NUMA_TOPOLOGY = root(
    spec=fields(
        "policies{} resReserved{}",
        cpuDetail=MapOf(item=_CPU),
        numares=MapOf(item=_RESOURCE),
        podAllocations=ListOf(item=_POD_ALLOCATION),
    )
)

# Commands ---------------------------------------------------------------------------------------------------------

_TARGET = fields("apiVersion! blockOwnerDeletion:bool controller:bool kind! name! uid!", is_atomic=True)
COMMAND = root(action=TEXT, message=TEXT, reason=TEXT, target=_TARGET)

# What the status of a CronJob names its jobs by.
OBJECT_REFERENCES = listed(fields("apiVersion fieldPath kind name namespace resourceVersion uid", is_atomic=True))
