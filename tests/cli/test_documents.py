"""The pages about commands and reasons keep up with the code."""

from __future__ import annotations

import re

import pytest
import typer

from muster.cli.main import app
from muster.model.reason import Code
from tests.support import ROOT

REASONS = (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8")
COMMANDS = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")


def test_every_reason_has_a_section_and_every_section_a_reason():
    sections = re.findall(r"^### (\w+)$", REASONS, re.MULTILINE)
    assert sorted(sections) == sorted(code.value for code in Code)


@pytest.mark.parametrize(
    "section", re.split(r"^### ", REASONS, flags=re.MULTILINE)[1:], ids=lambda text: text.split()[0]
)
def test_sections_say_something(section):
    name, _, text = section.partition("\n")
    assert len(text.split()) >= 5, f"{name} is not explained"


def test_every_command_and_option_is_documented():
    group = typer.main.get_command(app)
    for name, command in group.commands.items():
        assert f"`muster {name}`" in COMMANDS
        for option in command.params:
            for flag in option.opts:
                if flag not in ("--help", "--file"):
                    assert flag in COMMANDS, f"{flag} of muster {name} is not in docs/commands.md"
