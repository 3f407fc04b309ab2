"""HAMi's cases: each file is an object with `cases`, and `configs.json` holds the configurations that they share.

A case's source is the function that it records, so that drivers are found by it. Vendors that are not there yet are
skipped by their name.
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
VENDOR_FOLDER = "pkg/device/"
KNOWN_VENDOR = "pkg/device/nvidia:"


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
    if driver is not None:
        driver(case)
    elif case.source.startswith(VENDOR_FOLDER) and not case.source.startswith(KNOWN_VENDOR):
        raise Skip("a vendor that is not there yet: " + case.source.removeprefix(VENDOR_FOLDER).split(":")[0])
    else:
        raise Mismatch(f"nobody knows the function {case.source!r}")
