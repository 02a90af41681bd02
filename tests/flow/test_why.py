"""What a run leaves on file about itself: cards that agree with the ledger and the transcript, told in every place."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from palinurus.app import App
from palinurus.cli.look.why import run_why
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.core.types.card import CARD, read_cards
from palinurus.core.types.inbound import Sender
from palinurus.core.types.messages import AssistantMessage
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.usage import TokenCost, TokenUsage
from palinurus.errors import NotFound
from palinurus.services.why import RunFacts, describe_run
from palinurus.sessions.entries import MessageEntry
from palinurus.sessions.record import SessionRecord
from palinurus.store.port import UsageRow
from palinurus.testing.model import ScriptedModel, ScriptedTurn, ScriptStep, call_tools, say
from support import inbound

MODELS = [{"id": "m", "reasoning": True}, {"id": "spare", "reasoning": False}]
CONFIG: dict[str, Any] = {
    "models": {"providers": {"fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": MODELS}}},
    "agents": {"defaults": {"model": {"primary": "fake/m", "fallbacks": ["fake/spare"]}, "thinkingDefault": "low"}},
    "tools": {"deny": ["exec"]},
}
OWNER = Sender("me", owner=True)


@asynccontextmanager
async def running(home: Path, model: ScriptedModel) -> AsyncIterator[App]:
    home.mkdir(exist_ok=True)
    (home / "palinurus.json").write_text(json.dumps(CONFIG))
    app = App(load_config(str(home), {}).settings, {}, SystemClock(), model=model)
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


async def ask(app: App, text: str, event: str, session: str = "main") -> str:
    accepted = await app.submit(inbound(text, event=event, session=session, sender=OWNER))
    await app.wait(accepted.id)
    return str(accepted.id)


async def gather(app: App, item: str) -> RunFacts:
    row = await app.store.item(item)
    assert row is not None
    session = await app.store.session(row.session.removeprefix("control:"))
    assert session is not None
    path = SessionRecord.decode(session.data).path(session.agent)
    entries = (await app.program.transcripts.load(path)).entries_of(item)
    calls = [call for call in await app.store.list_usage(0, row.session) if call.item == item]
    said = [entry.message for entry in entries if isinstance(entry, MessageEntry)]
    return RunFacts(row, await app.store.trace(item), calls, said)


def draw_turn(dice: random.Random, text: str, **more: Any) -> ScriptedTurn:
    numbers = [dice.randrange(1, 2000) for _ in range(4)]
    cost = TokenCost(total=dice.randrange(1, 100) / 1000) if dice.random() < 0.7 else None
    return ScriptedTurn(text=text, usage=TokenUsage(*numbers, totalTokens=sum(numbers), cost=cost), **more)


def draw_run(dice: random.Random) -> list[ScriptStep]:
    """Tools, tries that fail and cost something, and an answer."""
    steps: list[ScriptStep] = []
    for n in range(dice.randrange(4)):
        if dice.random() < 0.3:
            steps.append(draw_turn(dice, "", failure=ModelFailure("overloaded", "busy")))
        if dice.random() < 0.2:
            steps.append(draw_turn(dice, "  "))  # an empty answer is asked for again
        steps.append(draw_turn(dice, "", calls=(("ls", {"path": ".", "limit": n + 1}),)))
    return [*steps, draw_turn(dice, "done")]


async def test_every_figure_of_every_card_is_the_ledgers(tmp_path: Path) -> None:
    dice = random.Random(25)
    scripts = [draw_run(dice) for _ in range(40)]
    asked = 0
    model = ScriptedModel([step for script in scripts for step in script])
    async with running(tmp_path / "h", model) as app:
        items = [await ask(app, f"number {n}", f"e{n}", f"s{n % 7}") for n in range(len(scripts))]
        for item in items:
            facts = await gather(app, item)
            told, cards = describe_run(facts), facts.cards
            assert [card.number for card in cards] == list(range(1, len(cards) + 1))
            asked += len(cards)
            for name, own in (("input", "input"), ("output", "output"), ("cacheRead", "cache_read")):
                ledger = sum(getattr(call, own) for call in facts.calls)
                assert told["cost"][name] == ledger == sum(getattr(card, own) for card in cards), name
            assert told["cost"]["totalCost"] == pytest.approx(sum(card.cost or 0.0 for card in cards))
            assert told["cost"]["calls"] == sum(card.input > 0 for card in cards)  # nothing used: no line there
            answers = [m for m in facts.said if isinstance(m, AssistantMessage)]
            spoken = [card for card in cards if not card.failure]
            assert [m.usage.input for m in answers] == [card.input for card in spoken]
            assert told["model"]["used"] == list(dict.fromkeys(f"{m.provider}/{m.model}" for m in answers))
            assert told["time"]["model"] == sum(card.ms for card in cards)
        assert asked == len(model.requests) > 60


async def test_a_card_says_what_its_call_was_made_of(tmp_path: Path) -> None:
    busy = ModelFailure("overloaded", "busy")
    steps: list[ScriptStep] = [call_tools(("ls", {"path": "."})), busy, busy, busy, busy, say("Nothing there.")]
    async with running(tmp_path / "h", ScriptedModel(steps)) as app:
        facts = await gather(app, await ask(app, "what is there?", "e1"))
        again = await gather(app, await ask(app, "/model fake/m", "e2"))
    first, *_, last = facts.cards
    assert (first.model, first.model_why) == ("fake/m", "the model of agent main")
    assert (first.level, first.level_why) == ("low", first.level_why) and "thinkingDefault" in first.level_why
    assert last.model == "fake/spare" and last.model_why == "stands in for fake/m"
    assert "overloaded: busy" in facts.cards[1].failure
    assert first.tools is not None and "ls" in first.tools and "exec" not in first.tools
    assert first.hidden is not None and "tools.deny" in first.hidden["exec"]
    assert first.sections is not None and sum(one.bytes for one in first.sections) > 500
    assert last.stable == first.stable and last.sections == first.sections
    assert last.messages == first.messages + 2 and "file ." in " ".join(last.taint)
    raw = [json.loads(step.detail) for step in facts.steps if step.what == CARD]
    assert "sections" in raw[0] and all("sections" not in one and "tools" not in one for one in raw[1:])
    assert all(len(step.detail) < 16_000 for step in facts.steps)
    assert again.cards == []  # a command asks no model
    assert describe_run(again)["thinking"] is None


async def test_why_is_told_in_the_chat_and_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "h"
    steps: list[ScriptStep] = [call_tools(("ls", {"path": "."})), say("A file."), say("NO_REPLY")]
    async with running(home, ScriptedModel(steps)) as app:
        item = await ask(app, "look\x1b[2J around", "e1")
        short = (await app.wait(await ask(app, "/why", "e2"))).note
        tool = (await app.wait(await ask(app, "/why tool exec", "e3"))).note
        unknown = (await app.wait(await ask(app, "/why moon", "e4"))).note
        accepted = await app.submit(inbound("/why", event="e5", sender=Sender("2", allowed=True)))
        other = (await app.wait(accepted.id)).note
        quiet = await ask(app, "hm", "e6", "quiet")
        ledger: list[UsageRow] = await app.store.list_usage(0)
    assert "model    fake/m: the model of agent main" in short and "ls ok" in short and short.startswith("message")
    assert "cost     2 model calls, 20 tokens in, 10 out, no price known" in short
    assert "exec was kept away by tools.deny" in tool and '"moon" is nothing to ask about' in unknown
    assert "fake/m" not in other  # the owner's to ask
    monkeypatch.setenv("PALINURUS_HOME", str(home))

    def told(*words: str) -> str:
        assert run_why(list(words)) == 0
        return capsys.readouterr().out

    assert "\x1b" not in told(item[:22]) and "tools.deny" in told("tool", "exec", item)
    whole = json.loads(told("run", item, "--json"))
    assert whole["cost"]["input"] == sum(call.input for call in ledger if call.item == item)
    assert whole["calls"] and whole["outcome"] == "answered"
    assert "chose to say nothing" in told("silence", quiet) and told("last") == told()
    assert "thinking low" in told("level", item) and "kept" not in told("cost", item)
    assert "value:  18789" in told("config", "gateway.port")
    with pytest.raises(NotFound, match="no session is called 'nonsense'"):
        run_why(["nonsense"])


def test_cards_of_another_version_are_left_out() -> None:
    good = '{"number":1,"at":2,"model":"a/b","model_why":"","level":"off","level_why":""}'
    assert [card.model for card in read_cards(["{}", "no json", good])] == ["a/b"]
