"""Writes tests/apiserver/protobuf_samples.jsonl anew, with what Go makes of the objects in protobuf_objects.yaml.

Run by hand, when objects or Kubernetes change: `python -m tools.protobuf_samples`.
"""

from __future__ import annotations

import json
import subprocess

import yaml

from tests.kubernetes.build import program
from tests.support import ROOT

FOLDER = ROOT / "tests" / "apiserver"


def main() -> None:
    objects = yaml.safe_load_all((FOLDER / "protobuf_objects.yaml").read_text())
    lines = "\n".join(json.dumps(item) for item in objects)
    answer = subprocess.run([program(), "protobuf"], input=lines, check=True, stdout=subprocess.PIPE, text=True)
    (FOLDER / "protobuf_samples.jsonl").write_text(answer.stdout)


if __name__ == "__main__":
    main()
