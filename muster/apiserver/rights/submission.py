"""Whoever submits to a LocalQueue needs the right to use it, where a setting says so. Called by writes and `hooks`.

The right is the verb `use` on the LocalQueue. Kubernetes' own words say who lacks it.
"""

from __future__ import annotations

from muster.apiserver.admission.jobs import QUEUES, JobAdmission
from muster.apiserver.requests import User
from muster.apiserver.rights.access import Access
from muster.apiserver.rights.rbac import Question
from muster.store.kinds import Object

USE = "use"


def question_of_use(namespace: str, queue: str) -> Question:
    """What somebody asks for who submits to a queue."""
    plural, _, group = QUEUES.partition(".")
    return Question(USE, group, plural, namespace=namespace, name=queue)


class Submission:
    """The rule on the embedded server, whose own roles decide."""

    def __init__(self, jobs: JobAdmission) -> None:
        self._jobs = jobs

    def check(self, access: Access, user: User, resource: str, new: Object, before: Object | None) -> None:
        """Refuse a write by which somebody submits to a queue that they may not use."""
        if queue := self._jobs.queue_asked_for(resource, new, before):
            access.check(user, question_of_use(str(new["metadata"].get("namespace") or ""), queue))
