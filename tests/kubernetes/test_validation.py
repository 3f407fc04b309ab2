"""Objects with one thing changed get the verdict of the real server: the code, the fields to blame, and the object.

Each object of objects.yaml is broken in every place in several ways. An ordinary run tries some, the full proof all.
"""

from __future__ import annotations

import pytest

from tests.kubernetes.added import added
from tests.kubernetes.agreement import Agreement
from tests.kubernetes.comparison import Ours, Question, Theirs, asked, broken, kept, label_of, samples
from tests.support import is_full_proof

EVERY = 4  # in an ordinary run


def some(questions):
    return questions if is_full_proof() else questions[::EVERY]


@pytest.mark.prove
def test_new_objects_are_judged_the_same(plane):
    ours, theirs, agreement = Ours(), Theirs(plane.client), Agreement()
    questions = some([Question(f"{label_of(item)}: {what}", one) for item in samples() for what, one in broken(item)])
    for question, real in zip(questions, asked(lambda one: theirs.create(one.item), questions), strict=True):
        agreement.add(question.item["kind"], question.what, ours.create(question.item), real)
    agreement.check("new objects")


@pytest.mark.prove
def test_fields_that_are_added_are_judged_the_same(plane):
    ours, theirs, agreement = Ours(), Theirs(plane.client), Agreement()
    questions = some([Question(f"{label_of(item)}: {what}", one) for item in samples() for what, one in added(item)])
    for question, real in zip(questions, asked(lambda one: theirs.create(one.item), questions), strict=True):
        agreement.add(question.item["kind"], question.what, ours.create(question.item), real)
    agreement.check("fields added")


@pytest.mark.prove
def test_changes_are_judged_the_same(plane):
    ours, theirs, agreement = Ours(), Theirs(plane.client), Agreement()
    for item in samples():
        changed = [(what, one) for what, one in broken(item) if not what.startswith("metadata")]
        questions = some([Question(f"{label_of(item)}: {what}", one) for what, one in [("the same", item), *changed]])
        with kept(ours, theirs, item):
            for question, real in zip(questions, asked(lambda one: theirs.update(one.item), questions), strict=True):
                agreement.add(item["kind"], question.what, ours.update(question.item), real)
    agreement.check("changed objects")
