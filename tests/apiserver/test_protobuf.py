"""Protobuf bodies become the JSON that Go would write, and back; what is broken is refused in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.apiserver import protobuf
from muster.apiserver.facts import KINDS, SCHEMA, TYPES
from muster.apiserver.protobuf import MAGIC, decode, encode
from muster.model.errors import InvalidObject
from tests.apiserver.samples import full, without_nulls, written

SAMPLES = written()
POD = next(body for item, body in SAMPLES if item["kind"] == "Pod")


def varint(value):
    """A number as protobuf writes it, by hand."""
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def field(number, content):
    """One field of a message: bytes, or a number."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def body(api_version, kind, raw):
    type_meta = field(1, api_version.encode()) + field(2, kind.encode())
    return MAGIC + field(1, type_meta) + field(2, raw)


def test_there_are_samples_of_many_kinds():
    assert len({(item["apiVersion"], item["kind"]) for item, _ in SAMPLES}) == len(SAMPLES) >= 45


@pytest.mark.parametrize(("item", "sent"), SAMPLES, ids=[f"{item['apiVersion']} {item['kind']}" for item, _ in SAMPLES])
def test_a_body_of_go_is_read_as_go_reads_it(item, sent):
    assert without_nulls(decode(sent)) == without_nulls(item)


@pytest.mark.parametrize("item", [item for item, _ in SAMPLES], ids=lambda item: f"{item['apiVersion']} {item['kind']}")
def test_what_is_written_is_read_back(item):
    assert without_nulls(decode(encode(item))) == without_nulls(item)


@pytest.mark.parametrize("key", KINDS, ids=" ".join)
def test_every_field_of_every_kind_is_read_back(key):
    group, version, kind = key
    item = full(f"{group}/{version}" if group else version, kind)
    assert decode(encode(item)) == item


META = field(1, field(1, b"x"))  # metadata with the name x


@pytest.mark.parametrize(
    ("raw", "want"),
    [
        pytest.param(b"", {}, id="nothing is an object without fields"),
        pytest.param(field(15, b"new") + field(14, 1), {}, id="fields of later versions are passed over"),
        pytest.param(META + field(1, field(1, b"y")), {"metadata": {"name": "y"}}, id="the last one counts"),
        pytest.param(field(1, field(1, b"")), {"metadata": {}}, id="empty texts are left out as Go does"),
        pytest.param(field(2, field(1, b"a")), {"data": {"a": ""}}, id="an entry without a value has an empty one"),
        pytest.param(field(4, 0), {"immutable": False}, id="a pointer to the zero value is kept"),
        pytest.param(b"\x20\x80\x00", {"immutable": False}, id="numbers may be longer than they need be"),
    ],
)
def test_a_message_says_as_much_as_its_fields(raw, want):
    assert decode(body("v1", "ConfigMap", raw)) == {"apiVersion": "v1", "kind": "ConfigMap", **want}


def test_numbers_of_a_list_may_be_packed():
    context = field(14, field(4, b"\x01\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01") + bytes([4 << 3, 3]))
    assert decode(body("v1", "Pod", field(2, context)))["spec"]["securityContext"]["supplementalGroups"] == [
        1,
        2,
        -1,
        3,
    ]


def test_an_object_within_an_object_may_be_protobuf_too():
    inner = body("v1", "ConfigMap", META)
    listed = decode(body("v1", "List", field(2, field(1, inner))))
    assert listed["items"] == [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}]


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        pytest.param(b"", "does not begin", id="nothing"),
        pytest.param(b'{"kind": "Pod"}', "does not begin", id="JSON"),
        pytest.param(MAGIC, "no kind of no version", id="no kind"),
        pytest.param(body("kueue.x-k8s.io/v1beta1", "Workload", b""), "no protobuf form", id="a custom kind"),
        pytest.param(body("v1", "Container", b""), "no protobuf form", id="a part of a kind"),
        pytest.param(body("v1", "Pod", b"\x0a\x05abc"), "cut short", id="cut short"),
        pytest.param(
            body("v1", "Pod", b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "cut short", id="a huge length"
        ),
        pytest.param(body("v1", "Pod", b"\x0a" + b"\xff" * 11), "does not end", id="a number without end"),
        pytest.param(body("v1", "Pod", b"\x0a" + b"\xff" * 9 + b"\x02"), "does not end", id="a number above 64 bits"),
        pytest.param(body("v1", "Pod", b"\x00\x00"), "without a number", id="field zero"),
        pytest.param(body("v1", "Pod", b"\x0b"), "wire type 3", id="a group"),
        pytest.param(body("v1", "Pod", b"\x08\x01"), "another wire type", id="a number for an object"),
        pytest.param(body("v1", "Pod", field(1, field(1, b"\xff"))), "not UTF-8", id="no text"),
        pytest.param(
            body("v1", "Pod", field(1, field(8, b"\x08" + b"\xff" * 8 + b"\x7f"))), "years 1 to 9999", id="a far time"
        ),
        pytest.param(body("apps/v1", "ControllerRevision", field(2, field(1, b"{"))), "no JSON", id="half an object"),
        pytest.param(
            body("apps/v1", "ControllerRevision", field(2, field(1, b"[" * 16_000))), "no JSON", id="endless lists"
        ),
    ],
)
def test_a_broken_body_is_refused(sent, problem):
    with pytest.raises(InvalidObject, match=problem):
        decode(sent)


def test_a_body_may_be_too_big():
    with pytest.raises(InvalidObject, match="send 10 or fewer"):
        decode(POD, most_bytes=10)


@pytest.mark.parametrize("name", ["not", "items", "properties"])
@pytest.mark.parametrize(("levels", "is_taken"), [(protobuf.MOST_DEPTH - 10, True), (protobuf.MOST_DEPTH, False)])
def test_objects_within_each_other_end_somewhere(name, levels, is_taken):
    number, schema = TYPES[SCHEMA].own[name].number, b""
    for _ in range(levels):
        # A schema as such, as the first choice of two, or as the value of a map.
        inner = {"not": schema, "items": field(1, schema), "properties": field(1, b"key") + field(2, schema)}[name]
        schema = field(number, inner)
    version = field(4, field(1, schema))
    sent = body("apiextensions.k8s.io/v1", "CustomResourceDefinition", field(2, field(7, version)))
    if is_taken:
        assert decode(sent)["spec"]["versions"]
        return
    with pytest.raises(InvalidObject, match="within each other"):
        decode(sent)


def test_a_custom_kind_has_no_protobuf_form():
    with pytest.raises(InvalidObject, match="Workload of kueue"):
        encode({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload"})


def is_read_or_refused(sent):
    try:
        return isinstance(decode(sent), dict)
    except InvalidObject:
        return True


def test_every_beginning_of_a_body_is_read_or_refused():
    assert all(is_read_or_refused(POD[:size]) for size in range(len(POD)))


@given(st.sampled_from([body for _, body in SAMPLES]), st.data())
def test_a_damaged_body_is_read_or_refused(sent, data):
    damaged = bytearray(sent)
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(st.integers(4, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    assert is_read_or_refused(bytes(damaged))


@given(st.sampled_from(sorted(KINDS)), st.binary(max_size=200))
def test_noise_is_read_or_refused(key, noise):
    group, version, kind = key
    assert is_read_or_refused(body(f"{group}/{version}" if group else version, kind, noise))
