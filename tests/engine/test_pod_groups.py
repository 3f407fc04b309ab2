"""Pods that start together: roles by shape or by name, and one template for several groups."""

from __future__ import annotations

from typing import Any

import pytest

from muster.engine.pod_groups import GROUP_NAME, PARTS, ROLE, TOTAL_COUNT, group_of, role_of, with_role
from muster.model.fields import Fields


def pod(labels: Any = None, annotations: Any = None, **spec: Any) -> Fields:
    container = {"name": "main", "image": "a", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": "one", "labels": labels or {}, "annotations": annotations or {}}
    return Fields({"metadata": metadata, "spec": {"containers": [container], **spec}})


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        pytest.param(pod({"a": "b"}), True, id="labels"),
        pytest.param(pod(containers=[{"image": "b", "resources": {"requests": {"cpu": "1"}}}]), True, id="the image"),
        pytest.param(pod(containers=[{"resources": {"requests": {"cpu": "2"}}}]), False, id="amounts"),
        pytest.param(pod(nodeSelector={"zone": "a"}), False, id="where it may run"),
        pytest.param(pod(nodeSelector={}), True, id="nothing said of where"),
        pytest.param(pod(annotations={ROLE: "driver"}), False, id="a role that it names"),
    ],
)
def test_roles_by_shape(other, is_same):
    assert (role_of(other) == role_of(pod())) is is_same


def test_the_annotation_comes_before_the_label():
    both = pod({GROUP_NAME: "old"}, {GROUP_NAME: "new", TOTAL_COUNT: "2"})
    assert group_of(both).name == "new"
    assert group_of(pod({GROUP_NAME: "old"}, {TOTAL_COUNT: "2"})).name == "old"
    assert group_of(pod()) is None


@pytest.mark.parametrize(
    ("labels", "want"),
    [({"index": "3", "spare": "7"}, "set-3"), ({"spare": "7"}, "set-7"), ({}, "set")],
    ids=["by its number", "by the other number", "without any"],
)
def test_one_template_for_several_groups(labels, want):
    given = pod(labels, {GROUP_NAME: "set", TOTAL_COUNT: "2", PARTS: "index,spare", ROLE: "worker"})
    made = Fields(with_role(given))
    assert group_of(made).name == want and role_of(made) == "worker"
    assert with_role(made) == made.values
