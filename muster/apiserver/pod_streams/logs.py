"""A container's log over plain HTTP. Called by `asgi` through `subresources`."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from muster.apiserver.answers import Answer, Stream
from muster.apiserver.api import Api
from muster.apiserver.pod_streams.asking import (
    check_log_is_there,
    container_of,
    find_pod,
    log_options,
    place_of,
    unreachable,
)
from muster.apiserver.requests import Request, Target
from muster.model.pod_streams import Unreachable

_TEXT = b"text/plain"


async def log(api: Api, request: Request, target: Target) -> Answer | Stream:
    """The log as it is, or as it comes."""
    options = log_options(request, target.name, api.clock.now_s())
    pod = find_pod(api, target)
    container = container_of(pod, request.option("container"))
    if not pod["spec"].get("nodeName"):
        return Answer(204, b"", _TEXT)
    place = place_of(api, pod, container)
    check_log_is_there(pod, container, is_previous=options.is_previous)
    try:
        chunks = await api.nodes.open_log(place, options)
    except Unreachable as problem:
        raise unreachable(problem) from None
    if "limitBytes" in request.query:
        chunks = _limited(chunks, request.number("limitBytes"))
    return Stream(chunks, content_type=_TEXT)


async def _limited(chunks: AsyncGenerator[bytes, None], room: int) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in chunks:
            yield chunk[:room]
            room -= len(chunk)
            if room <= 0:
                return
    finally:
        await chunks.aclose()
