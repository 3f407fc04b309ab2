"""The rules of the built-in kinds give the verdicts that a real server was once asked for, and hold for any object."""

from __future__ import annotations

import json

import pytest

from muster.apiserver.facts import KINDS
from muster.apiserver.kinds import ALL, BUILTIN, KUEUE
from muster.apiserver.kinds.base import resource_of
from tests.kubernetes.agreement import Agreement
from tests.kubernetes.comparison import Ours, Verdict, kind_of, label_of, samples
from tests.kubernetes.record import DEFAULTS, VERDICTS, questions


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(("item", "body"), list(zip(samples(), rows(DEFAULTS), strict=True)), ids=lambda one: "")
def test_an_object_gets_the_defaults_of_the_real_server(item, body):
    agreement = Agreement()
    agreement.add(item["kind"], label_of(item), Ours().create(item), Verdict(201, body=body))
    agreement.check(label_of(item))


def test_broken_objects_get_the_verdict_of_the_real_server():
    ours, agreement = Ours(), Agreement()
    for question, (code, causes) in zip(questions(), rows(VERDICTS), strict=True):
        mine = ours.create(question.item)
        real = Verdict(code, frozenset(map(tuple, causes)), mine.body if code == 201 else None)
        agreement.add(question.item["kind"], question.what, mine, real)
    agreement.check("new objects, as written down")


def test_what_is_stored_is_stored_again_unchanged():
    for item in samples():
        ours = Ours()
        made = ours.create(item, is_dry_run=False)
        rules = BUILTIN[resource_of(kind_of(item))]
        stored = json.loads(ours.store.get(ours.key(item)).value)
        again = rules.default(json.loads(json.dumps(stored)), None)
        rules.validate(again, stored)
        assert again == stored, f"{label_of(item)} changes when it is written as it is: {made.message}"


def test_every_kind_that_can_be_read_again_has_rules():
    kept = {resource_of(kind) for kind in KINDS.values() if {"create", "get"} <= set(kind.verbs)}
    assert kept - {"events.events.k8s.io"} == set(BUILTIN)
    assert set(ALL) == set(BUILTIN) | set(KUEUE)
    assert "clusterqueues.kueue.x-k8s.io" in KUEUE


@pytest.mark.parametrize("item", samples(), ids=label_of)
def test_nulls_anywhere_are_absences_or_refused(item):
    """Whatever is null, an answer comes: the object without it, or why not."""
    for value in ({}, {"metadata": None}, {"spec": None, "metadata": {"name": "a"}}):
        assert Ours().create({"apiVersion": item["apiVersion"], "kind": item["kind"], **value}).code in (201, 422)
