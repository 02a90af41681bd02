"""Asking for a summary: chunks, tries, other models, limits. Every failure is a value."""

from __future__ import annotations

import asyncio

import pytest

from palinurus.abort import Abort
from palinurus.agent.compaction.summarize import CHUNKS, HistorySummary, SummaryClient, SummaryJob, summarize
from palinurus.clock import SystemClock
from palinurus.config.sections.context import CompactionSettings
from palinurus.core.types.messages import AssistantMessage, Message, TextBlock, UserMessage
from palinurus.core.types.model import ModelFailure, ModelSpec
from palinurus.testing.model import ScriptedModel, StreamGate, fail, hold_at, make_model_info, say

GOOD = "## Goal\n- sail home before winter"
HISTORY: tuple[Message, ...] = (UserMessage("please sail home"), AssistantMessage((TextBlock("aye"),)))


class Quick(SystemClock):
    async def sleep(self, seconds: float) -> None:
        await super().sleep(0)


def asker(model: ScriptedModel, *models: ModelSpec, abort: Abort | None = None) -> SummaryClient:
    return SummaryClient(model, Quick(), abort or Abort(), models or (make_model_info(),), "agent:main:main", [])


async def test_large_histories_are_read_in_chunks_each_updating_the_record() -> None:
    model = ScriptedModel([say(f"{GOOD}\n- part {n}") for n in range(20)])
    window = ModelSpec(make_model_info().ref, make_model_info().api, context_window=8_000)
    history = tuple(UserMessage(f"message {n} " + "oars " * 400) for n in range(20))
    made = await summarize(SummaryJob(history, before="## Goal\n- before"), asker(model, window), CompactionSettings())
    count = len(model.requests)
    assert count > 2 and isinstance(made, HistorySummary) and made.text.endswith(f"- part {count - 1}")
    asked = [r.messages[0].text for r in model.requests]
    assert "- before" in asked[0] and all(f"- part {n}" in asked[n + 1] for n in range(count - 1))
    assert all(sum(f"message {n} " in text for text in asked) == 1 for n in range(20))
    assert all(r.tools == () and r.session == "" and r.owner == "agent:main:main" for r in model.requests)


async def test_of_a_history_that_would_take_hours_the_beginning_and_the_end_are_read() -> None:
    """212 MB that were never shortened: 364 chunks in three times 180 s, thrown away, with the next turn again."""
    model = ScriptedModel([say(GOOD)], repeat=True)
    window = ModelSpec(make_model_info().ref, make_model_info().api, context_window=8_000)
    history = tuple(UserMessage(f"message {n} " + "oars " * 1_600) for n in range(90))
    assert isinstance(await summarize(SummaryJob(history), asker(model, window), CompactionSettings()), HistorySummary)
    asked = [r.messages[0].text for r in model.requests]
    assert len(asked) == CHUNKS and "message 0 " in asked[0] and "message 89 " in asked[-1]
    assert f"{90 - CHUNKS} parts of the conversation are left out here" in asked[1]
    assert all("parts of the conversation" not in text for text in (asked[0], *asked[2:]))


async def test_the_beginning_of_a_turn_gets_its_own_summary() -> None:
    model = ScriptedModel([say(GOOD), say("The user asked to sail home; the oars are out.")])
    made = await summarize(SummaryJob(HISTORY, HISTORY), asker(model), CompactionSettings())
    assert isinstance(made, HistorySummary) and "the oars are out" in made.turn and len(model.requests) == 2


async def test_the_last_try_is_another_models() -> None:
    model = ScriptedModel([fail("server"), fail("server"), fail("server"), say(GOOD)])
    made = await summarize(
        SummaryJob(HISTORY), asker(model, make_model_info(model="a"), make_model_info(model="b")), CompactionSettings()
    )
    assert isinstance(made, HistorySummary) and [r.model.ref.model for r in model.requests] == ["a", "a", "a", "b"]


async def test_a_key_that_does_not_work_is_not_tried_again_but_another_model_is() -> None:
    model = ScriptedModel([fail("auth"), say(GOOD)])
    made = await summarize(
        SummaryJob(HISTORY), asker(model, make_model_info(model="a"), make_model_info(model="b")), CompactionSettings()
    )
    assert isinstance(made, HistorySummary) and [r.model.ref.model for r in model.requests] == ["a", "b"]
    alone = ScriptedModel([fail("auth")], repeat=True)
    assert isinstance(await summarize(SummaryJob(HISTORY), asker(alone), CompactionSettings()), ModelFailure)
    assert len(alone.requests) == 1


async def test_what_does_not_fit_the_summariser_is_halved() -> None:
    model = ScriptedModel([fail("overflow"), fail("overflow"), say(GOOD)])
    history = (UserMessage("please sail home " + "z" * 7000),)
    assert isinstance(await summarize(SummaryJob(history), asker(model), CompactionSettings()), HistorySummary)
    sizes = [len(r.messages[0].text) for r in model.requests]
    assert sizes[0] > sizes[1] > sizes[2]


async def test_whoever_stops_the_run_stops_the_summary() -> None:
    gate, abort = StreamGate(), Abort()
    model = ScriptedModel([hold_at(say(GOOD), gate, 0)], repeat=True)
    task = asyncio.ensure_future(summarize(SummaryJob(HISTORY), asker(model, abort=abort), CompactionSettings()))
    await gate.wait_reached()
    abort.set("stop")
    made = await task
    assert isinstance(made, ModelFailure) and made.kind == "aborted" and len(model.requests) == 1


async def test_time_is_limited_over_all_tries() -> None:
    model = ScriptedModel([hold_at(say(GOOD), StreamGate(), 0)], repeat=True)
    made = await summarize(SummaryJob(HISTORY), asker(model), CompactionSettings(timeout=0.02))
    assert isinstance(made, ModelFailure) and made.kind == "timeout"


@pytest.mark.parametrize("kind", ["budget", "aborted"])
async def test_nobody_is_asked_again_when_a_person_has_said_no(kind: str) -> None:
    model = ScriptedModel([fail(kind)], repeat=True)  # type: ignore[arg-type]
    made = await summarize(
        SummaryJob(HISTORY), asker(model, make_model_info(model="a"), make_model_info(model="b")), CompactionSettings()
    )
    assert isinstance(made, ModelFailure) and made.kind == kind and len(model.requests) == 1
