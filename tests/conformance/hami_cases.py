"""HAMi's cases: each file is an object with `cases`, and `configs.json` holds the configurations that they share.

A case's source is the function that it records, so that drivers are found by it; what every vendor has is found by the
last word of its name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.conformance import hami_cards, hami_pods
from tests.conformance.cases import Case, Mismatch, Skip

DRIVERS: Mapping[str, Callable[[Case], None]] = {**hami_cards.DRIVERS, **hami_pods.DRIVERS}
CONFIGS = "configs.json"
VENDOR_DRIVERS: Mapping[str, Callable[[Case], None]] = {**hami_cards.VENDOR_DRIVERS, **hami_pods.VENDOR_DRIVERS}
VENDOR_FOLDER = "pkg/device/"


def hami_cases_in(folder: Path) -> Iterator[Case]:
    """All cases of a folder, in the order of file names and positions, each with its configuration at `_config`."""
    configs: dict[str, Any] = json.loads((folder / CONFIGS).read_text())
    for path in sorted(folder.rglob("*.json")):
        if path.name == CONFIGS:
            continue
        group = path.relative_to(folder).with_suffix("").as_posix()
        for body in json.loads(path.read_text())["cases"]:
            config = configs.get(body.get("config"), {})
            yield Case(body["function"], f"{group} {body['id']} {body['name']}", {**body, "_config": config})


def run_hami(case: Case) -> None:
    """Replay one case."""
    if case.body.get("unstable"):
        raise Skip("the answer differed from call to call when it was recorded")
    driver = DRIVERS.get(case.source)
    if driver is None and case.source.startswith(VENDOR_FOLDER):
        driver = VENDOR_DRIVERS.get(case.source.rpartition(".")[2])
    if driver is None:
        raise Mismatch(f"nobody knows the function {case.source!r}")
    driver(case)
