"""The configuration file of a command: Kueue's own Configuration as it is, or muster.yaml. Called by the command line.

muster.yaml has a block for each system whose objects are read, and Muster's own settings beside them; every field is
explained in docs/configuration.md:

    kueue:
      strictValidation: true        # refuse what Kueue refuses, even where the meaning is plain
      configuration: {...}          # what Kueue's file would say
    guards:                         # limits on preemption; all but the last are off unless given
      minimumRunTime: 10m
      queueCoolDown: 5m
      workloadCoolDown: 30m
      honourPreemptible: true
      repeatsMost: 3
    gangDeadline: 5m                # after which a gang that is not wholly bound gives everything back
    eventsPerSecond: 20             # that a real cluster is told at most; 0 leaves events out
    schedulerNames: [muster]        # whose pods are bound, where Muster is not the only scheduler
    requireQueueUse: true           # whoever submits to a LocalQueue needs the right to use it
    cards:                          # complete pods that ask for cards, as HAMi's webhook does
      completePods: true
      schedulerName: muster         # that such pods are given to
      deviceConfig: {nvidia: {}}    # what HAMi's device-config.yaml would say
    askExtenders: true              # let servers be asked that a Volcano configuration names
    profile: muster                 # how workloads are decided
    policies: [{file: ./mine.py}]   # policies that do not come with the package
    tiers:                          # whose opinions count, in place of the profile's own
    - policies: [{name: binpack, arguments: {weight: 2}, enable: {score: true}}]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any

from muster.app.plugins import known_hint
from muster.controllers.pace import AT_ONCE, Pace
from muster.dialects.kueue.gates import DEFAULT_GATES, FeatureGates
from muster.dialects.kueue.read import ReadOptions
from muster.dialects.kueue.settings import Configured, settings_of
from muster.dialects.kueue.transformations import RequestRules
from muster.dialects.kueue.warning import ObjectWarning
from muster.dialects.volcano.names import CONFIGURATION_KEY, CONFIGURATION_MAP
from muster.dialects.volcano.names import NAMESPACE as VOLCANO
from muster.dialects.yunikorn.names import CONFIG_MAP, DEFAULT_POLICY_GROUP
from muster.dialects.yunikorn.names import SCHEDULER as YUNIKORN
from muster.engine.profile import DEFAULT, HOOK_NAMES, PROFILES, PolicyUse, Profile, Tier
from muster.model.documents import parse_value
from muster.model.durations import NANOSECONDS, duration_ns
from muster.model.election import Election
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields, shown
from muster.model.labels import Operator, Requirement, Selector
from muster.model.settings import PreemptionGuards, Settings, UsageFairness
from muster.model.shapes import (
    Anything,
    Duration,
    Flag,
    ListOf,
    Struct,
    Text,
    Whole,
    shape_problems,
    unknown_fields,
)

if TYPE_CHECKING:
    from muster.dialects.kueue.configuration import (
        AdmissionFairSharing,
        MultiKueueSettings,
        RetentionPolicies,
        WaitForPodsReady,
    )
    from muster.engine.tiers import Tiers

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
# Kueue's own Deployment mounts its configuration from a ConfigMap under this name.
MOUNTED_NAME = "controller_manager_config.yaml"
_GUARD_FIELDS = Struct(
    fields={
        "minimumRunTime": Duration(),
        "queueCoolDown": Duration(),
        "workloadCoolDown": Duration(),
        "honourPreemptible": Flag(),
        "repeatsMost": Whole(least=0),
    }
)
_HOOK_FIELDS = Struct(fields=dict.fromkeys(HOOK_NAMES, Flag()))
_POLICY_FIELDS = Struct(
    fields={"name": Text(least=1), "arguments": Struct(fields={}, is_open=True), "enable": _HOOK_FIELDS},
    required=("name",),
)
_CARD_FIELDS = Struct(
    fields={"completePods": Flag(), "schedulerName": Text(), "deviceConfig": Struct(fields={}, is_open=True)}
)
_FIELDS = Struct(
    fields={
        "cards": _CARD_FIELDS,
        "kueue": Struct(fields={}, is_open=True),
        "guards": _GUARD_FIELDS,
        "gangDeadline": Duration(),
        "eventsPerSecond": Whole(least=0),
        "schedulerNames": ListOf(item=Text(least=1)),
        "requireQueueUse": Flag(),
        "askExtenders": Flag(),
        "profile": Text(least=1),
        "policies": ListOf(item=Struct(fields={"file": Text(least=1), "entryPoint": Text(least=1)})),
        "tiers": ListOf(item=Struct(fields={"policies": ListOf(item=_POLICY_FIELDS)}, required=("policies",))),
    }
)
_BLOCK = Struct(fields={"strictValidation": Flag(), "configuration": Anything()})


def _all_but_system() -> Selector:
    return Selector((Requirement(NAMESPACE_LABEL, Operator.NOT_IN, frozenset({"kube-system", "kueue-system"})),))


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """Where the webhooks of a real cluster are, and who makes their certificate."""

    host: str = ""  # the address to listen on; empty: all
    port: int = 9443
    namespace: str = "muster-system"  # Muster's own
    service: str = "muster-webhook-service"
    secret: str = "muster-webhook-server-cert"
    makes_certificates: bool = True  # else they are files that somebody else keeps
    # Of those files; the default is where Kueue's image has them.
    folder: Path = field(default_factory=lambda: Path(gettempdir(), "k8s-webhook-server", "serving-certs"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSettings:
    """What becomes of new pods that ask for cards."""

    completes_pods: bool = False  # else they are stored as they come
    scheduler: str | None = None  # that they are given to; None: Muster's where it is not the only one
    device_config: Mapping[str, Any] = field(default_factory=dict)  # as HAMi writes it


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringSettings:
    """Where figures and health are told, and how much; an address that is empty, or 0, is nowhere."""

    metrics_address: str = ""
    health_address: str = ""
    liveness: str = "healthz"
    readiness: str = "readyz"
    has_resources: bool = False  # figures for each resource of each queue
    has_local_queues: bool = True

    @property
    def is_on(self) -> bool:
        return {self.metrics_address, self.health_address} - {"", "0"} != set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """What a configuration amounts to; the defaults are those of no file at all."""

    settings: Settings = field(default_factory=lambda: settings_of(DEFAULT_GATES))
    gates: FeatureGates = DEFAULT_GATES
    request_rules: RequestRules = field(default_factory=RequestRules)
    queued_by_eviction: bool = True
    pods_ready: WaitForPodsReady | None = None  # how long pods may take until they are ready; None: for ever
    retention: RetentionPolicies | None = None  # when workloads are deleted; None: never
    multikueue: MultiKueueSettings | None = None  # how workloads are sent to other clusters; None: as Kueue does
    secrets_namespace: str = ""  # where the credentials for other clusters are; empty: where Muster is
    frameworks: tuple[str, ...] | None = None  # the kinds of job that are managed; None: all that are known
    manages_jobs_without_queue: bool = False
    managed_namespaces: Selector = field(default_factory=_all_but_system)
    labels_to_copy: tuple[str, ...] = ()
    strict_validation: bool = False
    checks_queue_use: bool = False  # whether submitting to a queue needs the right to use it
    webhooks: WebhookSettings = field(default_factory=WebhookSettings)
    cards: CardSettings = field(default_factory=CardSettings)
    monitoring: MonitoringSettings = field(default_factory=MonitoringSettings)
    asks_extenders: bool = False  # servers that a scheduler configuration among the objects names may be asked
    profile: Profile = DEFAULT
    tiers: Tiers | None = None  # None: those of the profile, which are built when they are needed
    schedulers: frozenset[str] | None = None  # whose pods are bound here; None: everybody's
    pace: Pace = AT_ONCE  # of telling people
    election: Election = field(default_factory=Election)  # of the one that acts, among several beside a real cluster
    events_per_s: float = 20.0  # on a real cluster, at most; 0: none
    notes: tuple[ObjectWarning, ...] = ()

    def with_profile(self, name: str, path: str) -> Configuration:
        """The same with another profile; tiers that were given take the place of the profile's own."""
        profile = _profile_named(name, path)
        if self.tiers is not None:
            profile = replace(profile, tiers=self.profile.tiers)
        return replace(self, profile=profile)

    def read_options(self, now: float) -> ReadOptions:
        """How objects that come without a cluster are read: the namespaces that they name are taken to exist."""
        return ReadOptions(
            settings=self.settings,
            request_rules=self.request_rules,
            queued_by_eviction=self.queued_by_eviction,
            now=now,
            assumes_namespaces=True,
        )


def parse_configuration(text: str | bytes, source: str) -> Configuration:
    """The configuration that a file holds; raises `InvalidObject` or `InvalidObjects` with all that is wrong."""
    document = parse_value(text, source)
    fields = Fields.of(document)
    _refuse_others(fields, source)
    if fields.text("kind") == "ConfigMap":
        data = fields.text_map("data")
        if MOUNTED_NAME not in data:
            raise fields.error("data", f"has no {MOUNTED_NAME}", "give the ConfigMap that Kueue is started with")
        fields = Fields.of(parse_value(data[MOUNTED_NAME], f"{source}: data[{MOUNTED_NAME}]"))
    is_ours = not fields.has("apiVersion") and any(fields.has(name) for name in _FIELDS.fields)
    if not is_ours:
        return _read_kueue(fields.values, PreemptionGuards())
    return _with_policies(_read_muster(fields), fields, Path(source).parent)


def _refuse_others(fields: Fields, source: str) -> None:
    """Say of other schedulers' configurations where they go: they are objects of the cluster, and change with it."""
    data = fields.child("data").values if fields.text("kind") == "ConfigMap" else fields.values
    has_plugins = any(isinstance(one, dict) and "plugins" in one for one in _listed(fields.values.get("tiers")))
    if has_plugins or "actions" in data or CONFIGURATION_KEY in data:
        of, place, key = "Volcano's scheduler", f"-n {VOLCANO} create configmap {CONFIGURATION_MAP}", CONFIGURATION_KEY
    elif "partitions" in data or f"{DEFAULT_POLICY_GROUP}.yaml" in data:
        of, place, key = "YuniKorn", f"-n {YUNIKORN} create configmap {CONFIG_MAP}", f"{DEFAULT_POLICY_GROUP}.yaml"
    else:
        return
    hint = f"kubectl {place} --from-file={key}={source}"
    raise InvalidObject(source, f"is a configuration of {of}, which the cluster holds as a ConfigMap", hint)


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _read_muster(fields: Fields) -> Configuration:
    values = dict(fields.values)
    block = fields.child("kueue")
    _raise_any((*shape_problems(_FIELDS, values, ""), *unknown_fields(_FIELDS, values, "")))
    _raise_any((*shape_problems(_BLOCK, block.values, block.path), *unknown_fields(_BLOCK, block.values, block.path)))
    guards = _read_guards(fields.child("guards"))
    inner = block.child("configuration")
    try:
        configuration = _read_kueue(inner.values, guards)
    except InvalidObjects as several:
        raise InvalidObjects(tuple(_below(inner.path, one) for one in several.problems)) from None
    except InvalidObject as problem:
        raise _below(inner.path, problem) from None
    is_whole = inner.has("apiVersion")
    settings = configuration.settings
    if fields.has("gangDeadline"):
        settings = replace(settings, gang_deadline_s=_seconds(fields, "gangDeadline"))
    return replace(
        configuration,
        settings=settings,
        events_per_s=fields.integer("eventsPerSecond", int(configuration.events_per_s), least=0),
        schedulers=frozenset(fields.texts("schedulerNames")) if fields.has("schedulerNames") else None,
        strict_validation=block.flag("strictValidation"),
        checks_queue_use=fields.flag("requireQueueUse"),
        asks_extenders=fields.flag("askExtenders"),
        cards=_read_cards(fields.child("cards")),
        frameworks=configuration.frameworks if block.has("configuration") else None,
        # A block inside another file need not say which version it is.
        notes=tuple(
            ObjectWarning(f"{inner.path}.{note.path}", note.problem, note.hint)
            for note in configuration.notes
            if is_whole or note.path != "apiVersion"
        ),
    )


def _read_cards(cards: Fields) -> CardSettings:
    return CardSettings(
        completes_pods=cards.flag("completePods"),
        scheduler=cards.text("schedulerName") if cards.has("schedulerName") else None,
        device_config=cards.child("deviceConfig").values,
    )


def _with_policies(configuration: Configuration, fields: Fields, folder: Path) -> Configuration:
    """The configuration with its profile, whose policies are found and built now, so that mistakes show at once."""
    if fields.has("profile"):
        configuration = configuration.with_profile(fields.text("profile"), "profile")
    if not fields.has("policies") and not fields.has("tiers"):
        return configuration
    # Policies need numpy, and most commands need no policies.
    from muster.app.policies import build_tiers, load_policies

    catalogue = load_policies(fields.children("policies"), folder)
    if not fields.has("tiers"):
        hint = "name it in tiers"
        unused = tuple(ObjectWarning(one.path, "is used in no tier", hint) for one in fields.children("policies"))
        return replace(configuration, notes=(*configuration.notes, *unused))
    tiers = tuple(_read_tier(one) for one in fields.children("tiers"))
    built = build_tiers(tiers, catalogue)
    return replace(configuration, profile=replace(configuration.profile, tiers=tiers), tiers=built)


def _read_tier(fields: Fields) -> Tier:
    return Tier(
        tuple(
            PolicyUse(
                name=one.text("name"),
                arguments=one.child("arguments").values,
                off=frozenset(name for name in HOOK_NAMES if not one.child("enable").flag(name, True)),
            )
            for one in fields.children("policies")
        )
    )


def _profile_named(name: str, path: str) -> Profile:
    if name not in PROFILES:
        raise InvalidObject(path, f"is {shown(name)}, which is no profile", known_hint(name, PROFILES))
    return PROFILES[name]


def _below(path: str, problem: InvalidObject) -> InvalidObject:
    return InvalidObject(f"{path}.{problem.path}" if problem.path else path, problem.problem, problem.hint)


def _raise_any(problems: tuple[InvalidObject, ...]) -> None:
    if problems:
        raise InvalidObjects(problems)


def _read_guards(guards: Fields) -> PreemptionGuards:
    defaults = PreemptionGuards()
    return PreemptionGuards(
        run_time_least_s=_seconds(guards, "minimumRunTime"),
        queue_cool_down_s=_seconds(guards, "queueCoolDown"),
        workload_cool_down_s=_seconds(guards, "workloadCoolDown"),
        honours_marks=guards.flag("honourPreemptible"),
        repeat_most=guards.integer("repeatsMost", defaults.repeat_most, least=0),
    )


def _seconds(fields: Fields, name: str) -> float:
    if not fields.has(name):
        return 0.0
    seconds = duration_ns(fields.raw(name), fields.at(name)) / NANOSECONDS
    if seconds < 0:
        raise fields.error(name, "is below zero", "give a duration such as 10m")
    return seconds


def _read_kueue(document: Mapping[str, Any], guards: PreemptionGuards) -> Configuration:
    # Only a command that is given a configuration pays for the rules of one.
    from muster.dialects.kueue.configuration import read_configuration_fragment

    kueue, notes = read_configuration_fragment(document)
    ready = kueue.wait_for_pods_ready
    configured = Configured(
        fair_sharing_strategies=kueue.fair_sharing_strategies,
        ignores_undeclared=kueue.ignores_undeclared,
        blocks_until_ready=ready is not None and ready.blocks_admission,
        usage_fairness=_usage_fairness(kueue.admission_fair_sharing),
        guards=guards,
    )
    settings = settings_of(kueue.feature_gates, configured)
    return Configuration(
        settings=settings,
        gates=kueue.feature_gates,
        request_rules=kueue.request_rules,
        queued_by_eviction=ready is None or ready.queues_by_eviction,
        pods_ready=ready,
        retention=kueue.retention,
        multikueue=kueue.multikueue,
        secrets_namespace=kueue.namespace,
        frameworks=kueue.integrations.frameworks,
        manages_jobs_without_queue=kueue.manages_jobs_without_queue,
        managed_namespaces=kueue.managed_namespaces,
        labels_to_copy=kueue.integrations.label_keys_to_copy,
        election=kueue.election,
        webhooks=_webhooks(Fields.of(document), Fields.of(kueue.rest)),
        monitoring=_monitoring(Fields.of(document), Fields.of(kueue.rest)),
        notes=notes,
    )


def _webhooks(given: Fields, settled: Fields) -> WebhookSettings:
    """What a file says of webhooks; the names that Kueue gives its own things by default are not Muster's."""
    own, server = WebhookSettings(), settled.child("webhook")
    certificates = given.child("internalCertManagement")
    return WebhookSettings(
        host=server.text("host"),
        port=server.integer("port"),
        namespace=given.text("namespace") or own.namespace,
        service=certificates.text("webhookServiceName") or own.service,
        secret=certificates.text("webhookSecretName") or own.secret,
        makes_certificates=settled.child("internalCertManagement").flag("enable"),
        folder=Path(server.text("certDir")) if server.text("certDir") else own.folder,
    )


def _monitoring(given: Fields, settled: Fields) -> MonitoringSettings:
    """What a file says of figures; Kueue's default addresses would be in the way of others on people's machines."""
    metrics, health = settled.child("metrics"), settled.child("health")
    return MonitoringSettings(
        metrics_address=given.child("metrics").text("bindAddress"),
        health_address=given.child("health").text("healthProbeBindAddress"),
        liveness=health.text("livenessEndpointName"),
        readiness=health.text("readinessEndpointName"),
        has_resources=metrics.flag("enableClusterQueueResources"),
        has_local_queues=metrics.child("localQueueMetrics").flag("enable"),
    )


def _usage_fairness(sharing: AdmissionFairSharing | None) -> UsageFairness | None:
    if sharing is None:
        return None
    return UsageFairness(
        half_life_s=sharing.usage_half_life_s,
        sampling_s=sharing.usage_sampling_s,
        resource_weights=sharing.resource_weights,
    )
