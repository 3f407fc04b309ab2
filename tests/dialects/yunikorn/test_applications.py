"""Applications: by which labels and annotations a pod says what it belongs to, where it goes and whose it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from muster.dialects.yunikorn.applications import gather
from tests.dialects.yunikorn.builders import DOMAIN, groups, pod


@pytest.mark.parametrize(
    ("labels", "annotations", "want"),
    [
        pytest.param({}, {}, "yunikorn-default-autogen", id="nothing: that of the namespace"),
        pytest.param({"spark-app-selector": "d"}, {}, "d", id="Spark's label"),
        pytest.param({"applicationId": "c", "spark-app-selector": "d"}, {}, "c", id="the old label"),
        pytest.param({"applicationId": "c"}, {f"{DOMAIN}app-id": "b"}, "b", id="the annotation"),
        pytest.param({f"{DOMAIN}app-id": "a"}, {f"{DOMAIN}app-id": "b"}, "a", id="the label"),
    ],
)
def test_application_of_a_pod(labels: dict[str, str], annotations: dict[str, str], want: str) -> None:
    assert pod("p", labels=labels, annotations=annotations).application == want


def test_the_application_of_a_namespace_has_a_short_name() -> None:
    assert len(pod("p", namespace="n" * 63).application) == 63


@pytest.mark.parametrize(
    ("labels", "annotations", "want"),
    [
        pytest.param({}, {}, "", id="nothing"),
        pytest.param({"queue": "c"}, {}, "c", id="the old label"),
        pytest.param({"queue": "c"}, {f"{DOMAIN}queue": "b"}, "b", id="the annotation"),
        pytest.param({f"{DOMAIN}queue": "a", "queue": "c"}, {f"{DOMAIN}queue": "b"}, "a", id="the label"),
    ],
)
def test_queue_of_a_pod(labels: dict[str, str], annotations: dict[str, str], want: str) -> None:
    assert pod("p", labels=labels, annotations=annotations).queue == want


def test_the_first_pod_speaks_for_all() -> None:
    late = pod("late", at=2.0, app="one", queue="root.late", user="ben")
    early = pod("early", at=1.0, app="one", queue="root.early", user="ann", groups=["staff"])
    (application,) = gather([late, early])
    assert [one.key for one in application.pods] == ["default/early", "default/late"]
    submission = application.submission({f"{DOMAIN}parentqueue": "root.teams"})
    assert (submission.queue, submission.user, submission.groups) == ("root.early", "ann", ("staff",))
    assert submission.is_user_known
    assert submission.tags == {"namespace": "default", "namespace.parentqueue": "root.teams"}


@pytest.mark.parametrize(
    "info", ["{", "[]", "{}", '{"user": "an n"}', '{"user": 5}', '{"user": "ann", "groups": "staff"}']
)
def test_who_cannot_be_read_is_nobody(info: str) -> None:
    (application,) = gather([pod("p", annotations={f"{DOMAIN}user.info": info})])
    assert not application.is_user_known
    assert len(application.doubts) == 1


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(groups(("a", 1, "1")), (900.0, False), id="what goes where nothing is said"),
        pytest.param(
            groups(("a", 1, "1"), parameters="placeholderTimeoutInSeconds=60 gangSchedulingStyle=Hard"),
            (60.0, True),
            id="both",
        ),
        pytest.param(
            groups(("a", 1, "1"), parameters="gangSchedulingStyle=Other placeholderTimeoutInSeconds=0 x"),
            (900.0, False),
            id="what is not known",
        ),
        pytest.param(
            groups(("a", 1, "1"), parameters="placeholderTimeoutInSeconds=" + "9" * 400), (900.0, False), id="absurd"
        ),
    ],
)
def test_terms_of_a_gang(given: dict[str, str], want: tuple[float, bool]) -> None:
    (application,) = gather([pod("p", annotations=given)])
    assert (application.terms.timeout_s, application.terms.is_hard) == want


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        "[1]",
        '[{"minMember": 1, "minResource": {}}]',
        '[{"name": "a", "minResource": {}}]',
        '[{"name": "a", "minMember": 0, "minResource": {}}]',
        '[{"name": "a", "minMember": 1}]',
        '[{"name": "a", "minMember": 1, "minResource": {"cpu": "-1"}}]',
        '[{"name": "a", "minMember": 1, "minResource": {"cpu": 1, "vcore": 1}}]',
        '[{"name": "a", "minMember": 1, "minResource": {"pods": 1}}]',
        '[{"name": "a", "minMember": 1, "minResource": {"cpu": "x"}}]',
        '[{"name": "a", "minMember": 1, "minResource": {}}, {"name": "a", "minMember": 1, "minResource": {}}]',
        "[" + ",".join(["{}"] * 1001) + "]",
        '[{"name": "a", "minMember": 99999999999, "minResource": {}}]',
    ],
)
def test_what_is_no_gang(text: str) -> None:
    (application,) = gather([pod("p", annotations={f"{DOMAIN}task-groups": text})])
    assert application.groups == ()
    assert len(application.doubts) == 1


def test_a_task_group_is_read_whole() -> None:
    item: dict[str, Any] = {
        "name": "workers",
        "minMember": 3,
        "minResource": {"vcore": "500m", "memory": "1Gi", "nvidia.com/gpu": 1},
        "nodeSelector": {"disk": "fast"},
        "labels": {"a": "b"},
    }
    (application,) = gather([pod("p", annotations={f"{DOMAIN}task-groups": json.dumps([item])})])
    (group,) = application.groups
    assert (group.name, group.members_least) == ("workers", 3)
    assert group.resources == {"cpu": 500, "memory": 2**30, "nvidia.com/gpu": 1}
    made = group.as_pod("lab", "high")
    assert made.child("spec").raw("nodeSelector") == {"disk": "fast"}
    assert made.child("spec").text("priorityClassName") == "high"
    assert made.child("metadata").raw("labels") == {"a": "b"}
