"""What holds the project together: lock files, import contracts, and the helpers that the other tests lean on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support import ROOT, proof_count, shared

# Lock files ----------------------------------------------------------------------------------------------------------


def pins(name: str) -> dict[str, str]:
    """The packages of a lock file with everything said about each: version, markers, hashes."""
    text = (ROOT / name).read_text()
    assert "://" not in text, f"{name} holds an address"
    assert not re.search(r"^-", text, re.MULTILINE), f"{name} holds an option"
    entries = re.findall(r"^([a-z0-9][\w.-]*)==((?:.*\\\n)*.*)$", text, re.MULTILINE)
    return dict(entries)


def anywhere(pin: str) -> str:
    """A pin without its marker: what one Python alone needs for running, all may need for developing."""
    return re.sub(r" ;[^\\\n]*", " ", pin, count=1)


def test_lock_files_pin_by_hash_and_agree():
    runtime, node, everything = (pins(f"requirements{kind}.txt") for kind in ("", "-node", "-dev"))
    for name, pin in (runtime | node | everything).items():
        assert "--hash=sha256:" in pin, f"{name} is locked without a hash"
    assert runtime.keys() <= node.keys() <= everything.keys()
    differing = [name for name, pin in (runtime | node).items() if anywhere(everything.get(name, "")) != anywhere(pin)]
    assert not differing, f"locked differently for running and for developing: {differing}"


def test_lock_files_hold_what_the_project_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = {
        "requirements.txt": project["dependencies"],
        "requirements-node.txt": project["optional-dependencies"]["node"],
        "requirements-dev.txt": [one for extra in ("dev", "node") for one in project["optional-dependencies"][extra]],
    }
    assert len(project["dependencies"]) <= 12, "at most twelve libraries at run time, see docs/decisions"
    for name, wanted in asked.items():
        names = {re.split(r"[^\w.-]", one, maxsplit=1)[0].lower().replace("_", "-") for one in wanted}
        missing = sorted(names - pins(name).keys())
        assert not missing, f"{name} lacks {missing}: run make lock"


# Who may import whom -------------------------------------------------------------------------------------------------


def lint_imports(folder: Path) -> str:
    """What import-linter says about the package in a folder, under this project's contracts."""
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command as c; c()",
        "--no-cache",
        "--no-logo",
    ]
    command += ["--config", str(ROOT / "pyproject.toml")]
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout


def test_imports_keep_the_layers():
    said = lint_imports(ROOT)
    assert "0 broken" in said, said


@pytest.mark.parametrize(
    ("module", "text", "complaint"),
    [
        pytest.param("model/x.py", "", "0 broken", id="nothing planted"),
        pytest.param("engine/x.py", "import time", "muster.engine is not allowed to import time", id="a clock"),
        pytest.param("jobs/x.py", "import random", "muster.jobs is not allowed to import random", id="chance"),
        pytest.param("engine/x.py", "import muster.dialects", "muster.engine is not allowed", id="upwards"),
        pytest.param("dialects/a.py", "import muster.dialects.b", "muster.dialects.a is not allowed", id="sideways"),
        pytest.param("other/__init__.py", "", "- muster.other", id="a package of no layer"),
    ],
)
def test_contracts_catch_what_is_planted(tmp_path, module, text, complaint):
    packages = (
        "",
        "cli",
        "app",
        "apiserver",
        "controllers",
        "store",
        "dialects",
        "jobs",
        "policies",
        "vendors",
        "engine",
        "model",
    )
    files = {f"{name}/__init__.py": "" for name in packages}
    for name, content in (files | {"dialects/b.py": "", module: text}).items():
        path = tmp_path / "muster" / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    said = lint_imports(tmp_path)
    assert complaint in said, said


# Documents -----------------------------------------------------------------------------------------------------------


def test_links_between_documents_lead_somewhere():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8"))]
    assert links
    lost = [
        f"{page.relative_to(ROOT)}: {link}"
        for page, link in links
        if "://" not in link and not (page.parent / link).exists()
    ]
    assert not lost, lost


# The helpers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prove", "full", "want"),
    [
        pytest.param("", 3000, 60, id="a fraction"),
        pytest.param("", 200, 20, id="never too few"),
        pytest.param("", 7, 7, id="never more than there are"),
        pytest.param("full", 3000, 3000, id="all"),
    ],
)
def test_proof_count(monkeypatch, prove, full, want):
    monkeypatch.setenv("MUSTER_PROVE", prove)
    assert proof_count(full) == want


def test_a_misspelt_proof_is_refused(monkeypatch):
    monkeypatch.setenv("MUSTER_PROVE", "ful")
    with pytest.raises(pytest.UsageError, match="say 'full'"):
        proof_count(10)


def test_shared_finds_or_skips(monkeypatch, tmp_path):
    (tmp_path / "cases").mkdir()
    monkeypatch.setenv("MUSTER_SHARED", str(tmp_path))
    assert shared("cases") == tmp_path / "cases"
    with pytest.raises(pytest.skip.Exception, match="absent"):
        shared("absent.json")
