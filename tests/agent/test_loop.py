"""The loop: think, act, observe; when it ends; what is on disk before what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from palinurus.abort import Abort
from palinurus.agent.loop import ANSWERS, loop
from palinurus.agent.mailbox import Mailbox
from palinurus.agent.plan.runplan import ModelCandidate, RunLimits
from palinurus.core.types.events import (
    AgentEnd,
    CompactionEnd,
    CompactionStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    RunEvent,
    ToolEnd,
    ToolStart,
)
from palinurus.core.types.messages import AssistantMessage, Message, TextBlock, ToolResult, UserMessage
from palinurus.core.types.tool import ToolOutput, make_output
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, fail, hold_at, make_model_info, say
from support import Notes, collect, kinds, plan, ports, tool


async def test_who_never_stops_writing_gets_to_read_something() -> None:
    mailbox, notes = Mailbox(), Notes()

    def answer(request: Any) -> Any:
        mailbox.push(UserMessage("more"), f"m{len(model.requests)}")
        return say("answer")

    model = ScriptedModel([answer], repeat=True)
    events = await collect(loop(plan(), ports(model, notes, steering=mailbox)))
    assert isinstance(events[-1], AgentEnd) and events[-1].end == "stop" and not mailbox.open
    assert len(model.requests) == ANSWERS
    assert notes.absorbed == [f"m{n}" for n in range(1, ANSWERS)]  # the last one waits for a turn of its own


@pytest.mark.seed(144, 145, 148, 154, 157, 161, 304, 305)
async def test_text_only_answer_is_the_whole_run() -> None:
    model = ScriptedModel([say("Hello there, human.")], chunk=5)
    earlier = (UserMessage("before"), AssistantMessage(()))
    events = await collect(loop(plan(history=earlier), ports(model)))
    assert kinds(events)[:5] == ["agent_start", "message_start", "message_end", "message_start", "message_update"]
    assert kinds(events)[-2:] == ["message_end", "agent_end"]
    assert "".join(e.delta for e in events if isinstance(e, MessageUpdate)) == "Hello there, human."
    assert len([e for e in events if isinstance(e, MessageUpdate)]) == 4
    end = events[-1]
    assert isinstance(end, AgentEnd) and end.end == "stop" and end.messages[-1].text == "Hello there, human."
    request = model.requests[0]
    assert request.prompt.text == "You are a test."
    assert [m.text for m in request.messages] == ["before", "", "hello"]


@pytest.mark.seed(144, 146, 147, 158, 306)
async def test_calls_run_and_their_results_reach_the_model() -> None:
    model = ScriptedModel([call_tools(("a", {"x": "1"}), ("b", {"x": "2"})), say("done")])
    events = await collect(loop(plan(tool("a"), tool("b")), ports(model)))
    seen = model.requests[1].messages
    assert [m.toolName for m in seen if isinstance(m, ToolResult)] == ["a", "b"]
    assert [m.text for m in seen if isinstance(m, ToolResult)] == ["a {'x': '1'}", "b {'x': '2'}"]
    starts = [e for e in events if isinstance(e, ToolStart)]
    ends = [e for e in events if isinstance(e, ToolEnd)]
    assert [(s.name, s.args) for s in starts] == [("a", {"x": "1"}), ("b", {"x": "2"})]
    assert [(e.name, e.is_error, e.result.text) for e in ends] == [
        ("a", False, "a {'x': '1'}"),
        ("b", False, "b {'x': '2'}"),
    ]
    assert isinstance(events[-1], AgentEnd) and events[-1].end == "stop"


async def test_parallel_tools_that_end_out_of_order_are_reported_in_order() -> None:
    first = asyncio.Event()

    async def slow(ctx: Any, x: str = "") -> ToolOutput:
        await first.wait()
        return make_output("slow")

    async def quick(ctx: Any, x: str = "") -> ToolOutput:
        first.set()
        return make_output("quick")

    model = ScriptedModel([call_tools(("slow", {}), ("quick", {})), say("ok")])
    events = await collect(loop(plan(tool("slow", slow), tool("quick", quick)), ports(model)))
    assert [e.name for e in events if isinstance(e, ToolEnd)] == ["slow", "quick"]
    assert [e.message.toolName for e in events if isinstance(e, MessageEnd) and isinstance(e.message, ToolResult)] == [
        "slow",
        "quick",
    ]


async def test_a_sequential_tool_makes_the_batch_sequential() -> None:
    running = 0
    most = 0

    async def count(ctx: Any, x: str = "") -> ToolOutput:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return make_output("ok")

    model = ScriptedModel([call_tools(("a", {}), ("b", {}), ("a", {})), say("ok")])
    await collect(loop(plan(tool("a", count), tool("b", count, sequential=True)), ports(model)))
    assert most == 1


async def test_intent_is_on_disk_before_an_effect_and_results_before_the_model() -> None:
    notes = Notes()

    async def look(ctx: Any, x: str = "") -> ToolOutput:
        notes.diary.append("run")
        return make_output("ok")

    model = ScriptedModel([call_tools(("a", {})), say("ok")])
    await collect(loop(plan(tool("a", look)), ports(model, notes)))
    assert notes.diary == [
        "add UserMessage",
        "add AssistantMessage",
        "flush",
        "run",
        "add ToolResult",
        "flush",
        "flush",
        "add AssistantMessage",
    ]


async def test_a_pure_tool_does_not_wait_for_the_disk_but_its_result_does() -> None:
    notes = Notes()

    async def look(ctx: Any, x: str = "") -> ToolOutput:
        notes.diary.append("run")
        return make_output("ok")

    model = ScriptedModel([call_tools(("a", {})), say("ok")])
    await collect(loop(plan(tool("a", look, effect="pure")), ports(model, notes)))
    assert notes.diary[:6] == ["add UserMessage", "add AssistantMessage", "run", "add ToolResult", "flush", "flush"]


@pytest.mark.seed(149)
async def test_max_turns() -> None:
    model = ScriptedModel([lambda r: call_tools(("a", {"x": str(len(r.messages))}))], repeat=True)
    events = await collect(loop(plan(tool("a"), limits=RunLimits(max_turns=3)), ports(model)))
    end = events[-1]
    assert isinstance(end, AgentEnd) and end.end == "max_turns" and len(model.requests) == 3
    assert end.failure is not None and "3 model calls" in end.failure.message


@pytest.mark.seed(149, 303)
async def test_abort_during_a_tool_ends_the_run_with_a_result_for_every_call() -> None:
    abort = Abort()
    stopped = asyncio.Event()

    async def forever(ctx: Any, x: str = "") -> ToolOutput:
        abort.set("user")
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        raise AssertionError

    model = ScriptedModel([call_tools(("quick", {}), ("forever", {}))])
    notes = Notes()
    made = plan(tool("quick"), tool("forever", forever))
    events = await collect(loop(made, ports(model, notes, abort=abort)))
    assert stopped.is_set()
    end = events[-1]
    assert isinstance(end, AgentEnd) and end.end == "aborted"
    results = [m for m in notes.messages if isinstance(m, ToolResult)]
    assert [r.toolName for r in results] == ["quick", "forever"]
    assert results[1].isError and "stopped before it finished (by the user)" in results[1].text
    assert len(model.requests) == 1


@pytest.mark.seed(149)
@pytest.mark.parametrize(("reason", "end"), [("user", "aborted"), ("timeout", "timeout")])
async def test_abort_during_the_answer_keeps_what_was_said(reason: str, end: str) -> None:
    gate = StreamGate()
    abort = Abort()
    model = ScriptedModel([hold_at(say("one two three four"), gate, 2)], chunk=4)
    notes = Notes()
    run = asyncio.ensure_future(collect(loop(plan(), ports(model, notes, abort=abort))))
    await gate.wait_reached()
    abort.set(reason)
    events = await run
    last = events[-1]
    assert isinstance(last, AgentEnd) and last.end == end
    kept = notes.messages[-1]
    assert isinstance(kept, AssistantMessage) and kept.stopReason == "aborted" and kept.text == "one two "


async def test_steering_lands_after_the_tools_and_before_the_next_model_call() -> None:
    mailbox = Mailbox()

    async def steered(ctx: Any, x: str = "") -> ToolOutput:
        if not mailbox.waiting:
            mailbox.push(UserMessage("also this"), "steered-id")
        return make_output("ok")

    model = ScriptedModel([call_tools(("a", {"x": "1"}), ("a", {"x": "2"})), say("both done")])
    notes = Notes()
    events = await collect(loop(plan(tool("a", steered)), ports(model, notes, steering=mailbox)))
    assert [type(m).__name__ for m in model.requests[1].messages] == [
        "UserMessage",
        "AssistantMessage",
        "ToolResult",
        "ToolResult",
        "UserMessage",
    ]
    assert notes.absorbed == ["steered-id"]
    assert [e.message.text for e in events if isinstance(e, MessageStart) and e.message] == ["hello", "also this"]


async def test_steering_during_the_last_answer_gives_another_turn_in_the_same_run() -> None:
    gate, mailbox = StreamGate(), Mailbox()
    model = ScriptedModel([hold_at(say("first"), gate, 0), say("second")])
    run = asyncio.ensure_future(collect(loop(plan(), ports(model, steering=mailbox))))
    await gate.wait_reached()
    assert mailbox.push(UserMessage("and?"), "id2")
    gate.open()
    events = await run
    assert [m.text for m in events[-1].messages] == ["hello", "first", "and?", "second"]  # type: ignore[union-attr]
    assert not mailbox.push(UserMessage("too late"), "id3")


async def test_an_answer_cut_off_ends_the_run_and_its_calls_are_not_run() -> None:
    ran: list[str] = []

    async def note(ctx: Any, x: str = "") -> ToolOutput:
        ran.append("ran")
        return make_output("ok")

    model = ScriptedModel([fail("server", "broken", after="partial ")])
    notes = Notes()
    events = await collect(loop(plan(tool("a", note)), ports(model, notes)))
    end = events[-1]
    assert isinstance(end, AgentEnd) and end.end == "error" and end.failure is not None and end.failure.partial
    assert not ran
    assert notes.messages[-1].text == "partial "


async def test_two_hundred_calls_at_once_are_capped_and_every_call_has_its_result() -> None:
    many = [("a", {"x": str(n)}) for n in range(200)]
    model = ScriptedModel([call_tools(*many), say("ok")])
    notes = Notes()
    await collect(loop(plan(tool("a")), ports(model, notes)))
    results = [m for m in notes.messages if isinstance(m, ToolResult)]
    assert len(results) == 200
    assert [r.isError for r in results] == [False] * 64 + [True] * 136
    assert "at most 64" in results[64].text


async def test_the_same_call_again_and_again_is_warned_about_then_stopped() -> None:
    model = ScriptedModel([call_tools(("a", {"x": "same"}))], repeat=True)
    notes = Notes()
    events = await collect(loop(plan(tool("a")), ports(model, notes)))
    results = [m.text for m in notes.messages if isinstance(m, ToolResult)]
    assert len(results) == 6
    assert "same result" not in results[1] and "gave this same result 3 times" in results[2]
    end = events[-1]
    assert isinstance(end, AgentEnd) and end.end == "tool_loop" and end.failure is not None
    assert "6 times" in end.failure.message


async def test_the_same_call_many_times_in_one_answer_is_no_loop() -> None:
    model = ScriptedModel([call_tools(*[("a", {"x": "same"})] * 10), say("ok")])
    events = await collect(loop(plan(tool("a")), ports(model)))
    assert isinstance(events[-1], AgentEnd) and events[-1].end == "stop"


async def test_a_call_whose_result_changes_is_progress() -> None:
    count = 0

    async def changing(ctx: Any, x: str = "") -> ToolOutput:
        nonlocal count
        count += 1
        return make_output(str(count))

    model = ScriptedModel([*[call_tools(("a", {"x": "same"}))] * 8, say("ok")])
    events = await collect(loop(plan(tool("a", changing)), ports(model)))
    assert isinstance(events[-1], AgentEnd) and events[-1].end == "stop"


async def test_a_failing_model_hands_over_to_the_fallback_unseen() -> None:
    model = ScriptedModel([fail("overloaded"), say("from the other")])
    made = plan(choices=(ModelCandidate(make_model_info()), ModelCandidate(make_model_info(model="other"))))
    events = await collect(loop(made, ports(model)))
    assert [r.model.ref.model for r in model.requests] == ["model", "other"]
    assert isinstance(events[-1], AgentEnd) and events[-1].end == "stop" and events[-1].failure is None
    assert kinds(events).count("message_start") == 2  # the user's and one of the model's


async def test_an_empty_answer_is_asked_for_once_more_then_explained() -> None:
    model = ScriptedModel([say(""), say("  ")])
    events = await collect(loop(plan(), ports(model)))
    end = events[-1]
    assert isinstance(end, AgentEnd) and end.end == "error" and end.failure is not None
    assert "empty answer" in end.failure.message and len(model.requests) == 2


class Halving:
    """A compactor that drops the older half, as often as it is asked."""

    def __init__(self, due: str = "") -> None:
        self.messages: tuple[Message, ...] | None = None
        self.notices = ["made room"]
        self.levels: list[int] = []
        self._due = due

    def due(self, messages: Sequence[Message], *, first: bool) -> str:
        return self._due if len(messages) > 4 else ""

    async def compact(self, messages: Sequence[Message], reason: str, level: int = 0) -> AsyncIterator[RunEvent]:
        self.levels.append(level)
        yield CompactionStart(reason)
        self.messages = tuple(messages)[len(messages) // 2 :] if len(messages) > 1 else None
        yield CompactionEnd(self.messages is not None, will_retry=True)


LONG = tuple(m for n in range(8) for m in (UserMessage(f"q{n}"), AssistantMessage((TextBlock(f"a{n}"),))))


async def test_an_overflow_is_compacted_and_tried_again() -> None:
    model, compactor = ScriptedModel([fail("overflow"), fail("overflow"), say("fits")]), Halving()
    events = await collect(loop(plan(history=LONG), ports(model, compactor=compactor)))
    sizes = [len(r.messages) for r in model.requests]
    assert sizes[0] == 17 and sizes[0] > sizes[1] > sizes[2] >= 1 and compactor.levels == [0, 1]
    assert model.requests[2].messages[-1].text == "hello"
    end = events[-1]
    assert isinstance(end, AgentEnd) and end.end == "stop" and end.notices == ("made room",)
    assert kinds(events).count("auto_compaction_start") == kinds(events).count("auto_compaction_end") == 2


async def test_what_cannot_be_made_smaller_ends_the_run_with_the_reason() -> None:
    model, compactor = ScriptedModel([fail("overflow", "too long")], repeat=True), Halving()
    events = await collect(loop(plan(), ports(model, compactor=compactor)))
    end = events[-1]
    assert isinstance(end, AgentEnd) and end.end == "error" and end.failure is not None
    assert end.failure.message == "too long" and len(model.requests) == 1


async def test_room_that_is_due_is_made_before_the_request_and_the_run_goes_on() -> None:
    model = ScriptedModel([call_tools(("read", {"x": "1"})), say("done")])
    events = await collect(loop(plan(tool("read"), history=LONG), ports(model, compactor=Halving("threshold"))))
    assert [len(r.messages) for r in model.requests] == [9, 6]  # and again after the tool
    assert kinds(events)[:4] == ["agent_start", "message_start", "message_end", "auto_compaction_start"]
    assert isinstance(events[-1], AgentEnd) and events[-1].end == "stop"


async def test_nothing_said_after_successful_tools_is_asked_for_without_tools_then_told_as_what_was_done() -> None:
    async def write(ctx: Any, x: str = "") -> Any:
        return make_output(f"Wrote {x}.\nsecond")

    acts = call_tools(("a", {"x": "notes.txt"}))
    model = ScriptedModel([acts, say(""), say("I wrote it.")])
    events = await collect(loop(plan(tool("a", write)), ports(model)))
    end = events[-1]
    assert isinstance(end, AgentEnd) and end.end == "stop" and end.messages[-1].text == "I wrote it."
    assert [r.tool_choice for r in model.requests] == [None, None, "none"]
    assert model.requests[-1].tools == model.requests[0].tools  # what stands before stays as it was

    model = ScriptedModel([acts, say(""), say(" \n")])
    events = await collect(loop(plan(tool("a", write)), ports(model)))
    end = events[-1]
    assert isinstance(end, AgentEnd) and end.end == "stop" and end.failure is None and len(model.requests) == 3
    said = end.messages[-1].text
    assert "a notes.txt: Wrote notes.txt." in said and "second" not in said
    assert said in "".join(e.delta for e in events if isinstance(e, MessageUpdate))


async def test_nothing_said_after_a_failed_tool_is_no_answer() -> None:
    async def fails(ctx: Any, x: str = "") -> Any:
        return make_output("no", error=True)

    model = ScriptedModel([call_tools(("a", {"x": "1"})), say(""), say("")])
    end = (await collect(loop(plan(tool("a", fails)), ports(model))))[-1]
    assert isinstance(end, AgentEnd) and end.end == "error"
