"""The house rules that no linter knows: sizes, purity, errors, dialect words, and what must not be in the repository.

Each rule is a row of `RULES` with an example it refuses and one it lets pass. A finding that cannot be mended at once
goes into `RATCHET` with its present size; entries may only shrink, and must go when they are no longer needed.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

from tests.support import ROOT

CODE = ("muster/", "tests/", "bench/", "tools/")
PURE = tuple(f"muster/{name}/" for name in ("model", "engine", "policies", "dialects", "jobs", "vendors"))
FILE_LINES, FUNCTION_LINES, PARAMETERS = 500, 60, 5
NOT_WALKED = {"__pycache__", "build", "dist", "htmlcov", "node_modules"}

# "rule path subject" -> the size allowed for now, e.g. "function-size muster/cli/plan.py plan": 64.
RATCHET: dict[str, int] = {
    "parameters muster/cli/agent.py agent": 8,
    "parameters muster/cli/extender.py extender": 10,
    "parameters muster/cli/manage.py manage": 9,
    "parameters muster/cli/plan.py plan": 6,
    "parameters muster/cli/up.py up": 9,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One breach of a rule: where it is, what it is about and how big it is."""

    line: int
    message: str
    subject: str = ""
    size: int = 1


@dataclass(frozen=True)
class Source:
    """A file of the repository, by its path from the root."""

    path: str
    text: str

    @cached_property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(ast.parse(self.text, self.path)))

    def of(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        """The nodes of these kinds, anywhere in the file."""
        return (node for node in self.nodes if isinstance(node, kinds))


Find = Callable[[Source], Iterator[Finding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule, the files it is for, and an example of either side."""

    name: str
    find: Find
    folders: tuple[str, ...]  # empty: every text file of the repository
    refuses: str
    passes: str

    def is_for(self, path: str) -> bool:
        return not self.folders or (path.startswith(self.folders) and path.endswith(".py"))


# Sizes ---------------------------------------------------------------------------------------------------------------


def long_files(source: Source) -> Iterator[Finding]:
    if (size := len(source.lines)) > FILE_LINES:
        yield Finding(FILE_LINES + 1, f"the file has {size} lines, {FILE_LINES} are allowed", size=size)


def long_functions(source: Source) -> Iterator[Finding]:
    for node in source.of(ast.FunctionDef, ast.AsyncFunctionDef):
        if (size := node.end_lineno - node.lineno + 1) > FUNCTION_LINES:
            message = f"{node.name} has {size} lines, {FUNCTION_LINES} are allowed"
            yield Finding(node.lineno, message, node.name, size)


def wide_functions(source: Source) -> Iterator[Finding]:
    for node in source.of(ast.FunctionDef, ast.AsyncFunctionDef):
        given = node.args
        named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
        size = sum(one is not None and one.arg not in ("self", "cls") for one in named)
        if size > PARAMETERS:
            message = f"{node.name} takes {size} parameters, {PARAMETERS} are allowed"
            yield Finding(node.lineno, message, node.name, size)


def undocumented_modules(source: Source) -> Iterator[Finding]:
    if not ast.get_docstring(source.nodes[0]):
        yield Finding(1, "the module has no docstring that says what it is and who calls it")


# Purity --------------------------------------------------------------------------------------------------------------


def last_name(node: ast.AST) -> str:
    """The last part of a dotted name, or nothing."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def clock_reads(source: Source) -> Iterator[Finding]:
    imported = [one for node in source.of(ast.Import, ast.ImportFrom) for one in node.names]
    clocks = {"datetime", "date"} | {one.asname for one in imported if one.name in ("datetime", "date")}
    for node in source.of(ast.Attribute):
        is_now = node.attr == "now" and last_name(node.value) in clocks
        if is_now or node.attr in ("utcnow", "today"):
            yield Finding(node.lineno, f"{ast.unparse(node)} reads the clock; take `now` as an argument")


def calls_of(name: str, why: str, unless_in: str = "") -> Find:
    """Finds calls of a builtin, outside of the one method that is made of them."""

    def find(source: Source) -> Iterator[Finding]:
        methods = [node for node in source.of(ast.FunctionDef) if node.name == unless_in]
        excused = {inner for node in methods for inner in ast.walk(node)}
        for node in source.of(ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == name and node not in excused:
                yield Finding(node.lineno, f"{name}() {why}")

    return find


def global_names(source: Source) -> Iterator[Finding]:
    for node in source.of(ast.Global):
        yield Finding(node.lineno, f"global {', '.join(node.names)}: keep state in the ledger or pass it in")


# Errors --------------------------------------------------------------------------------------------------------------


def bare_excepts(source: Source) -> Iterator[Finding]:
    for node in source.of(ast.ExceptHandler):
        if node.type is None:
            yield Finding(node.lineno, "bare except: name what may go wrong")


def is_any_exception(node: ast.AST | None) -> bool:
    return node is not None and any(last_name(one) in ("Exception", "BaseException") for one in ast.walk(node))


def does_nothing(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass | ast.Continue) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def swallowed_errors(source: Source) -> Iterator[Finding]:
    for node in source.of(ast.ExceptHandler):
        if is_any_exception(node.type) and all(does_nothing(one) for one in node.body):
            yield Finding(node.lineno, "every error is caught and dropped: name the one that may be ignored")
    for node in source.of(ast.Call):
        if last_name(node.func) == "suppress" and any(is_any_exception(one) for one in node.args):
            yield Finding(node.lineno, "every error is suppressed: name the one that may be ignored")


# Dialects ------------------------------------------------------------------------------------------------------------

DIALECT_WORD = re.compile("kueue|volcano|yunikorn|hami", re.IGNORECASE)


def names_a_dialect(node: ast.AST) -> bool:
    """Whether an expression holds a dialect's word, in a name or a text, or the dialect as such."""
    for part in ast.walk(node):
        word = part.value if isinstance(part, ast.Constant) else last_name(part)
        if isinstance(word, str) and (DIALECT_WORD.search(word) or word == "dialect"):
            return True
    return False


def dialect_branches(source: Source) -> Iterator[Finding]:
    """Comparisons, matches and conditions that ask which system the objects came from."""
    asked = [
        *source.of(ast.Compare, ast.MatchValue),
        *(node.test for node in source.of(ast.If, ast.IfExp, ast.While)),
        *(node.subject for node in source.of(ast.Match)),
        *(node for node in source.of(ast.Call) if last_name(node.func) in ("startswith", "endswith")),
    ]
    for line in sorted({node.lineno for node in asked if names_a_dialect(node)}):
        yield Finding(line, "the engine asks for a dialect: fix the difference when reading, or name it in the profile")


# Texts ---------------------------------------------------------------------------------------------------------------


def texts(pattern: str, why: str) -> Find:
    """Finds a pattern in the lines of a file."""
    wanted = re.compile(pattern)

    def find(source: Source) -> Iterator[Finding]:
        for number, line in enumerate(source.lines, start=1):
            if found := wanted.search(line):
                yield Finding(number, f"{found[0].strip()!r} {why}")

    return find


unfinished = texts(r"\b(?:TO[D]O|FIX[M]E|XX[X])\b", "marks unfinished work: finish it, or write it in an issue")
machine_paths = texts(
    r"(?<![\w.~*/}$-])/(?:work|home|root|tmp|Users)/",
    "is a path of one machine: make it relative, or ask the system",
)
package_hosts = texts(
    r"(?<!\S)--(?:extra-)?index-url|(?<!\S)--find-links|\bpypi\.org|pythonhosted\.org|registry\.npmjs\.org"
    r"|proxy\.golang\.org|deb\.debian\.org|https?://[^\s/@]+@",
    "names where packages come from: that is for the user's own settings",
)

RULES = (
    Rule(name="file-size", find=long_files, folders=CODE, refuses="\n" * 501, passes="\n" * 500),
    Rule(
        name="function-size",
        find=long_functions,
        folders=CODE,
        refuses="def f():\n" + "    pass\n" * 60,
        passes="@table(\n" + "    1,\n" * 80 + ")\ndef f():\n" + "    pass\n" * 59,
    ),
    Rule(
        name="parameters",
        find=wide_functions,
        folders=CODE,
        refuses="def f(a, b, *c, d, e, **f): ...",
        passes="class C:\n    def f(self, a, b, *, c, d, e): ...",
    ),
    Rule(name="docstring", find=undocumented_modules, folders=CODE, refuses="x = 1", passes='"""A module."""'),
    Rule(
        name="clock",
        find=clock_reads,
        folders=PURE,
        refuses="from datetime import datetime as d\nstart = d.now()",
        passes="def f(snapshot): return snapshot.now",
    ),
    Rule(
        name="hash",
        find=calls_of("hash", "differs from run to run; use a digest or the name itself", unless_in="__hash__"),
        folders=PURE,
        refuses="key = hash(name)",
        passes="class C:\n    def __hash__(self): return hash(self.name)\nkey = digest.hash(name)",
    ),
    Rule(
        name="print",
        find=calls_of("print", "below the purity line; return a Reason"),
        folders=PURE,
        refuses="print(1)",
        passes="pretty.print(1)",
    ),
    Rule(
        name="global",
        find=global_names,
        folders=PURE,
        refuses="def f():\n    global x\n    x = 1",
        passes="def f():\n    x = 0\n    def g():\n        nonlocal x\n        x = 1",
    ),
    Rule(
        name="bare-except",
        find=bare_excepts,
        folders=CODE,
        refuses="try: f()\nexcept: g()",
        passes="try: f()\nexcept ValueError: g()",
    ),
    Rule(
        name="swallowed",
        find=swallowed_errors,
        folders=CODE,
        refuses="try: f()\nexcept (OSError, Exception): pass",
        passes="try: f()\nexcept Exception: g()",
    ),
    Rule(
        name="dialect",
        find=dialect_branches,
        folders=("muster/engine/",),
        refuses="if queue.origin == 'kueue': f()",
        passes="f('kueue')  # Kueue: why not == 'kueue'",
    ),
    Rule(name="unfinished", find=unfinished, folders=(), refuses="# TO" + "DO: later", passes="to do: todos"),
    Rule(
        name="machine-path",
        find=machine_paths,
        folders=(),
        refuses="see /" + "home/someone",
        passes="docs/work/x and https://example.com/home/x",
    ),
    Rule(
        name="package-host",
        find=package_hosts,
        folders=(),
        refuses="--index-" + "url https://example.com",
        passes="uv pip compile --no-emit-index-url",
    ),
)


# The repository ------------------------------------------------------------------------------------------------------


def listed_by_git() -> list[str]:
    """What git knows or would take in; nothing outside a checkout."""
    if not (ROOT / ".git").exists():
        return []
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return [path for path in answer.stdout.split("\0") if (ROOT / path).is_file()]


def walked() -> Iterator[str]:
    """Every file below the root that is neither hidden nor made by a tool, for a tree that is no checkout."""
    for folder, inner, names in os.walk(ROOT):
        inner[:] = [name for name in inner if not name.startswith(".") and name not in NOT_WALKED]
        yield from ((Path(folder) / name).relative_to(ROOT).as_posix() for name in names)


@cache
def sources() -> tuple[Source, ...]:
    """The text files of the repository; what is not text has no lines to judge."""
    found = []
    for path in sorted(listed_by_git() or walked()):
        raw = (ROOT / path).read_bytes()
        if b"\0" not in raw:
            found.append(Source(path, raw.decode(errors="replace")))
    return tuple(found)


def findings(rule: Rule) -> Iterator[tuple[str, Finding]]:
    """All breaches of a rule, each with its path."""
    for source in sources():
        if rule.is_for(source.path):
            yield from ((source.path, finding) for finding in rule.find(source))


def ratchet_key(rule: Rule, path: str, finding: Finding) -> str:
    return " ".join(filter(None, (rule.name, path, finding.subject)))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_repository_keeps_the_rule(rule):
    broken = [
        f"{path}:{finding.line}: {finding.message}"
        for path, finding in findings(rule)
        if finding.size > RATCHET.get(ratchet_key(rule, path, finding), 0)
    ]
    assert not broken, "\n".join([f"{rule.name}:", *broken])


def test_ratchet_only_tightens():
    sizes: dict[str, int] = {}
    for rule in RULES:
        for path, finding in findings(rule):
            key = ratchet_key(rule, path, finding)
            sizes[key] = max(sizes.get(key, 0), finding.size)
    slack = [
        f"{key}: allows {size}, now {sizes.get(key, 0)}" for key, size in RATCHET.items() if sizes.get(key, 0) < size
    ]
    assert not slack, "\n".join(["lower or remove in RATCHET:", *slack])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rule_tells_good_from_bad(rule):
    assert list(rule.find(Source("bad.py", rule.refuses))), "the example it should refuse passes"
    assert not list(rule.find(Source("good.py", rule.passes))), "the example it should let pass is refused"


@pytest.mark.parametrize(
    "text",
    [
        "ok = name in ('volcano', 'x')",
        "if profile.is_yunikorn: f()",
        "match dialect:\n    case _: f()",
        "match x:\n    case 'hami': f()",
        "ok = name.startswith('kueue.x-k8s.io/')",
    ],
)
def test_dialects_are_found_in_every_kind_of_question(text):
    assert list(dialect_branches(Source("engine.py", text)))
