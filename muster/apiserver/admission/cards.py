"""New pods that ask for cards, as HAMi's webhook would have them stored. Used by the chain and by the webhooks.

Only where the configuration turns it on: what is added (all cores of a whole card, for one) counts in quotas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from muster.dialects.hami.claims import forged
from muster.dialects.hami.quota import NamespaceQuota, QuotaLine, charged, pod_amounts, read_limits
from muster.dialects.hami.read import ENDED
from muster.dialects.hami.requests import init_count, requests_of
from muster.dialects.hami.webhook import BAD_REQUEST, Webhook
from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.store.errors import Forbidden
from muster.store.kinds import Object
from muster.store.records import Key

OPT_OUT, IGNORED = "hami.io/webhook", "ignore"  # a label of pods and of namespaces


def with_cards(key: Key, pod: Object, webhook: Webhook, quota: NamespaceQuota) -> Object:
    """A new pod with what its vendors add to it; raises `Forbidden` and `InvalidObject`."""
    metadata = Fields.of(pod).child("metadata")
    if metadata.text_map("labels").get(OPT_OUT) == IGNORED:
        return pod
    found = forged(metadata.text_map("annotations"))
    if found:
        told = f"the annotations {', '.join(found)} are for schedulers and agents to write: leave them out"
        raise Forbidden(key, told)
    verdict = webhook.admit(pod, quota)
    if verdict.is_allowed:
        return dict(verdict.pod)
    if verdict.code == BAD_REQUEST:
        raise InvalidObject("spec", verdict.message)
    raise Forbidden(key, verdict.message)


def namespace_quota(webhook: Webhook, quotas: Iterable[Object], pods: Iterable[Object]) -> NamespaceQuota:
    """What a namespace may use of cards and what its pods ask for already; nothing where no quota names cards."""
    lines: dict[str, QuotaLine] = {}
    for quota in quotas:
        for name, limit in read_limits(Fields.of(quota), webhook.vendors).items():
            known = lines.get(name)
            lines[name] = QuotaLine(0, limit if known is None or known.limit is None else min(known.limit, limit))
    if not lines:
        return {}
    counted: Mapping[str, NamespaceQuota] = {"": lines}
    for pod in map(Fields.of, pods):
        if pod.child("status").text("phase") in ENDED:
            continue
        asked, first = requests_of(pod, webhook.vendors), init_count(pod)
        for vendor in webhook.vendors:
            amounts = pod_amounts([one.get(vendor.name) for one in asked], first)
            counted = charged(counted, "", vendor.resources, amounts)
    return counted[""]
