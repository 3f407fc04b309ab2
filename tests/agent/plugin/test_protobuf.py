"""Messages there and back, and bytes that are none: an error, never a surprise."""

from __future__ import annotations

import random

import pytest

from muster.agent.plugin import messages
from muster.agent.plugin.protobuf import decoded, encoded
from muster.model.errors import InvalidObject
from tests.support import proof_count

ANSWER = {
    "envs": {"A": "1", "B": ""},
    "mounts": [{"container_path": "/a", "host_path": "/b", "read_only": True}],
    "devices": [],
    "annotations": {},
    "cdi_devices": [{"name": "muster.dev/share=x"}],
}


@pytest.mark.parametrize(
    ("table", "values"),
    [
        (messages.ALLOCATED, {"container_responses": [ANSWER, ANSWER]}),
        (messages.DEVICES, {"devices": [{"ID": "a", "health": "Healthy", "topology": {"nodes": [{"ID": 3}]}}]}),
        (messages.PREFERENCE, {"container_requests": [{"available": ["a", "b"], "must_include": [], "size": 300}]}),
        (messages.EMPTY, {}),
    ],
)
def test_there_and_back(table, values):
    assert decoded(table, encoded(table, values)) == values


def test_the_bytes_are_those_of_protobuf():
    options = {"pre_start_required": True, "get_preferred_allocation_available": False}
    values = {"version": "v1beta1", "endpoint": "x", "resource_name": "", "options": options}
    assert encoded(messages.REGISTER, values) == b"\x0a\x07v1beta1\x12\x01x\x22\x02\x08\x01"
    assert decoded(messages.REGISTER, b"\x0a\x07v1beta1\x12\x01x\x22\x02\x08\x01") == values


def test_fields_that_nobody_knows_are_passed_over():
    unknown = b"\xa0\x06\x05" + b"\xaa\x06\x02ab" + b"\xad\x06abcd" + b"\xa9\x06abcdefgh"
    assert decoded(messages.PRE_START, unknown + b"\x0a\x01x") == {"ids": ["x"]}


@pytest.mark.parametrize("junk", [b"\x0a", b"\x0a\x05a", b"\xff" * 11, b"\x0b", b"\x08\x01", b"\x0a\x01\xff"])
def test_broken_bytes_are_refused(junk):
    with pytest.raises(InvalidObject):
        decoded(messages.PRE_START, junk)


@pytest.mark.prove
def test_any_bytes_are_read_or_refused():
    chance = random.Random(7)
    whole = encoded(messages.ALLOCATED, {"container_responses": [ANSWER]})
    for _ in range(proof_count(50_000)):
        bent = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            bent[chance.randrange(len(bent))] = chance.randrange(256)
        try:
            decoded(messages.ALLOCATED, bytes(bent[: chance.randint(0, len(bent))]))
        except InvalidObject:
            continue
