"""Queue configurations: what is accepted, what is refused and where, and that absurd ones cost little."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import yaml

from muster.dialects.yunikorn.normal_form import normal_form
from muster.dialects.yunikorn.read import Surroundings, read_pods
from muster.dialects.yunikorn.validate import read_configuration, read_plain_configuration
from muster.model.errors import InvalidObject, InvalidObjects
from tests.dialects.yunikorn.builders import pod
from tests.stopwatch import is_done_within
from tests.support import assert_sound, proof_count


def partition(**parts: Any) -> str:
    return yaml.safe_dump({"partitions": [{"name": "default", "queues": [{"name": "root"}], **parts}]})


def queues(*below: dict[str, Any], **root: Any) -> str:
    return partition(queues=[{"name": "root", "queues": list(below), **root}])


def limit(applications: int) -> dict[str, Any]:
    return {"users": ["a"], "maxapplications": applications}


def paths(text: str) -> list[str]:
    with pytest.raises(InvalidObject) as caught:
        read_configuration(text, "queues.yaml")
    problem = caught.value
    return [one.path for one in (problem.problems if isinstance(problem, InvalidObjects) else (problem,))]


ROOT = "partitions[0].queues[0]"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(queues({"name": "a b"}), [f"{ROOT}.queues[0].name"], id="a name with a space"),
        pytest.param(queues({"name": "a" * 65}), [f"{ROOT}.queues[0].name"], id="a long name"),
        pytest.param(queues({"name": "a"}, {"name": "A"}), [f"{ROOT}.queues[1].name"], id="one name twice"),
        pytest.param(
            queues({"name": "a", "resources": {"guaranteed": {"vcore": 2}, "max": {"vcore": 1}}}),
            [f"{ROOT}.queues[0].resources.guaranteed"],
            id="a guarantee above the maximum",
        ),
        pytest.param(
            queues(
                {
                    "name": "a",
                    "resources": {"guaranteed": {"vcore": 3}},
                    "queues": [
                        {"name": "b", "resources": {"guaranteed": {"vcore": 2}}},
                        {"name": "c", "queues": [{"name": "d", "resources": {"guaranteed": {"vcore": "1500m"}}}]},
                    ],
                }
            ),
            [f"{ROOT}.queues[0].resources.guaranteed"],
            id="guarantees that are more than their parent's",
        ),
        pytest.param(queues(resources={"max": {}}), [f"{ROOT}.resources"], id="an empty maximum of the root"),
        pytest.param(
            queues({"name": "a"}, maxapplications=5), [f"{ROOT}.queues[0].maxapplications"], id="one without a limit"
        ),
        pytest.param(queues(adminacl="a b c"), [f"{ROOT}.adminacl"], id="a list of three parts"),
        pytest.param(partition(nodesortpolicy={"type": "x"}), ["partitions[0].nodesortpolicy.type"], id="a sort"),
        pytest.param(
            partition(limits=[limit(1)], queues=[{"name": "root", "limits": [limit(2)]}]),
            ["partitions[0].limits"],
            id="limits of the partition and others of the root",
        ),
        pytest.param(
            queues(limits=[{"groups": ["*"], "maxapplications": 1}]), [f"{ROOT}.limits[0].groups"], id="all groups"
        ),
        pytest.param(
            partition(placementrules=[{"name": "fixed", "value": "here"}]),
            ["partitions[0].placementrules[0]"],
            id="a fixed queue that is not there",
        ),
        pytest.param(
            partition(placementrules=[{"name": "user", "parent": {"name": "fixed", "value": "here"}}]),
            ["partitions[0].placementrules[0]"],
            id="a fixed parent that is not there",
        ),
        pytest.param(
            partition(placementrules=[{"name": "user", "filter": {"users": ["(?=x)"]}}]),
            ["partitions[0].placementrules[0].filter.users[0]"],
            id="an expression that looks ahead",
        ),
        pytest.param("partitions: [{name: a, queue: []}]", ["partitions[0].queue"], id="an unknown key"),
        pytest.param("partitions: [{Name: a}]", ["partitions[0].Name"], id="a key in upper case"),
        pytest.param(queues({"name": "a", "parent": "maybe"}), [f"{ROOT}.queues[0].parent"], id="no flag"),
        pytest.param(queues({"name": "a", "maxapplications": -1}), [f"{ROOT}.queues[0].maxapplications"], id="minus"),
        pytest.param(queues({"name": "a", "maxapplications": 2**64}), [f"{ROOT}.queues[0].maxapplications"], id="huge"),
        pytest.param("partitions: {}", ["partitions"], id="no list"),
        pytest.param("partitions: [{queues: [[]]}]", ["partitions[0].queues[0]"], id="a list for a queue"),
    ],
)
def test_refused(text: str, want: list[str]) -> None:
    assert paths(text) == want


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("partitions:", id="no partitions"),
        pytest.param(queues({"name": "a", "parent": "yes"}), id="yes is true"),
        pytest.param(queues({"name": "a", "maxapplications": 1.5}), id="a fraction is cut"),
        pytest.param(partition(placementrules=[{"name": "anything"}]), id="a rule that nobody knows"),
        pytest.param(
            partition(placementrules=[{"name": "fixed", "value": "a.b", "create": True}]), id="a fixed one to make"
        ),
        pytest.param(queues({"name": "a", "childtemplate": {"resources": {"max": {"memory": "x"}}}}), id="a template"),
        pytest.param("partitions: []\n---\nnot: known", id="a second document is not looked at"),
        pytest.param(
            queues(
                {"name": "a", "limits": [{"users": ["u"], "maxresources": {"memory": 5}}]},
                limits=[{"users": ["*"], "maxresources": {"vcore": 1}}],
            ),
            id="a limit of something else than above",
        ),
    ],
)
def test_accepted(text: str) -> None:
    read_configuration(text, "queues.yaml")


def test_amounts_are_text_as_they_were_written() -> None:
    text = "partitions: [{queues: [{name: a, resources: {max: {memory: 010, vcore: 1_0}}}]}]"
    with pytest.raises(InvalidObject, match="1_0"):
        read_configuration(text, "queues.yaml")
    (partition,) = read_configuration(text.replace("1_0", "10"), "queues.yaml").partitions
    assert partition.root.children[0].resources.most == {"memory": "010", "vcore": "10"}


def test_a_document_that_was_read_already_means_the_same() -> None:
    text = queues({"name": "a", "maxapplications": 3, "resources": {"max": {"memory": 5}}, "parent": True})
    plain = read_plain_configuration(yaml.safe_load(text))
    assert normal_form(plain) == normal_form(read_configuration(text, "queues.yaml"))


def test_the_normal_form_is_accepted_and_is_its_own_normal_form() -> None:
    text = queues(
        {"name": "a", "resources": {"max": {"memory": "5G"}}, "limits": [{"users": ["u"], "maxapplications": 2}]},
        limits=[{"users": ["u"], "maxapplications": 2}],
    )
    once = normal_form(read_configuration(text, "queues.yaml"))
    assert normal_form(read_plain_configuration(once)) == once


# Absurd ones ---------------------------------------------------------------------------------------------------------


def nested(depth: int) -> str:
    return "partitions: [{queues: " + "[{name: a, queues: " * depth + "[]" + "}]" * depth + "}]"


def test_queues_nested_too_deep_are_refused() -> None:
    read_configuration(nested(40), "queues.yaml")
    with pytest.raises(InvalidObject, match="nested deeper"):
        read_configuration(nested(4000), "queues.yaml")


def test_many_queues_and_many_users_cost_as_much_as_both_are_long() -> None:
    many = {"limit": "", "users": [f"u{number}" for number in range(3000)], "maxresources": {"memory": "1"}}
    below = [{"name": f"q{number}"} for number in range(3000)]
    text = queues({"name": "a", "limits": [many], "queues": below}, limits=[many])
    assert is_done_within(4.0, lambda: read_configuration(text, "queues.yaml"))


def test_of_very_many_mistakes_some_are_told() -> None:
    assert len(paths(queues(*({"name": "!"} for _ in range(2000))))) == 50


def test_an_expression_that_takes_python_ages_is_read_at_once() -> None:
    text = partition(placementrules=[{"name": "user", "create": True, "filter": {"users": ["(a+)+$"]}}])
    assert is_done_within(1.0, lambda: read_configuration(text, "queues.yaml"))


# Anything at all -----------------------------------------------------------------------------------------------------

FULL = {
    "partitions": [
        {
            "name": "default",
            "queues": [
                {
                    "name": "root",
                    "submitacl": "*",
                    "queues": [
                        {
                            "name": "a",
                            "parent": True,
                            "maxapplications": 3,
                            "resources": {"guaranteed": {"vcore": 1}, "max": {"memory": "1Gi"}},
                            "properties": {"priority.offset": "5", "preemption.policy": "fence"},
                            "childtemplate": {"maxapplications": 1, "resources": {"max": {"vcore": "500m"}}},
                            "limits": [{"limit": "x", "users": ["u", "*"], "maxresources": {"vcore": 1}}],
                        }
                    ],
                }
            ],
            "placementrules": [
                {"name": "user", "create": True, "parent": {"name": "fixed", "value": "root.a"}},
                {"name": "tag", "value": "namespace", "filter": {"type": "deny", "users": ["a.*"], "groups": ["g"]}},
            ],
            "limits": [],
            "preemption": {"enabled": False},
            "nodesortpolicy": {"type": "fair", "resourceweights": {"vcore": 1.5}},
        }
    ]
}
ANYTHING = (
    None,
    True,
    0,
    -1,
    2**70,
    1.5,
    "",
    "*",
    "a",
    "root",
    "root.a.b",
    "1Gi",
    "((",
    [],
    {},
    [None],
    [[]],
    {"a": None},
)


def changed(value: Any, random: Random) -> Any:
    """The value with something in it replaced, taken out or doubled."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(sorted(value))
        if random.random() < 0.1:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: changed(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.9:
        index = random.randrange(len(value))
        if random.random() < 0.1:
            return [*value, value[index]]
        return [*value[:index], changed(value[index], random), *value[index + 1 :]]
    return random.choice(ANYTHING)


def check_anything(random: Random) -> None:
    """Whatever is written, it is accepted or refused; and what is accepted can be read, and pods find their queues."""
    value: Any = FULL
    for _ in range(random.randint(1, 4)):
        value = changed(value, random)
    try:
        configuration = read_plain_configuration(value)
    except InvalidObject:
        return
    assert normal_form(read_plain_configuration(normal_form(configuration))) == normal_form(configuration)
    pods = [pod(name, queue=name, user="ann", app=name) for name in ("root.a", "root.a.x", "b", "")]
    read_pods(pods, configuration, Surroundings(total={"cpu": 4000}))


@pytest.mark.prove
def test_anything() -> None:
    assert_sound(check_anything, range(proof_count(20_000)))
