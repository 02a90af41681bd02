"""What a run leaves behind that never comes back: open calls are answered, drafts go, nothing unwritten is believed."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flow.test_app import running, transcript, until
from palinurus.core.history.repair import UNKNOWN_OUTCOME
from palinurus.core.types.channel import ChannelAbilities
from palinurus.core.types.inbound import Sender, Target
from palinurus.core.types.messages import AssistantMessage, ToolResult, UserMessage
from palinurus.core.types.outbound import Reply
from palinurus.outbox.drafts import DraftRecord
from palinurus.testing.channel import FakeChannel
from palinurus.testing.home import check_home
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say
from support import inbound

MAIN = "agent:main:main"


async def die_in_tool(home: Path, after: Path) -> str:
    """`after` is what a kill leaves while a tool is at work. Returns the message."""
    async with running(home, ScriptedModel([call_tools(("exec", {"command": "sleep 60"})), say("late")])) as app:
        asked = await app.submit(inbound("go", push=False, sender=Sender("me", owner=True)))
        await until(lambda: len(entries(home)) == 3)
        shutil.copytree(home, after)
        await app.dispatcher.stop(MAIN, "user")
    return asked.id


def entries(home: Path) -> list[dict[str, Any]]:
    files = list((home / "agents" / "main" / "sessions").glob("*.jsonl"))
    return transcript(home) if files else []


def set_column(home: Path, name: str, value: object) -> None:
    with closing(sqlite3.connect(home / "state.db")) as conn, conn:
        conn.execute(f"UPDATE inbox SET {name} = ?", (value,))


@pytest.mark.parametrize("end", ["stopped", "dead"])
async def test_calls_of_a_message_that_never_runs_again_are_answered(tmp_path: Path, end: str) -> None:
    after = tmp_path / "after"
    ident = await die_in_tool(tmp_path / "h", after)
    if end == "stopped":
        set_column(after, "outcome", "aborted")
        set_column(after, "note", "stopped (user)")
    else:
        set_column(after, "attempts", 3)
    model = ScriptedModel([say("next")])
    async with running(after, model) as app:
        row = await app.wait(ident)
        assert row.outcome == ("aborted" if end == "stopped" else "dead")
        last = entries(after)[-1]["message"]
        assert (last["role"], last["content"][0]["text"]) == ("toolResult", UNKNOWN_OUTCOME)
        await app.wait((await app.submit(inbound("and?", push=False))).id)
    said = [type(m) for m in model.requests[0].messages]
    assert said == [UserMessage, AssistantMessage, ToolResult, UserMessage]
    assert check_home(str(after)) == []


def _draft(item: str) -> Reply:
    return Reply(Target("fake", "chat"), "never", f"{item}.d1", "draft")


async def test_the_draft_of_a_run_that_was_stopped_goes_with_the_next_start(tmp_path: Path) -> None:
    """It was stopped, then killed: no answer comes to take its place."""
    home, gate = tmp_path / "h", StreamGate()
    acts = ChannelAbilities(acts=frozenset(("edit", "delete")), pace=0.01)
    channel = FakeChannel(abilities=acts)
    model = ScriptedModel([hold_at(say("never all of this"), gate, 2)])
    async with running(home, model, channel) as app:
        (ident,) = await channel.receive("hello", event="1")
        await gate.wait_reached()
        shown = await channel.send(_draft(ident))
        assert shown is not None
        kept = DraftRecord(ident, _draft(ident).target, f"{ident}.d1", message_id="fake-1")
        await app.store.put_record("draft", f"{ident}.d1", msgspec.json.encode(kept))
        shutil.copytree(home, tmp_path / "after")
        gate.open()
        await app.wait(ident)
    set_column(tmp_path / "after", "outcome", "aborted")
    set_column(tmp_path / "after", "note", "stopped (stop)")
    channel = FakeChannel(abilities=acts)
    await channel.send(_draft(ident))
    async with running(tmp_path / "after", ScriptedModel([]), channel):
        await until(lambda: not channel.seen)
