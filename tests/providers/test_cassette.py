"""Cassettes: what was recorded comes back byte for byte; what differs is named; credentials are blanked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.abort import Abort
from palinurus.core.types.messages import AssistantMessage, TextBlock, ToolCall, ToolResult, UserMessage
from palinurus.core.types.model import Model, ModelEvent, ModelRequest, Prompt, StreamDone, StreamFailed
from palinurus.errors import BadRequest, NotFound, PalinurusError
from palinurus.providers.cassette import CassettePlayer, CassetteRecorder, find_difference, wrap_model
from palinurus.testing.clock import FakeClock
from palinurus.testing.model import ScriptedModel, call_tools, fail, say
from providers.kit import READ, info, request

SECRET = "sk-canary-0123456789abcdef"


async def drain(model: Model, asked: ModelRequest) -> list[ModelEvent]:
    return [event async for event in model.stream(asked, Abort())]


def conversation() -> list[ModelRequest]:
    first = request(UserMessage("look at ü.txt"), tools=(READ,))
    then = request(
        UserMessage("look at ü.txt", timestamp=5),
        AssistantMessage((ToolCall("c", "read", {"path": "ü.txt"}),), timestamp=6),
        ToolResult("c", "read", (TextBlock("🦞"),), timestamp=7),
        tools=(READ,),
    )
    return [first, then, request(UserMessage("fails"))]


async def record(path: Path, **options: Any) -> list[list[ModelEvent]]:
    script = [call_tools(("read", {"path": "ü.txt"})), say("It says 🦞."), fail("overloaded", "busy")]
    recorder = CassetteRecorder(ScriptedModel(script), str(path), **options)
    return [await drain(recorder, asked) for asked in conversation()]


async def test_round_trip_is_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    live = await record(path)
    player = CassettePlayer(str(path))
    played = [await drain(player, asked) for asked in conversation()]
    assert msgspec.json.encode(played) == msgspec.json.encode(live) and played == live
    assert player.left == 0
    assert os.stat(path).st_mode & 0o077 == 0


async def test_any_order_and_changed_circumstances(tmp_path: Path) -> None:
    """Lanes run side by side; clocks, addresses and the volatile part of the prompt are not the same next time."""
    live = await record(tmp_path / "a.jsonl")
    player = CassettePlayer(str(tmp_path / "a.jsonl"))
    moved = [
        msgspec.structs.replace(
            asked,
            model=msgspec.structs.replace(asked.model, base_url="http://elsewhere", headers={"a": "b"}),
            prompt=Prompt(asked.prompt.stable, "It is later."),
            session="other",
        )
        for asked in conversation()
    ]
    assert await drain(player, moved[2]) == live[2]
    assert await drain(player, moved[0]) == live[0]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (request(UserMessage("look at u.txt"), tools=(READ,)), "messages[0].content at character 8"),
        (request(UserMessage("look at ü.txt")), "tools: recorded 1 entries, now 0"),
        (request(UserMessage("look at ü.txt"), tools=(READ,), level="high"), "level at character 0"),
        (request(UserMessage("look at ü.txt"), tools=(READ,), model=info("anthropic-messages")), "api at character 0"),
        (
            request(UserMessage("look at ü.txt"), tools=(READ,), prompt=Prompt("You are a best.")),
            "prompt at character 10",
        ),
        (request(UserMessage("look at ü.txt"), tools=(READ,), max_tokens=3), "max_tokens: recorded None, now 3"),
    ],
)
async def test_a_difference_is_named(asked: ModelRequest, words: str, tmp_path: Path) -> None:
    await record(tmp_path / "a.jsonl")
    (event,) = await drain(CassettePlayer(str(tmp_path / "a.jsonl")), asked)
    assert isinstance(event, StreamFailed) and event.failure.kind == "format"
    assert words in event.failure.message and "a.jsonl" in event.failure.message


async def test_one_call_too_many(tmp_path: Path) -> None:
    await record(tmp_path / "a.jsonl")
    player = CassettePlayer(str(tmp_path / "a.jsonl"))
    for asked in conversation():
        await drain(player, asked)
    (event,) = await drain(player, conversation()[0])
    assert isinstance(event, StreamFailed) and "all 3 recorded calls were used" in event.failure.message


async def test_credentials_are_blanked_and_it_still_plays(tmp_path: Path) -> None:
    path = str(tmp_path / "a.jsonl")
    asked = request(
        UserMessage(f"my key is {SECRET}, password=hunter22, mine: plain-secret"), model=info(headers={"x": SECRET})
    )
    recorder = CassetteRecorder(
        ScriptedModel([say(f"noted {SECRET} and plain-secret")], chunk=999), path, secrets=["plain-secret"]
    )
    await drain(recorder, asked)
    text = (tmp_path / "a.jsonl").read_text()
    assert "canary" not in text and "hunter22" not in text and "plain-secret" not in text
    events = await drain(CassettePlayer(path, secrets=["plain-secret"]), asked)
    assert isinstance(events[-1], StreamDone) and events[-1].message.text == "noted *** and ***"


async def test_recorded_timing_is_kept_when_asked_for(tmp_path: Path) -> None:
    path = str(tmp_path / "a.jsonl")
    clock = FakeClock()

    class Slow(ScriptedModel):
        async def stream(self, request: ModelRequest, stop: Abort) -> Any:
            async for event in ScriptedModel.stream(self, request, stop):
                await clock.advance(0.5)
                yield event

    await drain(CassetteRecorder(Slow([say("abc")], chunk=1), path, clock=clock), request())

    class Noted(FakeClock):
        async def sleep(self, seconds: float) -> None:
            self.slept.append(seconds)

    later = Noted()
    await drain(CassettePlayer(path, clock=later), request())
    assert later.slept == [0.5, 0.5, 0.5, 0.5]


async def test_stop_while_playing(tmp_path: Path) -> None:
    await record(tmp_path / "a.jsonl")
    stop = Abort()
    stop.set("user")
    events = [e async for e in CassettePlayer(str(tmp_path / "a.jsonl")).stream(conversation()[0], stop)]
    assert isinstance(events[-1], StreamFailed) and events[-1].failure.kind == "aborted"


def test_broken_or_missing_cassettes(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        CassettePlayer(str(tmp_path / "none"))
    (tmp_path / "bad").write_text('\n{"v": 1}\n')
    with pytest.raises(BadRequest, match="bad:2"):
        CassettePlayer(str(tmp_path / "bad"))


async def test_wrap(tmp_path: Path) -> None:
    model, path = ScriptedModel([say("x")]), str(tmp_path / "c")
    assert wrap_model(model, "") is model
    live = await drain(wrap_model(model, f"record:{path}"), request())
    assert await drain(wrap_model(model, f"replay:{path}"), request()) == live
    for spec in ("record", "replay:", "play:x"):
        with pytest.raises(PalinurusError, match="cannot read"):
            wrap_model(model, spec)


def test_difference() -> None:
    assert find_difference({"a": [1, {"b": "x"}]}, {"a": [1, {"b": "x"}]}) == ""
    assert find_difference({"a": [1, {"b": "xy"}]}, {"a": [1, {"b": "xz"}]}).startswith("a[1].b at character 1")
    assert find_difference({"a": 1}, {}) == "a: missing now" and find_difference({}, {"a": 1}) == "a: not recorded"
    assert find_difference(1, "1").startswith("request: recorded 1, now '1'")
    assert find_difference({"a": 1}, {"a": 2}) == "a: recorded 1, now 2"
