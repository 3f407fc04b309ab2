"""Writes the table of job kinds on the page about jobs, from their constants: `python -m tools.job_kinds`."""

from __future__ import annotations

from pathlib import Path

from muster.app.plugins import job_kinds
from muster.engine.contracts import Carrier, Integration, JobKind

PAGE = Path(__file__).parent.parent / "docs" / "jobs.md"
BEGIN, END = "<!-- job kinds: written by tools.job_kinds -->\n", "<!-- end of job kinds -->\n"
HEAD = "| kind | API | in the configuration | what waits | when it is evicted |\n|---|---|---|---|---|\n"


def table() -> str:
    """The kinds of job in the order of their names, Kubernetes' own first."""
    kinds = sorted(job_kinds().values(), key=lambda kind: ("." in kind.gvk.group, kind.gvk.group, kind.gvk.kind))
    return HEAD + "".join(f"{_row(kind)}\n" for kind in kinds)


def page() -> str:
    """The page with the table as it should be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


def _row(kind: JobKind) -> str:
    if isinstance(kind, Carrier):
        waits, evicted = f"each {kind.makes} that it makes", f"as a {'Job' if kind.makes == 'Job' else 'pod'}"
    else:
        assert isinstance(kind, Integration), "a kind of job waits itself, or what it makes does"
        waits, evicted = "it", "is suspended" if kind.suspend is not None else "is deleted"
    return f"| {kind.gvk.kind} | `{kind.gvk.api_version}` | `{kind.name}` | {waits} | {evicted} |"


if __name__ == "__main__":
    PAGE.write_text(page())
