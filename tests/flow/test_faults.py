"""A provider that misbehaves, through the whole App: the person is told, and other sessions go on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import call_tools, say
from palinurus.testing.server import (
    ModelServer,
    ScriptedResponse,
    cut_stream,
    refuse_connection,
    respond_html,
    respond_malformed,
    respond_status,
)
from support import inbound

APIS = ["openai-completions", "anthropic-messages"]

FAULTS: dict[str, tuple[Any, str]] = {
    "refused": (refuse_connection(), ""),
    "401": (respond_status(401, '{"error": {"message": "invalid x-api-key"}}'), "key"),
    "429": (respond_status(429, headers={"retry-after": "3600"}), ""),
    "500": (respond_status(500), ""),
    "html": (respond_html(502), ""),
    "malformed": (respond_malformed(), ""),
    "overflow": (respond_status(400, '{"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}'), ""),
    "not found": (respond_status(404, '{"error": {"message": "model not found"}}'), ""),
}


def app_for(tmp_path: Path, url: str, api: str, channel: FakeChannel) -> App:
    provider = {"baseUrl": url, "apiKey": "secret-canary-key", "api": api, "models": [{"id": "m"}]}
    config = {"models": {"providers": {"p": provider}}, "agents": {"defaults": {"model": "p/m"}}}
    home = tmp_path / "home"
    home.mkdir()
    (home / "palinurus.json").write_text(json.dumps(config))
    return App(load_config(str(home), {}).settings, {}, Hurried(), channels={channel.name: channel})


def newest(asked: Any) -> str:
    """The last thing the person said; unanswered messages before it may stand in the same turn."""
    content = asked.body["messages"][-1]["content"]
    return str(content if isinstance(content, str) else content[-1]["text"])


class Hurried(SystemClock):
    """Waiting between tries costs no time; how often they come is counted by the server."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
async def test_a_fault_is_explained_and_others_go_on(tmp_path: Path, fault: str, api: str) -> None:
    answer, word = FAULTS[fault]

    def script(asked: Any) -> Any:
        return answer if newest(asked) == "this is broken" else say("fine")

    channel = FakeChannel()
    async with ModelServer([], default=script) as server:
        app = app_for(tmp_path, server.url, api, channel)
        await app.start()
        try:
            bad = await app.submit(inbound("this is broken", session="bad"))
            good = await app.submit(inbound("hello", session="good"))
            assert (await app.wait(good.id)).note == "fine"
            row = await app.wait(bad.id)
            after = await app.submit(inbound("again", session="bad"))
            assert (await app.wait(after.id)).note == "fine"
        finally:
            await app.stop()
        asked = len([a for a in server.requests if newest(a) == "this is broken"])
    assert row.outcome == "failed" and row.note and word in row.note.lower()
    assert len(row.note) < 400 and "<html" not in row.note and "canary" not in row.note
    assert asked <= 8  # no storm


@pytest.mark.parametrize("api", APIS)
async def test_a_cut_stream_keeps_what_was_said_and_says_that_it_was_cut(tmp_path: Path, api: str) -> None:
    text = "A rather long answer that will not be finished. " * 20
    channel = FakeChannel()
    async with ModelServer([cut_stream(say(text), 2500)]) as server:
        app = app_for(tmp_path, server.url, api, channel)
        await app.start()
        try:
            (ident,) = await channel.receive("hello", event="1")
            row = await app.wait(ident)
            async with asyncio.timeout(60):
                while len(channel.seen) < 2:
                    await asyncio.sleep(0.01)
        finally:
            await app.stop()
    assert row.outcome == "failed" and len(server.requests) == 1
    said, notice = channel.texts
    assert said and text.startswith(said) and said != text.strip()
    assert notice.startswith("⚠️")


@pytest.mark.parametrize("api", APIS)
async def test_arguments_that_are_no_json_are_explained_to_the_model(tmp_path: Path, api: str) -> None:
    """The stream is our own, with the JSON broken on the way."""
    seen: list[Any] = []

    def script(asked: Any) -> Any:
        seen.append(asked.body)
        if len(seen) > 1:
            return say("understood")
        return call_tools(("read", {"path": "BREAK"}))

    channel = FakeChannel()
    async with ModelServer([], default=script) as server:
        app = app_for(tmp_path, await breaking(server), api, channel)
        await app.start()
        try:
            done = await app.wait((await app.submit(inbound("go"))).id)
        finally:
            await app.stop()
            await stop_breaking()
    assert done.note == "understood"
    assert "JSON" in json.dumps(seen[1])


_relays: list[asyncio.Server] = []


async def breaking(server: ModelServer) -> str:
    """A relay that spoils the closing quote of the marked argument in what the provider sends."""
    host, port = "127.0.0.1", int(server.url.split(":")[2].split("/")[0])

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, spoil: bool) -> None:
        while data := await reader.read(65536):
            writer.write(data.replace(b'BREAK\\"', b"BREAK\\\\") if spoil else data)
            await writer.drain()
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, port)
        await asyncio.gather(pipe(reader, back, False), pipe(there, writer, True), return_exceptions=True)

    made = await asyncio.start_server(relay, host, 0)
    _relays.append(made)
    return server.url.replace(f":{port}", f":{made.sockets[0].getsockname()[1]}")


async def stop_breaking() -> None:
    while _relays:
        _relays.pop().close()


async def test_two_hundred_calls_in_one_answer(tmp_path: Path) -> None:
    many = call_tools(*(("ls", {"path": ".", "limit": n + 1}) for n in range(200)))
    channel = FakeChannel()
    async with ModelServer([many, say("done")]) as server:
        app = app_for(tmp_path, server.url, "openai-completions", channel)
        await app.start()
        try:
            row = await app.wait((await app.submit(inbound("go"))).id)
        finally:
            await app.stop()
        results = [m for m in server.requests[1].body["messages"] if m["role"] == "tool"]
    assert len(results) == 200 and len({r["tool_call_id"] for r in results}) == 200
    assert row.note == "done"


def test_the_faults_are_answers() -> None:
    assert all(isinstance(answer, ScriptedResponse) for answer, _ in FAULTS.values())
