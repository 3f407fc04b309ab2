"""The admission checks of a cluster, put together: which there are, what they follow, and how servers are asked.

Called by `job_control`. A server is asked over a connection of its own with one limit for all of it, so that none can
hold anything up by being slow.
"""

from __future__ import annotations

from collections.abc import Mapping

from muster.app.config import Configuration
from muster.controllers.checks import base
from muster.controllers.checks.base import CheckController, Judge
from muster.controllers.checks.budget import BudgetJudge, BudgetKeeper
from muster.controllers.checks.http import HttpJudge, NoAnswer, Outside
from muster.controllers.checks.provisioning import ProvisioningJudge
from muster.controllers.loop import Controller
from muster.store.aio import AsyncStore
from muster.store.errors import NotFound
from muster.store.kinds import Object
from muster.store.kube_client import KubeClient
from muster.store.objects import decode
from muster.store.records import Key

ANSWER_MOST = 256 * 1024  # bytes
SECRETS = "secrets"
CHECK_INDEXES = base.INDEXES


def check_resources() -> frozenset[str]:
    """What the checks need to know."""
    kinds = (HttpJudge, BudgetJudge, ProvisioningJudge)
    return base.RESOURCES.union(*(kind.resources for kind in kinds))


def checks_of(configuration: Configuration, outside: Outside | None) -> list[Controller]:
    """The controllers of all checks."""
    judges: list[Judge] = [BudgetJudge(), ProvisioningJudge(configuration.gates)]
    if outside is not None:
        judges.append(HttpJudge(outside))
    return [*(CheckController(judge) for judge in judges), BudgetKeeper()]


def outside_of(store: AsyncStore, configuration: Configuration) -> Outside:
    """How servers are asked by a cluster whose store is here."""
    namespace = configuration.webhooks.namespace

    async def secret(name: str) -> Object | None:
        try:
            return decode(store.store.get(Key(SECRETS, namespace, name)))
        except NotFound:
            return None

    return Outside(post=post, secret=secret)


def outside_of_cluster(client: KubeClient, configuration: Configuration) -> Outside:
    """The same beside a real cluster."""
    namespace = configuration.webhooks.namespace
    return Outside(post=post, secret=lambda name: client.find(Key(SECRETS, namespace, name)))


async def post(url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> tuple[int, bytes]:
    """Send a body to an address; gives the status and the body of the answer."""
    import aiohttp  # most clusters have no such check, and it takes long to load

    limit = aiohttp.ClientTimeout(total=timeout_s)
    try:
        async with (
            aiohttp.ClientSession(timeout=limit, auto_decompress=False) as session,
            session.post(url, data=body, headers=dict(headers), allow_redirects=False) as answer,
        ):
            text = await answer.content.read(ANSWER_MOST + 1)
            while len(text) <= ANSWER_MOST and (more := await answer.content.read(ANSWER_MOST + 1 - len(text))):
                text += more
    except TimeoutError:
        raise NoAnswer(f"it does not answer within {timeout_s:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as problem:
        raise NoAnswer(str(problem) or type(problem).__name__) from None
    if len(text) > ANSWER_MOST:
        raise NoAnswer(f"it answers with more than {ANSWER_MOST} bytes")
    return answer.status, text
