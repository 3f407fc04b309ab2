"""Stories in real time: a `muster up` process, simulated nodes or the machine itself, and a real kubectl."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.process import Muster
from tests.kubernetes.build import NoControlPlane, older_kubectl, program
from tests.stories.playing import STORIES, assert_plays, story_of
from tests.stories.stages import KubectlStage, Processes, server_for

COMMAND_S = 180.0
ON_THIS_MACHINE = ("contention", "preemption", "quickstart", "suspend-and-resume")


@pytest.fixture(scope="module")
def kubectls() -> dict[str, list[str]]:
    """How each version is called."""
    if not os.environ.get("MUSTER_KUBERNETES"):
        pytest.skip("needs kubectl: make test-kubernetes, or set MUSTER_KUBERNETES=1")
    try:
        return {"1.36": [str(program()), "kubectl"], "1.32": [str(older_kubectl())]}
    except NoControlPlane as missing:
        pytest.skip(str(missing))


def kubectl_of(command: list[str], muster: Muster) -> Callable[..., str]:
    """Runs kubectl; what it says when it fails is raised."""

    def run(*arguments: str, text: str = "") -> str:
        whole = [*command, "--kubeconfig", str(muster.kubeconfig), *arguments]
        environment = {**os.environ, "HOME": str(muster.folder)}  # for its cache
        answer = subprocess.run(
            whole, input=text, capture_output=True, text=True, check=False, timeout=COMMAND_S, env=environment
        )
        assert answer.returncode == 0, f"kubectl {' '.join(arguments)}: {answer.stderr}"
        return answer.stdout

    return run


@pytest.mark.parametrize("name", STORIES)
def test_a_story(name: str, kubectls: dict[str, list[str]], tmp_path: Path):
    story = story_of(name)
    with server_for(story, tmp_path) as muster:
        assert_plays(story, KubectlStage(muster, kubectl_of(kubectls["1.36"], muster)))
        assert muster.stop() == 0


@pytest.mark.parametrize("name", ON_THIS_MACHINE)
def test_a_story_with_real_processes(name: str, kubectls: dict[str, list[str]], tmp_path: Path):
    story, processes = story_of(name), Processes(tmp_path)
    with server_for(story, tmp_path, is_local=True) as muster:
        assert_plays(story, KubectlStage(muster, kubectl_of(kubectls["1.32"], muster), processes))
        assert muster.stop() == 0
    begun = processes.begun.read_text().split()
    assert len(begun) == len(set(begun)), "a container was begun twice"
