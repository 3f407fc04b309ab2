"""What people read: width, wrapping, columns, colours, and nothing that a terminal would act on."""

from __future__ import annotations

import io

import pytest
import yaml

from muster.cli.inputs import each_with_option
from muster.cli.output import Page, plain, yaml_text


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("plain", "plain"),
        ("grüße 高", "grüße 高"),
        ("two\nlines", "two lines"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\u202eb", "a\\x202eb"),
    ],
)
def test_plain(text, want):
    assert plain(text) == want


def test_sentences_wrap_below_their_label():
    stream = io.StringIO()
    Page(stream).sentence("word " * 40, indent=2, label="why  ")
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("  why  word")
    assert all(line.startswith(" " * 7 + "word") for line in lines[1:])
    assert max(map(len, lines)) <= 100


def test_names_are_never_broken():
    stream = io.StringIO()
    Page(stream).sentence(f"held by {'x' * 150}, {'y' * 20}")
    assert "x" * 150 in stream.getvalue()


def test_columns_line_up():
    stream = io.StringIO()
    Page(stream).table(("NAME", "N"), [("a", "1"), ("longer", "2")], indent=2)
    assert stream.getvalue() == "  NAME    N\n  a       1\n  longer  2\n"


@pytest.mark.parametrize(
    ("stream", "environment", "want"),
    [
        pytest.param(Terminal(), {}, True, id="a terminal"),
        pytest.param(io.StringIO(), {}, False, id="a file"),
        pytest.param(Terminal(), {"NO_COLOR": "1"}, False, id="colours not wanted"),
        pytest.param(Terminal(), {"TERM": "dumb"}, False, id="a terminal without colours"),
    ],
)
def test_colours(monkeypatch, stream, environment, want):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    Page(stream).line("text", "red")
    assert ("\x1b[31m" in stream.getvalue()) is want


def test_a_narrow_terminal_is_filled_and_not_more(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    stream = Terminal()
    Page(stream).sentence("word " * 40)
    assert max(map(len, stream.getvalue().splitlines())) <= 60


def test_yaml_repeats_instead_of_pointing():
    part = {"a": [1]}
    text = yaml_text({"x": part, "y": part}, {"z": part})
    assert "&" not in text and "*" not in text
    assert list(yaml.safe_load_all(text)) == [{"x": part, "y": part}, {"z": part}]


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        pytest.param(["-f", "a"], ["-f", "a"], id="one"),
        pytest.param(["-f", "a", "b", "-"], ["-f", "a", "-f", "b", "-f", "-"], id="several"),
        pytest.param(["-f", "a", "-o", "json", "b"], ["-f", "a", "-o", "json", "b"], id="the next option ends it"),
        pytest.param(["--file", "a", "b", "-f", "c"], ["--file", "a", "-f", "b", "-f", "c"], id="again"),
        pytest.param(["a", "-f"], ["a", "-f"], id="nothing follows"),
    ],
)
def test_f_before_each_file(arguments, want):
    assert list(each_with_option(arguments)) == want
