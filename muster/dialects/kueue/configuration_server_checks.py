"""Checks of the parts of Kueue's Configuration that say how its servers run; Muster keeps most of them and decides
nothing by them, but a file that Kueue would not start with is not accepted here either."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

from muster.model.durations import NANOSECONDS, duration_ns
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown
from muster.model.labels import dns1035_label_problem, dns1123_subdomain_problem, label_key_problem

_TLS_VERSIONS = ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")
_CUSTOM_LABELS_MOST = 20
# kind: labels, tracked values at least and at most
_LABEL_SOURCES = {"ClusterQueue": (6, 0, 16), "Cohort": (6, 0, 16), "LocalQueue": (6, 0, 16), "Workload": (2, 1, 12)}
_ADDRESS_LENGTH = 64

Problems = Iterator[InvalidObject]


def server_problems(fields: Fields) -> Problems:
    """What Kueue would not start with in these parts."""
    yield from _certificates(fields.child("internalCertManagement"))
    yield from _tls(fields.child("tls"))
    if fields.child("leaderElection").flag("leaderElect"):
        yield from _leader_election(fields.child("leaderElection"))
    if fields.has("visibilityServer"):
        yield from _visibility(fields.child("visibilityServer"))
    yield from _custom_labels(fields.child("metrics"))


def _certificates(block: Fields) -> Problems:
    if not block.flag("enable"):
        return
    if problem := dns1035_label_problem(block.text("webhookServiceName")):
        yield block.error("webhookServiceName", problem, "give the name of a Service")
    if problem := dns1123_subdomain_problem(block.text("webhookSecretName")):
        yield block.error("webhookSecretName", problem, "give the name of a Secret")


def _tls(block: Fields) -> Problems:
    version = block.text("minVersion")
    if version and version not in _TLS_VERSIONS:
        yield block.error("minVersion", f"is {shown(version)}", "give one of " + ", ".join(_TLS_VERSIONS))
    suites = block.texts("cipherSuites")
    if suites and version == "VersionTLS13":
        yield block.error("cipherSuites", "is given beside VersionTLS13", "take it out: TLS 1.3 has its own")
    for index, name in enumerate(suites):
        if not name.startswith("TLS_") or len(name) > 64 or not name.replace("_", "").isalnum():
            hint = "give the name of a suite, such as TLS_AES_128_GCM_SHA256"
            yield block.error(f"cipherSuites[{index}]", f"is {shown(name)}", hint)


def _leader_election(block: Fields) -> Problems:
    lease, deadline, retry = (
        duration_ns(block.raw(name), block.at(name)) for name in ("leaseDuration", "renewDeadline", "retryPeriod")
    )
    if retry <= 0:
        yield block.error("retryPeriod", f"is {shown(block.raw('retryPeriod'))}", "give more than zero, such as 2s")
    if deadline * 5 <= retry * 6:
        hint = "give more than 1.2 times the retryPeriod, such as 10s"
        yield block.error("renewDeadline", f"is {shown(block.raw('renewDeadline'))}", hint)
    if lease < deadline + NANOSECONDS:
        # Kueue takes any more. In what is between them the last writes of a leader have to arrive.
        hint = "give at least a second more than the renewDeadline, such as 15s"
        yield block.error("leaseDuration", f"is {shown(block.raw('leaseDuration'))}", hint)
    if block.text("resourceLock") != "leases":
        yield block.error("resourceLock", f"is {shown(block.text('resourceLock'))}", "give leases: there is no other")


def _visibility(block: Fields) -> Problems:
    address = block.text("bindAddress")
    if len(address) > _ADDRESS_LENGTH or not _is_address(address):
        yield block.error("bindAddress", f"is {shown(address)}", "give an IP address")
    if not 1 <= block.integer("bindPort") <= 65535:
        yield block.error("bindPort", f"is {block.integer('bindPort')}", "give a port from 1 to 65535")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _custom_labels(metrics: Fields) -> Problems:
    labels = list(metrics.children("customLabels"))
    if len(labels) > _CUSTOM_LABELS_MOST:
        yield metrics.error("customLabels", f"has {len(labels)} items", f"give at most {_CUSTOM_LABELS_MOST}")
        return
    names: set[str] = set()
    counts: dict[str, int] = {}
    for label in labels:
        name, kind = label.text("name"), label.text("sourceKind", "ClusterQueue")
        if not _is_metric_name(name):
            yield label.error("name", f"is {shown(name)}", "give letters, digits and _, a letter first")
        if name in names:
            yield label.error("name", f"repeats {shown(name)}", "give each label one name")
        names.add(name)
        yield from _label_keys(label)
        if kind not in _LABEL_SOURCES:
            yield label.error("sourceKind", f"is {shown(kind)}", "give one of " + ", ".join(sorted(_LABEL_SOURCES)))
            continue
        counts[kind] = counts.get(kind, 0) + 1
        yield from _tracked_values(label, kind)
    for kind, count in sorted(counts.items()):
        if count > _LABEL_SOURCES[kind][0]:
            hint = f"give at most {_LABEL_SOURCES[kind][0]}"
            yield metrics.error("customLabels", f"has {count} labels for the kind {kind}", hint)


def _is_metric_name(name: str) -> bool:
    return name.isascii() and name[:1].isalpha() and name.replace("_", "a").isalnum()


def _label_keys(label: Fields) -> Problems:
    keys = [name for name in ("sourceLabelKey", "sourceAnnotationKey") if label.text(name)]
    if len(keys) == 2:
        yield label.error("sourceAnnotationKey", "is given beside sourceLabelKey", "give one of them")
    for name in keys:
        if problem := label_key_problem(label.text(name)):
            yield label.error(name, problem, "give the key of a label")


def _tracked_values(label: Fields, kind: str) -> Problems:
    _, least, most = _LABEL_SOURCES[kind]
    values = label.texts("trackedValues")
    # The older version has no such field.
    if label.has("sourceKind") and not least <= len(values) <= most:
        yield label.error("trackedValues", f"has {len(values)} items", f"give {least} to {most}")
    if len(set(values)) < len(values):
        yield label.error("trackedValues", "repeats a value", "give each once")
