"""POST /v1/chat/completions and /v1/responses: one message through the program, its answer as JSON or as a stream.
POST /v1/embeddings: texts as vectors, by the model memory is searched with.

The message is on disk before the client hears anything; a client that goes away stops nothing.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import struct
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse

from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.events import AgentEnd, RunEvent
from palinurus.core.types.inbound import decode_inbound, make_sender
from palinurus.core.types.keys import parse_session_key
from palinurus.core.types.usage import TokenCost, TokenUsage
from palinurus.errors import PalinurusError
from palinurus.gateway import http
from palinurus.gateway.attachments import delete_attachments, keep_attachments
from palinurus.gateway.http import HttpFault, RouteRequest
from palinurus.gateway.openai import completions, responses
from palinurus.gateway.openai.completions import OpenAiReply, OpenAiRequest, make_reply
from palinurus.gateway.openai.stream import AnswerStream, CompletionStream, ResponseStream, send_stream
from palinurus.gateway.port import GatewayHost, ModelFinder
from palinurus.gateway.rpc import MethodError
from palinurus.late import load_part
from palinurus.patterns import decode_late
from palinurus.services.conversations import find_conversation
from palinurus.store.port import Acceptance, InboxRow

EMBEDDING_MODEL = "all-minilm-l6-v2"
EMBEDDING_TEXTS = 128  # texts of one request
EMBEDDING_CHARS = 32_000  # of one text


class _Body(msgspec.Struct, frozen=True):
    input: str | list[str]
    model: str = ""  # there is one; whatever is named gets it
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None


_BODY = decode_late(_Body)


async def handle_embeddings(visit: RouteRequest) -> StreamResponse | HttpFault:
    """Answer one request."""
    program = visit.host.program
    asked = await http.read_json(visit.request, _BODY)
    if isinstance(asked, HttpFault):
        return asked
    texts = [asked.input] if isinstance(asked.input, str) else asked.input
    if not 0 < len(texts) <= EMBEDDING_TEXTS or not all(0 < len(text) <= EMBEDDING_CHARS for text in texts):
        return http.make_bad_request(
            f"input: 1 to {EMBEDDING_TEXTS} texts of 1 to {EMBEDDING_CHARS} characters", "input"
        )
    made = await program.embed(texts) if program is not None and program.embed is not None else "it is not there"
    if isinstance(made, str):
        return HttpFault(503, f"there is no model for embeddings: {made}", "api_error", code="no_embeddings")
    if asked.dimensions not in (None, len(made[0])):
        return http.make_bad_request(f"the model has {len(made[0])} dimensions", "dimensions")
    rows = [{"object": "embedding", "index": at, "embedding": _as(asked, row)} for at, row in enumerate(made)]
    count = sum(len(text) // 4 + 1 for text in texts)  # as near as clients need it
    usage = {"prompt_tokens": count, "total_tokens": count}
    return http.reply_json({"object": "list", "data": rows, "model": EMBEDDING_MODEL, "usage": usage})


def _as(asked: _Body, row: list[float]) -> Any:
    if asked.encoding_format == "float":
        return row
    return base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode()


async def handle_asset(visit: RouteRequest) -> StreamResponse | HttpFault:
    """What models make besides answers: embeddings, speech, transcriptions (`audio.py`)."""
    what = visit.request.path.rpartition("/")[2]
    if what == "embeddings":
        return await handle_embeddings(visit)
    made: StreamResponse | HttpFault = await load_part("audio")[what](visit)
    return made


log = logging.getLogger(__name__)


class OutcomeWaits:
    """The requests that wait for an outcome; `end` lets them go when the gateway stops first."""

    def __init__(self, ended: bool = False) -> None:
        self._tasks: set[asyncio.Future[InboxRow]] = set()
        self._ended = ended

    async def outcome(self, host: GatewayHost, ident: str, keyed: bool) -> InboxRow | HttpFault:
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
            return http.make_error_fault(exc)
        finally:
            self._tasks.discard(task)
            task.cancel()

    def end(self) -> None:
        """Nothing will be settled any more in this process."""
        self._ended = True
        for task in tuple(self._tasks):
            task.cancel()


def _stopping(keyed: bool) -> HttpFault:
    """With an idempotency key the client may ask again by itself; without one that would be a second message."""
    text = "the gateway is stopping; the message is kept and goes on after the restart"
    return HttpFault(503, text, "api_error", code="draining", headers={"Retry-After": "5"}, retry=keyed)


class _Last:
    """A sink that keeps only the end of the run."""

    def __init__(self) -> None:
        self.end: AgentEnd | None = None

    def feed(self, event: RunEvent) -> None:
        if type(event) is AgentEnd:
            self.end = event


class OpenAiDialect(msgspec.Struct, frozen=True):
    """How one interface reads requests and writes answers."""

    read: Callable[[bytes, Mapping[str, str], Settings, ModelFinder, int], OpenAiRequest | HttpFault]
    ident: Callable[[OpenAiRequest], str]
    frames: Callable[[str, int, OpenAiRequest], AnswerStream]
    answer: Callable[[str, int, str, OpenAiReply], bytes]


CHAT_DIALECT = OpenAiDialect(
    completions.parse_completion,
    lambda ask: f"chatcmpl_{uuid.uuid4()}",
    lambda ident, created, ask: CompletionStream(ident, created, ask.model, events=ask.events, usage=ask.usage),
    completions.render_completion,
)
TERMINAL_DIALECT = msgspec.structs.replace(CHAT_DIALECT, read=completions.parse_terminal_turn)
RESPONSES_DIALECT = OpenAiDialect(
    responses.parse_response_request,
    lambda ask: responses.make_response_id(ask.inbound.session, ask.inbound.event),
    lambda ident, created, ask: ResponseStream(ident, created, ask.model),
    responses.render_response,
)


async def handle_completion(
    visit: RouteRequest, clock: Clock, waits: OutcomeWaits, dialect: OpenAiDialect
) -> StreamResponse | HttpFault:
    """Answer one request, or say why not."""
    request, host = visit.request, visit.host
    data = await http.read_body(request)
    if isinstance(data, HttpFault):
        return data
    ask = dialect.read(data, request.headers, host.settings, host.catalog, clock.now())
    if isinstance(ask, HttpFault):
        return ask
    inbound = msgspec.structs.replace(ask.inbound, sender=make_sender(visit.caller))
    begun = await find_conversation(host.program.store, inbound.session) if host.program is not None else None
    if begun is not None and begun.items:
        options = msgspec.structs.replace(inbound.options, context=begun.items)
        inbound = msgspec.structs.replace(inbound, options=options)
    ask = msgspec.structs.replace(ask, inbound=inbound)
    ident = dialect.ident(ask)
    created = clock.now() // 1000
    if ask.stream:
        return await _streamed(request, host, ask, dialect.frames(ident, created, ask), waits=waits)
    last = _Last()
    accepted = await _submit(host, ask, last)
    if isinstance(accepted, HttpFault):
        return accepted
    if ask.background:
        return http.reply_json(responses.make_response(ident, created, ask.model, "queued", background=True))
    row = await waits.outcome(host, accepted.id, ask.keyed)
    if isinstance(row, HttpFault):
        return row
    end = None if accepted.duplicate else last.end
    fault = _mismatch(ask, accepted, row) or http.make_outcome_fault(
        row.outcome, row.note, end.failure if end else None
    )
    if fault is not None:
        return fault
    usage = end.usage if end else await sum_usage(host, row)
    return http.reply_bytes(dialect.answer(ident, created, ask.model, make_reply(ask, end, row, usage)))


async def _streamed(
    request: BaseRequest, host: GatewayHost, ask: OpenAiRequest, frames: AnswerStream, waits: OutcomeWaits
) -> StreamResponse | HttpFault:
    frames.held = ask.inbound.options.answer is not None
    accepted = await _submit(host, ask, frames)
    if isinstance(accepted, HttpFault):
        return accepted
    if accepted.duplicate:
        frames.replay()
    transport = request.transport
    if transport is not None:
        frames.overflow = transport.abort
    return await send_stream(request, frames, _conclude(host, ask, accepted, frames, waits=waits))


async def _conclude(
    host: GatewayHost, ask: OpenAiRequest, accepted: Acceptance, frames: AnswerStream, waits: OutcomeWaits
) -> None:
    """Wait for the outcome and hand it to the stream."""
    frames.note("accepted", {"id": accepted.id, "session": ask.inbound.session, "duplicate": accepted.duplicate})
    frames.wake.set()
    row = await waits.outcome(host, accepted.id, ask.keyed)
    if isinstance(row, HttpFault):
        frames.finish(OpenAiReply(), row)
        return
    end = None if accepted.duplicate else frames.end
    fault = _mismatch(ask, accepted, row) or http.make_outcome_fault(
        row.outcome, row.note, end.failure if end else None
    )
    usage = end.usage if end else await sum_usage(host, row)
    told = make_reply(ask, end, row, usage)
    outcome = {"id": row.id, "session": row.session, "outcome": row.outcome, "text": told.text, "usage": usage}
    frames.note("outcome", outcome)
    frames.finish(told, fault)


async def _submit(host: GatewayHost, ask: OpenAiRequest, listener: AnswerStream | _Last) -> Acceptance | HttpFault:
    inbound = ask.inbound
    try:
        if ask.attached:
            keep = host.program.keep if host.program is not None else None
            images, files = await keep_attachments(list(ask.attached), keep)
            inbound = msgspec.structs.replace(inbound, images=(*inbound.images, *images), files=files)
        accepted = await host.submit(inbound, sink=listener.feed)
    except MethodError as exc:
        return http.make_bad_request(exc.message, "attachments")
    except PalinurusError as exc:
        await delete_attachments(inbound.files)
        log.warning("message refused: %s", exc.message)
        return http.make_error_fault(exc)
    if accepted.duplicate:  # the files of the first time are those that count
        await delete_attachments(inbound.files)
    return accepted


def _mismatch(ask: OpenAiRequest, accepted: Acceptance, row: InboxRow) -> HttpFault | None:
    """A key that comes back with another message is a mistake of the client; answering it would mislead."""
    if not (accepted.duplicate and ask.keyed) or row.id != accepted.id:
        return None
    try:
        first = decode_inbound(row.body)
    except msgspec.DecodeError:
        return None
    if first.text == ask.inbound.text and _is_session(first.session, ask.inbound.session):
        return None
    return HttpFault(422, "this Idempotency-Key was used for another message", code="idempotency_mismatch")


def _is_session(first: str, again: str) -> bool:
    """The same; or both made up for a request that named none."""
    keys = (parse_session_key(name) for name in (first, again))
    return first == again or all(key is not None and key.unnamed for key in keys)


async def sum_usage(host: GatewayHost, row: InboxRow) -> TokenUsage:
    """What the ledger says about a message whose run was not seen here."""
    total = TokenUsage()
    for spent in await host.store.list_usage(row.at, row.session):
        if spent.item == row.id:
            tokens = spent.input + spent.output + spent.cache_read + spent.cache_write
            cost = TokenCost(total=spent.cost) if spent.cost is not None else None
            total += TokenUsage(
                spent.input, spent.output, spent.cache_read, spent.cache_write, totalTokens=tokens, cost=cost
            )
    return total
