"""Limits, quotas and classes: each request gets the answer that a real API server has been recorded to give."""

from __future__ import annotations

import json
from functools import cache

import pytest

from muster.apiserver.served import Catalog
from muster.app.kinds import catalog
from tests.apiserver.admission.rows import SETS, TOLD, preparations, sorted_words
from tests.apiserver.webhooks.stories import told
from tests.apiserver.world import World, in_world


@cache
def everything() -> Catalog:
    return catalog()


@pytest.mark.parametrize("namespace", SETS)
def test_requests_get_the_same_answers_as_in_kubernetes(namespace: str) -> None:
    async def story(world: World) -> None:
        for method, path, body in preparations(namespace):
            assert (await world.request(method, path, body)).status in (200, 201)
        wanted = json.loads(TOLD.read_text())[namespace]
        for (method, path, body), want in zip(SETS[namespace], wanted, strict=True):
            answer = await world.request(method, path.format(ns=namespace), body)
            assert sorted_words(told(answer)) == want, (method, path, body)

    in_world(story, catalog=everything())
