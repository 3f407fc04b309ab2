"""Writes the generated files of deploy/: definitions, rights, webhook configurations, the plain manifests, a table.

`python -m tools.deploy` after a change of kinds, jobs, webhooks or of the chart. The plain manifests are what Helm
makes of the chart, so that needs Go; `--without-manifests` leaves them as they are. Tests compare all of it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from muster.apiserver.hooks.configurations import conversion
from muster.app.config import Configuration
from muster.app.hooks import configurations, reached_by_service
from muster.app.rights import administrator_rules, cluster_rules, metrics_rules, own_rules, reader_rules
from muster.dialects.kueue import definitions as kueue
from muster.dialects.volcano import definitions as volcano

ROOT = Path(__file__).resolve().parent.parent
CHART = ROOT / "deploy" / "chart"
GENERATED = CHART / "generated"
MANIFESTS = ROOT / "deploy" / "manifests.yaml"
PAGE = ROOT / "docs" / "install.md"
TABLE_HEAD = "| value | meaning | default |\n|---|---|---|\n"
NAMESPACE = Configuration().webhooks.namespace
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:muster-controller-manager"
HEAD = "# Made by `python -m tools.deploy`; do not edit.\n"


class _Dumper(yaml.CSafeDumper):
    """Writes out what occurs twice: readers of definitions know no anchors."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


def generated_files() -> dict[str, str]:
    """The files of the chart that follow from the code, by their path below `generated`."""
    settings = Configuration()
    reached = reached_by_service(settings)
    definitions = [*kueue.definitions(conversion(reached)), *volcano.definitions()]
    files = {f"definitions/{one['metadata']['name']}.yaml": one for one in definitions}
    return {name: _text(content) for name, content in files.items()} | {
        "webhooks.yaml": _text({"items": configurations(settings, reached, own_user=ACCOUNT)}),
        "rights.yaml": _text(
            {
                "cluster": cluster_rules(),
                "own": own_rules(),
                "metrics": metrics_rules(),
                "administrator": administrator_rules(),
                "reader": reader_rules(),
            }
        ),
    }


def template_command(helm: Path) -> list[str]:
    """How Helm is asked for the objects of the chart; there is no cluster that it could ask for its version."""
    return [str(helm), "template", "muster", str(CHART), "--kube-version", "1.36.0"]


def manifests(helm: Path) -> str:
    """The plain manifests: the chart with its defaults, less the definitions, which are files of their own."""
    command = [*template_command(helm), "--namespace", NAMESPACE, "--set", "definitions.install=false"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    return f"{HEAD}---\n{_dumped(namespace)}{answer.stdout}"


def values_table() -> str:
    """The rows of the page on installing: each value of the chart with the comment above it."""
    text = (CHART / "values.yaml").read_text()
    values, rows, comment = yaml.safe_load(text), [], ""
    place: list[tuple[int, str]] = []  # the names above a line, each with its indentation
    for line in text.splitlines():
        words = line.strip()
        name = words.partition(":")[0]
        if name.isidentifier():
            indent = len(line) - len(words)
            place = [*(one for one in place if one[0] < indent), (indent, name)]
            if comment:
                path = ".".join(one for _, one in place)
                rows.append(f"| `{path}` | {comment} | {_default(values, path)} |\n")
        comment = words.removeprefix("# ") if words.startswith("# ") else ""
    return TABLE_HEAD + "".join(rows)


def _default(values: Any, path: str) -> str:
    for name in path.split("."):
        values = values[name]
    text = _dumped(values).strip().removesuffix("\n...")
    return "see the file" if "\n" in text or len(text) > 60 else f"`{text}`"


def with_table(page: str) -> str:
    """The page with its table as the chart has it now."""
    before, _, rest = page.partition(TABLE_HEAD)
    after = rest.split("\n\n", 1)[1] if "\n\n" in rest else ""
    return f"{before}{values_table()}\n{after}"


def _text(content: Any) -> str:
    return HEAD + _dumped(content)


def _dumped(content: Any) -> str:
    return str(yaml.dump(content, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=120))


def main(arguments: list[str]) -> None:
    """Write the files, and take away those that nothing makes any more."""
    files = generated_files()
    for path in GENERATED.rglob("*.yaml"):
        if str(path.relative_to(GENERATED)) not in files:
            path.unlink()
    for name, text in files.items():
        (GENERATED / name).parent.mkdir(parents=True, exist_ok=True)
        (GENERATED / name).write_text(text)
    PAGE.write_text(with_table(PAGE.read_text()))
    if "--without-manifests" not in arguments:
        from tests.kubernetes.build import helm

        MANIFESTS.write_text(manifests(helm()))


if __name__ == "__main__":
    main(sys.argv[1:])
