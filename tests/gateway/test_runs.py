"""A run as clients see it."""

from __future__ import annotations

from typing import Any

from palinurus.core.types.events import (
    AgentEnd,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolEnd,
    ToolStart,
    ToolUpdate,
)
from palinurus.core.types.messages import AssistantMessage, TextBlock, ToolResult, UserMessage
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.usage import TokenUsage
from palinurus.gateway.runs import RunPush, RunView
from support import inbound

KEY = "agent:main:main"


def begun() -> tuple[RunView, list[RunPush]]:
    run = RunView("r1", "i1", KEY, "main", inbound("hi"))
    return run, run.feed(AgentStart("x", KEY, "fake/m", 5), 10)


def said(run: RunView, *deltas: str) -> None:
    run.feed(MessageStart(), 11)
    for delta in deltas:
        run.feed(MessageUpdate(delta), 12)


def states(pushes: list[RunPush], event: str = "chat") -> list[dict[str, Any]]:
    return [p.payload for p in pushes if p.event == event]


def test_text_is_cumulative_over_the_run_and_flushed_before_a_tool() -> None:
    run, start = begun()
    assert start[0].payload["data"] == {"phase": "start", "startedAt": 5}
    said(run, "Let me ", "look.")
    assert run.waiting
    pushes = run.feed(ToolStart("c1", "read", {"path": "a"}, "a"), 20)
    (delta,) = states(pushes)
    assert delta["state"] == "delta" and delta["deltaText"] == "Let me look."
    assert [p.payload["stream"] for p in pushes if p.event == "agent"] == ["assistant", "tool", "item"]
    result = ToolResult("c1", "read", (TextBlock("data"),))
    run.feed(ToolEnd("c1", "read", result, False, 3), 21)
    said(run, "Found it.")
    (delta,) = states(run.flush(30))
    assert delta["deltaText"] == "Found it."
    assert delta["message"]["content"][0]["text"] == "Let me look.Found it."
    assistant = AssistantMessage((TextBlock("Found it."),))
    end = run.feed(AgentEnd((assistant,), "stop", TokenUsage(), ended=40), 41)
    (final,) = states(end)
    assert final["state"] == "final" and final["message"]["content"][0]["text"] == "Let me look.Found it."
    seqs = [p.payload["seq"] for p in end if p.event in ("chat", "agent")]
    assert seqs == sorted(seqs)


def test_tool_events_carry_arguments_output_and_result() -> None:
    run, _ = begun()
    start = run.feed(ToolStart("c1", "exec", {"command": "ls"}, "ls"), 20)
    assert start[0].audience == "tool" and start[0].payload["data"]["args"] == {"command": "ls"}
    update = run.feed(ToolUpdate("c1", "exec", "a\n"), 21)
    assert [p.payload["stream"] for p in update] == ["tool", "command_output"]
    result = ToolResult("c1", "exec", (TextBlock("a\nb\n"),), isError=True, details={"exitCode": 2})
    ended = run.feed(ToolEnd("c1", "exec", result, True, 9), 22)
    data = ended[0].payload["data"]
    assert data["isError"] and data["result"]["details"] == {"exitCode": 2} and data["meta"] == "ls"
    assert ended[1].payload["data"]["status"] == "failed"
    assert ended[2].payload["data"]["durationMs"] == 9


def test_an_error_and_an_abort_are_told_apart() -> None:
    run, _ = begun()
    failed = run.feed(AgentEnd((), "error", TokenUsage(), ModelFailure("timeout", "too slow"), 40), 41)
    (error,) = states(failed)
    assert (error["state"], error["errorKind"], error["errorMessage"]) == ("error", "timeout", "too slow")
    assert states(failed, "agent")[-1]["data"]["phase"] == "error"
    run, _ = begun()
    said(run, "half a")
    run.stop = "rpc"
    stopped = run.feed(AgentEnd((), "aborted", TokenUsage(), ModelFailure("aborted", "rpc"), 40), 41)
    aborted = states(stopped)[-1]
    assert (aborted["state"], aborted["stopReason"]) == ("aborted", "rpc")
    assert aborted["message"]["content"][0]["text"] == "half a"


def test_a_command_is_one_final_without_a_run_around_it() -> None:
    run = RunView("r1", "i1", KEY, "main", inbound("/status"))
    assert run.feed(MessageUpdate("card"), 1) == []
    (push,) = run.feed(AgentEnd((AssistantMessage((TextBlock("card"),)),), "stop", TokenUsage()), 2)
    assert push.payload["state"] == "final"
    assert push.payload["message"]["command"] is True and push.payload["message"]["model"] == "gateway-injected"


def test_silence_has_a_final_without_a_message() -> None:
    run, _ = begun()
    said(run, "NO_", "REPLY")
    message = AssistantMessage((TextBlock("NO_REPLY"),))
    run.feed(MessageEnd(message), 13)
    final = states(run.feed(AgentEnd((message,), "stop", TokenUsage()), 14))[-1]
    assert final["state"] == "final" and "message" not in final


def test_reasoning_in_tags_never_reaches_the_text() -> None:
    run, _ = begun()
    said(run, "<thi", "nk>secret</think>", "shown")
    run.feed(MessageEnd(AssistantMessage((TextBlock("<think>secret</think>shown"),))), 13)
    assert run.text == "shown"
    assert run.feed(MessageEnd(UserMessage("steered")), 14) == []
