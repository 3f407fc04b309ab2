"""`muster manage` with a kubeconfig that is none: it says so and ends."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from muster.cli.main import app


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("{}", "current-context: is not given", id="no context"),
        pytest.param("clusters: [", "config", id="no YAML"),
        pytest.param(None, "cannot be read", id="no file"),
    ],
)
def test_a_kubeconfig_that_is_none(tmp_path, text, told):
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    answer = CliRunner().invoke(app, ["manage", "--kubeconfig", str(path)])
    assert answer.exit_code == 1 and told in answer.output


def test_nodes_that_cannot_be_read(tmp_path):
    cluster = "{name: c, cluster: {server: 'http://127.0.0.1:1'}}"
    context = "{name: here, context: {cluster: c}}"
    (tmp_path / "config").write_text(f"current-context: here\nclusters: [{cluster}]\ncontexts: [{context}]\n")
    (tmp_path / "nodes").write_text("pools: 7\n")
    given = ["--kubeconfig", str(tmp_path / "config"), "--simulated-nodes", str(tmp_path / "nodes")]
    answer = CliRunner().invoke(app, ["manage", *given])
    assert answer.exit_code == 1 and "pools" in answer.output


def test_webhooks_that_are_nowhere(tmp_path):
    cluster = "{name: c, cluster: {server: 'http://127.0.0.1:1'}}"
    context = "{name: here, context: {cluster: c}}"
    (tmp_path / "config").write_text(f"current-context: here\nclusters: [{cluster}]\ncontexts: [{context}]\n")
    answer = CliRunner().invoke(app, ["manage", "--kubeconfig", str(tmp_path / "config"), "--webhooks", "http://here"])
    assert answer.exit_code == 1 and "give service, or a URL" in answer.output
