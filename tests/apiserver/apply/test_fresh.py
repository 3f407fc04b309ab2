"""The quick way to the fields of a new object leads to the same as the slow one."""

from __future__ import annotations

import json

import pytest

from muster.apiserver.apply.compare import compare
from muster.apiserver.apply.fieldsets import difference, ordered, union, without
from muster.apiserver.apply.fresh import fields_of_new
from muster.apiserver.apply.kinds import empty_object
from muster.apiserver.apply.schema import builtin_type
from muster.apiserver.apply.updater import STRIPPED
from muster.apiserver.field_checks import read_body
from tests.kubernetes.comparison import kind_of, label_of, samples

IGNORED = {"f:status": {}}


def slowly(item, ignored):
    type_ = builtin_type(item["apiVersion"], item["kind"])
    found = compare(type_, empty_object(item["apiVersion"], item["kind"]), item)
    return difference(without(union(found.modified, found.added), ignored), STRIPPED)


@pytest.mark.parametrize("item", samples(), ids=label_of)
def test_both_ways_agree(item):
    given = read_body(item, kind_of(item).type_name).value
    type_ = builtin_type(item["apiVersion"], item["kind"])
    empty = empty_object(item["apiVersion"], item["kind"])
    for ignored in ({}, IGNORED):
        wanted = slowly(given, ignored)
        text = fields_of_new(type_, given, empty, ignored)
        assert text.decode() == (
            json.dumps(ordered(wanted), separators=(",", ":"), ensure_ascii=False) if wanted else ""
        )
