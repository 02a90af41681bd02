"""POST /v1/chat/completions and /v1/responses: one message through the program, its answer as JSON or as a stream.

The message is on disk before the client hears anything; a client that goes away stops nothing.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
from aiohttp import web

from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.events import AgentEnd, RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.usage import TokenCost, TokenUsage
from palinurus.errors import PalinurusError
from palinurus.gateway import openai, reply, responses
from palinurus.gateway.emit import Events
from palinurus.gateway.fault import Fault, of_error, of_outcome
from palinurus.gateway.limits import BODY, BODY_SECONDS
from palinurus.gateway.openai import Ask, Reply, replied
from palinurus.gateway.port import Catalog, Host
from palinurus.gateway.stream import Chunks, Frames, pump
from palinurus.store.port import Accepted, ItemRow

log = logging.getLogger(__name__)


class Waits:
    """The requests that wait for an outcome; `end` lets them go when the gateway stops first."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[ItemRow]] = set()
        self._ended = False

    async def outcome(self, host: Host, ident: str, keyed: bool) -> ItemRow | Fault:
        """The settled message, or why its outcome cannot be told now."""
        if self._ended:
            return _stopping(keyed)
        task = asyncio.ensure_future(host.wait(ident))
        self._tasks.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if not self._ended:
                raise
            return _stopping(keyed)
        except PalinurusError as exc:
            return of_error(exc)
        finally:
            self._tasks.discard(task)
            task.cancel()

    def end(self) -> None:
        """Nothing will be settled any more in this process."""
        self._ended = True
        for task in tuple(self._tasks):
            task.cancel()


def _stopping(keyed: bool) -> Fault:
    """With an idempotency key the client may ask again by itself; without one that would be a second message."""
    text = "the gateway is stopping; the message is kept and goes on after the restart"
    return Fault(503, text, "api_error", code="draining", headers={"Retry-After": "5"}, retry=keyed)


class _Last:
    """A sink that keeps only the end of the run."""

    def __init__(self) -> None:
        self.end: AgentEnd | None = None

    def feed(self, event: RunEvent) -> None:
        if type(event) is AgentEnd:
            self.end = event


class Dialect(NamedTuple):
    """How one interface reads requests and writes answers."""

    read: Callable[[bytes, Mapping[str, str], Settings, Catalog, int], Ask | Fault]
    ident: Callable[[Ask], str]
    frames: Callable[[str, int, Ask], Frames]
    answer: Callable[[str, int, str, Reply], bytes]


CHAT = Dialect(
    openai.parse,
    lambda ask: f"chatcmpl_{uuid.uuid4()}",
    lambda ident, created, ask: Chunks(ident, created, ask.model, events=ask.events, usage=ask.usage),
    openai.answer,
)
RESPONSES = Dialect(
    responses.read,
    lambda ask: responses.ident(ask.inbound.session),
    lambda ident, created, ask: Events(ident, created, ask.model),
    responses.answer,
)


async def complete(
    request: web.BaseRequest, host: Host, clock: Clock, waits: Waits, dialect: Dialect = CHAT
) -> web.StreamResponse | Fault:
    """Answer one request, or say why not."""
    data = await body(request)
    if isinstance(data, Fault):
        return data
    ask = dialect.read(data, request.headers, host.settings, host.catalog, clock.now())
    if isinstance(ask, Fault):
        return ask
    ident = dialect.ident(ask)
    created = clock.now() // 1000
    if ask.stream:
        return await _streamed(request, host, ask, dialect.frames(ident, created, ask), waits)
    last = _Last()
    accepted = await _submit(host, ask, last)
    if isinstance(accepted, Fault):
        return accepted
    row = await waits.outcome(host, accepted.id, ask.keyed)
    if isinstance(row, Fault):
        return row
    end = None if accepted.duplicate else last.end
    fault = _mismatch(ask, accepted, row) or of_outcome(row.outcome, row.note, end.failure if end else None)
    if fault is not None:
        return fault
    usage = end.usage if end else await _used(host, row)
    return reply.raw(dialect.answer(ident, created, ask.model, replied(ask, end, row, usage)))


async def body(request: web.BaseRequest) -> bytes | Fault:
    """The request's bytes, within the limits; judged by its headers before anything is read."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        return Fault(415, "compressed bodies are not accepted", code="bad_encoding", close=True)
    large = Fault(413, f"the body is larger than {BODY} bytes", code="too_large", close=True)
    if (request.content_length or 0) > BODY:
        return large
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except web.HTTPRequestEntityTooLarge:
        return large
    except TimeoutError:
        return Fault(408, "the body did not arrive in time", code="slow_body", close=True)
    except web.RequestPayloadError as exc:
        return Fault(400, f"the body is broken: {exc}", code="bad_body", close=True)


async def _streamed(
    request: web.BaseRequest, host: Host, ask: Ask, frames: Frames, waits: Waits
) -> web.StreamResponse | Fault:
    accepted = await _submit(host, ask, frames)
    if isinstance(accepted, Fault):
        return accepted
    if accepted.duplicate:
        frames.replay()
    response = web.StreamResponse(
        headers={**reply.HEADERS, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
    )
    transport = request.transport
    if transport is not None:
        frames.overflow = transport.abort
    await response.prepare(request)
    settling = asyncio.ensure_future(_conclude(host, ask, accepted, frames, waits))
    try:
        await pump(frames, response)
    finally:
        settling.cancel()
    return response


async def _conclude(host: Host, ask: Ask, accepted: Accepted, frames: Frames, waits: Waits) -> None:
    """Wait for the outcome and hand it to the stream."""
    frames.note("accepted", {"id": accepted.id, "session": ask.inbound.session, "duplicate": accepted.duplicate})
    frames.wake.set()
    row = await waits.outcome(host, accepted.id, ask.keyed)
    if isinstance(row, Fault):
        frames.finish(Reply(), row)
        return
    end = None if accepted.duplicate else frames.end
    fault = _mismatch(ask, accepted, row) or of_outcome(row.outcome, row.note, end.failure if end else None)
    usage = end.usage if end else await _used(host, row)
    told = replied(ask, end, row, usage)
    outcome = {"id": row.id, "session": row.session, "outcome": row.outcome, "text": told.text, "usage": usage}
    frames.note("outcome", outcome)
    frames.finish(told, fault)


async def _submit(host: Host, ask: Ask, listener: Frames | _Last) -> Accepted | Fault:
    try:
        return await host.submit(ask.inbound, sink=listener.feed)
    except PalinurusError as exc:
        log.warning("message refused: %s", exc.message)
        return of_error(exc)


def _mismatch(ask: Ask, accepted: Accepted, row: ItemRow) -> Fault | None:
    """A key that comes back with another message is a mistake of the client; answering it would mislead."""
    if not (accepted.duplicate and ask.keyed) or row.id != accepted.id:
        return None
    try:
        first = msgspec.json.decode(row.body, type=Inbound)
    except msgspec.DecodeError:
        return None
    if first.text == ask.inbound.text:
        return None
    return Fault(422, "this Idempotency-Key was used for another message", code="idempotency_mismatch")


async def _used(host: Host, row: ItemRow) -> TokenUsage:
    """What the ledger says about a message whose run was not seen here."""
    total = TokenUsage()
    for spent in await host.store.list_usage(row.at, row.session):
        if spent.item == row.id:
            tokens = spent.input + spent.output + spent.cache_read + spent.cache_write
            cost = TokenCost(total=spent.cost) if spent.cost is not None else None
            total += TokenUsage(spent.input, spent.output, spent.cache_read, spent.cache_write, tokens, cost)
    return total
