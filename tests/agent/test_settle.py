"""What a quiet heartbeat leaves behind: the way back, and nothing that was told, steered in or condensed is lost."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from palinurus.agent.plan.opening import STARTUP_FLAG
from palinurus.agent.settle import (
    PRICED,
    build_settlement,
    extract_answer,
    forget_quiet_heartbeat,
    get_final_text,
    make_usage_row,
    settle_until_stored,
)
from palinurus.core.policy.audience import OWNER_CHAT
from palinurus.core.types.events import AgentEnd
from palinurus.core.types.inbound import (
    AnswerForm,
    HeartbeatOptions,
    Inbound,
    Route,
    Sender,
    Target,
    TurnOptions,
)
from palinurus.core.types.keys import parse_session_key
from palinurus.core.types.messages import AssistantMessage, TextBlock, ToolResult, UserMessage
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.usage import TokenUsage
from palinurus.errors import DiskFull
from palinurus.sessions.entries import CompactionEntry
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import InboxRow, RunClaim, SessionRow, Settlement, StaleClaim
from palinurus.testing.clock import FakeClock
from support import inbound, plan

HELD = {"sessionId": "s", "inputTokens": 5}
FIELDS = {**HELD, "updatedAt": 99, "totalTokens": 7, "model": "m", "startupMemory": None}


def said(text: str) -> AssistantMessage:
    return AssistantMessage((TextBlock(text),))


def ended(
    answer: str, *, asked: str = "Look.", steered: str = "", condensed: bool = False, updated: int = 42, **beat: Any
) -> tuple[list[str], Settlement]:
    """What the next turn sees after such a beat, and the settlement."""
    transcript = Transcript("t.jsonl")
    transcript.add(UserMessage("hello", 0), "i1", 0)
    transcript.add(said("hi"), "i1", 0)
    transcript.add(UserMessage(asked, 1), "i2", 1)
    if condensed:
        transcript.add_entry(CompactionEntry(summary="all", item="i2"), 1)
    if steered:
        transcript.add(UserMessage(steered, 1), "i2", 1)
    transcript.add(said(answer), "i2", 1)
    options = TurnOptions(heartbeat=beat.pop("options", HeartbeatOptions()))
    inbound = Inbound(Target("x"), Sender("h"), "e", "Look.", 1, options=options, system=beat.pop("system", True))
    plan: Any = SimpleNamespace(item="i2", inbound=inbound)
    end = AgentEnd((said(answer),), beat.pop("end", "stop"), TokenUsage(), ended=99)
    row = SessionRow("agent:main:main", "main", "s", 99, msgspec.json.encode(FIELDS))
    record = SessionRecord(sessionId="s", updatedAt=updated)
    made = forget_quiet_heartbeat(Settlement("answered", touch=row), plan, end, record, transcript)
    return [message.text for message in transcript.messages()], made


def test_it_goes_back_and_leaves_the_row_as_it_was() -> None:
    seen, made = ended("HEARTBEAT_OK all dry")
    assert seen == ["hello", "hi"] and len(made.lines) == 1 and made.touch is not None
    assert msgspec.json.decode(made.touch.data) == {**HELD, "updatedAt": 42} and made.touch.updated == 42


def test_a_session_that_nobody_has_touched_was_touched_by_it() -> None:
    made = ended("HEARTBEAT_OK", updated=0)[1]
    assert made.touch is not None and made.touch.updated == 99 == msgspec.json.decode(made.touch.data)["updatedAt"]


@pytest.mark.parametrize(
    "beat",
    [
        {"answer": "The cellar is wet."},
        {"answer": "HEARTBEAT_OK", "asked": "System: The ship is in\n\nLook."},
        {"answer": "HEARTBEAT_OK", "steered": "by the way, buy milk"},
        {"answer": "HEARTBEAT_OK", "condensed": True},
        {"answer": "HEARTBEAT_OK", "end": "timeout"},
        {"answer": "HEARTBEAT_OK", "system": False},
        {"answer": "HEARTBEAT_OK", "options": None},
        {"answer": "HEARTBEAT_OK\nMEDIA:https://example.org/a.png"},
        {"answer": "HEARTBEAT_OK\nMEDIA:./chart.png"},
        {"answer": "HEARTBEAT_OK but look", "options": HeartbeatOptions(3)},
    ],
)
def test_what_said_something_stays(beat: dict[str, Any]) -> None:
    seen, made = ended(**beat)
    assert made.lines == () and made.touch is not None and made.touch.updated == 99
    assert beat["answer"] in seen[-1]


def test_what_was_said_within_the_day_goes_too() -> None:
    assert ended("Wet.", options=HeartbeatOptions(said="Wet."))[0] == ["hello", "hi"]


# --- the whole of an ordinary turn


def answered(text: str, **more: Any) -> AssistantMessage:
    return AssistantMessage((TextBlock(text),), **more)


def settled(end: AgentEnd, record: SessionRecord | None = None, **changes: Any) -> tuple[Settlement, dict[str, Any]]:
    """The settlement, and what it changes in the session's row."""
    made = build_settlement(plan(**changes), end, record or SessionRecord(sessionId="s"), (), ())
    assert made.touch is not None
    return made, msgspec.json.decode(made.touch.data)


def over(*messages: AssistantMessage, end: Any = "stop", **more: Any) -> AgentEnd:
    return AgentEnd(messages, end, TokenUsage(1, 2, 3, 4), **{"ended": 99, **more})


def route(text: str) -> Route:
    key = parse_session_key(text)
    assert key is not None
    return Route("main", key, key.lane)


def test_what_a_turn_adds_to_its_session() -> None:
    last = answered("hi", usage=TokenUsage(10, 20, 30, 40))
    record = SessionRecord(sessionId="s", inputTokens=100, outputTokens=200, cacheRead=300, cacheWrite=400)
    made, fields = settled(over(answered("one"), last), record)
    assert (made.outcome, made.note) == ("answered", "one\n\nhi")
    assert fields["totalTokens"] == 100  # what the last request took, and its answer
    assert [fields[name] for name in ("inputTokens", "outputTokens", "cacheRead", "cacheWrite")] == [101, 202, 303, 404]
    assert (fields["updatedAt"], fields["sessionId"], fields["abortedLastRun"]) == (99, "s", False)
    assert (fields["channel"], fields["lastTo"], fields["lastAccountId"]) == ("fake", "chat", "default")
    assert fields["lastInteractionAt"] == 99 and "chatType" not in fields and "subject" not in fields
    assert "totalTokens" not in settled(over(answered("hi")))[1]  # a model that does not say what it used


def test_where_the_person_is_is_not_a_jobs_to_change() -> None:
    for changes in ({"system": True}, {"options": TurnOptions(trigger="cron")}):
        fields = settled(over(answered("hi")), inbound=inbound(**changes))[1]
        assert ("lastChannel" in fields) != inbound(**changes).triggered
    assert "lastInteractionAt" not in settled(over(answered("hi")), inbound=inbound(system=True))[1]
    child = settled(over(answered("hi")), route=route("agent:main:subagent:u1"))[1]
    assert "lastInteractionAt" not in child


@pytest.mark.parametrize(
    ("key", "shared", "marked"),
    [
        ("agent:main:telegram:direct:7", False, True),
        ("agent:main:telegram:direct:7", True, False),
        ("agent:main:telegram:group:7", False, False),
    ],
)
def test_a_chat_with_the_owner_alone_is_marked(key: str, shared: bool, marked: bool) -> None:
    fields = settled(over(answered("hi")), inbound=inbound(shared=shared), route=route(key))[1]
    assert (OWNER_CHAT in fields) == marked


def test_a_group_is_called_by_its_title() -> None:
    fields = settled(over(answered("hi")), inbound=inbound(kind="group", title="The crew"))[1]
    assert (fields["chatType"], fields["groupId"], fields["subject"]) == ("group", "chat", "The crew")


@pytest.mark.parametrize(
    ("end", "outcome", "note"),
    [
        (over(answered("half"), end="error", failure=ModelFailure("auth", "no key")), "failed", "no key"),
        (over(answered("half"), end="max_turns"), "failed", "half"),
        (over(end="aborted", failure=ModelFailure("aborted", "user")), "aborted", "stopped (user)"),
        (over(answered("half"), end="aborted", failure=ModelFailure("aborted", "user")), "aborted", "half"),
        (over(end="aborted"), "aborted", ""),
        (over(), "silent", ""),
        (over(failure=ModelFailure("aborted", "user")), "silent", ""),
    ],
)
def test_outcomes_and_what_is_said_of_them(end: AgentEnd, outcome: str, note: str) -> None:
    made, _ = settled(end)
    assert (made.outcome, made.note) == (outcome, note)


FORM = AnswerForm({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}})


def test_an_answer_that_has_a_form_is_the_json_alone() -> None:
    assert get_final_text(over(answered("Well."), answered('Here: {"n": 1}')), FORM) == '{"n": 1}'
    assert get_final_text(over(answered("Well."), answered("no")), FORM) == "Well.\n\nno"
    assert get_final_text(over(), FORM) == ""


def test_json_that_nobody_asked_for_is_an_answer_like_any_other() -> None:
    assert get_final_text(over(said('{"a": 1}'))) == '{"a": 1}'


@pytest.mark.parametrize("startup", [True, False])
def test_what_a_session_begins_with_is_told_once(startup: bool) -> None:
    fields = settled(over(said("yes")), startup=startup)[1]
    assert (STARTUP_FLAG in fields) is startup and fields.get(STARTUP_FLAG) is None


def test_what_the_agent_said_in_a_settled_turn() -> None:
    def row(outcome: Any, note: str) -> InboxRow:
        return InboxRow("i", "d", "s", "main", b"", 0, "done", outcome, note, attempts=1)

    end = over(answered("all of it"))
    assert extract_answer(end, row("answered", "note")) == "all of it"
    assert extract_answer(end, row("silent", "note")) == ""
    assert extract_answer(None, row("answered", "note")) == "note" == extract_answer(over(), row("answered", "note"))
    assert extract_answer(end, row("answered", '{"n": 1}'), FORM) == '{"n": 1}'
    assert extract_answer(end, row("answered", ""), FORM) == "all of it"


def test_the_ledgers_line_of_an_answer() -> None:
    used = TokenUsage(1, 2, 3, 4)
    own = make_usage_row(plan(), answered("x", usage=used, provider="p", model="m", timestamp=7))
    assert own is not None and (own.provider, own.model, own.at) == ("p", "m", 7)
    assert (own.input, own.output, own.cache_read, own.cache_write, own.cost) == (1, 2, 3, 4, None)
    other = make_usage_row(plan(started=5), answered("x", usage=used))
    known = plan().model.ref
    assert other is not None and (other.provider, other.model, other.at) == (known.provider, known.model, 5)
    assert make_usage_row(plan(), answered("x")) is None and make_usage_row(plan(), UserMessage("x")) is None


def test_the_ledgers_line_of_pictures() -> None:
    spent = {"provider": "p", "model": "m", "input": 1, "output": 2, "cost": 0.5}

    def result(name: str, details: Any, at: int = 7) -> ToolResult:
        return ToolResult("c1", name, (TextBlock("done"),), details=details, timestamp=at)

    made = make_usage_row(plan(started=5), result(PRICED, {"spent": spent}))
    assert made is not None and (made.provider, made.input, made.output, made.cost, made.at) == ("p", 1, 2, 0.5, 7)
    late = make_usage_row(plan(started=5), result(PRICED, {"spent": spent}, at=0))
    assert late is not None and late.at == 5
    for other in (result("exec", {"spent": spent}), result(PRICED, {}), result(PRICED, "odd"), result(PRICED, None)):
        assert make_usage_row(plan(), other) is None


async def test_a_full_disk_is_asked_again_after_longer_and_longer_pauses() -> None:
    clock, tries = FakeClock(), list[float]()

    async def write() -> None:
        tries.append(clock.monotonic())
        if len(tries) < 9:
            raise DiskFull("full")

    claim = RunClaim("i", "s", "main", b"", 0, attempts=1)
    done = asyncio.ensure_future(settle_until_stored(claim, write, clock))
    while not done.done():
        await clock.until_sleeping()
        await clock.advance(0.5)
    assert await done
    assert [b - a for a, b in pairwise(tries)] == [0.5, 1, 2, 4, 8, 16, 30, 30]


async def test_whoever_stops_does_not_wait_for_the_disk_and_what_others_ended_is_theirs() -> None:
    claim = RunClaim("i", "s", "main", b"", 0, attempts=1)
    for trouble, stopping in ((DiskFull("full"), True), (StaleClaim("gone"), False)):

        async def write(trouble: Exception = trouble) -> None:
            raise trouble

        assert not await settle_until_stored(claim, write, FakeClock(), lambda stopping=stopping: stopping)
