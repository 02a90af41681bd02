"""Answers on their way to people's screens: in parts, in blocks, as drafts that grow, with signs of life; through the
whole program, and through its death.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.core.types.channel import (
    ChannelAbilities,
    ChannelAction,
    DeleteAction,
    EditAction,
    ReactAction,
    SendFailure,
    SendReceipt,
    TypingAction,
)
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.messages import ToolResult, UserMessage
from palinurus.core.types.outbound import Reply
from palinurus.outbox.drafts import DraftRecord
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say

RICH = ChannelAbilities(
    limit=4000, acts=frozenset(("typing", "edit", "delete", "react")), pace=0.01, typing=0.5, buttons=3, replies=True
)
LONG = "The first sentence is quite long already. The second one goes on and on."


CONFIG = {
    "models": {"providers": {"fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m"}]}}},
    "agents": {"defaults": {"model": {"primary": "fake/m"}}},
}


@asynccontextmanager
async def running(home: Path, model: ScriptedModel, channel: FakeChannel, **changes: Any) -> AsyncIterator[App]:
    home.mkdir(exist_ok=True)
    changes["channels"] = {
        "fake": {"dmPolicy": "open", "allowFrom": ["*"], **changes.get("channels", {}).get("fake", {})}
    }
    (home / "palinurus.json").write_text(json.dumps({**CONFIG, **changes}))
    app = App(load_config(str(home), {}).settings, {}, SystemClock(), model=model, channels={channel.name: channel})
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.005)


def streaming(**more: Any) -> dict[str, Any]:
    return {"channels": {"fake": {"streaming": "partial", **more}}}


def from_owner(text: str, event: str, **changes: Any) -> Inbound:
    return Inbound(Target("fake", "chat"), Sender("me", owner=True), event, text, 0, **changes)


class Watched(FakeChannel):
    """Keeps what a person saw at every moment."""

    def __init__(self, abilities: ChannelAbilities = RICH, **more: Any) -> None:
        super().__init__(abilities=abilities, **more)
        self.screens: list[list[str]] = []

    async def send(self, reply: Reply) -> SendReceipt | SendFailure:
        done = await super().send(reply)
        self.screens.append(self.texts)
        return done

    async def act(self, target: Target, act: ChannelAction) -> SendReceipt | SendFailure:
        done = await super().act(target, act)
        self.screens.append(self.texts)
        return done

    def did(self, kind: type) -> list[Any]:
        return [act for _, act in self.acts if isinstance(act, kind)]


async def sent(app: App, item: str, count: int) -> list[str]:
    """The trace once `count` replies have their receipts."""
    async with asyncio.timeout(60):
        while True:
            trace = [step.what for step in await app.store.trace(item)]
            if trace.count("sent") >= count:
                return trace
            await asyncio.sleep(0.005)


async def gone(app: App, kind: str) -> None:
    """No record of this kind is left."""
    async with asyncio.timeout(60):
        while await app.store.list_records(kind):
            await asyncio.sleep(0.005)


# --- parts


async def test_a_long_answer_goes_out_in_parts_each_with_its_receipt(tmp_path: Path) -> None:
    text = "\n\n".join(f"Paragraph {n}. " + "word " * 12 for n in range(6))
    channel = Watched(ChannelAbilities(limit=150))
    async with running(tmp_path / "h", ScriptedModel([say(text)]), channel) as app:
        (item,) = await channel.receive("hello", event="e1")
        await until(lambda: "Paragraph 5" in (channel.texts or [""])[-1])
        trace = await sent(app, item, len(channel.texts))
    assert len(channel.texts) == 3 and all(len(one) <= 150 for one in channel.texts)
    assert " ".join(channel.texts).split() == text.split()
    assert trace.count("reply queued") == trace.count("sent") == len(channel.texts)
    ids = [one.client_id for one in channel.seen]
    assert ids[0] == f"{item}.0" and ids[1] == f"{item}.0.p2" and len(set(ids)) == len(ids)


async def test_commands_answer_in_parts_too(tmp_path: Path) -> None:
    channel = Watched(ChannelAbilities(limit=80))
    async with running(tmp_path / "h", ScriptedModel([]), channel) as app:
        await app.submit(from_owner("/help", "e1"))
        await until(lambda: len(channel.texts) > 2)
    assert all(len(one) <= 80 for one in channel.texts)


@pytest.mark.parametrize(("mode", "expected"), [("off", ["", ""]), ("first", ["e1", ""]), ("all", ["e1", "e1"])])
async def test_answers_are_native_replies_as_configured(tmp_path: Path, mode: str, expected: list[str]) -> None:
    channel = Watched(ChannelAbilities(limit=60, replies=True))
    config = {"channels": {"fake": {"replyToMode": mode}}}
    async with running(tmp_path / "h", ScriptedModel([say(LONG)]), channel, **config):
        await channel.receive("hello", event="e1")
        await until(lambda: len(channel.sends) == 2)
    assert [reply.reply_to for reply in channel.sends] == expected


# --- blocks

SMALL = {"blockStreamingChunk": {"minChars": 10, "maxChars": 60}}


def blocks(**defaults: Any) -> dict[str, Any]:
    base = {"model": {"primary": "fake/m"}, **SMALL, **defaults}
    return {"agents": {"defaults": base}, "channels": {"fake": {"blockStreaming": True}}}


@pytest.mark.seed(321)
async def test_small_blocks_are_joined_while_the_model_goes_on(tmp_path: Path) -> None:
    text = "First paragraph here.\n\nSecond paragraph here.\n\nThird paragraph here.\n\nThe end."
    config = blocks(blockStreamingCoalesce={"idleMs": 300, "minChars": 20, "maxChars": 500})
    channel = Watched(ChannelAbilities())
    async with running(tmp_path / "h", ScriptedModel([say(text)]), channel, **config) as app:
        (item,) = await channel.receive("hello", event="e1")
        trace = await sent(app, item, 4)
        kept = await app.store.list_records("joined")
    assert channel.texts == ["First paragraph here.\n\nSecond paragraph here.\n\nThird paragraph here.", "The end."]
    assert [one.kind for one in channel.seen] == ["block", "final"]
    assert trace.count("reply queued") == 4 and kept == []  # each block was a row of its own, on disk


@pytest.mark.seed(321)
async def test_blocks_go_alone_when_nobody_waits_for_more(tmp_path: Path) -> None:
    gate = StreamGate()
    config = blocks(blockStreamingCoalesce={"idleMs": 20, "minChars": 5, "maxChars": 500})
    channel = Watched(ChannelAbilities())
    first, second = "First paragraph here.\n\n", "Second paragraph here.\n\nThe end."
    model = ScriptedModel([hold_at(say(first + second), gate, 1)], chunk=len(first))
    async with running(tmp_path / "h", model, channel, **config):
        await channel.receive("hello", event="e1")
        await until(lambda: len(channel.texts) == 1)
        assert channel.texts == ["First paragraph here."]
        gate.open()
        await until(lambda: len(channel.texts) == 3)
    assert channel.texts == ["First paragraph here.", "Second paragraph here.", "The end."]


async def test_blocks_keep_a_human_pace(tmp_path: Path) -> None:
    config = blocks(humanDelay={"mode": "custom", "minMs": 40, "maxMs": 50}, blockStreamingCoalesce={"minChars": 1})
    config["channels"]["fake"]["chunkMode"] = "newline"
    channel = Watched(ChannelAbilities())
    text = "First paragraph here.\n\nSecond paragraph here.\n\nThird paragraph here.\n\nThe end."
    async with running(tmp_path / "h", ScriptedModel([say(text)]), channel, **config) as app:
        (item,) = await channel.receive("hello", event="e1")
        await app.wait(item)
        assert len(channel.texts) < 4  # the run is over, its blocks are not
        await until(lambda: len(channel.texts) == 4)
    assert channel.texts == text.split("\n\n")


async def test_blocks_are_said_once_though_the_run_is_resumed(tmp_path: Path) -> None:
    text = "First paragraph here.\n\nSecond paragraph here.\n\nThird paragraph here.\n\nThe end."
    gate, channel = StreamGate(), Watched(ChannelAbilities())
    model = ScriptedModel([hold_at(say(text), gate, 8), say(text)])
    config = blocks(blockStreamingCoalesce={"idleMs": 10, "minChars": 5, "maxChars": 500})
    async with running(tmp_path / "h", model, channel, **config):
        await channel.receive("hello", event="e1")
        await until(lambda: len(channel.texts) >= 1)
    after = Watched(ChannelAbilities())
    after.seen = channel.seen
    async with running(tmp_path / "h", model, after, **config):
        await until(lambda: "The end." in (after.texts or [""])[-1])
    assert "\n\n".join(after.texts) == text and after.duplicate_ids == []


# --- drafts


async def test_a_draft_grows_and_becomes_the_answer(tmp_path: Path) -> None:
    gate, channel = StreamGate(), Watched()
    model = ScriptedModel([hold_at(say(LONG), gate, 6)])
    async with running(tmp_path / "h", model, channel, **streaming()) as app:
        (item,) = await channel.receive("hello", event="e1")
        await until(lambda: bool(channel.texts))
        assert LONG.startswith(channel.texts[0]) and channel.texts[0] != LONG
        assert len(await app.store.list_records("draft")) == 1
        gate.open()
        await sent(app, item, 1)
        await until(lambda: channel.texts == [LONG])
        await gone(app, "draft")
        receipt = [step.detail for step in await app.store.trace(item) if step.what == "sent"]
    assert all(len(screen) <= 1 for screen in channel.screens)  # never two copies
    assert receipt[0].endswith(f"receipt {channel.seen[0].message_id}")
    assert [(reply.kind, reply.reply_to) for reply in channel.sends] == [("draft", "e1")]


async def test_the_draft_of_an_answer_that_is_stopped_is_what_was_said(tmp_path: Path) -> None:
    gate, channel = StreamGate(), Watched()
    model = ScriptedModel([hold_at(say(LONG), gate, 6)])
    async with running(tmp_path / "h", model, channel, **streaming()) as app:
        (item,) = await channel.receive("hello", event="e1")
        await until(lambda: bool(channel.texts))
        row = await app.store.item(item)
        assert row is not None
        await app.abort(row.session, "stop")
        await gone(app, "draft")
    assert len(channel.texts) <= 1 and LONG.startswith("".join(channel.texts))  # nothing is said after a stop


async def test_a_draft_goes_away_when_there_is_no_answer(tmp_path: Path) -> None:
    gate, channel = StreamGate(), Watched()
    model = ScriptedModel([hold_at(say("NO_REPLY", thinking="Is this for me? It is not."), gate, 4)])
    async with running(tmp_path / "h", model, channel) as app:
        await app.submit(from_owner("/reasoning stream", "e0"))
        await until(lambda: len(channel.texts) == 1)
        channel.seen.clear()
        await app.submit(from_owner("hello", "e1"))
        await until(lambda: bool(channel.texts))
        assert channel.texts[0].startswith("Thinking\n")
        gate.open()
        await until(lambda: channel.texts == [])
        await gone(app, "draft")
    assert len(channel.did(DeleteAction)) == 1


async def test_a_silent_answer_never_shows_its_token_as_a_draft(tmp_path: Path) -> None:
    channel = Watched()
    model = ScriptedModel([say("NO_REPLY")])
    async with running(tmp_path / "h", model, channel, **streaming()) as app:
        (item,) = await channel.receive("hello", event="e1")
        await app.wait(item)
    assert channel.screens == [] or all(screen == [] for screen in channel.screens)


async def test_no_draft_where_it_is_off_or_the_channel_cannot_edit(tmp_path: Path) -> None:
    for at, (abilities, mode) in enumerate([(RICH, "off"), (ChannelAbilities(), "partial")]):
        channel = Watched(abilities)
        home = tmp_path / f"h{at}"
        config = {"channels": {"fake": {"streaming": mode}}}
        async with running(home, ScriptedModel([say(LONG)]), channel, **config):
            await channel.receive("hello", event="e1")
            await until(lambda: LONG in channel.texts)  # noqa: B023
        assert [reply.kind for reply in channel.sends] == ["final"] and channel.did(EditAction) == []


@pytest.mark.seed(116, 317)
async def test_reasoning_is_shown_while_it_comes_and_gives_way_to_the_answer(tmp_path: Path) -> None:
    gate, channel = StreamGate(), Watched()
    model = ScriptedModel([hold_at(say("It is so.", thinking="Let me see what that is about."), gate, 4)])
    async with running(tmp_path / "h", model, channel) as app:
        await app.submit(from_owner("/reasoning stream", "e0"))
        await until(lambda: len(channel.texts) == 1)
        channel.seen.clear()
        await app.submit(from_owner("hello", "e1"))
        await until(lambda: bool(channel.texts))
        assert channel.texts == ["Thinking\nLet me see what that is about."]
        gate.open()
        await until(lambda: channel.texts == ["It is so."])
    assert "Let me see" not in channel.texts[0]


@pytest.mark.seed(315)
async def test_reasoning_off_shows_none_of_it_ever(tmp_path: Path) -> None:
    gate, channel = StreamGate(), Watched()
    model = ScriptedModel([hold_at(say(f"<think>hidden</think>{LONG}", thinking="Secret thoughts."), gate, 12)])
    async with running(tmp_path / "h", model, channel, **streaming()):
        await channel.receive("hello", event="e1")
        await until(lambda: bool(channel.texts))
        gate.open()
        await until(lambda: channel.texts == [LONG])
    assert not any("ecret" in text or "hidden" in text for screen in channel.screens for text in screen)


@pytest.mark.seed(103)
@pytest.mark.parametrize("detail", ["explain", "raw"])
async def test_a_draft_of_progress_shows_the_tools_and_gives_way_to_the_answer(tmp_path: Path, detail: str) -> None:
    gate, channel = StreamGate(), Watched()
    calls = call_tools(*[("find", {"pattern": f"d{n}"}) for n in range(8)], ("exec", {"command": "node --check a.js"}))
    model = ScriptedModel([calls, hold_at(say(LONG), gate, 0)])
    agents = {"defaults": {"model": "fake/m", "toolProgressDetail": detail}}
    async with running(tmp_path / "h", model, channel, agents=agents, **streaming(streaming="progress")) as app:
        await app.submit(from_owner("hello", "e1"))
        await gate.wait_reached()
        await until(lambda: "a.js" in "".join(channel.texts))
        (shown,) = channel.texts
        gate.open()
        await until(lambda: channel.texts == [LONG])
    lines = shown.splitlines()
    assert lines[:-1] == [f"🔍 Find: d{n}" for n in range(1, 8)]  # the last ones
    told = "🛠️ Exec: check JS syntax for a.js"
    assert lines[-1] == (told if detail == "explain" else f"{told}, node --check a.js")


async def test_tools_with_bubbles_of_their_own_are_in_no_draft(tmp_path: Path) -> None:
    channel, model = Watched(), ScriptedModel([call_tools(("ls", {})), say(LONG)])
    async with running(tmp_path / "h", model, channel, **streaming(streaming="progress")) as app:
        await app.submit(from_owner("hello /verbose on", "e1"))
        await until(lambda: LONG in channel.texts)
    assert [reply.kind for reply in channel.sends] == ["tool", "final"]


async def test_tool_lines_and_the_draft_do_not_mix(tmp_path: Path) -> None:
    channel = Watched()
    model = ScriptedModel([call_tools(("ls", {}), text="I will look into the folder right now."), say(LONG)])
    async with running(tmp_path / "h", model, channel, **streaming()) as app:
        await app.submit(from_owner("/verbose on", "e0"))
        await until(lambda: len(channel.texts) == 1)
        channel.seen.clear()
        await app.submit(from_owner("hello", "e1"))
        await until(lambda: LONG in channel.texts)
        await until(lambda: len(channel.texts) == 3)
    assert channel.texts[0] == "I will look into the folder right now." and channel.texts[2] == LONG
    assert "List" in channel.texts[1] or "ls" in channel.texts[1].lower()


async def test_an_answer_longer_than_a_message_takes_the_draft_over_and_goes_on(tmp_path: Path) -> None:
    text = " ".join(f"Sentence number {n} is here." for n in range(20))
    channel = Watched(ChannelAbilities(limit=120, acts=RICH.acts, pace=0.01))
    async with running(tmp_path / "h", ScriptedModel([say(text)]), channel, **streaming()):
        await channel.receive("hello", event="e1")
        await until(lambda: "number 19" in (channel.texts or [""])[-1])
    assert " ".join(channel.texts) == text


async def test_after_a_crash_the_resumed_run_takes_the_draft_over(tmp_path: Path) -> None:
    """The process stops (the run is put aside, as after kill -9 the row is still running) and starts again."""
    gate, channel = StreamGate(), Watched()
    model = ScriptedModel([hold_at(say(LONG), gate, 6), say(LONG)])
    async with running(tmp_path / "h", model, channel, **streaming()):
        await channel.receive("hello", event="e1")
        await until(lambda: bool(channel.texts))
    after = Watched()
    after.seen = channel.seen  # the same screen
    async with running(tmp_path / "h", model, after, **streaming()) as app:
        await until(lambda: after.texts == [LONG])
        await gone(app, "draft")
    assert all(len(screen) == 1 for screen in after.screens)


async def test_a_draft_left_by_a_message_that_is_done_is_removed_at_the_start(tmp_path: Path) -> None:
    channel = Watched()
    async with running(tmp_path / "h", ScriptedModel([say("Short.")]), channel) as app:
        (item,) = await channel.receive("hello", event="e1")
        await sent(app, item, 1)
        left = await channel.send(Reply(Target("fake", "chat"), "half an ans", f"{item}.d1", "draft"))
        assert isinstance(left, SendReceipt)
        await app.store.put_record("draft", f"{item}.d1", msgspec.json.encode(_kept(item, left.message_id)))
    after = Watched()
    after.seen = channel.seen
    async with running(tmp_path / "h", ScriptedModel([]), after) as app:
        await until(lambda: after.texts == ["Short."])
        await gone(app, "draft")


def _kept(item: str, message_id: str) -> DraftRecord:
    return DraftRecord(item, Target("fake", "chat"), f"{item}.d1", message_id)


# --- signs of life


async def test_typing_while_the_run_goes_and_not_after(tmp_path: Path) -> None:
    gate, channel = StreamGate(), Watched()
    model = ScriptedModel([hold_at(say("Hello."), gate, 0)])
    async with running(tmp_path / "h", model, channel) as app:
        (item,) = await channel.receive("hello", event="e1")
        await until(lambda: len(channel.did(TypingAction)) >= 2)
        gate.open()
        await app.wait(item)
        count = len(channel.did(TypingAction))
        await asyncio.sleep(0.6)
        assert len(channel.did(TypingAction)) == count


async def test_the_reaction_comes_and_goes_as_configured(tmp_path: Path) -> None:
    channel = Watched()
    config = {"messages": {"ackReaction": "✅", "ackReactionScope": "all", "removeAckAfterReply": True}}
    async with running(tmp_path / "h", ScriptedModel([say("Hello.")]), channel, **config):
        await channel.receive("hello", event="e1")
        await until(lambda: len(channel.did(ReactAction)) == 2)
    assert channel.did(ReactAction) == [ReactAction("e1", "✅"), ReactAction("e1", "✅", remove=True)]


async def test_signs_of_life_that_fail_harm_nobody(tmp_path: Path) -> None:
    class Broken(Watched):
        async def act(self, target: Target, act: ChannelAction) -> SendReceipt | SendFailure:
            raise RuntimeError("broken")

    channel = Broken()
    config = {"messages": {"ackReactionScope": "all"}, **streaming()}
    async with running(tmp_path / "h", ScriptedModel([say(LONG)]), channel, **config) as app:
        (item,) = await channel.receive("hello", event="e1")
        assert (await app.wait(item)).outcome == "answered"


# --- approvals


async def test_a_card_has_buttons_and_says_what_was_decided(tmp_path: Path) -> None:
    channel = Watched()
    model = ScriptedModel([call_tools(("exec", {"command": "df", "elevated": True})), say("done")])
    config = {"tools": {"elevated": {"enabled": True, "allowFrom": {"fake": ["me"]}}}}
    async with running(tmp_path / "h", model, channel, **config) as app:
        await app.submit(from_owner("/elevated ask", "e0"))
        await app.submit(from_owner("do it", "e1"))
        await until(lambda: any(reply.buttons for reply in channel.sends))
        card = next(reply for reply in channel.sends if reply.buttons)
        assert [button.label for button in card.buttons] == ["Allow once", "Allow always", "Deny"] and card.plain
        await app.submit(from_owner(card.buttons[2].text, "e2", pressed="m"))
        await until(lambda: any("deny by me" in text for text in channel.texts))
    (edit,) = channel.did(EditAction)
    assert edit.buttons == () and edit.plain and "/approve" not in edit.text


async def test_what_the_model_put_behind_a_button_is_not_the_words_of_who_presses_it(tmp_path: Path) -> None:
    """A button "Show it" could hold "/config set tools.taint.enabled false", or a sum that counted as the owner's."""
    channel = Watched()
    rows = [[{"text": "Show it", "callback_data": "/elevated full"}]]
    model = ScriptedModel([call_tools(("message", {"message": "Ready", "buttons": rows})), say("no"), say("ok")])
    config = {"tools": {"elevated": {"enabled": True, "allowFrom": {"fake": ["me"]}}}}
    async with running(tmp_path / "h", model, channel, **config) as app:
        for text, press in (("go", ""), ("/elevated full", "m1")):
            await app.wait((await app.submit(from_owner(text, f"e{press}", pressed=press))).id)
    result = next(m for m in model.requests[1].messages if isinstance(m, ToolResult))
    assert result.isError and "the person's to type" in result.text
    last = model.requests[-1].messages[-1]
    assert isinstance(last, UserMessage) and (last.text, last.source) == ("/elevated full", "own button")


async def test_without_buttons_the_card_says_what_to_type(tmp_path: Path) -> None:
    channel = Watched(ChannelAbilities())
    model = ScriptedModel([call_tools(("exec", {"command": "touch X", "elevated": True})), say("done")])
    config = {"tools": {"elevated": {"enabled": True, "allowFrom": {"fake": ["me"]}}}}
    async with running(tmp_path / "h", model, channel, **config) as app:
        await app.submit(from_owner("/elevated ask", "e0"))
        await app.submit(from_owner("do it", "e1"))
        await until(lambda: any("/approve" in text for text in channel.texts))
    assert not any(reply.buttons for reply in channel.sends)


@pytest.mark.seed(344)
@pytest.mark.parametrize("verdict", [{"content": "Judged."}, {"cancel": True}])
async def test_nothing_is_seen_before_a_hook_has_judged_it(tmp_path: Path, verdict: dict[str, Any]) -> None:
    """A draft shows an answer while it grows: not where somebody may change or cancel it."""
    gate, channel, judged = StreamGate(), Watched(), list[str]()
    model = ScriptedModel([hold_at(say(LONG, thinking="Secret thoughts."), gate, 14)], chunk=4)
    agents = {"defaults": {"model": "fake/m", "reasoningDefault": "stream"}}
    async with running(tmp_path / "h", model, channel, agents=agents, **streaming()) as app:
        app.hooks.on("message_sending", lambda event: judged.append(event["content"]) or verdict)
        (ident,) = await channel.receive("hello", event="e1")
        await gate.wait_reached()
        await asyncio.sleep(0.05)
        gate.open()
        await app.wait(ident)
        await until(lambda: bool(judged))
        await until(lambda: bool(channel.texts) or "cancel" in verdict)
    assert {text for screen in channel.screens for text in screen} <= {"Judged."}
    assert channel.texts == (["Judged."] if "content" in verdict else []) and judged == [LONG]
