"""`muster lint`: contradictions between the objects of some manifests, and with --fix the set as it was meant."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli.inputs import Files, gather
from muster.cli.output import Exit, Form, FormOption, Page, complain, write_object, yaml_text

if TYPE_CHECKING:
    from muster.dialects.kueue.lint import Finding

Sourced = tuple[str, dict[Any, Any]]
STYLES = {"error": "red", "warning": "yellow", "note": "dim"}
NAME_OF_STDIN = "stdin.yaml"
FOLDER_HELP = "Where --fix writes; else it writes to standard output."
Folder = Annotated[str, typer.Option("--output", metavar="DIR", help=FOLDER_HELP, show_default=False)]


def lint(
    files: Files,
    fix: Annotated[bool, typer.Option("--fix", help="Write the set as it was meant.")] = False,
    folder: Folder = "",
    force: Annotated[bool, typer.Option("--force", help="Let --fix write over files that are there.")] = False,
    form: FormOption = Form.TABLE,
) -> None:
    """Find what contradicts itself in a set of manifests: in which file and object, and what to write instead."""
    if (folder or force) and not fix:
        complain("--output and --force are for --fix: give that too")
        raise typer.Exit(Exit.USAGE)
    documents, has_failed = gather(files)
    objects: list[Sourced] = [(document.source, document.value) for document in documents]
    findings = findings_of(objects)
    left: list[Finding] | None = None
    if fix:
        from muster.dialects.kueue.lint_fix import fixed

        repaired = fixed(objects)
        left = findings_of(repaired)
        _write_set(repaired, folder, has_force=force)
    to_people = Page(sys.stderr if fix and not folder else sys.stdout)
    if form is Form.TABLE or (fix and not folder):
        _write_page(findings, left, to_people)
    else:
        write_object(_findings_object(findings, left), form)
    remaining = findings if left is None else left
    if has_failed or any(one.severity.value == "error" for one in remaining):
        raise typer.Exit(Exit.REFUSED)


def findings_of(objects: Sequence[Sourced]) -> list[Finding]:
    """What contradicts itself, and what would be refused by itself; the same field is named once."""
    from muster.app.config import Configuration
    from muster.app.intake import take_in
    from muster.dialects.kueue import lint as rules
    from muster.model.documents import Document

    found = rules.lint(objects)
    named = {(one.source, one.reference, one.path) for one in found}
    intake = take_in([Document(value, source, 0) for source, value in objects], Configuration(), 0.0)
    invalid = [
        rules.Finding(
            code="Invalid",
            source=one.source,
            reference=one.object,
            path=one.path,
            problem=one.problem,
            what_to_write=one.hint,
            severity=rules.Severity.ERROR,
        )
        for one in intake.refused
        if (one.source, one.object, one.path) not in named
    ]
    places = {source: number for number, (source, _) in reversed(list(enumerate(objects)))}
    return sorted([*invalid, *found], key=lambda one: places.get(one.source, len(places)))


# Findings ---------------------------------------------------------------------------------------------------------


def _write_page(findings: list[Finding], left: list[Finding] | None, page: Page) -> None:
    for number, one in enumerate(findings):
        if number == 0 or one.source != findings[number - 1].source:
            page.line(one.source, "bold")
        severity = one.severity.value
        title = f"{one.reference}: {one.path} ({one.code})"
        page.sentence(title, indent=2, label=f"{severity}: ", style=STYLES[severity])
        page.sentence(one.problem, indent=4)
        if one.what_to_write:
            page.sentence(one.what_to_write, indent=4, label="write: ")
    counts = {severity: sum(one.severity.value == severity for one in findings) for severity in STYLES}
    said = ", ".join(f"{count} of severity {severity}" for severity, count in counts.items() if count)
    page.line(f"{len(findings)} findings" + (f": {said}." if said else "."), "bold")
    if left is not None:
        page.line(
            f"{len(left)} of them are left in the set as written." if left else "None is left in the set as written."
        )
        for one in left:
            page.sentence(f"{one.reference}: {one.path}: {one.problem}", indent=2, label="left: ")


def _findings_object(findings: list[Finding], left: list[Finding] | None) -> dict[str, Any]:
    result: dict[str, Any] = {"findings": [_finding_object(one) for one in findings]}
    if left is not None:
        result["left"] = [_finding_object(one) for one in left]
    return result


def _finding_object(finding: Finding) -> dict[str, Any]:
    return {
        "severity": finding.severity.value,
        "code": finding.code,
        "source": finding.source,
        "object": finding.reference,
        "path": finding.path,
        "problem": finding.problem,
        "whatToWrite": finding.what_to_write,
    }


# The repaired set -------------------------------------------------------------------------------------------------


def _write_set(objects: list[Sourced], folder: str, *, has_force: bool) -> None:
    """The repaired objects, file by file into a folder, or all to standard output."""
    by_source: dict[str, list[dict[Any, Any]]] = {}
    for source, value in objects:
        by_source.setdefault(source, []).append(value)
    if not folder:
        print(yaml_text(*(value for values in by_source.values() for value in values)), end="")
        return
    targets = {source: Path(folder) / name for source, name in _names(list(by_source)).items()}
    taken = [str(target) for target in targets.values() if os.path.lexists(target)]
    if taken and not has_force:
        complain(*(f"{name}: is there already; give --force to write over it" for name in taken))
        raise typer.Exit(Exit.USAGE)
    for source, target in targets.items():
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_text_of(by_source[source], target.suffix), encoding="utf-8")
        except OSError as problem:
            complain(f"{target}: cannot be written: {problem.strerror}")
            raise typer.Exit(Exit.USAGE) from None


def _names(sources: list[str]) -> dict[str, str]:
    """The path of each file below the folder that all of them are in."""
    paths = {source: Path(os.path.abspath(source)) for source in sources if source != "standard input"}
    if not paths:
        return dict.fromkeys(sources, NAME_OF_STDIN)
    common = Path(os.path.commonpath([path.parent for path in paths.values()]))
    names = {source: path.relative_to(common).as_posix() for source, path in paths.items()}
    return {source: names.get(source, NAME_OF_STDIN) for source in sources}


def _text_of(values: list[dict[Any, Any]], suffix: str) -> str:
    if suffix != ".json":
        return yaml_text(*values)
    single = values[0] if len(values) == 1 else {"apiVersion": "v1", "kind": "List", "items": values}
    return json.dumps(single, indent=2, ensure_ascii=False) + "\n"
