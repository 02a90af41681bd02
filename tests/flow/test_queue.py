"""Messages that arrive while the agent works, through the whole App: steered, later, together, instead."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.core.types.inbound import Target, TurnOptions
from palinurus.core.types.messages import ToolResult, UserMessage
from palinurus.errors import NotFound, QueueFull
from palinurus.store.port import InboxRow
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, ScriptedTurn, StreamGate, call_tools, hold_at, say
from support import inbound

CONFIG = {
    "models": {"providers": {"fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m"}]}}},
    "agents": {"defaults": {"model": {"primary": "fake/m"}}},
}
MAIN = "agent:main:main"


@asynccontextmanager
async def running(home: Path, model: ScriptedModel, *channels: FakeChannel, **queue: Any) -> AsyncIterator[App]:
    home.mkdir(exist_ok=True)
    (home / "palinurus.json").write_text(json.dumps({**CONFIG, "messages": {"queue": queue}}))
    settings = load_config(str(home), {}).settings
    app = App(settings, {}, SystemClock(), model=model, channels={c.name: c for c in channels})
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


async def until(true: Callable[[], bool], seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.002)


def heard(model: ScriptedModel, at: int = -1) -> list[str]:
    """What people said, as the model saw it."""
    return [m.text for m in model.requests[at].messages if isinstance(m, UserMessage)]


async def row(app: App, ident: str) -> InboxRow:
    found = await app.store.item(ident)
    assert found is not None
    return found


class Held:
    """A tool call that waits in its hook until it is let go."""

    def __init__(self, app: App, which: int) -> None:
        self.reached, self.go, self.seen, self._which = asyncio.Event(), asyncio.Event(), 0, which
        app.hooks.on("before_tool_call", self._hook)

    async def _hook(self, payload: dict[str, Any]) -> None:
        self.seen += 1
        if self.seen == self._which:
            self.reached.set()
            await self.go.wait()


THREE = call_tools(("ls", {}), ("ls", {"path": "."}), ("read", {"path": "none"}))


@pytest.mark.seed(377, 378, 379)
@pytest.mark.parametrize("which", [1, 2, 3])
async def test_steering_waits_for_the_whole_batch_and_skips_no_call(tmp_path: Path, which: int) -> None:
    model, channel = ScriptedModel([THREE, say("both")]), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        tool = Held(app, which)
        (first,) = await channel.receive("first", event="1")
        await tool.reached.wait()
        (second,) = await channel.receive("second", event="2")
        tool.go.set()
        await app.wait(second)
        assert (await row(app, second)).absorbed_by == first
    assert tool.seen == 3 and len(model.requests) == 2
    kinds = [type(m).__name__ for m in model.requests[1].messages]
    assert kinds == ["UserMessage", "AssistantMessage", "ToolResult", "ToolResult", "ToolResult", "UserMessage"]
    assert heard(model) == ["first", "second"]


def moments() -> dict[str, Callable[[StreamGate], list[ScriptedTurn]]]:
    return {
        "before the answer": lambda gate: [hold_at(say("a longer answer"), gate, 0), say("next")],
        "in the answer": lambda gate: [hold_at(say("a longer answer"), gate, 1), say("next")],
        "after its last word": lambda gate: [hold_at(say("a longer answer"), gate, 2), say("next")],
        "before a call": lambda gate: [hold_at(call_tools(("ls", {})), gate, 0), say("next"), say("more")],
        "after a call": lambda gate: [call_tools(("ls", {})), hold_at(say("x" * 30), gate, 2), say("more")],
    }


@pytest.mark.seed(378)
@pytest.mark.parametrize("moment", moments())
async def test_a_message_is_in_this_run_or_the_next_never_both_never_none(tmp_path: Path, moment: str) -> None:
    gate = StreamGate()
    model, channel = ScriptedModel(moments()[moment](gate)), FakeChannel()
    async with running(tmp_path / "h", model, channel) as app:
        (first,) = await channel.receive("first", event="1")
        await gate.wait_reached()
        (second,) = await channel.receive("second", event="2")
        gate.open()
        await app.wait(first)
        await app.wait(second)
        rows = await row(app, first), await row(app, second)
    assert heard(model) == ["first", "second"]
    assert (rows[1].state, rows[1].absorbed_by) == ("absorbed", first) or rows[1].outcome == "answered"
    (file,) = (tmp_path / "h" / "agents" / "main" / "sessions").glob("*.jsonl")
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    said = [e["message"]["content"] for e in entries if e.get("message", {}).get("role") == "user"]
    assert said == ["first", "second"]


@pytest.mark.seed(381)
@pytest.mark.parametrize("source", ["config", "channel", "session", "message"])
async def test_followup_is_answered_in_a_later_turn_whoever_asks_for_it(tmp_path: Path, source: str) -> None:
    queue = {"config": {"mode": "followup"}, "channel": {"mode": "steer", "byChannel": {"fake": "followup"}}}
    model = ScriptedModel([say("hi"), THREE, say("one"), say("two")])
    async with running(tmp_path / "h", model, **queue.get(source, {})) as app:
        await app.wait((await app.submit(inbound("begin"))).id)
        if source == "session":
            found = await app.store.session(MAIN)
            assert found is not None
            data = json.dumps({**json.loads(found.data), "queueMode": "followup"}).encode()
            await app.store.save_session(type(found)(found.key, found.agent, found.session_id, found.updated, data))
        tool = Held(app, 1)
        one = await app.submit(inbound("first"))
        await tool.reached.wait()
        options = TurnOptions(queue="followup" if source == "message" else "")
        two = await app.submit(inbound("second", options=options))
        tool.go.set()
        assert (await app.wait(one.id)).note == "one"
        assert (await app.wait(two.id)).note == "two"
    assert heard(model, 2) == ["begin", "first"] and heard(model, 3) == ["begin", "first", "second"]


@pytest.mark.seed(381)
async def test_collected_messages_become_one_turn(tmp_path: Path) -> None:
    gate = StreamGate()
    model, channel = (
        ScriptedModel([hold_at(say("first answer"), gate, 0), say("all of it"), say("other")]),
        FakeChannel(),
    )
    async with running(tmp_path / "h", model, channel, mode="collect", debounceMs=20) as app:
        (first,) = await channel.receive("first", event="1")
        await gate.wait_reached()
        waiting = [(await channel.receive(text, event=text))[0] for text in ("a", "b", "c")]
        (other,) = await channel.receive("d", event="d", to="elsewhere")
        gate.open()
        rows = [await app.wait(ident) for ident in (first, *waiting, other)]
        states = [(await row(app, ident)).state for ident in waiting]
        await until(lambda: len(channel.seen) == 3)
    assert [r.note for r in rows] == ["first answer", "all of it", "all of it", "all of it", "other"]
    assert states == ["done", "absorbed", "absorbed"]
    assert heard(model, 1)[1:] == [
        "[Queued messages while agent was busy]\n\n---\nQueued #1\na",
        "---\nQueued #2\nb",
        "---\nQueued #3\nc",
    ]
    assert heard(model, 2)[-1] == "d" and [s.to for s in channel.seen] == ["chat", "chat", "elsewhere"]


async def test_one_collected_message_stays_as_it_is(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("one"), gate, 0), say("two")])
    async with running(tmp_path / "h", model, mode="collect", debounceMs=5) as app:
        await app.submit(inbound("first"))
        await gate.wait_reached()
        second = await app.submit(inbound("second"))
        gate.open()
        await app.wait(second.id)
    assert heard(model) == ["first", "second"]


@pytest.mark.seed(382)
async def test_interrupt_stops_the_run_and_the_newest_message_runs(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("never all of this"), gate, 1), say("the newest")])
    async with running(tmp_path / "h", model) as app:
        one = await app.submit(inbound("one"))
        await gate.wait_reached()
        two = await app.submit(inbound("two", options=TurnOptions(queue="followup")))
        three = await app.submit(inbound("three", options=TurnOptions(queue="interrupt")))
        rows = [await app.wait(a.id) for a in (one, two, three)]
    assert [r.outcome for r in rows] == ["aborted", "aborted", "answered"]
    assert "interrupted" in rows[1].note and rows[2].note == "the newest"
    assert heard(model) == ["one", "three"]


async def test_dropped_messages_are_refused_with_a_reason_and_the_next_run_hears_of_them(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("one"), gate, 0), say("more")], repeat=True)
    async with running(tmp_path / "h", model, mode="followup", cap=2) as app:
        await app.submit(inbound("first"))
        await gate.wait_reached()
        made = [await app.submit(inbound(f"message\n{n}")) for n in range(4)]
        gate.open()
        rows = [await app.wait(a.id) for a in made]
    assert [r.outcome for r in rows] == ["refused", "refused", "answered", "answered"]
    assert rows[0].note == "not answered: more than 2 messages were waiting"
    dropped = "[Queue overflow] Dropped 2 message(s) due to cap.\n- message 0\n- message 1\n\nmessage\n2"
    assert heard(model) == ["first", dropped, "message\n3"]


async def test_dropping_the_oldest_tells_who_wrote_it(tmp_path: Path) -> None:
    gate = StreamGate()
    model, channel = ScriptedModel([hold_at(say("one"), gate, 0), say("more")], repeat=True), FakeChannel()
    async with running(tmp_path / "h", model, channel, mode="followup", cap=1, drop="old") as app:
        await channel.receive("first", event="1")
        await gate.wait_reached()
        (old,) = await channel.receive("old", event="2")
        (new,) = await channel.receive("new", event="3")
        gate.open()
        assert (await app.wait(old)).outcome == "refused" and (await app.wait(new)).outcome == "answered"
        notices = [step.what for step in await app.store.trace(old)]
    assert heard(model) == ["first", "new"] and "reply queued" in notices


async def test_refusing_the_newest_is_loud_and_stores_nothing(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("one"), gate, 0), say("two")])
    async with running(tmp_path / "h", model, mode="followup", cap=1, drop="new") as app:
        first = await app.submit(inbound("first"))
        await gate.wait_reached()
        second = await app.submit(inbound("second"))
        with pytest.raises(QueueFull):
            await app.submit(inbound("third"))
        gate.open()
        assert [(await app.wait(a.id)).note for a in (first, second)] == ["one", "two"]
        assert await app.store.list_waiting(MAIN) == []


async def test_a_stop_clears_what_waits_and_the_session_goes_on(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("never all of this"), gate, 1), say("next")])
    async with running(tmp_path / "h", model) as app:
        one = await app.submit(inbound("one"))
        await gate.wait_reached()
        steered = await app.submit(inbound("steered"))
        later = await app.submit(inbound("later", options=TurnOptions(queue="followup")))
        assert await app.abort(MAIN, "user")
        after = await app.submit(inbound("after"))
        rows = [await app.wait(a.id) for a in (one, steered, later, after)]
        assert await app.store.list_waiting(MAIN) == []
    assert [r.outcome for r in rows] == ["aborted", "aborted", "aborted", "answered"]
    assert [r.note for r in rows[1:3]] == ["not answered: stopped"] * 2
    assert heard(model) == ["one", "after"]


async def test_one_message_can_be_stopped(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("one and more"), gate, 1), say("two")])
    async with running(tmp_path / "h", model) as app:
        one = await app.submit(inbound("one"))
        await gate.wait_reached()
        waiting = await app.submit(inbound("waiting", options=TurnOptions(queue="followup")))
        steered = await app.submit(inbound("steered"))
        assert await app.dispatcher.stop_item(waiting.id) and await app.dispatcher.stop_item(steered.id)
        gate.open()
        rows = [await app.wait(a.id) for a in (one, waiting, steered)]
        assert [r.outcome for r in rows] == ["answered", "aborted", "aborted"]
        assert not await app.dispatcher.stop_item(waiting.id) and not await app.dispatcher.stop_item("nobody")
        assert heard(model) == ["one"]


async def test_waiting_with_a_limit_stops_nothing(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("late"), gate, 0)])
    async with running(tmp_path / "h", model) as app:
        made = await app.submit(inbound("one"))
        await gate.wait_reached()
        now = await app.dispatcher.wait(made.id, 0.01)
        assert now is not None and (now.state, now.outcome) == ("running", None)
        gate.open()
        assert (await app.wait(made.id)).note == "late"
        with pytest.raises(NotFound):
            await app.dispatcher.wait("nobody", 0.01)


async def test_an_http_client_gets_its_own_turn_and_is_refused_at_once_when_too_many_wait(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("one"), gate, 0), say("two")], repeat=True)
    ask = {"target": Target("http"), "push": False, "session": "s"}
    async with running(tmp_path / "h", model, mode="steer", cap=2) as app:
        first = await app.submit(inbound("a", **ask))
        await gate.wait_reached()
        rest = [await app.submit(inbound("b", **ask)) for _ in range(2)]
        with pytest.raises(QueueFull):
            await app.submit(inbound("c", **ask))
        gate.open()
        assert [(await app.wait(a.id)).note for a in (first, *rest)] == ["one", "two", "two"]


@pytest.mark.seed(373)
async def test_a_held_session_does_not_hold_up_another(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("one"), gate, 0), say("x")], repeat=True)
    async with running(tmp_path / "h", model, mode="collect", debounceMs=600_000) as app:
        one = await app.submit(inbound("one", session="s1"))
        await gate.wait_reached()
        kept = await app.submit(inbound("kept", session="s1"))
        gate.open()
        await app.wait(one.id)
        assert (await app.wait((await app.submit(inbound("other", session="s2"))).id)).note == "x"
        assert (await row(app, kept.id)).state == "queued"
    async with running(tmp_path / "h", model, mode="followup") as app:  # it waits on disk, not in a timer
        assert (await app.wait(kept.id)).outcome == "answered"


async def test_steered_text_carries_no_directives(tmp_path: Path) -> None:
    from_owner = {"sender": inbound().sender.__class__("human", owner=True)}
    model = ScriptedModel([THREE, say("both")])
    async with running(tmp_path / "h", model) as app:
        tool = Held(app, 1)
        await app.submit(inbound("first", **from_owner))
        await tool.reached.wait()
        second = await app.submit(inbound("and /think low this", **from_owner))
        tool.go.set()
        await app.wait(second.id)
    assert "/think" not in heard(model)[-1] and any(isinstance(m, ToolResult) for m in model.requests[1].messages)


@pytest.mark.parametrize("dying", [False, True])
@pytest.mark.parametrize("asked", ["/new", "/stop", "stop!"])
async def test_what_is_said_behind_a_stop_or_a_new_session_is_answered_there(
    tmp_path: Path, asked: str, dying: bool
) -> None:
    """Two messages of one batch, as a platform brings them after a pause: the second was stopped with what came before
    the first, unheard; or began in the old conversation, and after a kill once more in the new one."""
    channel, going = FakeChannel(owner=True), StreamGate()
    model = ScriptedModel([say("one"), *([hold_at(say("two"), going)] if dying else []), say("three")])
    async with running(tmp_path / "h", model, channel) as app:
        (first,) = await channel.receive("long ago", event="e0")
        await app.wait(first)
        if dying:
            await channel.receive("a long task", event="e1")
            await going.wait_reached()
        (control,) = await channel.receive(asked, event="e2")
        (last,) = await channel.receive("hello", event="e3")
        assert (await app.wait(control)).outcome == "answered"
        assert (await app.wait(last)).note == "three"
    said = [message.text for message in model.requests[-1].messages if isinstance(message, UserMessage)]
    assert said[-1] == "hello" and (asked != "/new" or len(said) == 1)
