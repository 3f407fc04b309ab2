"""Transcripts of shell sessions: read from files, run against a server, and compared line by line.

    # Words for the reader.
    $ kubectl get pod web
    NAME  READY  STATUS  RESTARTS  AGE
    web  0/1  Pending  0  {age}
    $ kubectl get pod other
    Error from server (NotFound): pods "other" not found
    [exit 1]

A command goes on in lines that start with `> `. `$ & COMMAND` starts one that goes on beside the others and waits for
its first line; `$ stop` waits for as many lines of it as are expected and ends it. In the output `{age}` and the other
names of `MASKS` stand for what differs from run to run, `{namespace}` for the namespace of the run, and a line `...`
for any number of lines. Runs of blanks and empty lines do not count. Where Muster differs from Kubernetes on purpose,
a line `=== muster: WHY` comes before what Muster says.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.kubernetes.build import NoControlPlane, older_kubectl, program

VERSIONS = ("1.36", "1.32")  # of kubectl
FOLDER = Path(__file__).resolve().parent / "transcripts"
MANIFESTS = Path(__file__).resolve().parent / "manifests"
COMMAND_S = 60.0
LINES_S = 20.0
POLL_S = 0.02

MASKS = {
    "age": r"(?:\d+[ydhms])+",
    "address": r"[0-9a-f.:]+",
    "any": r".*",
    "from": r"(?: from \S+ namespace)?",  # kubectl says this from 1.34 on
    "number": r"\d+",
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z",
    "uid": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "word": r"\S+",
}
_DIFFERS = "=== muster: "
_LOG = re.compile(r"[IWE]\d{4} \d\d:\d\d:\d\d\.\d+ ")  # kubectl about its connection, where a wait runs out of time


@dataclass(frozen=True, slots=True)
class Step:
    """One command, what Kubernetes answers, and what Muster answers where that differs."""

    line: int
    command: str
    expected: list[str]
    by_muster: list[str] | None = None


def steps(text: str) -> Iterator[Step]:
    """The commands of a transcript with their expected output."""
    number, command, expected = 0, "", []
    for index, line in enumerate([*text.splitlines(), "$ "], start=1):
        if line.startswith("> "):
            command += "\n" + line.removeprefix("> ")
        elif line.startswith("$ "):
            if command:
                yield _step(number, command, expected)
            number, command, expected = index, line.removeprefix("$ "), []
        elif line.strip() and not line.startswith("# "):
            expected.append(line)


def _step(number: int, command: str, lines: list[str]) -> Step:
    differs = next((index for index, line in enumerate(lines) if line.startswith(_DIFFERS)), None)
    if differs is None:
        return Step(number, command, lines)
    assert lines[differs].removeprefix(_DIFFERS), f"line {number}: a difference needs a reason"
    return Step(number, command, lines[:differs], lines[differs + 1 :])


def pattern_of(line: str) -> re.Pattern[str]:
    """What one expected line matches."""
    parts = re.split(r"\{(\w+)\}", " ".join(line.split()))
    texts = [re.escape(part) if index % 2 == 0 else _mask(part) for index, part in enumerate(parts)]
    return re.compile("".join(texts))


def _mask(name: str) -> str:
    return MASKS.get(name) or re.escape(f"{{{name}}}")


def first_difference(expected: Sequence[str], seen: Sequence[str]) -> str:
    """What is wrong with some output; empty when it is as expected. The shortest run of lines is tried for `...`."""
    seen = [" ".join(line.split()) for line in seen if line.strip()]
    position, is_anywhere = 0, False
    for line in expected:
        if line.strip() == "...":
            is_anywhere = True
            continue
        wanted = pattern_of(line)
        found = next((at for at in range(position, len(seen)) if wanted.fullmatch(seen[at])), None)
        if found is None or (found > position and not is_anywhere):
            got = seen[position] if position < len(seen) else "nothing more"
            return f"expected  {line.strip()}\ngot       {got}"
        position, is_anywhere = found + 1, False
    if position < len(seen) and not is_anywhere:
        return f"expected  nothing more\ngot       {seen[position]}"
    return ""


def kubectl_folders(make: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder for the PATH by version, each with one kubectl in it; without those there is nothing to test."""
    if not os.environ.get("MUSTER_KUBERNETES"):
        pytest.skip("needs kubectl: make test-kubernetes, or set MUSTER_KUBERNETES=1")
    try:
        commands = (f'exec "{program()}" kubectl "$@"', f'exec "{older_kubectl()}" "$@"')
    except NoControlPlane as missing:
        pytest.skip(str(missing))
    folders = {}
    for version, command in zip(VERSIONS, commands, strict=True):
        folders[version] = make.mktemp(f"kubectl-{version}")
        script = folders[version] / "kubectl"
        script.write_text(f"#!/bin/sh\n{command}\n")
        script.chmod(0o755)
    return folders


@dataclass(slots=True)
class Session:
    """A shell that speaks to one server with one kubectl, in a namespace of its own."""

    folder: Path
    namespace: str
    variables: dict[str, str] = field(default_factory=dict)
    is_muster: bool = False
    _background: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def open(self, kubectl: Path, kubeconfig: Path) -> None:
        """Make the namespace, which kubectl takes from then on where no other is said."""
        self.variables |= {
            "HOME": str(self.folder),
            "KUBECONFIG": str(self.folder / "kubeconfig"),
            "LC_ALL": "C",
            "PATH": f"{kubectl}:/usr/local/bin:/usr/bin:/bin",
            "TZ": "UTC",
        }
        copy = [kubectl / "kubectl", "--kubeconfig", kubeconfig, "config", "view", "--raw", "--flatten"]
        (self.folder / "kubeconfig").write_bytes(subprocess.check_output(copy))
        for command in (
            ["config", "set-context", "--current", "--namespace", self.namespace],
            ["create", "namespace", self.namespace],
        ):
            subprocess.run([kubectl / "kubectl", *command], env=self.variables, check=True, capture_output=True)

    def play(self, transcript: Path) -> None:
        """Run a transcript to its end, or to the first difference."""
        for step in steps(transcript.read_text()):
            expected, seen = self.run(step)
            if problem := first_difference(expected, seen):
                where = f"{transcript.name}, line {step.line}: $ {step.command}"
                pytest.fail(f"{where}\n{problem}\n\n" + "\n".join(seen), pytrace=False)

    def run(self, step: Step) -> tuple[list[str], list[str]]:
        """What was expected of a step, and the lines that came, with the exit code where it is not 0."""
        expected = step.by_muster if self.is_muster and step.by_muster is not None else step.expected
        expected = [line.replace("{namespace}", self.namespace) for line in expected]
        command = step.command.replace("{namespace}", self.namespace)
        if command.startswith("& "):
            self._start(command.removeprefix("& "))
            return [], []
        if command == "stop":
            return expected, self._stop(len(expected))
        answer = subprocess.run(
            ["bash", "-c", command],
            cwd=MANIFESTS,
            env={**os.environ, **self.variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        lines = [line for line in answer.stdout.splitlines() if not _LOG.match(line)]
        return expected, [*lines, f"[exit {answer.returncode}]"] if answer.returncode else lines

    def _start(self, command: str) -> None:
        assert self._background is None, "one command at a time goes on beside the others"
        with self._log.open("wb") as log:
            self._background = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=MANIFESTS,
                env={**os.environ, **self.variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._wait_for_lines(1)

    def _stop(self, count: int) -> list[str]:
        self._wait_for_lines(count)
        self.close()
        return self._lines()

    def _wait_for_lines(self, count: int) -> None:
        deadline_s = time.monotonic() + LINES_S
        while len(self._lines()) < count and time.monotonic() < deadline_s:
            time.sleep(POLL_S)

    def _lines(self) -> list[str]:
        return self._log.read_text().splitlines()

    @property
    def _log(self) -> Path:
        return self.folder / "background.log"

    def close(self) -> None:
        """End what goes on beside the others."""
        if self._background is not None:
            self._background.terminate()
            self._background.wait()
            self._background = None
