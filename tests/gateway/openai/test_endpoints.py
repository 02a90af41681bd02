"""Chat completions from the outside: OpenAI's own SDK, idempotency, failures, clients that leave or do not read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import msgspec
import pytest

from gateway.host import TOKEN, USAGE, FakeHost, words
from later import LaterModule, open_openai
from palinurus.core.types.events import AgentEnd, MessageEnd, MessageStart, MessageUpdate, RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.messages import AssistantMessage, TextBlock, ToolCall
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.usage import TokenUsage
from palinurus.errors import BadRequest, DiskFull, Draining, QueueFull
from palinurus.gateway import limits
from palinurus.gateway.server import GatewayServer
from palinurus.store.port import UsageRow

openai = LaterModule("openai")

CHAT = "/v1/chat/completions"
HELLO = {"model": "openclaw", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
async def sdk(server: GatewayServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with open_openai(server.port, TOKEN) as client:
        yield client


async def frames(answer: aiohttp.ClientResponse) -> list[tuple[str, str]]:
    """(event name, data) of each server-sent event."""
    found = []
    for block in (await answer.text()).split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
        if fields:
            found.append((fields.get("event", ""), fields["data"]))
    return found


async def test_sdk_whole(sdk: openai.AsyncOpenAI, host: FakeHost) -> None:
    answer = await sdk.chat.completions.create(model="openclaw", messages=[{"role": "user", "content": "hi"}])
    assert answer.choices[0].message.content == "Hello"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (16, 7)
    assert answer.id.startswith("chatcmpl_") and answer.model == "openclaw"
    inbound = host.seen[0]
    assert (inbound.text, inbound.push, inbound.target.channel, inbound.sender.owner) == ("hi", False, "http", True)


async def test_sdk_stream(sdk: openai.AsyncOpenAI) -> None:
    stream = await sdk.chat.completions.create(
        model="openclaw",
        messages=[{"role": "user", "content": "hi"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].delta.content for c in chunks if c.choices and c.choices[0].delta.content] == ["Hel", "lo"]
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].usage is not None and chunks[-1].usage.total_tokens == 23
    assert len({c.id for c in chunks}) == 1


async def test_sdk_models(sdk: openai.AsyncOpenAI) -> None:
    assert "openclaw/work" in [m.id async for m in sdk.models.list()]


async def test_sdk_sees_typed_errors_and_does_not_repeat_an_accepted_message(
    sdk: openai.AsyncOpenAI, host: FakeHost
) -> None:
    host.outcome, host.note = "failed", "no luck"
    host.script = lambda i: words("par", end="error", failure=ModelFailure("overloaded", "busy"))
    with pytest.raises(openai.InternalServerError, match="busy"):
        await sdk.chat.completions.create(model="openclaw", messages=[{"role": "user", "content": "hi"}])
    assert len(host.seen) == 1
    stream = await sdk.chat.completions.create(
        model="openclaw", messages=[{"role": "user", "content": "hi"}], stream=True
    )
    with pytest.raises(openai.APIError, match="busy"):
        async for _ in stream:
            pass
    with pytest.raises(openai.AuthenticationError):
        await sdk.with_options(api_key="wrong").models.list()


FAILURES = [
    ("auth", 502),
    ("billing", 502),
    ("rate_limit", 429),
    ("overloaded", 503),
    ("server", 502),
    ("timeout", 408),
    ("network", 502),
    ("cut", 502),
    ("overflow", 400),
    ("not_found", 404),
    ("malformed", 502),
    ("aborted", 409),
    ("config", 500),
]


@pytest.mark.parametrize(("kind", "status"), FAILURES)
async def test_a_failed_run_has_its_status(http: aiohttp.ClientSession, host: FakeHost, kind: str, status: int) -> None:
    host.outcome = "failed"
    host.script = lambda i: words(end="error", failure=ModelFailure(kind, f"why: {kind}", retry_after=7))  # type: ignore[arg-type]
    answer = await http.post(CHAT, json=HELLO)
    error = (await answer.json())["error"]
    assert (answer.status, error["message"]) == (status, f"why: {kind}")
    assert set(error) == {"message", "type", "param", "code"}
    assert (answer.headers["x-should-retry"], answer.headers["Retry-After"]) == ("false", "7")
    streamed = await frames(await http.post(CHAT, json={**HELLO, "stream": True}))
    assert json.loads(streamed[-2][1])["error"] == error
    assert streamed[-1][1] == "[DONE]"


@pytest.mark.parametrize(
    ("exc", "status", "retry"),
    [
        (Draining("stopping"), 503, "true"),
        (QueueFull("full"), 429, "true"),
        (DiskFull("no space", fix="make room"), 507, "false"),
        (BadRequest("what?"), 400, "false"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_message_that_was_not_accepted(
    http: aiohttp.ClientSession, host: FakeHost, exc: Exception, status: int, retry: str, stream: bool
) -> None:
    host.refuse = exc
    answer = await http.post(CHAT, json={**HELLO, "stream": stream})
    assert (answer.status, answer.headers["x-should-retry"]) == (status, retry)
    assert str(exc) in (await answer.json())["error"]["message"]


async def test_a_chosen_silence_is_an_empty_answer(http: aiohttp.ClientSession, host: FakeHost) -> None:
    host.outcome = "silent"
    answer = await (await http.post(CHAT, json=HELLO)).json()
    assert answer["choices"][0]["message"]["content"] == ""


async def test_stream_and_whole_say_the_same_across_tool_rounds(http: aiohttp.ClientSession, host: FakeHost) -> None:
    first, second = (
        AssistantMessage((TextBlock("I look."), ToolCall("c", "ls", {}))),
        AssistantMessage((TextBlock("Done."),)),
    )
    host.script = lambda i: [
        MessageStart(),
        MessageUpdate("I look."),
        MessageEnd(first),
        MessageStart(),
        MessageUpdate("Do"),
        MessageUpdate("ne."),
        AgentEnd((first, second), "stop", USAGE),
    ]
    whole = (await (await http.post(CHAT, json=HELLO)).json())["choices"][0]["message"]["content"]
    streamed = await frames(await http.post(CHAT, json={**HELLO, "stream": True}))
    pieces = [json.loads(d)["choices"][0]["delta"].get("content", "") for n, d in streamed if d != "[DONE]"]
    assert whole == "".join(pieces) == "I look.\n\nDone."


async def test_an_answer_that_was_not_streamed_still_arrives(http: aiohttp.ClientSession, host: FakeHost) -> None:
    host.script = lambda i: []
    streamed = await frames(await http.post(CHAT, json={**HELLO, "stream": True}))
    assert json.loads(streamed[1][1])["choices"][0]["delta"]["content"] == "the note"


async def test_odd_text_survives(http: aiohttp.ClientSession, host: FakeHost) -> None:
    odd = 'a"\\\n\u2028\x00é漢🦞'
    host.script = lambda i: words(odd, "\ud83e", "end")
    streamed = await frames(await http.post(CHAT, json={**HELLO, "stream": True}))
    pieces = [json.loads(d)["choices"][0]["delta"].get("content", "") for n, d in streamed if d != "[DONE]"]
    assert "".join(pieces) == odd + "?end"


async def test_run_events_for_our_own_clients(http: aiohttp.ClientSession, host: FakeHost) -> None:
    answer = await http.post("/reach/turn", json={**HELLO, "stream": True})
    streamed = await frames(answer)
    events = [msgspec.json.decode(d, type=RunEvent) for n, d in streamed if n == "run"]
    assert events == words("Hel", "lo")
    named = {n: json.loads(d) for n, d in streamed if n in ("accepted", "outcome")}
    assert named["accepted"]["id"] == named["outcome"]["id"] == "item0"
    assert named["outcome"]["outcome"] == "answered" and named["outcome"]["text"] == "Hello"
    plain = await frames(await http.post(CHAT, json={**HELLO, "stream": True}))
    assert {n for n, _ in plain} == {""}


async def test_a_repeated_key_attaches_to_the_running_turn(http: aiohttp.ClientSession, host: FakeHost) -> None:
    host.hold = asyncio.Event()
    host.store.rows = [UsageRow("item0", "r", "agent:main:s", "main", "p", "m", 1, 3, 4, 0, 0)]
    host.note = "Hello"
    headers = {"Idempotency-Key": "k1", "x-openclaw-session-key": "s"}
    first = asyncio.ensure_future(http.post(CHAT, json=HELLO, headers=headers))
    while not host.seen:
        await asyncio.sleep(0)
    second = asyncio.ensure_future(http.post(CHAT, json=HELLO, headers=headers))
    third = asyncio.ensure_future(http.post(CHAT, json={**HELLO, "stream": True}, headers=headers))
    await asyncio.sleep(0.01)
    host.hold.set()
    answers = [await (await first).json(), await (await second).json()]
    assert [a["choices"][0]["message"]["content"] for a in answers] == ["Hello", "Hello"]
    assert answers[1]["usage"]["prompt_tokens"] == 3
    streamed = await frames(await third)
    assert json.loads(streamed[1][1])["choices"][0]["delta"]["content"] == "Hello"
    assert len(host.seen) == 1
    later = await (await http.post(CHAT, json=HELLO, headers=headers)).json()
    assert later["choices"][0]["message"]["content"] == "Hello" and len(host.seen) == 1


async def test_a_key_used_for_another_message_is_refused(http: aiohttp.ClientSession, host: FakeHost) -> None:
    headers = {"Idempotency-Key": "k1"}
    await http.post(CHAT, json=HELLO, headers=headers)
    other = {"model": "openclaw", "messages": [{"role": "user", "content": "something else"}]}
    assert (await http.post(CHAT, json=other, headers=headers)).status == 422


async def test_a_client_that_leaves_stops_nothing(http: aiohttp.ClientSession, host: FakeHost) -> None:
    over = asyncio.Event()
    seen = asyncio.Event()

    async def script(inbound: Inbound) -> AsyncIterator[RunEvent]:
        yield MessageUpdate("first")
        await seen.wait()
        for _ in range(100):
            yield MessageUpdate("x" * 1000)
            await asyncio.sleep(0)
        yield AgentEnd((), "stop", TokenUsage())
        over.set()

    host.script = script
    answer = await http.post(CHAT, json={**HELLO, "stream": True})
    assert await answer.content.readany()
    answer.close()
    seen.set()
    await asyncio.wait_for(over.wait(), 60)
    assert host.aborted == []


async def test_a_client_that_does_not_read_is_cut_off(server: GatewayServer, host: FakeHost) -> None:
    over = asyncio.Event()

    async def script(inbound: Inbound) -> AsyncIterator[RunEvent]:
        for _ in range(400):
            yield MessageUpdate("x" * 100_000)
            await asyncio.sleep(0)
        over.set()

    host.script = script
    body = json.dumps({**HELLO, "stream": True}).encode()
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1024)
    writer.write(head.encode() + b"\r\n" + body)
    await asyncio.wait_for(over.wait(), 60)
    got = 0
    try:
        while data := await asyncio.wait_for(reader.read(1 << 20), 60):
            got += len(data)
    except ConnectionError:
        pass
    writer.close()
    assert got < 400 * 100_000 - limits.BUFFER


async def test_one_large_piece_is_not_slowness(http: aiohttp.ClientSession, host: FakeHost) -> None:
    host.script = lambda i: words("x" * (limits.BUFFER + 1000))
    streamed = await frames(await http.post(CHAT, json={**HELLO, "stream": True}))
    assert streamed[-1][1] == "[DONE]"


@pytest.mark.parametrize("keyed", [False, True])
async def test_a_gateway_that_stops_says_that_the_message_is_kept(
    server: GatewayServer, http: aiohttp.ClientSession, host: FakeHost, keyed: bool
) -> None:
    host.hold = asyncio.Event()
    headers = {"Idempotency-Key": "k"} if keyed else {}
    whole = asyncio.ensure_future(http.post(CHAT, json=HELLO, headers=headers))
    streamed = await http.post(CHAT, json={**HELLO, "stream": True})
    while len(host.seen) < 2:
        await asyncio.sleep(0)
    stopping = asyncio.ensure_future(server.stop())
    answer = await whole
    assert (answer.status, answer.headers["x-should-retry"]) == (503, "true" if keyed else "false")
    assert "kept" in (await answer.json())["error"]["message"]
    told = await frames(streamed)
    assert json.loads(told[-2][1])["error"]["code"] == "draining" and told[-1][1] == "[DONE]"
    await stopping
