"""/new and /reset: what the next session keeps, and which word is a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import AssistantMessage, TextBlock, UserMessage
from palinurus.store.port import Settlement

KEY = SessionKey("main", "main")


async def test_what_people_switched_is_kept(office: Any) -> None:
    await office.say("/think high /verbose on /reasoning on /model deep /fast on /queue collect")
    before = await office.record()
    assert await office.say("/new") == "✅ New session started · model: big/deep-1"
    after = await office.record()
    assert after.sessionId != before.sessionId and after.usageFamilySessionIds == (before.sessionId,)
    kept = (after.thinkingLevel, after.verboseLevel, after.reasoningLevel, after.modelOverride)
    assert kept == ("high", "on", "on", "deep-1")
    assert after.fastMode is None and after.queueMode is None and after.totalTokens is None


async def test_hooks_hear_of_it_and_the_old_transcript_stays(office: Any) -> None:
    await office.say("/think high")
    old = await office.record()
    transcript = await office.program.transcripts.load(old.path("main"), "")
    lines = [*transcript.add(UserMessage("hi"), "i", 1), *transcript.add(AssistantMessage((TextBlock("yes"),)), "i", 2)]
    claim = await office.claim(office.message("x"))
    await office.store.settle(claim, Settlement("answered", lines=tuple(lines)))
    office.listen("before_reset", "session_end", "session_start")
    await office.say("/reset")
    await office.program.hooks.drain()
    new = await office.record()
    told = dict(office.hooked)
    assert [m["role"] for m in told["before_reset"]["messages"]] == ["user", "assistant"]
    assert told["before_reset"]["reason"] == "reset" and told["before_reset"]["sessionId"] == old.sessionId
    assert told["session_end"]["sessionId"] == old.sessionId
    assert told["session_end"]["nextSessionId"] == told["session_start"]["sessionId"] == new.sessionId
    assert told["session_start"]["resumedFrom"] == old.sessionId
    assert Path(office.home, old.path("main")).exists()


async def test_a_run_that_is_going_is_stopped_first(office: Any) -> None:
    office.running.add(str(KEY))
    await office.say("/new")
    assert office.aborted == [(str(KEY), "stop")]


async def test_a_first_session(office: Any) -> None:
    assert await office.say("/reset") == "✅ Session reset · model: fake/m"
    assert (await office.record()).usageFamilySessionIds is None


@pytest.mark.parametrize(
    ("text", "model", "first"),
    [
        ("/new deep", "big/deep-1", []),
        ("/new deep explain it\nwell", "big/deep-1", ["explain it\nwell"]),
        ("/new big/deep-1", "big/deep-1", []),
        ("/new deep-1 go", "big/deep-1", ["go"]),
        ("/new big", "big/deep-1", []),
        ("/new big plans for today", "fake/m", ["big plans for today"]),
        ("/new write a poem", "fake/m", ["write a poem"]),
        ("/new dull", "fake/m", ["dull"]),
        ("/new a/b testing", "fake/m", ["a/b testing"]),
    ],
)
async def test_a_model_or_a_first_message(office: Any, text: str, model: str, first: list[str]) -> None:
    assert (await office.say(text)).endswith(f"model: {model}")
    assert [m.text for m in office.submitted] == first
    for message in office.submitted:
        assert (message.session, message.agent, message.sender.id) == (str(KEY), "main", "me")


async def test_the_level_fits_the_new_model(office: Any) -> None:
    await office.say("/model deep /think xhigh")
    await office.say("/new fake/m")
    assert (await office.record()).thinkingLevel == "high"


async def test_a_session_past_its_day_keeps_what_was_asked_for(office: Any) -> None:
    """An explicit reset after the daily limit is an explicit reset."""
    await office.say("/think high")
    await office.clock.advance(2 * 86_400)
    await office.say("/new")
    assert (await office.record()).thinkingLevel == "high"
