"""The pods of a Ray cluster, a head and groups of workers, wherever it is described. Used by the kinds of Ray."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from muster.engine.job_forms import POD_SETS_MOST, Role, Steps
from muster.model.errors import InvalidObject
from muster.model.fields import Fields

GROUP = "ray.io"
HEAD = "head"


def cluster_roles(cluster: Fields, at: Steps) -> Iterator[Role]:
    """The head, then the groups of workers in their order."""
    yield Role(name=HEAD, count=1, at=(*at, "headGroupSpec", "template"))
    for number, group in enumerate(cluster.children("workerGroupSpecs")):
        hosts = group.integer("numOfHosts", 1, least=1)
        yield Role(
            name=group.text("groupName").lower(),
            count=group.integer("replicas", 0, least=0) * hosts,
            at=(*at, "workerGroupSpecs", number, "template"),
        )


def cluster_problems(cluster: Fields, *, more_sets: int = 0) -> Iterator[InvalidObject]:
    """What cannot wait in a queue: clusters that grow by themselves, and too many or wrongly named groups."""
    if cluster.flag("enableInTreeAutoscaling"):
        hint = "take it out: a cluster in a queue has the pods that were counted"
        yield cluster.error("enableInTreeAutoscaling", "is true", hint)
    groups = list(cluster.children("workerGroupSpecs"))
    most = POD_SETS_MOST - 1 - more_sets
    if len(groups) > most:
        yield cluster.error("workerGroupSpecs", f"has {len(groups)} groups", f"give at most {most}")
        return
    for group in groups:
        name = group.text("groupName")
        if not name:
            yield group.error("groupName", "is missing", "name each group")
        elif name.lower() == HEAD:
            yield group.error("groupName", "is head, which is the name of the head's own pods", "give another name")


def with_container(role: Role, cluster: Fields, container: dict[str, object]) -> Role:
    """The role of the head with one more container in its pod."""
    template = cluster.child("headGroupSpec").child("template")
    spec = template.child("spec")
    grown = {**spec.values, "containers": [*spec.items("containers"), container]}
    return replace(role, template={**template.values, "spec": grown})
