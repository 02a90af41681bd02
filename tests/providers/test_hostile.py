"""Bad input, every wire a row: hostile streams, wrong content types, pages, silence. Each ends in one typed value with
a short message; nothing is raised, nothing is asked again more often than the table of retries says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from palinurus.abort import Abort
from palinurus.config.sections.models import ModelSettings, ProviderSettings
from palinurus.config.settings import Secret
from palinurus.core.types.messages import AssistantMessage, UserMessage
from palinurus.core.types.model import (
    CallStart,
    ModelEvent,
    ModelFailure,
    ModelSpec,
    StreamDone,
    StreamFailed,
    StreamRetry,
)
from palinurus.providers import VENDORS, WIRES, credentials, load_row
from palinurus.providers.catalog import Catalog
from palinurus.providers.http import HttpTimeouts
from palinurus.providers.stream import ProviderModels
from palinurus.providers.wire.aws import encode_frame
from palinurus.testing.clock import START_MS
from providers.kit import agent, decoded, info, request, settings

APIS = tuple(WIRES)
apis = pytest.mark.parametrize("api", APIS)


# --- how each wire says the same things ------------------------------------------------------------------------


class Tongue:
    """One wire's words. `call` gives a start and its arguments in two pieces where the wire can."""

    def unit(self, payload: bytes) -> bytes:
        return b"data: " + payload + b"\n\n"

    def say(self, value: Any) -> bytes:
        return self.unit(json.dumps(value).encode())

    def text(self, piece: str) -> bytes: ...
    def call(self, index: int, ident: str, args: str) -> list[bytes]: ...
    def stop(self) -> bytes: ...

    def begin(self) -> bytes:
        return b""


class Completions(Tongue):
    def delta(self, **delta: Any) -> bytes:
        return self.say({"choices": [{"index": 0, "delta": delta}]})

    def text(self, piece: str) -> bytes:
        return self.delta(content=piece)

    def call(self, index: int, ident: str, args: str) -> list[bytes]:
        half = len(args) // 2
        first = {"index": index, "id": ident, "type": "function", "function": {"name": "w", "arguments": args[:half]}}
        return [
            self.delta(tool_calls=[first]),
            self.delta(tool_calls=[{"index": index, "function": {"arguments": args[half:]}}]),
        ]

    def stop(self) -> bytes:
        return self.say({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}) + b"data: [DONE]\n\n"


class Anthropic(Tongue):
    def begin(self) -> bytes:
        return self.say({"type": "message_start", "message": {"usage": {"input_tokens": 1}}})

    def text(self, piece: str) -> bytes:
        block = {"type": "content_block_start", "index": 9, "content_block": {"type": "text", "text": ""}}
        delta = {"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": piece}}
        return self.say(block) + self.say(delta)

    def call(self, index: int, ident: str, args: str) -> list[bytes]:
        half = len(args) // 2
        block = {"type": "tool_use", "id": ident, "name": "w", "input": {}}
        start = self.say({"type": "content_block_start", "index": index, "content_block": block})
        deltas = [
            {
                "type": "content_block_delta",
                "index": index,
                "delta": {"type": "input_json_delta", "partial_json": piece},
            }
            for piece in (args[:half], args[half:])
        ]
        return [start + self.say(deltas[0]), self.say(deltas[1])]

    def stop(self) -> bytes:
        return self.say({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}) + self.say(
            {"type": "message_stop"}
        )


class Responses(Tongue):
    def text(self, piece: str) -> bytes:
        return self.say({"type": "response.output_text.delta", "output_index": 9, "item_id": "msg_9", "delta": piece})

    def call(self, index: int, ident: str, args: str) -> list[bytes]:
        half = len(args) // 2
        item = {"type": "function_call", "call_id": ident, "name": "w", "arguments": ""}
        start = self.say({"type": "response.output_item.added", "output_index": index, "item": item})
        deltas = [
            self.say({"type": "response.function_call_arguments.delta", "output_index": index, "delta": piece})
            for piece in (args[:half], args[half:])
        ]
        return [start + deltas[0], deltas[1]]

    def stop(self) -> bytes:
        return self.say({"type": "response.completed", "response": {"status": "completed"}})


class Gemini(Tongue):
    def part(self, **part: Any) -> bytes:
        return self.say({"candidates": [{"content": {"role": "model", "parts": [part]}}]})

    def text(self, piece: str) -> bytes:
        return self.part(text=piece)

    def call(self, index: int, ident: str, args: str) -> list[bytes]:
        call = b'{"id": "' + ident.encode() + b'", "name": "w", "args": ' + args.encode("utf-8", "surrogatepass") + b"}"
        return [self.unit(b'{"candidates": [{"content": {"parts": [{"functionCall": ' + call + b"}]}}]}")]

    def stop(self) -> bytes:
        return self.say({"candidates": [{"finishReason": "STOP"}]})


class Ollama(Tongue):
    def unit(self, payload: bytes) -> bytes:
        return payload + b"\n"

    def text(self, piece: str) -> bytes:
        return self.say({"message": {"role": "assistant", "content": piece}, "done": False})

    def call(self, index: int, ident: str, args: str) -> list[bytes]:
        call = b'{"id": "' + ident.encode() + b'", "function": {"name": "w", "arguments": '
        call += args.encode("utf-8", "surrogatepass") + b"}}"
        return [self.unit(b'{"message": {"tool_calls": [' + call + b"]}}")]

    def stop(self) -> bytes:
        return self.say({"done": True, "done_reason": "stop"})


class Bedrock(Tongue):
    def unit(self, payload: bytes, event: str = "contentBlockDelta") -> bytes:
        return encode_frame({":event-type": event, ":message-type": "event"}, payload)

    def event(self, event: str, value: Any) -> bytes:
        return self.unit(json.dumps(value).encode(), event)

    def text(self, piece: str) -> bytes:
        return self.event("contentBlockDelta", {"contentBlockIndex": 9, "delta": {"text": piece}})

    def call(self, index: int, ident: str, args: str) -> list[bytes]:
        half = len(args) // 2
        start = {"contentBlockIndex": index, "start": {"toolUse": {"toolUseId": ident, "name": "w"}}}
        deltas = [
            self.event("contentBlockDelta", {"contentBlockIndex": index, "delta": {"toolUse": {"input": piece}}})
            for piece in (args[:half], args[half:])
        ]
        return [self.event("contentBlockStart", start) + deltas[0], deltas[1]]

    def stop(self) -> bytes:
        return self.event("messageStop", {"stopReason": "end_turn"}) + self.event("metadata", {"usage": {}})


TONGUES: dict[str, Tongue] = {
    "openai-completions": Completions(),
    "anthropic-messages": Anthropic(),
    "openai-responses": Responses(),
    "openai-codex-responses": Responses(),
    "google-generative-ai": Gemini(),
    "ollama": Ollama(),
    "bedrock-converse-stream": Bedrock(),
}


def test_every_wire_has_a_row() -> None:
    assert set(TONGUES) == set(WIRES)


def run(api: str, *pieces: bytes) -> list[ModelEvent]:
    asked = request(model=info(api))
    events = decoded(load_row(WIRES, api).decoder, (TONGUES[api].begin(), *pieces), asked)
    assert isinstance(events[-1], StreamDone | StreamFailed)
    assert not any(isinstance(e, StreamDone | StreamFailed) for e in events[:-1])
    msgspec.json.encode(events[-1])  # can be written down: no half characters, no NaN
    if isinstance(events[-1], StreamFailed):
        assert 0 < len(events[-1].failure.message) <= 500 and not events[-1].message.calls
    return events


def done(events: list[ModelEvent]) -> AssistantMessage:
    assert isinstance(events[-1], StreamDone), events[-1]
    return events[-1].message


# --- streams --------------------------------------------------------------------------------------------------


@apis
def test_calls_in_pieces_out_of_order(api: str) -> None:
    tongue = TONGUES[api]
    late, early = tongue.call(5, "late", '{"n": "five"}'), tongue.call(2, "early", '{"n": "two"}')
    mixed = [*late[:1], *early[:1], *early[1:], *late[1:]]
    message = done(run(api, *mixed, tongue.stop()))
    assert {c.id.partition("|")[0]: c.arguments for c in message.calls} == {
        "late": {"n": "five"},
        "early": {"n": "two"},
    }
    assert message.stopReason == "toolUse"


@apis
def test_a_second_stop_and_what_follows_it_change_nothing(api: str) -> None:
    tongue = TONGUES[api]
    alone = run(api, tongue.text("hi"), tongue.stop())
    assert run(api, tongue.text("hi"), tongue.stop(), tongue.stop()) == alone
    after = done(run(api, tongue.text("hi"), tongue.stop(), *tongue.call(0, "x", "{}"), tongue.stop()))
    if api != "google-generative-ai":  # its streams have no last event: they end when they end
        assert after == done(alone)


UNKNOWN = [
    b'{"type": "brand_new_event", "x": 1}',
    b'{"type": "ping"}',
    b'{"object": "chat.completion.chunk", "choices": [], "new": {"a": [1]}}',
    b'{"candidates": [], "newField": 1}',
    b'{"model": "m", "message": {"role": "assistant", "content": "", "new": 1}, "done": false}',
]


@apis
def test_unknown_events_are_passed_over(api: str) -> None:
    tongue = TONGUES[api]
    for payload in UNKNOWN:
        strange = tongue.unit(payload)
        message = done(run(api, strange, tongue.text("a"), strange, tongue.text("b"), strange, tongue.stop()))
        assert message.text == "ab", payload


@apis
def test_no_number_where_one_should_be(api: str) -> None:
    tongue = TONGUES[api]
    for payload in (
        b'{"choices": [{"index": NaN, "delta": {}}], "usage": {"prompt_tokens": NaN, "completion_tokens": -5}}',
        b'{"type": "message_delta", "usage": {"output_tokens": NaN, "input_tokens": Infinity}, "delta": {}}',
        b'{"usageMetadata": {"promptTokenCount": NaN, "totalTokenCount": 1e999}, "candidates": [{}]}',
        b'{"prompt_eval_count": NaN, "eval_count": "many", "message": {}}',
    ):
        message = done(run(api, tongue.text("a"), tongue.unit(payload), tongue.stop()))
        assert message.text == "a"
        assert all(n >= 0 for n in (message.usage.input, message.usage.output, message.usage.totalTokens))


@apis
def test_half_characters(api: str) -> None:
    tongue = TONGUES[api]
    message = done(run(api, tongue.text("\ud83e"), tongue.text("\udd9e \ud800"), tongue.stop()))
    assert message.text == "🦞 �"  # halves that came apart are joined, one that is alone is marked
    (call,) = done(run(api, *tongue.call(0, "x", r'{"p": "\ud800 ok", "\udc00": 1}'), tongue.stop())).calls
    msgspec.json.encode(call.arguments)
    assert call.invalid is None and call.arguments["p"] == "� ok"


@apis
def test_five_megabytes_of_arguments(api: str) -> None:
    tongue = TONGUES[api]
    (call,) = done(run(api, *tongue.call(0, "x", '{"p": "' + "a" * 5_000_000 + '"}'), tongue.stop())).calls
    assert len(call.arguments["p"]) == 5_000_000


@apis
@pytest.mark.parametrize(
    "nest", ['{"a":' * 100_000 + "1" + "}" * 100_000, '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}"]
)
def test_arguments_a_hundred_thousand_deep(api: str, nest: str) -> None:
    tongue = TONGUES[api]
    last = run(api, *tongue.call(0, "x", nest), tongue.stop())[-1]
    if isinstance(last, StreamDone):
        (call,) = last.message.calls
        assert call.invalid and call.arguments == {} and len(call.invalid) < 200
    else:
        assert isinstance(last, StreamFailed) and last.failure.kind == "malformed"


@apis
def test_many_calls_and_one_without_a_name(api: str) -> None:
    tongue = TONGUES[api]
    pieces = [piece for n in range(300) for piece in tongue.call(n, f"c{n}", "{}")]
    events = run(api, *pieces, tongue.stop())
    assert len({c.id for c in done(events).calls}) == 300 == sum(isinstance(e, CallStart) for e in events)


@apis
def test_comments_without_end_cost_no_memory(api: str) -> None:
    if api.startswith("bedrock"):
        filler = encode_frame({":event-type": "keepAlive", ":message-type": "event"}, b"{}") * 50
    else:
        filler = b"\n" * 10_000 if api == "ollama" else b": " + b"x" * 50_000
    decoder = load_row(WIRES, api).decoder(request(model=info(api)))
    for _ in range(500):
        assert decoder.feed(filler) == []
    (only,) = decoder.close()
    assert isinstance(only, StreamFailed) and only.failure.kind == "cut"


# --- over HTTP ------------------------------------------------------------------------------------------------


class Clock:
    """Sleeps are noted; time stands unless told to run."""

    def __init__(self, step: float = 0.0) -> None:
        self.slept: list[float] = []
        self.step = step
        self.at = 0.0

    def now(self) -> int:
        return START_MS

    def monotonic(self) -> float:
        self.at += self.step
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


PAGE = b"<!doctype html><html><head><title>Sign in</title></head><body>" + b"<p>please</p>" * 5000 + b"</body></html>"
LONG = b"x" * 300_000
# status, content type, body, kind, calls made
ANSWERS: dict[str, tuple[int, str, bytes, tuple[str, ...], int]] = {
    "a page": (200, "text/html", PAGE, ("malformed",), 2),
    "a picture": (200, "image/png", b"\x89PNG", ("malformed",), 2),
    "text": (200, "text/plain", b"hello there\n", ("malformed", "cut"), 3),
    "long text": (200, "text/plain", LONG, ("malformed", "cut"), 3),
    "junk as JSON": (200, "application/json", b"[[[", ("malformed", "cut"), 3),
    "nothing": (200, "text/event-stream", b"", ("cut",), 3),
    "a page with 502": (502, "text/html", PAGE, ("server",), 4),
    "a page with 403": (403, "text/html", PAGE, ("auth",), 1),
    "a page with 404": (404, "text/html", PAGE, ("not_found",), 1),
    "text with 400": (400, "text/plain", LONG, ("format",), 1),
    "broken JSON with 429": (429, "application/json", b'{"error": {"mess', ("rate_limit",), 4),
    "a deep error": (500, "application/json", b'{"error":' * 50_000, ("server",), 4),
    "a list": (400, "application/json", b'[{"error": {"message": "no", "code": 400}}]', ("format",), 1),
}


async def ask(
    api: str, handler: Callable[[web.Request], Any], clock: Clock, limits: HttpTimeouts | None = None
) -> tuple[list[ModelEvent], int]:
    calls = 0

    async def counted(asked: web.Request) -> Any:
        nonlocal calls
        calls += 1
        return await handler(asked)

    app = web.Application()
    app.router.add_post("/{tail:.*}", counted)
    async with TestServer(app) as server:
        own = ProviderSettings(
            "fake",
            base_url=str(server.make_url("/v1")),
            api=api,
            api_key=Secret("canary-0123456789"),
            models=(ModelSettings("m"),),
        )
        models = ProviderModels(
            Catalog(settings(own), {}), clock, limits=limits or HttpTimeouts(2, 5, 5), chance=lambda: 0.5
        )
        found = models._catalog.find("fake/m", agent())
        assert isinstance(found, ModelSpec)
        asked = msgspec.structs.replace(request(UserMessage("x")), model=found)
        try:
            events = [event async for event in models.stream(asked, Abort())]
        finally:
            await models.close()
    return events, calls


@apis
@pytest.mark.parametrize("name", ANSWERS)
async def test_answers_that_are_none(api: str, name: str) -> None:
    status, kind, body, kinds, most = ANSWERS[name]

    async def answer(asked: web.Request) -> web.Response:
        return web.Response(status=status, body=body, content_type=kind)

    clock = Clock()
    events, calls = await ask(api, answer, clock)
    last = events[-1]
    assert isinstance(last, StreamFailed) and last.failure.kind in kinds, last
    assert len(last.failure.message) <= 500 and "<" not in last.failure.message
    assert calls <= most and len(clock.slept) == calls - 1
    assert sum(isinstance(e, StreamRetry) for e in events) == calls - 1


@apis
async def test_comments_without_end_are_given_up(api: str) -> None:
    async def answer(asked: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(asked)
        for _ in range(10_000):
            await response.write(nothing(api))
            await asyncio.sleep(0.001)
        return response

    events, calls = await ask(api, answer, Clock(step=100.0), HttpTimeouts(2, 5, 5, 900))
    last = events[-1]
    assert isinstance(last, StreamFailed) and last.failure.kind == "timeout", last
    assert "nothing but comments for 900 s" in last.failure.message
    assert calls == 2  # a time-out is tried once more


def nothing(api: str) -> bytes:
    """A wire's way of saying nothing."""
    if api.startswith("bedrock"):
        return encode_frame({":event-type": "keepAlive", ":message-type": "event"}, b"{}")
    return b"\n" if api == "ollama" else b": wait\n\n"


# --- before anything is sent ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in VENDORS if load_row(VENDORS, n).keys and not load_row(VENDORS, n).keyless])
def test_a_missing_key_says_where_to_put_one(name: str) -> None:
    vendor = load_row(VENDORS, name)
    found = credentials.find_key(name, None, vendor, {}, False)
    assert isinstance(found, ModelFailure) and found.kind == "config"
    assert vendor.keys[0] in found.message and f"models.providers.{name}.apiKey" in found.message


@pytest.mark.parametrize("name", VENDORS)
def test_a_misspelt_provider_is_guessed(name: str) -> None:
    if len(name) < 4:
        return
    typo = name[:-2] + name[-1]
    found = Catalog(settings(), {}).find(f"{typo}/some-model", agent())
    assert isinstance(found, ModelFailure) and "did you mean" in found.message
