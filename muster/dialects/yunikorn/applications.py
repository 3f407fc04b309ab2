"""Applications: pods that YuniKorn counts together, and what they say of their queue, their user and their gang.

Called by `read` with every pod whose scheduler is YuniKorn. The first pod of an application speaks for all: its queue,
its user and its task groups are the application's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster.dialects.yunikorn import names
from muster.dialects.yunikorn.placement_rules import Submission
from muster.dialects.yunikorn.task_groups import GangTerms, TaskGroup, gang_terms, read_task_groups
from muster.dialects.yunikorn.validate_names import USER_NAME
from muster.model.documents import parse_value
from muster.model.errors import InvalidObject
from muster.model.fields import Fields, shown

AUTOMATIC_ID_MOST = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOfApplication:
    """A pod whose scheduler is YuniKorn, or one of several equal ones."""

    pod: Fields  # with the namespace that it is in
    key: str  # namespace/name
    owner: str  # what it comes from, as messages name it
    source: str = ""
    priority: int = 0
    created_at: float = 0.0

    @property
    def metadata(self) -> Fields:
        return self.pod.child("metadata")

    @property
    def namespace(self) -> str:
        return self.metadata.text("namespace")

    @property
    def node(self) -> str:
        return self.pod.child("spec").text("nodeName")

    @property
    def is_over(self) -> bool:
        """Whether it has ended: it holds nothing, and its gang had it."""
        return self.pod.child("status").text("phase") in ("Succeeded", "Failed")

    def said(self, name: str) -> str:
        """What a label says, else an annotation by the same name."""
        return self.metadata.text_map("labels").get(name) or self.annotation(name)

    def annotation(self, name: str) -> str:
        return self.metadata.text_map("annotations").get(name, "")

    @property
    def task_group(self) -> str:
        return self.annotation(names.TASK_GROUP_NAME)

    @property
    def is_placeholder(self) -> bool:
        return self.annotation(names.PLACEHOLDER) == "true"

    @property
    def application(self) -> str:
        """The application that it belongs to; one that names none belongs to its namespace's."""
        labels = self.metadata.text_map("labels")
        old = next((labels[name] for name in names.OLD_APPLICATION_IDS if labels.get(name)), "")
        return self.said(names.APPLICATION_ID) or old or f"yunikorn-{self.namespace}-autogen"[:AUTOMATIC_ID_MOST]

    @property
    def queue(self) -> str:
        """The queue that it names; empty: none."""
        return self.said(names.QUEUE) or self.metadata.text_map("labels").get(names.OLD_QUEUE, "")


@dataclass(slots=True, kw_only=True)
class Application:
    """Pods that count together, the first one first."""

    name: str
    pods: list[PodOfApplication] = field(default_factory=list)
    groups: tuple[TaskGroup, ...] = ()
    terms: GangTerms = field(default_factory=GangTerms)
    user: str = names.NOBODY
    user_groups: tuple[str, ...] = ()
    is_user_known: bool = False
    doubts: list[InvalidObject] = field(default_factory=list)  # what it says that is not believed

    @property
    def first(self) -> PodOfApplication:
        return self.pods[0]

    @property
    def submitted_at(self) -> float:
        return self.first.created_at

    def submission(self, namespace_annotations: Mapping[str, str]) -> Submission:
        """What placement rules look at."""
        tags = {"namespace": self.first.namespace}
        if parent := namespace_annotations.get(names.PARENT_QUEUE):
            tags["namespace.parentqueue"] = parent
        return Submission(
            queue=self.first.queue,
            user=self.user,
            groups=self.user_groups,
            is_user_known=self.is_user_known,
            tags=tags,
        )


def gather(pods: Iterable[PodOfApplication]) -> list[Application]:
    """The applications that pods belong to, the one that came first in front."""
    by_name: dict[str, Application] = {}
    for pod in sorted(pods, key=lambda one: (one.created_at, one.key)):
        by_name.setdefault(pod.application, Application(name=pod.application)).pods.append(pod)
    for application in by_name.values():
        _read_user(application)
        _read_gang(application)
    return list(by_name.values())


def _read_user(application: Application) -> None:
    """Who submits, as the first pod's annotation says."""
    first = application.first
    text = first.annotation(names.USER_INFO)
    path = first.metadata.at(f"annotations[{names.USER_INFO}]")
    if not text:
        return
    try:
        info = Fields.of(parse_value(text, path), path)
        user, user_groups = info.text("user"), info.texts("groups")
        if not USER_NAME.fullmatch(user):
            raise info.error("user", f"is {shown(user)}", "give letters, digits, or : # / _ . @ -")
        application.user, application.user_groups, application.is_user_known = user, user_groups, True
    except InvalidObject as problem:
        application.doubts.append(problem)


def _read_gang(application: Application) -> None:
    """Its task groups, as the first pod that has any defines them; what cannot be read makes no gang."""
    defining = next((pod for pod in application.pods if pod.annotation(names.TASK_GROUPS)), None)
    if defining is None:
        return
    path = defining.metadata.at(f"annotations[{names.TASK_GROUPS}]")
    try:
        application.groups = read_task_groups(defining.annotation(names.TASK_GROUPS), path)
    except InvalidObject as problem:
        application.doubts.append(problem)
    application.terms = gang_terms(defining.annotation(names.POLICY_PARAMETERS))
