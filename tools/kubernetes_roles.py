"""Writes muster/apiserver/facts/roles.json anew from a real Kubernetes: `python -m tools.kubernetes_roles`.

The roles and bindings that every cluster has from the beginning, without those of controllers that Muster has not.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.kubernetes.client import Client
from tests.kubernetes.plane import started
from tests.support import ROOT

FILE = ROOT / "muster" / "apiserver" / "facts" / "roles.json"
START = "/apis/rbac.authorization.k8s.io/v1"
PLURALS = ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
OF_CONTROLLERS = "system:controller:"
SELECTED = "?labelSelector=kubernetes.io/bootstrapping%3Drbac-defaults"

Json = dict[str, Any]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as plane:
        text = table(plane.client)
    FILE.write_text(text)


def table(client: Client) -> str:
    """The text of the file: one object a line."""
    found = [(plural, one) for plural in PLURALS for one in listed(client, plural)]
    lines = [json.dumps(shortened(plural, one)) for plural, one in found]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def listed(client: Client, plural: str) -> list[Json]:
    items: list[Json] = client.request("GET", f"{START}/{plural}{SELECTED}").json["items"]
    return [one for one in items if not one["metadata"]["name"].startswith(OF_CONTROLLERS)]


def shortened(plural: str, given: Json) -> Json:
    """What of an object is a fact of its own, and not of the server it was read from."""
    names = ("name", "namespace", "labels", "annotations")
    metadata = {name: given["metadata"][name] for name in names if name in given["metadata"]}
    content = {name: given[name] for name in ("rules", "aggregationRule", "roleRef", "subjects") if given.get(name)}
    return {"resource": plural, "metadata": metadata, **content}


if __name__ == "__main__":
    main()
