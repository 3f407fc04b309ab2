"""Policies by name: those of the package, of other packages and of users' files, and every way to get them wrong."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from muster.app.plugins import known_hint
from muster.app.policies import Catalogue, build_tiers, load_policies
from muster.app.policy_arguments import arguments_problem
from muster.engine.policy import Hooks, Policy
from muster.engine.profile import HOOK_NAMES, PROFILES, PolicyUse, Tier, tier
from muster.engine.tiers import Tiers
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields
from muster.policies import binpack
from tests.support import ROOT

OWN = ", ".join(sorted(Catalogue().policies))

MINE = """
from __future__ import annotations

from dataclasses import dataclass

from muster.engine.policy import Hooks, Policy


@dataclass(frozen=True)
class Arguments:
    weight: int = 1


def build(arguments: Arguments) -> Hooks:
    if arguments.weight > 9:
        raise ValueError("too heavy")
    return Hooks(compare_queues=lambda first, second: arguments.weight)


POLICY = Policy(name="mine", arguments=Arguments, build=build)
"""


@pytest.fixture
def load(tmp_path: Path) -> Any:
    """Writes a user's file and loads it as a configuration in the same folder would."""

    def load(text: str | bytes = MINE, *more: str) -> Catalogue:
        (tmp_path / "mine.py").write_bytes(text if isinstance(text, bytes) else text.encode())
        files = ("./mine.py", *more)
        return load_policies([Fields({"file": file}, f"policies[{n}]") for n, file in enumerate(files)], tmp_path)

    yield load
    for name in [name for name in sys.modules if name.startswith("muster.policies@")]:
        del sys.modules[name]


def refusal(action: Callable[[], object]) -> str:
    with pytest.raises(InvalidObject) as caught:
        action()
    return str(caught.value)


# The package's own ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_every_named_profile_can_be_built(name):
    profile = PROFILES[name]
    built = build_tiers(profile.tiers)
    assert [len(one) for one in built.tiers] == [len(one.policies) for one in profile.tiers]


@pytest.mark.parametrize("name", sorted(Catalogue().policies))
def test_every_policy_can_be_used(name):
    policy = Catalogue().policies[name]
    assert arguments_problem(policy) == ""
    assert isinstance(policy.hooks(), Hooks)


def test_arguments_and_flags_reach_the_hooks():
    uses = (
        PolicyUse(name="binpack", arguments={"weight": 3}),
        PolicyUse(name="spread", off=frozenset(("score",))),
    )
    heavy, off = build_tiers([Tier(uses)]).hooks
    assert heavy.score is not None
    assert off.score is None


def test_unknown_names_say_which_are_known():
    assert refusal(lambda: build_tiers([tier("gang", "binpak")])) == (
        f"tiers[0].policies[1].name: is 'binpak', which is no policy; did you mean binpack? known are {OWN}"
    )


def test_all_mistakes_of_all_tiers_are_named():
    given = [tier("gang", PolicyUse(name="binpack", arguments={"weight": -1})), tier("zzz", "gang")]
    with pytest.raises(InvalidObjects) as caught:
        build_tiers(given)
    assert [str(one) for one in caught.value.problems] == [
        "tiers[0].policies[1].arguments.weight: is -1; give 0 or more",
        f"tiers[1].policies[0].name: is 'zzz', which is no policy; known are {OWN}",
        "tiers[1].policies[1].name: is gang again; name each policy once",
    ]


def test_every_policy_and_hook_is_explained():
    page = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    names = {*Catalogue().policies, *HOOK_NAMES, *PROFILES}
    arguments = {one.name for policy in Catalogue().policies.values() for one in fields(policy.arguments)} - {"typical"}
    assert not [name for name in sorted(names | arguments) if f"`{name}`" not in page]


@pytest.mark.parametrize(
    ("known", "want"),
    [
        pytest.param(["b", "score"], "did you mean score? known are b, score", id="near"),
        pytest.param(["b", "a"], "known are a, b", id="none near"),
        pytest.param([], "there are none, take it out", id="none at all"),
    ],
)
def test_hints(known, want):
    assert known_hint("scores", known) == want


# Users' files --------------------------------------------------------------------------------------------------------


def test_a_users_file_is_a_policy_like_others(load):
    catalogue = load()
    built = build_tiers([tier("mine", "binpack")], catalogue)
    assert built.compare_queues("a", "b") == 1


def test_files_of_the_same_name_in_two_folders(load, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.py").write_text(MINE.replace('"mine"', '"theirs"'))
    assert {"mine", "theirs"} <= load(MINE, "other/mine.py").policies.keys()


DEFINE = "write POLICY = Policy(name=…, arguments=…, build=…)"
DATACLASS = "give a frozen dataclass with a default for every field"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("def f(:\n  pass", "./mine.py, line 1: SyntaxError: invalid syntax; mend the file", id="syntax"),
        pytest.param(
            "x = 1\nif x:\ny = 2",
            "./mine.py, line 3: IndentationError: expected an indented block after 'if' statement on line 2; "
            "mend the file",
            id="indentation",
        ),
        pytest.param(
            "\nimport no_such_package",
            "./mine.py, line 2: ModuleNotFoundError: No module named 'no_such_package'; mend the file",
            id="a package that is not there",
        ),
        pytest.param(
            "def f():\n    return 1 / 0\nf()",
            "./mine.py, line 2: ZeroDivisionError: division by zero; mend the file",
            id="an error while it runs",
        ),
        pytest.param("raise SystemExit", "./mine.py, line 1: SystemExit; mend the file", id="it wants to end"),
        pytest.param("", f"./mine.py does not define POLICY; {DEFINE}", id="no constant"),
        pytest.param("POLICY = 'mine'", f"./mine.py has 'mine' as POLICY; {DEFINE}", id="another constant"),
        pytest.param(MINE.replace('"mine"', '""'), f"./mine.py has a policy without a name; {DEFINE}", id="no name"),
        pytest.param(MINE.replace('"mine"', "3"), f"./mine.py has a policy without a name; {DEFINE}", id="a number"),
        pytest.param(
            MINE.replace('"mine"', '"binpack"'),
            "./mine.py calls its policy binpack, as muster.policies does; give it another name",
            id="a name of the package",
        ),
        pytest.param(
            MINE.replace("(frozen=True)", ""),
            f"./mine.py: policy mine: its arguments are no frozen dataclass; {DATACLASS}",
            id="arguments that can change",
        ),
        pytest.param(
            MINE.replace("int = 1", "int"),
            f"./mine.py: policy mine: its arguments have no default for weight; {DATACLASS}",
            id="arguments without a default",
        ),
    ],
)
def test_files_that_cannot_be_used(load, text, want):
    assert refusal(lambda: load(text)) == f"policies[0].file: {want}"


def test_a_file_that_is_no_text(load):
    said = refusal(lambda: load(b"\xff\xfe"))  # Python's own words differ between its versions
    assert said.startswith("policies[0].file: ./mine.py")
    assert said.endswith("; mend the file")


def test_two_files_with_one_name(load, tmp_path):
    (tmp_path / "again.py").write_text(MINE)
    assert refusal(lambda: load(MINE, "again.py")) == (
        "policies[1].file: again.py calls its policy mine, as ./mine.py does; give it another name"
    )


def test_a_file_that_is_not_there(load):
    assert refusal(lambda: load(MINE, "gone.py")) == "policies[1].file: gone.py does not exist; check the name"


@pytest.mark.parametrize(
    ("text", "arguments", "want"),
    [
        pytest.param(
            MINE,
            {"weight": 10},
            "mine cannot be built: ./mine.py, line 16: ValueError: too heavy; mend the policy",
            id="it raises",
        ),
        pytest.param(
            MINE.replace("return Hooks(", "return dict("),
            {},
            "mine of ./mine.py built an object; let build return Hooks(…)",
            id="it returns something else",
        ),
    ],
)
def test_a_build_that_goes_wrong(load, text, arguments, want):
    catalogue = load(text)
    use = PolicyUse(name="mine", arguments=arguments)
    assert refusal(lambda: build_tiers([Tier((use,))], catalogue)) == f"tiers[0].policies[0]: {want}"


@pytest.mark.parametrize("given", [{}, {"file": "./mine.py", "entryPoint": "mine"}], ids=["none", "two"])
def test_one_source_each(given, tmp_path):
    assert refusal(lambda: load_policies([Fields(given, "policies[0]")], tmp_path)) == (
        "policies[0]: names no source, or two; give file or entryPoint"
    )


# Other packages ------------------------------------------------------------------------------------------------------


class Point:
    """An entry point of an installed package."""

    value = "elsewhere.policies"

    def __init__(self, record: object) -> None:
        self.record = record

    def load(self) -> object:
        if isinstance(self.record, Exception):
            raise self.record
        return self.record


def named(name: str) -> Policy[binpack.Arguments]:
    return Policy(name=name, arguments=binpack.Arguments, build=binpack.build)


def from_point(monkeypatch: pytest.MonkeyPatch, *points: Point) -> Callable[[], Catalogue]:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: list(points))
    return lambda: load_policies([Fields({"entryPoint": "extra"}, "policies[0]")], Path())


def test_a_policy_of_another_package(monkeypatch):
    catalogue = from_point(monkeypatch, Point(named("extra")))()
    assert isinstance(build_tiers([tier("extra")], catalogue), Tiers)


GROUP = "an entry point extra in the group muster.policies; check what is installed"


@pytest.mark.parametrize(
    ("points", "want"),
    [
        pytest.param([], f"no installed package has {GROUP}", id="none"),
        pytest.param([Point(1), Point(2)], f"several installed packages have {GROUP}", id="several"),
        pytest.param(
            [Point(3)], "elsewhere.policies does not define POLICY as Policy; check what is installed", id="no policy"
        ),
        pytest.param(
            [Point(ImportError("no module x"))],
            "extra cannot be loaded: extra: ImportError: no module x; mend the package",
            id="it cannot be loaded",
        ),
        pytest.param(
            [Point(named("binpack"))],
            "elsewhere.policies is a second plugin by the name binpack; check what is installed",
            id="a name of the package",
        ),
    ],
)
def test_packages_that_cannot_be_used(monkeypatch, points, want):
    assert refusal(from_point(monkeypatch, *points)) == f"policies[0].entryPoint: {want}"
