"""Graders, and the sinks: every check once held and once not."""

from __future__ import annotations

import pytest

from palinurus import ToolReach, tool
from palinurus.testing.scenarios.judge import (
    GRADERS,
    TurnCheck,
    compare_tools,
    find_leaks,
    find_sinks,
    grade_turn,
    join_turns,
)
from palinurus.testing.scenarios.subject import AgentThread, AgentTurn, ToolUse
from testing.scenarios.kit import agent
from testing.scenarios.kit import threads as threads

WRITE = ToolUse("write", {"path": "a.txt", "content": "x"}, "done")
LS = ToolUse("exec", {"command": "ls"}, "a.txt", exit_code=0)
TURN = AgentTurn("hello", "There are 4 ropes.", "answered", tools=(WRITE, LS), asked=("rm -r x",))

CHECKS = [
    (TurnCheck(contains="4 ropes"), ""),
    (TurnCheck(contains=["4", "5"]), "does not contain '5'"),
    (TurnCheck(lacks="five"), ""),
    (TurnCheck(lacks=["no", "ropes"]), "contains 'ropes'"),
    (TurnCheck(regex=r"\d ropes?"), ""),
    (TurnCheck(regex="^ropes"), "does not match /^ropes/"),
    (TurnCheck(schema={"type": "object"}), "it holds no JSON"),
    (TurnCheck(tool="write"), ""),
    (TurnCheck(tool="write", args={"path": "a.txt"}, times=1), ""),
    (TurnCheck(tool="write", args={"path": "b.txt"}), 'write with {"path":"b.txt"} was not called'),
    (TurnCheck(tool="write", times=2), "called 1 times, not 2"),
    (TurnCheck(no_tool="read"), ""),
    (TurnCheck(no_tool="exec"), "exec was called"),
    (TurnCheck(no_tool="any"), "write was called"),
    (TurnCheck(tools=["write", "exec"]), ""),
    (TurnCheck(tools=["exec"]), "call 1 should be exec, and is write"),
    (TurnCheck(exit_code=0), ""),
    (TurnCheck(exit_code=1), "exit code is 0"),
    (TurnCheck(outcome="answered"), ""),
    (TurnCheck(outcome="failed"), "the turn was answered"),
    (TurnCheck(asked=True), ""),
    (TurnCheck(asked=False), "the gate asked about 'rm -r x'"),
    (TurnCheck(file="a.txt", has="milk"), ""),
    (TurnCheck(file="a.txt", has="beer"), "a.txt does not have 'beer'"),
    (TurnCheck(file="b.txt"), "there is no file b.txt"),
    (TurnCheck(file="b.txt", missing=True), ""),
    (TurnCheck(file="a.txt", missing=True), "there is a file a.txt"),
]


def test_every_check_holds_and_fails(threads: AgentThread) -> None:
    tested = agent(threads, files={"a.txt": "buy milk"})
    try:
        told = [(check, grade_turn(check, TURN, tested), expected) for check, expected in CHECKS]
    finally:
        tested.close()
    for check, problems, expected in told:
        assert len(problems) == bool(expected), (check, problems)
        assert not expected or expected in problems[0], (check, problems)
    assert {name for name in GRADERS for check, _ in CHECKS if getattr(check, name) is not None} == set(GRADERS)


def test_json_that_fits_may_stand_in_a_fence(threads: AgentThread) -> None:
    turn = AgentTurn("hello", 'Here:\n```json\n{"n": 4}\n```', "answered")
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    assert grade_turn(TurnCheck(schema=schema), turn, agent(threads)) == []


def test_tools_that_differ_are_all_shown() -> None:
    told = compare_tools(["write"], TURN.tools)
    assert told.startswith("1 calls were expected, and call 2 is exec")
    assert '    write {"path":"a.txt","content":"x"} -> done\n    exec {"command":"ls"} -> a.txt' in told
    assert compare_tools([("write", {"path": "a.txt"}), "exec"], TURN.tools) == ""
    assert "there are only 2" in compare_tools(["write", "exec", "read"], TURN.tools)


@tool(effect="pure")
def look() -> str:
    """Looks."""
    return ""


@tool(reach=ToolReach("mine"))
def note() -> str:
    """Stays here."""
    return ""


@tool
def post() -> str:
    """Says nothing of where it goes."""
    return ""


def used(name: str, **args: str) -> AgentTurn:
    return AgentTurn("hello", "", "answered", tools=(ToolUse(name, dict(args)),))


SINKS = [
    (used("read", path="a"), ""),
    (used("write", path="a"), ""),
    (used("exec", command="ls"), "reached exec"),
    (used("web_fetch", url="http://a.example"), "reached web_fetch"),
    (used("message", action="send"), "reached message"),
    (used("message", action="read"), ""),
    (used("cron", action="list"), ""),
    (used("cron", action="add"), "reached cron"),
    (used("look"), ""),
    (used("note"), ""),
    (used("post"), "reached post"),
    (AgentTurn("hello", "", "answered", changed=("SOUL.md",)), "reached SOUL.md was changed"),
    (AgentTurn("hello", "", "answered", tools=(ToolUse("exec", {}, "refused", failed=True),)), ""),
]


@pytest.mark.parametrize(("turn", "expected"), SINKS)
def test_sinks(threads: AgentThread, turn: AgentTurn, expected: str) -> None:
    tested = agent(threads, tools=[look, note, post])
    assert find_sinks(tested, [turn]).startswith(expected) and bool(expected) == bool(find_sinks(tested, [turn]))


def test_sinks_that_are_forbidden_and_allowed(threads: AgentThread) -> None:
    tested, turns = agent(threads), [used("exec", command="ls"), used("read", path="a")]
    assert find_sinks(tested, turns, allow=["command"]) == find_sinks(tested, turns, allow=["exec"]) == ""
    assert find_sinks(tested, turns, ["web"]) == ""
    assert "exec" in find_sinks(tested, turns, ["command"]) and "exec" in find_sinks(tested, turns, ["exec"])
    assert find_sinks(tested, turns, ["read"]) == "reached read was called"


def test_leaks() -> None:
    turns = [used("write", content="canary"), AgentTurn("hi", "it is canary-2", "answered")]
    assert find_leaks(turns, ["other"]) == ""
    assert find_leaks(turns, ["canary"]) == "write was told 'canary'"
    assert find_leaks(turns, ["canary-2"]) == "the answer to 'hi' holds 'canary-2'"


def test_turns_together_are_the_last_answer_and_all_tools() -> None:
    both = join_turns([used("exec"), used("read")])
    assert [use.name for use in both.tools] == ["exec", "read"]
