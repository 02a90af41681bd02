"""The message tool through the whole program: what people in several chats read."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running, until
from palinurus.core.types.channel import Abilities, React
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.messages import ToolResult
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, calls, fail, say

ABLE = Abilities(acts=frozenset(("react", "read")), limit=4000)
OWNER = Sender("o", owner=True)
QUIET: dict[str, Any] = {"messages": {"visibleReplies": "message_tool"}}


def asked(text: str = "go", event: str = "1", sender: Sender = OWNER, **changes: Any) -> Inbound:
    return Inbound(**{"target": Target("fake", "chat"), "sender": sender, "event": event, "text": text, "at": 0, **changes})


def results(model: ScriptedModel) -> list[str]:
    return [m.text for m in model.requests[-1].messages if isinstance(m, ToolResult)]


def shown(channel: FakeChannel) -> list[tuple[str, str]]:
    return [(one.to, one.text) for one in channel.seen]


async def test_messages_to_another_chat_and_another_channel_and_the_answer_here(tmp_path: Path) -> None:
    one, two = FakeChannel(abilities=ABLE), FakeChannel("other")
    script = [
        calls(
            ("message", {"message": "hello there", "target": "fake:9"}),
            ("message", {"message": "hello over there", "target": "other:7"}),
            ("message", {"action": "react", "emoji": "👍"}),
        ),
        say("Told them both."),
    ]
    model = ScriptedModel(script)
    async with running(tmp_path / "h", model, one, two) as app:
        row = await app.wait((await app.submit(asked())).id)
        await until(lambda: len(one.seen) == 2 and len(two.seen) == 1)
        kinds = [step.what for step in await app.store.trace(row.id)]
    assert shown(one) == [("9", "hello there"), ("chat", "Told them both.")] and shown(two) == [("7", "hello over there")]
    assert [act for _, act in one.acts if isinstance(act, React) and act.emoji == "👍"] == [React("1", "👍")]
    first = json.loads(results(model)[0])
    assert first == {"ok": True, "state": "sent", "channel": "fake", "to": "9", "messageId": "fake-1"}
    assert kinds.count("tool") == 3 and one.doubled == []


async def test_who_asks_from_another_channel_without_rights_is_refused(tmp_path: Path) -> None:
    one, two = FakeChannel(abilities=ABLE), FakeChannel("other")
    model = ScriptedModel([calls(("message", {"message": "psst", "target": "other:7"})), say("I may not.")])
    async with running(tmp_path / "h", model, one, two, tools={"taint": {"enabled": False}}) as app:
        await app.wait((await app.submit(asked(sender=Sender("m", allowed=True)))).id)
        await until(lambda: any(text == "I may not." for _, text in shown(one)))
    assert two.seen == [] and "allowAcrossProviders" in results(model)[0]


async def test_an_answer_that_was_sent_with_the_tool_is_not_said_again(tmp_path: Path) -> None:
    channel = FakeChannel(abilities=ABLE)
    sends = calls(("message", {"message": "It is done.\nAll of it."}))
    model = ScriptedModel([sends, say(" It is done. All of it. "), sends, say("It is done.")])
    async with running(tmp_path / "h", model, channel) as app:
        first = await app.wait((await app.submit(asked(event="1"))).id)
        await app.wait((await app.submit(asked(event="2"))).id)
        await until(lambda: len(channel.seen) == 3)
        await asyncio.sleep(0.05)
    assert [text for _, text in shown(channel)] == ["It is done.\nAll of it.", "It is done.\nAll of it.", "It is done."]
    assert first.outcome == "answered"


async def test_the_same_text_sent_elsewhere_is_still_the_answer_here(tmp_path: Path) -> None:
    channel = FakeChannel(abilities=ABLE)
    model = ScriptedModel([calls(("message", {"message": "Dinner at eight.", "target": "fake:9"})), say("Dinner at eight.")])
    async with running(tmp_path / "h", model, channel) as app:
        await app.wait((await app.submit(asked())).id)
        await until(lambda: len(channel.seen) == 2)
    assert shown(channel) == [("9", "Dinner at eight."), ("chat", "Dinner at eight.")]


async def test_where_only_the_tool_is_seen_the_models_text_is_not_posted(tmp_path: Path) -> None:
    channel = FakeChannel(abilities=ABLE)
    send = calls(("message", {"message": "For you."}), text="I write a note.")
    model = ScriptedModel([send, say("Thoughts nobody reads."), say("Nothing sent."), fail("auth", "no key")])
    async with running(tmp_path / "h", model, channel, **QUIET) as app:
        await app.wait((await app.submit(asked(event="1"))).id)
        silent = await app.wait((await app.submit(asked(event="2"))).id)
        await app.wait((await app.submit(asked(event="3"))).id)
        await until(lambda: len(channel.seen) == 2)
        await asyncio.sleep(0.05)
    assert [text for _, text in shown(channel)] == ["For you.", "⚠️ No answer: no key."]
    assert silent.outcome == "answered"
    prompt = model.requests[0].prompt
    assert "Your text is not posted in this chat" in prompt.stable + prompt.volatile
    assert len({request.prompt.stable for request in model.requests}) == 1


async def test_a_client_that_reads_its_answer_itself_gets_it_all_the_same(tmp_path: Path) -> None:
    model = ScriptedModel([say("Read me.")])
    async with running(tmp_path / "h", model, FakeChannel(), **QUIET) as app:
        row = await app.wait((await app.submit(asked(push=False, target=Target("webchat", "x")))).id)
    assert row.note == "Read me."
    prompt = model.requests[0].prompt
    assert "Your text is not posted" not in prompt.stable + prompt.volatile


async def test_the_tool_and_the_prompt_stay_the_same_from_start_to_start(tmp_path: Path) -> None:
    seen = []
    for names in (("fake", "other"), ("other", "fake")):
        model = ScriptedModel([say("ok")])
        async with running(tmp_path / "h", model, *(FakeChannel(name, abilities=ABLE) for name in names)) as app:
            await app.wait((await app.submit(asked(event=str(names)))).id)
        request = model.requests[0]
        seen.append((request.prompt.stable, [t for t in request.tools if t.name == "message"]))
    assert seen[0] == seen[1] and len(seen[0][1]) == 1
    assert "## Messaging" in request.prompt.stable + request.prompt.volatile


async def test_without_a_channel_there_is_no_tool(tmp_path: Path) -> None:
    model = ScriptedModel([say("ok")])
    async with running(tmp_path / "h", model) as app:
        await app.wait((await app.submit(asked(push=False))).id)
    assert "message" not in {t.name for t in model.requests[0].tools}


@pytest.mark.parametrize(("profile", "has"), [("full", True), ("messaging", True), ("coding", False), ("minimal", False)])
async def test_profiles(tmp_path: Path, profile: str, has: bool) -> None:
    model = ScriptedModel([say("ok")])
    async with running(tmp_path / "h", model, FakeChannel(), tools={"profile": profile}) as app:
        await app.wait((await app.submit(asked())).id)
    assert ("message" in {t.name for t in model.requests[0].tools}) == has
