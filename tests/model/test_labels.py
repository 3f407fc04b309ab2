"""Selectors, node affinity, taints and names follow Kubernetes' rules."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.errors import InvalidObject
from muster.model.fields import Fields
from muster.model.labels import (
    EVERYTHING,
    NodeTerms,
    Selector,
    Taint,
    Toleration,
    dns1035_label_problem,
    dns1123_label_problem,
    dns1123_subdomain_problem,
    first_untolerated,
    label_key_problem,
    label_value_problem,
    matches,
    node_matches,
    preference,
    read_preferred_terms,
    read_required_terms,
    read_selector,
    read_taints,
    read_tolerations,
    restricted_to,
    selects,
    tolerates,
)
from tests.stopwatch import is_done_within


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def selector(**body: Any) -> Selector | None:
    return read_selector(Fields({"selector": body}), "selector")


def required(*terms: dict[str, Any]) -> NodeTerms | None:
    needed = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return read_required_terms(Fields({"affinity": {"nodeAffinity": needed}}))


def term(*expressions: dict[str, Any], fields: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"matchExpressions": list(expressions), "matchFields": list(fields)}


# Selectors --------------------------------------------------------------------------------------------------------

ENG = {"dep": "eng", "tier": "3"}


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param({}, True, id="an empty selector takes everything"),
        pytest.param({"matchLabels": {"dep": "eng"}}, True, id="a label that matches"),
        pytest.param({"matchLabels": {"dep": "sales"}}, False, id="a label with another value"),
        pytest.param({"matchLabels": {"team": ""}}, False, id="a missing label is not an empty one"),
        pytest.param({"matchLabels": {"dep": "eng", "tier": "4"}}, False, id="all labels must match"),
        pytest.param({"matchExpressions": [expression("dep", "In", "eng", "ops")]}, True, id="In"),
        pytest.param({"matchExpressions": [expression("team", "In", "a")]}, False, id="In needs the label"),
        pytest.param({"matchExpressions": [expression("dep", "NotIn", "eng")]}, False, id="NotIn"),
        pytest.param({"matchExpressions": [expression("team", "NotIn", "a")]}, True, id="NotIn without the label"),
        pytest.param({"matchExpressions": [expression("dep", "Exists")]}, True, id="Exists"),
        pytest.param({"matchExpressions": [expression("dep", "DoesNotExist")]}, False, id="DoesNotExist"),
        pytest.param(
            {"matchLabels": {"dep": "eng"}, "matchExpressions": [expression("tier", "In", "1")]},
            False,
            id="labels and expressions must both match",
        ),
    ],
)
def test_selector(body: dict[str, Any], want: bool) -> None:
    assert selects(selector(**body), ENG) is want


def test_an_absent_selector_is_not_an_empty_one() -> None:
    assert read_selector(Fields({"selector": None}), "selector") is None
    assert read_selector(Fields({"selector": {}}), "selector") == EVERYTHING
    assert (selects(None, ENG), selects(EVERYTHING, ENG)) == (False, True)


@pytest.mark.parametrize(
    ("item", "path"),
    [
        pytest.param(expression("a", "Gt", "1"), "operator", id="Gt is for nodes only"),
        pytest.param(expression("a", "in", "1"), "operator", id="a small letter"),
        pytest.param({"key": "a"}, "operator", id="no operator"),
        pytest.param(expression("", "Exists"), "key", id="no key"),
        pytest.param(expression("a", "In"), "values", id="In without values"),
        pytest.param(expression("a", "Exists", "x"), "values", id="Exists with a value"),
        pytest.param({"key": "a", "operator": "In", "values": [1]}, "values[0]", id="a value that is no string"),
        pytest.param({"key": 1, "operator": "Exists"}, "key", id="a key that is no string"),
    ],
)
def test_refused_selector(item: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidObject) as refusal:
        selector(matchExpressions=[item])
    assert refusal.value.path == f"selector.matchExpressions[0].{path}"


# Node affinity ----------------------------------------------------------------------------------------------------

NODE = {"zone": "west", "cores": "64"}


@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param([term(expression("zone", "In", "west"))], True, id="one term that matches"),
        pytest.param([term(expression("zone", "In", "east")), term(expression("zone", "Exists"))], True, id="terms or"),
        pytest.param([term(expression("zone", "In", "west"), expression("x", "Exists"))], False, id="expressions and"),
        pytest.param([term()], False, id="an empty term matches nothing"),
        pytest.param([], False, id="no terms match nothing"),
        pytest.param([term(expression("cores", "Gt", "63"))], True, id="above"),
        pytest.param([term(expression("cores", "Gt", "64"))], False, id="not above itself"),
        pytest.param([term(expression("cores", "Lt", "+65"))], True, id="below"),
        pytest.param([term(expression("zone", "Lt", "65"))], False, id="a label that is no number"),
        pytest.param([term(expression("racks", "Lt", "65"))], False, id="a label that is not there"),
        pytest.param([term(fields=(expression("metadata.name", "In", "n1"),))], True, id="by name"),
        pytest.param([term(fields=(expression("metadata.name", "NotIn", "n1"),))], False, id="not by name"),
        pytest.param(
            [term(expression("x", "Exists"), fields=(expression("metadata.name", "In", "n1"),))],
            False,
            id="names and labels must both match",
        ),
    ],
)
def test_required_affinity(terms: list[dict[str, Any]], want: bool) -> None:
    assert matches(required(*terms), NODE, node_name="n1") is want


def test_no_affinity_matches_everything() -> None:
    assert read_required_terms(Fields({"affinity": {"nodeAffinity": None}})) is None
    assert matches(None, {})


@pytest.mark.parametrize(
    ("item", "path"),
    [
        pytest.param({"matchExpressions": [expression("a", "Gt", "x")]}, "matchExpressions[0].values", id="no number"),
        pytest.param(
            {"matchExpressions": [expression("a", "Gt", "1_0")]}, "matchExpressions[0].values", id="underscore"
        ),
        pytest.param(
            {"matchExpressions": [expression("a", "Gt", "１")]}, "matchExpressions[0].values", id="full width"
        ),
        pytest.param({"matchExpressions": [expression("a", "Lt", "9" * 19)]}, "matchExpressions[0].values", id="2**63"),
        pytest.param({"matchExpressions": [expression("a", "Lt", "1", "2")]}, "matchExpressions[0].values", id="two"),
        pytest.param({"matchFields": [expression("metadata.uid", "In", "x")]}, "matchFields[0].key", id="other field"),
        pytest.param(
            {"matchFields": [expression("metadata.name", "Gt", "1")]}, "matchFields[0].operator", id="Gt name"
        ),
        pytest.param(
            {"matchFields": [expression("metadata.name", "In", "a", "b")]}, "matchFields[0].values", id="names"
        ),
    ],
)
def test_refused_affinity(item: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidObject) as refusal:
        required(item)
    start = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
    assert refusal.value.path == start + path


@pytest.mark.parametrize(
    ("terms", "want"),
    [
        pytest.param([term(expression("zone", "In", "east"))], False, id="what is said about the key counts"),
        pytest.param(
            [term(expression("zone", "In", "west"), expression("x", "In", "1"))], True, id="other keys do not"
        ),
        pytest.param(
            [term(expression("zone", "In", "east")), term(expression("x", "In", "1"))],
            True,
            id="a term that says nothing about the key fulfils all",
        ),
        pytest.param([term(fields=(expression("metadata.name", "In", "n9"),))], True, id="names do not count"),
        pytest.param([], True, id="no terms restrict nothing"),
    ],
)
def test_affinity_restricted_to_some_labels(terms: list[dict[str, Any]], want: bool) -> None:
    assert matches(restricted_to(required(*terms), frozenset(["zone"])), {"zone": "west"}) is want
    assert restricted_to(None, frozenset(["zone"])) is None


@pytest.mark.parametrize(
    ("labels", "keys", "want"),
    [
        pytest.param({"zone": "west", "disk": "ssd"}, None, True, id="selector and affinity"),
        pytest.param({"zone": "west"}, None, False, id="selector alone is missed"),
        pytest.param({"zone": "east", "disk": "ssd"}, None, False, id="affinity alone is missed"),
        pytest.param({"zone": "west"}, {"zone"}, True, id="the selector's other keys do not count"),
        pytest.param({"disk": "ssd"}, {"disk"}, True, id="the affinity's other keys do not count"),
        pytest.param({"disk": "hdd"}, {"disk"}, False, id="the selector's own key counts"),
    ],
)
def test_node_matches(labels: dict[str, str], keys: set[str] | None, want: bool) -> None:
    affinity = required(term(expression("zone", "In", "west")))
    restriction = None if keys is None else frozenset(keys)
    assert node_matches(labels, selector={"disk": "ssd"}, affinity=affinity, keys=restriction) is want


def test_preference_adds_the_weights_of_matching_terms() -> None:
    wished = [
        {"weight": 5, "preference": term(expression("zone", "In", "west"))},
        {"weight": 7, "preference": term(expression("zone", "In", "east"))},
        {"weight": 1, "preference": term(expression("cores", "Exists"))},
        {"weight": 90, "preference": {}},
    ]
    spec = {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": wished}}}
    assert preference(read_preferred_terms(Fields(spec)), NODE) == 6
    assert read_preferred_terms(Fields({})) == ()


# Taints and tolerations -------------------------------------------------------------------------------------------

SPOT = Taint("spot", "5", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        pytest.param(Toleration("spot", "Equal", "5", "NoSchedule"), True, id="the very same"),
        pytest.param(Toleration("spot", "Equal", "5"), True, id="any effect"),
        pytest.param(Toleration("spot", "Equal", "5", "NoExecute"), False, id="another effect"),
        pytest.param(Toleration("spot", "Equal", "6"), False, id="another value"),
        pytest.param(Toleration("gpu", "Exists"), False, id="another key"),
        pytest.param(Toleration("spot", "", "5"), True, id="no operator is Equal"),
        pytest.param(Toleration("spot", "Exists"), True, id="any value"),
        pytest.param(Toleration("", "Exists"), True, id="anything"),
        pytest.param(Toleration("spot", "Lt", "6"), True, id="the taint is below"),
        pytest.param(Toleration("spot", "Lt", "5"), False, id="the taint is not below"),
        pytest.param(Toleration("spot", "Gt", "4"), True, id="the taint is above"),
        pytest.param(Toleration("spot", "Gt", "5"), False, id="the taint is not above"),
        pytest.param(Toleration("spot", "Gt", "04"), False, id="leading zeros are no number"),
        pytest.param(Toleration("spot", "Gt", "-9223372036854775808"), True, id="the smallest number"),
        pytest.param(Toleration("spot", "Lt", "9223372036854775808"), False, id="too large a number"),
        pytest.param(Toleration("spot", "Lt", "9" * 1_000_000), False, id="a million digits"),
        pytest.param(Toleration("spot", "Near", "5"), False, id="an unknown operator tolerates nothing"),
    ],
)
def test_tolerates(toleration: Toleration, want: bool) -> None:
    assert tolerates(toleration, SPOT) is want


def test_a_taint_without_a_number_is_never_above_or_below() -> None:
    taint = Taint("spot", "cheap", "NoSchedule")
    assert not any(tolerates(Toleration("spot", operator, "0"), taint) for operator in ("Lt", "Gt"))


@pytest.mark.parametrize(
    ("taints", "tolerations", "want"),
    [
        pytest.param([], [], "", id="no taints"),
        pytest.param(["a:NoSchedule", "b:NoExecute"], [], "a", id="the first one is named"),
        pytest.param(["a:NoSchedule", "b:NoExecute"], ["a"], "b", id="tolerated ones are passed over"),
        pytest.param(["a:NoSchedule", "b:NoExecute"], ["b", "a"], "", id="all tolerated"),
        pytest.param(["a:PreferNoSchedule"], [], "", id="a wish forbids nothing"),
    ],
)
def test_first_untolerated(taints: list[str], tolerations: list[str], want: str) -> None:
    found = first_untolerated(
        [Taint(key, "", effect) for key, _, effect in (taint.partition(":") for taint in taints)],
        (Toleration(key, "Exists") for key in tolerations),
    )
    assert (found.key if found else "") == want


def test_other_effects_may_be_asked_about() -> None:
    wish = Taint("a", "", "PreferNoSchedule")
    assert first_untolerated([SPOT, wish], [], effects=("PreferNoSchedule",)) == wish


def test_taints_and_tolerations_are_read() -> None:
    fields = Fields(
        {
            "taints": [{"key": "a", "effect": "NoExecute"}],
            "tolerations": [
                {"operator": "Exists"},
                {"key": "a", "value": "x", "effect": "NoExecute", "tolerationSeconds": 30},
            ],
        }
    )
    assert read_taints(fields) == (Taint("a", "", "NoExecute"),)
    assert read_tolerations(fields) == (
        Toleration(operator="Exists"),
        Toleration("a", "Equal", "x", "NoExecute", 30),
    )
    assert (read_taints(Fields({})), read_tolerations(Fields({}))) == ((), ())


@pytest.mark.parametrize(
    ("item", "path"),
    [
        pytest.param({"operator": "Near", "key": "a"}, "tolerations[0].operator", id="unknown operator"),
        pytest.param({"effect": "Never", "key": "a"}, "tolerations[0].effect", id="unknown effect"),
        pytest.param({"operator": "Equal", "value": "x"}, "tolerations[0].key", id="all keys but one value"),
        pytest.param({"key": "a", "tolerationSeconds": "5"}, "tolerations[0].tolerationSeconds", id="seconds as text"),
        pytest.param("spot", "tolerations[0]", id="a text"),
    ],
)
def test_refused_toleration(item: object, path: str) -> None:
    with pytest.raises(InvalidObject) as refusal:
        read_tolerations(Fields({"tolerations": [item]}))
    assert refusal.value.path == path


@pytest.mark.parametrize(
    ("item", "path"),
    [
        pytest.param({"key": "a"}, "taints[0].effect", id="no effect"),
        pytest.param({"key": "a", "effect": "Never"}, "taints[0].effect", id="unknown effect"),
        pytest.param({"effect": "NoExecute"}, "taints[0].key", id="no key"),
    ],
)
def test_refused_taint(item: object, path: str) -> None:
    with pytest.raises(InvalidObject) as refusal:
        read_taints(Fields({"taints": [item]}))
    assert refusal.value.path == path


# Names ------------------------------------------------------------------------------------------------------------

RULES = {
    "key": label_key_problem,
    "value": label_value_problem,
    "subdomain": dns1123_subdomain_problem,
    "label": dns1123_label_problem,
    "old-label": dns1035_label_problem,
}


@pytest.mark.parametrize(
    ("text", "fine_as"),
    [
        pytest.param("", "value", id="nothing"),
        pytest.param("a", "key value subdomain label old-label", id="a letter"),
        pytest.param("0a", "key value subdomain label", id="a digit first"),
        pytest.param("A-b_c.d", "key value", id="capitals and marks"),
        pytest.param("a.b", "key value subdomain", id="a domain"),
        pytest.param("a..b", "key value", id="an empty part"),
        pytest.param("-a", "", id="a dash first"),
        pytest.param("a-", "", id="a dash last"),
        pytest.param("a-.b", "key value", id="a part that ends in a dash"),
        pytest.param("example.com/name", "key", id="a prefix"),
        pytest.param("example.com/", "", id="a prefix alone"),
        pytest.param("/name", "", id="an empty prefix"),
        pytest.param("a/b/c", "", id="two slashes"),
        pytest.param("Example.com/name", "", id="a prefix with a capital"),
        pytest.param("a" * 63, "key value subdomain label old-label", id="63 letters"),
        pytest.param("a" * 64, "subdomain", id="64 letters"),
        pytest.param("a" * 253, "subdomain", id="253 letters"),
        pytest.param("a" * 254, "", id="254 letters"),
        pytest.param("a" * 253 + "/" + "b" * 63, "key", id="the longest key"),
        pytest.param("a" * 254 + "/b", "", id="a prefix too long"),
        pytest.param("é", "", id="an accent"),
        pytest.param("１", "", id="a full-width digit"),
        pytest.param("a\n", "", id="a newline"),
        pytest.param("a b", "", id="a space"),
    ],
)
def test_names(text: str, fine_as: str) -> None:
    fine = {kind for kind, problem_of in RULES.items() if not problem_of(text)}
    assert fine == set(fine_as.split())


@given(st.text(max_size=70) | st.text("aZ0-_./", max_size=70))
def test_the_rules_of_names_contain_each_other(text: str) -> None:
    if not dns1035_label_problem(text):
        assert not dns1123_label_problem(text)
    if not dns1123_label_problem(text):
        assert not dns1123_subdomain_problem(text) and not label_value_problem(text)
    if text and not label_value_problem(text):
        assert not label_key_problem(text) and not label_key_problem(f"example.com/{text}")


@pytest.mark.parametrize("kind", RULES)
@pytest.mark.parametrize("text", ["a" * 10_000_000, "a." * 5_000_000, "a/" * 5_000_000, "-" * 10_000_000])
def test_long_names_are_refused_at_once(kind: str, text: str) -> None:
    assert "longer" in RULES[kind](text)
    assert is_done_within(0.1, lambda: RULES[kind](text))


def test_huge_labels_cost_little_to_compare() -> None:
    terms = required(term(expression("size", "Gt", "4")))
    for size, is_greater in (("9" * 1_000_000, False), ("0" * 1_000_000 + "5", True)):
        labels = {"size": size}
        assert matches(terms, labels) is is_greater
        assert is_done_within(0.25, functools.partial(matches, terms, labels))
