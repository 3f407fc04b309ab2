"""Kinds that admission checks use beside Kueue's own: what a check is told, and what is asked of those who add nodes.

Served by the embedded server and, but for the ProvisioningRequest, which comes with the autoscaler, written out for
other clusters.
"""

from __future__ import annotations

from muster.dialects.kueue.kinds_common import conditions
from muster.model.definitions import AGE, Column, Definition, Object, Version, definition_object, root
from muster.model.shapes import ListOf, MapOf, Moment, Number, Struct, Text, Whole
from muster.model.texts import DNS_SUBDOMAIN

MUSTER = "muster.dev"
AUTOSCALING = "autoscaling.x-k8s.io"
HTTP_CHECKS, BUDGET_CHECKS = f"httpchecks.{MUSTER}", f"budgetchecks.{MUSTER}"
PROVISIONING_REQUESTS = f"provisioningrequests.{AUTOSCALING}"
NAMESPACE, SUBMIT_QUEUE, QUEUE = "Namespace", "LocalQueue", "ClusterQueue"  # whose budget it is
REJECT, WAIT = "Reject", "Wait"
ACCOUNTS_MOST = 10_000
_SECONDS_MOST = 86_400 * 365

HTTP_CHECK = Definition(
    group=MUSTER,
    kind="HttpCheck",
    plural="httpchecks",
    is_namespaced=False,
    versions=(
        Version(
            name="v1",
            has_status=False,
            columns=(Column(name="URL", path=".spec.url"), AGE),
            shape=root(
                spec=Struct(
                    fields={
                        "url": Text(least=1, most=2048),
                        "timeoutSeconds": Whole(least=1, most=60),
                        "retries": Whole(least=0, most=20),
                        "secretName": Text(most=253),
                    },
                    required=("url",),
                    defaults={"timeoutSeconds": 10, "retries": 3},
                )
            ),
        ),
    ),
    words={
        "": "A server that is asked about every workload of the queues with such a check.",
        "spec.url": "Where it is: http or https.",
        "spec.timeoutSeconds": "How long an answer may take.",
        "spec.retries": "How often it is asked again where it gives none.",
        "spec.secretName": "A Secret in Muster's own namespace; its entry `key` signs what is sent.",
    },
)

_PRICE = Struct(
    fields={"flavor": Text(least=1, most=253), "resource": Text(least=1, most=317), "perHour": Number()},
    required=("flavor", "resource", "perHour"),
)
_ACCOUNT = Struct(
    fields={"name": Text(most=520), "spent": Text(most=64), "perHour": Text(most=64), "at": Moment()},
    required=("name", "spent", "perHour", "at"),
)
BUDGET_CHECK = Definition(
    group=MUSTER,
    kind="BudgetCheck",
    plural="budgetchecks",
    is_namespaced=False,
    versions=(
        Version(
            name="v1",
            columns=(Column(name="Amount", path=".spec.amount", type="number"), AGE),
            shape=root(
                spec=Struct(
                    fields={
                        "amount": Number(),
                        "scope": Text(choices=(NAMESPACE, SUBMIT_QUEUE, QUEUE)),
                        "prices": ListOf(item=_PRICE, most=1024),
                        "expectedSeconds": Whole(least=1, most=_SECONDS_MOST),
                        "whenExceeded": Text(choices=(REJECT, WAIT)),
                    },
                    required=("amount",),
                    defaults={"scope": NAMESPACE, "expectedSeconds": 3600, "whenExceeded": REJECT},
                ),
                status=Struct(fields={"accounts": ListOf(item=_ACCOUNT, most=ACCOUNTS_MOST, keys=("name",))}),
            ),
        ),
    ),
    words={
        "": "What the workloads of the queues with such a check may cost together.",
        "spec.amount": "The most that each namespace or queue may spend.",
        "spec.scope": "Whose budget it is: each has the whole amount.",
        "spec.prices": "The price of one unit (a core, a GiB, a card) for an hour; else that of the nodes counts.",
        "spec.expectedSeconds": "How long a workload is taken to run that does not say it.",
        "spec.whenExceeded": "Whether a workload that is too dear is refused, or waits for a larger amount.",
        "status.accounts": "What was spent so far, and what is being spent for an hour now.",
    },
)


def _condition_column(name: str) -> Column:
    return Column(name=name, path=f".status.conditions[?(@.type=='{name}')].status")


_POD_SET = Struct(
    fields={
        "count": Whole(least=1),
        "podTemplateRef": Struct(fields={"name": Text(least=1, most=253, form=DNS_SUBDOMAIN)}, required=("name",)),
    },
    required=("count", "podTemplateRef"),
)
_REQUEST = root(
    spec=Struct(
        fields={
            "parameters": MapOf(item=Text(most=255), most=100),
            "podSets": ListOf(item=_POD_SET, least=1, most=32, is_atomic=True),
            "provisioningClassName": Text(least=1, most=253, form=DNS_SUBDOMAIN),
        },
        required=("podSets", "provisioningClassName"),
    ),
    status=Struct(
        fields={
            "conditions": conditions(is_hub=True),
            "provisioningClassDetails": MapOf(item=Text(most=32768), most=64),
        }
    ),
)
PROVISIONING_REQUEST = Definition(
    group=AUTOSCALING,
    kind="ProvisioningRequest",
    plural="provisioningrequests",
    short_names=("provreq", "provreqs"),
    is_namespaced=True,
    versions=tuple(
        Version(
            name=name,
            is_stored=name == "v1",
            columns=(*map(_condition_column, ("Accepted", "Provisioned", "Failed")), AGE),
            shape=_REQUEST,
            warning=warning,
        )
        for name, warning in (("v1", ""), ("v1beta1", "autoscaling.k8s.io/v1beta1 API is deprecated"))
    ),
    words={
        "": "Pods for which there should be room; whoever adds nodes says when there is.",
        "spec.podSets": "How many pods of which template.",
        "spec.provisioningClassName": "Who is to see to it, and how.",
        "spec.parameters": "What that one has to know beside it.",
    },
)
OWN: tuple[Definition, ...] = (HTTP_CHECK, BUDGET_CHECK)


def definitions() -> list[Object]:
    """The CustomResourceDefinitions of what checks of Muster's own are told."""
    return [definition_object(kind) for kind in OWN]


def served() -> list[Object]:
    """The definitions of all that the embedded server has of these."""
    return [definition_object(kind) for kind in (*OWN, PROVISIONING_REQUEST)]
