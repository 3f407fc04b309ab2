"""Policies by name: those of the package, those of other packages, and users' own files; built tier by tier.

Called when a configuration speaks of policies, and by whoever places pods. Whatever is wrong, be it in the
configuration or in a user's Python, is an `InvalidObject` that names the field, the file and the line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from muster.app.manifests import read_file
from muster.app.plugins import PluginError, discover, known_hint
from muster.app.policy_arguments import arguments_problem, read_arguments
from muster.engine.policy import AnyPolicy, Hooks, Policy
from muster.engine.profile import PolicyUse, Tier
from muster.engine.tiers import Tiers
from muster.model.errors import InvalidObject, InvalidObjects
from muster.model.fields import Fields, shown

FOLDER, CONSTANT = "policies", "POLICY"
EXTENDER = "extender"  # leaves decisions to another server
HOW_TO_DEFINE = "write POLICY = Policy(name=…, arguments=…, build=…)"


@dataclass(slots=True)
class Catalogue:
    """The policies that can be named, and where each that is not the package's own comes from."""

    policies: dict[str, AnyPolicy] = field(default_factory=lambda: discover(FOLDER, CONSTANT, Policy))
    origins: dict[str, str] = field(default_factory=dict)

    def origin(self, name: str) -> str:
        """The file, entry point or module that a policy comes from."""
        return self.origins.get(name, f"muster.{FOLDER}")

    def add(self, policy: object, origin: str, path: str) -> None:
        """Take in one policy more."""
        if not isinstance(policy, Policy):
            problem = "does not define" if policy is None else f"has {shown(policy)} as"
            raise InvalidObject(path, f"{origin} {problem} {CONSTANT}", HOW_TO_DEFINE)
        name: object = policy.name  # whatever a user's file gives
        if not isinstance(name, str) or not name:
            raise InvalidObject(path, f"{origin} has a policy without a name", HOW_TO_DEFINE)
        if policy.name in self.policies:
            problem = f"{origin} calls its policy {policy.name}, as {self.origin(policy.name)} does"
            raise InvalidObject(path, problem, "give it another name")
        if problem := arguments_problem(policy):
            hint = "give a frozen dataclass with a default for every field"
            raise InvalidObject(path, f"{origin}: policy {policy.name}: {problem}", hint)
        self.policies[policy.name] = policy
        self.origins[policy.name] = origin


def load_policies(sources: Iterable[Fields], folder: Path) -> Catalogue:
    """The package's policies and those of a configuration's `policies`; files are relative to the folder."""
    catalogue = Catalogue()
    for source in sources:
        file, point = source.text("file"), source.text("entryPoint")
        if bool(file) == bool(point):
            raise InvalidObject(source.path, "names no source, or two", "give file or entryPoint")
        if file:
            catalogue.add(_policy_in(folder / file, file, source.at("file")), file, source.at("file"))
        else:
            _add_entry_point(catalogue, point, source.at("entryPoint"))
    return catalogue


def without_extender(tiers: Iterable[Tier]) -> tuple[Tier, ...]:
    """Tiers for whoever may ask no other server."""
    return tuple(Tier(tuple(use for use in tier.policies if use.name != EXTENDER)) for tier in tiers)


def build_tiers(tiers: Sequence[Tier], catalogue: Catalogue | None = None, path: str = "tiers") -> Tiers:
    """Policies by name made into policies at work; raises `InvalidObjects` with all that is wrong."""
    known = catalogue or Catalogue()
    problems: list[InvalidObject] = []
    seen: set[str] = set()
    built: list[list[Hooks]] = []
    for index, one in enumerate(tiers):
        built.append([])
        for place, use in enumerate(one.policies):
            where = f"{path}[{index}].policies[{place}]"
            try:
                if use.name in seen:
                    raise InvalidObject(f"{where}.name", f"is {use.name} again", "name each policy once")
                built[-1].append(_hooks(use, known, where))
            except InvalidObjects as several:
                problems.extend(several.problems)
            except InvalidObject as problem:
                problems.append(problem)
            seen.add(use.name)
    if problems:
        raise InvalidObjects(tuple(problems))
    return Tiers(built)


def _hooks(use: PolicyUse, catalogue: Catalogue, where: str) -> Hooks:
    policy = catalogue.policies.get(use.name)
    if policy is None:
        hint = known_hint(use.name, catalogue.policies)
        raise InvalidObject(f"{where}.name", f"is {shown(use.name)}, which is no policy", hint)
    arguments = read_arguments(policy, Fields.of(use.arguments, f"{where}.arguments"))
    origin = catalogue.origin(use.name)
    try:
        hooks = policy.build(arguments)
    except (Exception, SystemExit) as problem:
        raise InvalidObject(where, f"{use.name} cannot be built: {_told(problem, origin)}", "mend the policy") from None
    if not isinstance(hooks, Hooks):
        raise InvalidObject(where, f"{use.name} of {origin} built {shown(hooks)}", "let build return Hooks(…)")
    return hooks.without(use.off)


# Where policies come from --------------------------------------------------------------------------------------------


def _add_entry_point(catalogue: Catalogue, name: str, path: str) -> None:
    try:
        found = discover(FOLDER, CONSTANT, Policy, (name,))
    except PluginError as problem:
        raise InvalidObject(path, str(problem), "check what is installed") from None
    except (Exception, SystemExit) as problem:
        raise InvalidObject(path, f"{name} cannot be loaded: {_told(problem, name)}", "mend the package") from None
    # What discovery added to the package's own is the one policy that was named.
    added = [policy for policy in found.values() if catalogue.policies.get(policy.name) is not policy]
    for policy in added:
        catalogue.add(policy, f"entry point {name}", path)


def _policy_in(file: Path, shown_as: str, path: str) -> Any:
    """The constant of a user's file, or nothing; the file is run."""
    try:
        text = read_file(file)
    except InvalidObject as problem:
        raise InvalidObject(path, f"{shown_as} {problem.problem}", problem.hint) from None
    # Registered under a name of its own: dataclasses look up the module that they are made in.
    module = ModuleType(f"muster.{FOLDER}@{file.resolve().as_posix()}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, shown_as, "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as problem:
        del sys.modules[module.__name__]
        raise InvalidObject(path, _told(problem, shown_as), "mend the file") from None
    return getattr(module, CONSTANT, None)


def _told(problem: BaseException, file: str) -> str:
    """What went wrong in a file of Python, and in which line of it."""
    line = problem.lineno if isinstance(problem, SyntaxError) else None
    trace = problem.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    text = problem.msg if isinstance(problem, SyntaxError) else str(problem)
    what = f"{type(problem).__name__}: {text}" if text else type(problem).__name__
    return f"{file}, line {line}: {what}" if line is not None else f"{file}: {what}"
