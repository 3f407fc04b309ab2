"""Names of the pods of a job follow from the job and a number, and cost in proportion to the pods."""

from __future__ import annotations

from muster.controllers.builtin import job_pods
from muster.controllers.builtin.job_pods import Names

JOB = {"metadata": {"name": "j", "namespace": "n", "uid": "u"}}


def test_each_name_is_worked_out_once(monkeypatch):
    tried = []
    right = job_pods.digest

    def digest(given, length):
        tried.append(given)
        return right(given, length)

    monkeypatch.setattr(job_pods, "digest", digest)
    names = Names(JOB, lambda _name: False)
    assert len({names.next("j-", None) for _ in range(500)}) == 500
    assert len(tried) == 500


def test_the_same_names_come_again_and_those_that_are_taken_are_passed_over():
    first = Names(JOB, lambda _name: False)
    given = [first.next("j-", None) for _ in range(3)]
    again = Names(JOB, lambda name: name == given[1])
    assert [again.next("j-", None), again.next("j-", None)] == [given[0], given[2]]
    assert again.next("j-0-", 0) != again.next("j-0-", 0), "indexes have numbers of their own"
