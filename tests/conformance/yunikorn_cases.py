"""YuniKorn's recorded queue configurations: whether each is accepted, and what it is in normal form."""

from __future__ import annotations

from typing import Any

from muster.dialects.yunikorn.normal_form import normal_form
from muster.dialects.yunikorn.validate import read_configuration
from muster.model.documents import parse_texts
from muster.model.errors import InvalidObject
from tests.conformance.cases import Case, Mismatch, expect_equal

PREFIX = "yunikorn "


def run_configuration(case: Case) -> None:
    """Read one configuration; the verdict binds and the normal form, the words of a refusal do not."""
    wanted = case.body["expect"]
    try:
        configuration = read_configuration(case.body["yaml"], "queues.yaml")
    except InvalidObject as problem:
        if wanted["accept"]:
            raise Mismatch(f"refused: {problem}") from None
        return
    if not wanted["accept"]:
        raise Mismatch(f"accepted, and YuniKorn says: {wanted['error']}")
    expect_equal("normal form", _texts(normal_form(configuration)), parse_texts(wanted["normalized"], "normalized"))


def _texts(value: Any) -> Any:
    """Values as YAML writes them."""
    if isinstance(value, dict):
        return {key: _texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_texts(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value)
