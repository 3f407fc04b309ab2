"""The labels and annotations by which YuniKorn knows pods and namespaces, those of old in their order of precedence."""

from __future__ import annotations

DOMAIN = "yunikorn.apache.org/"
SCHEDULER = "yunikorn"

APPLICATION_ID = f"{DOMAIN}app-id"
OLD_APPLICATION_IDS = ("applicationId", "spark-app-selector")  # labels alone
QUEUE = f"{DOMAIN}queue"
OLD_QUEUE = "queue"  # a label alone
USER_INFO = f"{DOMAIN}user.info"
ALLOW_PREEMPTION = f"{DOMAIN}allow-preemption"
TASK_GROUPS = f"{DOMAIN}task-groups"
TASK_GROUP_NAME = f"{DOMAIN}task-group-name"
POLICY_PARAMETERS = f"{DOMAIN}schedulingPolicyParameters"
PLACEHOLDER = "internal.yunikorn.apache.org/placeholder"

NAMESPACE_QUOTA = f"{DOMAIN}namespace.quota"
NAMESPACE_CPU = f"{DOMAIN}namespace.max.cpu"
NAMESPACE_MEMORY = f"{DOMAIN}namespace.max.memory"
NAMESPACE_GUARANTEED = f"{DOMAIN}namespace.guaranteed"
NAMESPACE_APPLICATIONS = f"{DOMAIN}namespace.maxApps"
PARENT_QUEUE = f"{DOMAIN}parentqueue"

CONFIG_MAP = "yunikorn-configs"
DEFAULTS_MAP = "yunikorn-defaults"  # what the other map says goes before
POLICY_GROUP = "service.policyGroup"  # names the key that holds the queues
DEFAULT_POLICY_GROUP = "queues"

NOBODY = "nobody"  # who submits where nothing says who does
