"""How commands write: tables and sentences for people, JSON and YAML for programs, remarks to standard error.

What manifests hold is shown with control characters escaped, so that no file can write to somebody's terminal.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any, TextIO

import typer

WIDTH = 100
GAP = "  "


class Form(StrEnum):
    """How a command writes what it found."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


FormOption = Annotated[Form, typer.Option("-o", "--format", help="How to write it.")]


class Exit:
    """What a command's exit status says."""

    REFUSED = 1
    USAGE = 2


_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


def plain(text: str) -> str:
    """The text on one line and without anything that a terminal would act on."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c == "\n" else f"\\x{ord(c):02x}" for c in text)


class Page:
    """Lines of text for a person, as wide as the terminal but at most `WIDTH`, in colours only where there is one."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._has_colours = self._is_terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self.width = min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns) if self._is_terminal else WIDTH

    def styled(self, text: str, style: str) -> str:
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if self._has_colours and style else text

    def line(self, text: str = "", style: str = "") -> None:
        print(self.styled(plain(text), style), file=self._stream)

    def sentence(self, text: str, *, indent: int = 0, label: str = "", style: str = "") -> None:
        """A sentence, wrapped; a label stands before its first line, and the other lines begin below its text."""
        start = " " * indent + label
        wrapped = textwrap.wrap(
            plain(text),
            width=max(40, self.width),
            initial_indent=start,
            subsequent_indent=" " * len(start),
            break_on_hyphens=False,
            break_long_words=False,
        )
        for line in wrapped or [start.rstrip()]:
            print(self.styled(line, style), file=self._stream)

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]], *, indent: int = 0) -> None:
        """Columns as wide as their widest cell."""
        cells = [[plain(cell) for cell in row] for row in rows]
        widths = [max(len(row[at]) for row in ([*header], *cells)) for at in range(len(header))]
        for number, row in enumerate([[*header], *cells]):
            text = GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            print(" " * indent + self.styled(text, "" if number else "bold"), file=self._stream)


def write_object(value: Any, form: Form) -> None:
    """A value for a program."""
    if form is Form.JSON:
        import json

        print(json.dumps(value, indent=2, ensure_ascii=False))
        return
    print(yaml_text(value), end="")


def yaml_text(*documents: Any) -> str:
    """Documents as YAML, fields in the order in which they are given."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes what occurs twice twice: nobody wants anchors in a manifest."""

        def ignore_aliases(self, _data: object) -> bool:
            return True

    return yaml.dump_all(
        documents,
        Dumper=Dumper,
        explicit_start=len(documents) > 1,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=WIDTH,
    )


def complain(*remarks: object, label: str = "") -> None:
    """Say on standard error what is wrong, one line each."""
    for remark in remarks:
        print(f"{label}{plain(str(remark))}", file=sys.stderr)
