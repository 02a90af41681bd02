"""What is learned of token counts: once per message, kept, and found again after a crash."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from palinurus.agent.plan.window import KEY, KIND, TokenCalibration, read_calibration
from palinurus.core.history.tokens import CalibrationTable
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.messages import AssistantMessage, TextBlock, UserMessage
from palinurus.core.types.usage import TokenUsage
from palinurus.sessions.transcript import Transcript
from palinurus.store.factory import open_store
from palinurus.store.sqlite.store import SqliteStore
from palinurus.testing.clock import FakeClock

REF = ModelRef("p", "m")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    made = await open_store(str(tmp_path), FakeClock())
    yield made
    await made.close()


def talk(count: int, transcript: Transcript | None = None, per: float = 3.0) -> Transcript:
    """Turns of 2,000 characters each, counted by a provider that takes `per` characters for a token."""
    transcript = transcript or Transcript("agents/main/sessions/a.jsonl")
    for _ in range(count):
        transcript.add(UserMessage("word " * 400), "i", 1)
        chars = sum(len(m.text) for m in transcript.messages())
        reply = AssistantMessage(
            (TextBlock("ok"),), provider="p", model="m", usage=TokenUsage(int(chars / per) + 700, 2)
        )
        transcript.add(reply, "i", 1)
    return transcript


async def saved(store: SqliteStore, count: int) -> CalibrationTable:
    async with asyncio.timeout(60):
        while True:
            known = await read_calibration(store)
            if known.models and known.models["p/m"].count == count:
                return known
            await asyncio.sleep(0.005)


async def test_each_message_is_learned_from_once_and_kept(store: SqliteStore) -> None:
    gauge, session = TokenCalibration(store), talk(20)
    first = await gauge.learn(session, REF)
    assert 1.2 < first < 4 / 3
    assert await gauge.learn(session, REF) == first
    assert (await saved(store, 19)).scale("p/m") == first
    assert await gauge.learn(talk(5, session), REF) > first
    await saved(store, 24)
    assert await gauge.learn(session, ModelRef("p", "other")) == 1.0


async def test_what_was_learned_is_there_after_a_start(store: SqliteStore) -> None:
    scale = await TokenCalibration(store).learn(talk(10), REF)
    await saved(store, 9)
    assert await TokenCalibration(store).learn(Transcript("agents/main/sessions/new.jsonl"), REF) == scale


async def test_a_record_that_cannot_be_read_counts_as_none(store: SqliteStore) -> None:
    await store.put_record(KIND, KEY, b"not json")
    assert await TokenCalibration(store).learn(Transcript("x.jsonl"), REF) == 1.0
