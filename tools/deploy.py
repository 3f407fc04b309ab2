"""Writes the generated files of deploy/: definitions, rights, webhook configurations, the plain manifests, a table.

`python -m tools.deploy` after a change of kinds, jobs, webhooks or of the chart. The plain manifests are what Helm makes
of the chart, so that needs Go; `--without-manifests` leaves them as they are. A test compares the files with the code.
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
from muster.app.rights import administrator_rules, cluster_rules, own_rules, reader_rules
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
    """Repeats what occurs twice: readers of definitions know no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
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
                "administrator": administrator_rules(),
                "reader": reader_rules(),
            }
        ),
    }


def manifests(helm: Path) -> str:
    """The plain manifests: the chart with its defaults, less the definitions, which are files of their own."""
    command = [helm, "template", "muster", CHART, "--namespace", NAMESPACE, "--set", "definitions.install=false"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    return f"{HEAD}---\n{_dumped(namespace)}{answer.stdout}"


def values_table() -> str:
    """The rows of the page on installing: each value of the chart with the comment above it."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    rows, place, comment = [], [], ""
    for line in (CHART / "values.yaml").read_text().splitlines():
        words = line.strip()
        if words.startswith("# "):
            comment = words[2:]
            continue
        name, colon, _ = words.partition(":")
        if not colon or not comment or words.startswith("-"):
            comment = ""
            place = _place(place, line)
            continue
        place = _place(place, line)
        path = ".".join(one for _, one in place)
        rows.append(f"| `{path}` | {comment} | {_default(values, path)} |\n")
        comment = ""
    return TABLE_HEAD + "".join(rows)


def _place(place: list[tuple[int, str]], line: str) -> list[tuple[int, str]]:
    """Where a line is: the names above it, each with its indentation."""
    name, colon, _ = line.strip().partition(":")
    indent = len(line) - len(line.lstrip())
    if not colon or not name.isidentifier():
        return place
    return [*(one for one in place if one[0] < indent), (indent, name)]


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
