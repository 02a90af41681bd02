"""One call over a real socket: answers, refusals, cuts, stalls, stops, retries. It never raises and never leaks."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from palinurus.abort import Abort
from palinurus.config.sections.models import ModelSettings, ProviderSettings
from palinurus.config.settings import Secret
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.messages import TextBlock, ToolCall, UserMessage
from palinurus.core.types.model import (
    ModelEvent,
    ModelRequest,
    ModelSpec,
    StreamDone,
    StreamFailed,
    StreamRetry,
    TextDelta,
)
from palinurus.providers.catalog import Catalog
from palinurus.providers.credentials import KeyLease
from palinurus.providers.http import HttpTimeouts
from palinurus.providers.stream import ProviderModels
from palinurus.testing.clock import START_MS
from palinurus.testing.model import StreamGate, call_tools, hold_at, say
from palinurus.testing.server import (
    ModelServer,
    ScriptedResponse,
    cut_stream,
    refuse_connection,
    respond_html,
    respond_malformed,
    respond_status,
    split_stream,
    stall_stream,
)
from providers.kit import agent, request, settings

CANARY = "canary-3f9c1b7e-key"
APIS = ("openai-completions", "anthropic-messages")


class QuickClock:
    """Sleeps are noted, not slept."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> int:
        return START_MS

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class Bench:
    """A provider in the config, a client, and what happened."""

    def __init__(self, url: str, api: str = APIS[0], limits: HttpTimeouts | None = None, **provider: Any) -> None:
        facts = {"base_url": url, "api": api, "api_key": Secret(CANARY), "models": (ModelSettings("m"),), **provider}
        self.catalog = Catalog(settings(ProviderSettings("fake", **facts)), {})
        self.clock = QuickClock()
        self.models = ProviderModels(
            self.catalog, self.clock, limits=limits or HttpTimeouts(2, 5, 5), chance=lambda: 0.5
        )
        found = self.catalog.find("fake/m", agent())
        assert isinstance(found, ModelSpec)
        self.model = found

    async def ask(self, asked: ModelRequest | None = None, stop: Abort | None = None) -> list[ModelEvent]:
        asked = msgspec.structs.replace(asked or request(UserMessage("hello")), model=self.model)
        try:
            events = [event async for event in self.models.stream(asked, stop or Abort())]
        finally:
            await self.models.close()
        assert isinstance(events[-1], StreamDone | StreamFailed)
        assert not any(isinstance(e, StreamDone | StreamFailed) for e in events[:-1])
        assert CANARY not in repr(events)
        return events


def failure(events: list[ModelEvent]) -> StreamFailed:
    assert isinstance(events[-1], StreamFailed), events[-1]
    return events[-1]


def tries(events: list[ModelEvent]) -> int:
    return sum(isinstance(e, StreamRetry) for e in events) + 1


@pytest.mark.parametrize("api", APIS)
async def test_text_and_calls(api: str) -> None:
    async with ModelServer([split_stream(say("Grüße 🦞"), 3), call_tools(("read", {"path": "ü"}))]) as server:
        events = await Bench(server.url, api).ask()
        said = events[-1].message
        assert said.content == (TextBlock("Grüße 🦞"),) and said.timestamp == START_MS
        assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Grüße 🦞"
        assert (said.api, said.provider, said.model) == (api, "fake", "m")
        (call,) = (await Bench(server.url, api).ask())[-1].message.calls
        assert isinstance(call, ToolCall) and (call.name, call.arguments) == ("read", {"path": "ü"})
        sent = server.requests[0].headers
        if api == "openai-completions":
            assert sent["authorization"] == f"Bearer {CANARY}"
        else:
            assert sent["x-api-key"] == CANARY and sent["anthropic-version"] and "authorization" not in sent


async def test_auth_header_sends_the_key_as_a_bearer_token() -> None:
    """models.providers.<id>.authHeader, for proxies that take no other."""
    async with ModelServer([say("x")]) as server:
        await Bench(server.url, "anthropic-messages", auth_header=True).ask()
        sent = server.requests[0].headers
        assert sent["authorization"] == f"Bearer {CANARY}" and "x-api-key" not in sent


async def test_headers_of_the_config_win() -> None:
    async with ModelServer([say("x")]) as server:
        await Bench(server.url, headers={"Authorization": "Custom abcdefgh", "X-Extra": "1"}).ask()
        sent = server.requests[0].headers
        assert (sent["authorization"], sent["x-extra"]) == ("Custom abcdefgh", "1")


FAULTS: list[tuple[str, Any, str, int]] = [
    ("401", respond_status(401, '{"error": {"message": "Incorrect API key: ' + CANARY + '"}}'), "auth", 1),
    ("403", respond_status(403), "auth", 1),
    ("402", respond_status(402), "billing", 1),
    ("404", respond_status(404, '{"error": {"message": "model m not found"}}'), "not_found", 1),
    ("400", respond_status(400, '{"error": {"message": "bad messages[3]"}}'), "format", 1),
    (
        "overflow",
        respond_status(400, '{"error": {"message": "maximum context length is 10", "code": null}}'),
        "overflow",
        1,
    ),
    ("413", respond_status(413, "too big"), "overflow", 1),
    ("quota", respond_status(429, '{"error": {"code": "insufficient_quota", "message": "pay"}}'), "billing", 1),
    ("429", respond_status(429), "rate_limit", 4),
    ("500", respond_status(500, "oops"), "server", 4),
    ("502", respond_status(502, "<html><title>Bad gateway</title><body>nginx</body></html>"), "server", 4),
    ("503", respond_status(503), "overloaded", 4),
    (
        "529",
        respond_status(529, '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'),
        "overloaded",
        4,
    ),
    ("504", respond_status(504), "timeout", 2),
    ("refused", refuse_connection(), "network", 3),
    ("nothing", cut_stream(say("hello"), 0), "cut", 3),
    ("malformed", respond_malformed(), "malformed", 2),
    ("html", respond_html(), "malformed", 2),
    ("plain", ScriptedResponse(body=b"hello there\n", headers={"content-type": "text/plain"}), "malformed", 2),
    ("redirect", respond_status(302, "", {"location": "https://elsewhere.example/x?key=abc"}), "config", 1),
    ("empty", ScriptedResponse(body=b"", headers={"content-type": "text/event-stream"}), "cut", 3),
    ("comments", ScriptedResponse(body=b": wait\n\n" * 5000, headers={"content-type": "text/event-stream"}), "cut", 3),
    (
        "json error",
        ScriptedResponse(body=b'{"error":{"message":"no"}}', headers={"content-type": "application/json"}),
        "server",
        4,
    ),
    ("junk json", ScriptedResponse(body=b"[[[", headers={"content-type": "application/json"}), "malformed", 2),
]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(("answer", "kind", "attempts"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
async def test_faults(answer: Any, kind: str, attempts: int, api: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with ModelServer(default=answer) as server:
        bench = Bench(server.url, api)
        events = await bench.ask()
        last = failure(events)
        assert (last.failure.kind, tries(events)) == (kind, attempts)
        assert len(server.requests) == attempts == len(bench.clock.slept) + 1
        assert last.failure.message.startswith("fake") and len(last.failure.message) <= 400
        assert "<" not in last.failure.message and "key=" not in last.failure.message
        assert last.message.stopReason == "error" and last.message.errorMessage == last.failure.message
        assert not last.failure.partial
    assert CANARY not in caplog.text


@pytest.mark.parametrize("after", [429, 500, 529])
async def test_a_second_try_that_works_says_nothing_twice(after: int) -> None:
    async with ModelServer([respond_status(after), say("once")]) as server:
        events = await Bench(server.url).ask()
        assert isinstance(events[0], StreamRetry) and events[0].attempt == 1
        assert events[-1].message.text == "once"
        assert sum(isinstance(e, StreamDone) for e in events) == 1


@pytest.mark.parametrize(
    ("headers", "slept", "attempts"),
    [
        ({"retry-after": "1"}, 1.05, 4),
        ({"retry-after": "0"}, 0.05, 4),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.55, 4),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:07 GMT"}, 7.05, 4),
        ({"retry-after": "Wed, 01 Jan 2020 00:00:00 GMT"}, 0.05, 4),
        ({"retry-after": "soon"}, 2.0, 4),
        ({"retry-after": "nan"}, 2.0, 4),
        ({"retry-after": "-5"}, 0.05, 4),
        ({"retry-after": "3600"}, None, 1),
        ({"retry-after": "inf"}, 2.0, 4),
    ],
)
async def test_retry_after(headers: dict[str, str], slept: float | None, attempts: int) -> None:
    async with ModelServer(default=respond_status(429, headers=headers)) as server:
        bench = Bench(server.url)
        events = await bench.ask()
        assert tries(events) == attempts
        if slept is None:
            assert failure(events).failure.retry_after == 3600
        else:
            assert bench.clock.slept[0] == pytest.approx(slept)


async def test_nobody_listens() -> None:
    async with ModelServer() as server:
        url = server.url
    events = await Bench(url).ask()
    assert failure(events).failure.kind == "network" and tries(events) == 3
    assert "cannot reach 127.0.0.1" in failure(events).failure.message


async def test_no_such_host() -> None:
    events = await Bench("http://nowhere.invalid/v1").ask()
    assert failure(events).failure.kind in ("network", "timeout")


@pytest.mark.parametrize("api", APIS)
async def test_cut_after_text_is_not_tried_again_and_keeps_the_text(api: str) -> None:
    text = "word " * 200
    async with ModelServer(default=cut_stream(say(text), 4000)) as server:
        events = await Bench(server.url, api).ask()
        last = failure(events)
        assert (last.failure.kind, last.failure.partial, tries(events)) == ("cut", True, 1)
        assert last.message.text and text.startswith(last.message.text)
        assert last.message.text == "".join(e.text for e in events if isinstance(e, TextDelta))
        assert len(server.requests) == 1


@pytest.mark.parametrize("after", [0, 3000])
async def test_a_stall_ends_with_a_time_out(after: int) -> None:
    limits = HttpTimeouts(connect=2, first=0.05, idle=0.05)
    async with ModelServer(default=stall_stream(say("word " * 300), after)) as server:
        events = await Bench(server.url, limits=limits).ask()
        last = failure(events)
        assert last.failure.kind == "timeout" and last.failure.partial == bool(after)
        assert tries(events) == (1 if after else 2)
        assert not asyncio.current_task().cancelling()  # type: ignore[union-attr]


async def test_a_slow_reader_is_not_a_stall() -> None:
    """The watch counts the provider's silence, not the time we take ourselves."""
    async with ModelServer(default=say("word " * 50)) as server:
        bench = Bench(server.url, limits=HttpTimeouts(2, 0.2, 0.05))
        events = []
        async for event in bench.models.stream(msgspec.structs.replace(request(), model=bench.model), Abort()):
            events.append(event)
            if len(events) == 1:
                await asyncio.sleep(0.2)
        await bench.models.close()
        assert isinstance(events[-1], StreamDone)


@pytest.mark.parametrize("api", APIS)
async def test_stop_within_a_stream(api: str) -> None:
    gate = StreamGate()
    async with ModelServer(default=hold_at(say("word " * 20), gate, before=6)) as server:
        bench, stop, shown = Bench(server.url, api), Abort(), ""
        async for event in bench.models.stream(msgspec.structs.replace(request(), model=bench.model), stop):
            if isinstance(event, TextDelta):
                shown += event.text
                asyncio.get_running_loop().call_later(0.05, stop.set, "user")
        await bench.models.close()
        assert isinstance(event, StreamFailed)
        assert (event.failure.kind, event.failure.message, event.failure.partial) == ("aborted", "user", True)
        assert event.message.stopReason == "aborted" and event.message.text == shown != ""
        gate.open()


async def test_stop_before_and_while_waiting_for_a_retry() -> None:
    stop = Abort()
    stop.set("user")
    async with ModelServer(default=respond_status(500)) as server:
        assert failure(await Bench(server.url).ask(stop=stop)).failure.kind == "aborted"
        assert server.requests == []
        bench, later = Bench(server.url), Abort()

        async def never(seconds: float) -> None:
            later.set("drain")
            await asyncio.Event().wait()

        bench.clock.sleep = never  # type: ignore[method-assign]
        last = failure(await bench.ask(stop=later))
        assert (last.failure.kind, last.failure.message) == ("aborted", "drain")


async def test_stop_while_the_server_thinks() -> None:
    async with ModelServer(default=stall_stream(say("x"), 0)) as server:
        stop = Abort()
        asyncio.get_running_loop().call_later(0.05, stop.set, "user")
        last = failure(await Bench(server.url, limits=HttpTimeouts(2, None, None)).ask(stop=stop))
        assert last.failure.kind == "aborted" and not last.failure.partial


async def test_a_cancelled_task_is_cancelled() -> None:
    async with ModelServer(default=stall_stream(say("x"), 0)) as server:
        bench = Bench(server.url)
        task = asyncio.create_task(bench.ask())
        while not server.requests:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("api", APIS)
async def test_a_whole_answer_instead_of_a_stream(api: str) -> None:
    whole = {
        APIS[0]: b'{\n"choices": [{"message": {"content": "all"}, "finish_reason": "stop"}]}',
        APIS[1]: b'{\n"type": "message", "content": [{"type": "text", "text": "all"}], "stop_reason": "end_turn"}',
    }
    answer = ScriptedResponse(body=whole[api], headers={"content-type": "application/json"})
    async with ModelServer([answer]) as server:
        assert (await Bench(server.url, api).ask())[-1].message.text == "all"


async def test_text_with_half_a_character_can_be_sent() -> None:
    async with ModelServer([say("ok")]) as server:
        events = await Bench(server.url).ask(request(UserMessage("x\ud800y")))
        assert isinstance(events[-1], StreamDone)
        assert server.requests[0].body["messages"][-1]["content"] == "x\ufffdy"


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        ({"url": "ftp://x"}, "models.providers.fake.baseUrl"),
        ({"url": ""}, "models.providers.fake.baseUrl"),
        ({"api": "smoke-signals"}, "smoke-signals"),
        ({"url": "https://far.example/v1", "api_key": Secret()}, "models.providers.fake.apiKey"),
        ({"api_key": Secret(CANARY + "\r\nX-Evil: 1")}, "forbidden character"),
        ({"url": "http://[::1"}, ""),
    ],
)
async def test_wrong_config_is_a_value(provider: dict[str, Any], words: str) -> None:
    last = failure(await Bench(**{"url": "http://127.0.0.1:9/v1", **provider}).ask())
    assert last.failure.kind in ("config", "network") and words in last.failure.message


async def test_an_unknown_model_says_why() -> None:
    catalog = Catalog(settings(model="antropic/claude"), {})
    models = ProviderModels(catalog, QuickClock())
    asked = request(model=catalog.default(agent(model="antropic/claude")))
    events = [e async for e in models.stream(asked, Abort())]
    assert "did you mean 'anthropic/claude'" in failure(events).failure.message


async def test_the_built_in_model_is_reached_the_same_way() -> None:
    catalog = Catalog(settings(), {})
    models = ProviderModels(catalog, QuickClock())
    events = [e async for e in models.stream(request(UserMessage("hello"), model=catalog.default(agent())), Abort())]
    assert isinstance(events[-1], StreamDone) and events[-1].message.model == "demo" and events[-1].message.timestamp


async def test_nothing_shows_the_key() -> None:
    async with ModelServer(default=respond_status(500, CANARY)) as server:
        bench = Bench(server.url)
        call = bench.models._prepare(msgspec.structs.replace(request(), model=bench.model), KeyLease(Secret(CANARY)))
        assert CANARY not in repr(call)
        assert CANARY not in repr(await bench.ask())


def test_local_servers_are_not_watched_unless_asked() -> None:
    models = ProviderModels(Catalog(settings(), {}), QuickClock())

    def limits(url: str, timeout: float | None = None) -> HttpTimeouts:
        return models._limit(ModelSpec(ModelRef("p", "m"), "x", url, timeout=timeout))

    assert limits("http://127.0.0.1:11434/v1") == HttpTimeouts(15, None, None, None)
    assert limits("https://api.example/v1") == HttpTimeouts(15, 120, 120)
    assert limits("http://localhost:1/v1", 30) == HttpTimeouts(15, 30, 30, None)
