"""What a run leaves on file about itself: cards that agree with the ledger and the transcript, told in every place."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from palinurus.agent.compaction import flush
from palinurus.app import App
from palinurus.cli.look.why import run_why
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.core.history.compaction import SUMMARY_SYSTEM
from palinurus.core.types.card import CARD, read_cards
from palinurus.core.types.inbound import Sender
from palinurus.core.types.messages import AssistantMessage, ToolResult
from palinurus.core.types.model import ModelFailure, ModelRequest
from palinurus.core.types.usage import TokenCost, TokenUsage
from palinurus.errors import NotFound
from palinurus.services.why import TOPICS, RunFacts, describe_run, format_why, load_run_facts
from palinurus.sessions.record import SessionRecord
from palinurus.store.factory import open_reader
from palinurus.store.port import UsageRow
from palinurus.testing.model import ScriptedModel, ScriptedTurn, ScriptStep, call_tools, say
from support import inbound

MODELS = [{"id": "m", "reasoning": True}, {"id": "spare", "reasoning": False}]
CONFIG: dict[str, Any] = {
    "agents": {"defaults": {"model": {"primary": "fake/m", "fallbacks": ["fake/spare"]}, "thinkingDefault": "low"}},
    "tools": {"deny": ["exec"]},
}
OWNER = Sender("me", owner=True)


@asynccontextmanager
async def running(
    home: Path, model: ScriptedModel, clock: SystemClock | None = None, models: list[dict[str, Any]] = MODELS
) -> AsyncIterator[App]:
    home.mkdir(exist_ok=True)
    provider = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": models}
    (home / "palinurus.json").write_text(json.dumps({**CONFIG, "models": {"providers": {"fake": provider}}}))
    app = App(load_config(str(home), {}).settings, {}, clock or SystemClock(), model=model)
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
    return await load_run_facts(app.store, await app.program.transcripts.load(path), row)


def draw_turn(dice: random.Random, text: str, **more: Any) -> ScriptedTurn:
    numbers = [dice.randrange(1, 2000) for _ in range(4)]
    cost = TokenCost(total=dice.randrange(1, 100) / 1000) if dice.random() < 0.7 else None
    return ScriptedTurn(text=text, usage=TokenUsage(*numbers, totalTokens=sum(numbers), cost=cost), **more)


class DrawnModel(ScriptedModel):
    """Answers as the dice fall: tools, children, tries that fail and cost something, a storm that another model has to
    stand in for, empty answers, long ones that fill the window."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__([self.draw], repeat=True)
        self._dice = dice
        self._storm = 0
        self.drawn: Counter[str] = Counter()

    def draw(self, request: ModelRequest) -> ScriptedTurn:
        dice, depth = self._dice, sum(isinstance(m, ToolResult) for m in request.messages)
        if request.prompt.stable in (SUMMARY_SYSTEM, flush.SYSTEM):
            self.drawn["summary"] += 1
            return draw_turn(dice, "NO_REPLY" if request.tools else "## Goal\n- sail home")
        if self._storm or dice.random() < 0.02:
            self._storm = self._storm - 1 if self._storm else 3
            self.drawn["storm"] += 1
            return draw_turn(dice, "", failure=ModelFailure("overloaded", "busy"))
        if dice.random() < 0.1:
            self.drawn["failure"] += 1
            return draw_turn(dice, "", failure=ModelFailure("overloaded", "busy"))
        if dice.random() < 0.08:
            self.drawn["empty"] += 1
            return draw_turn(dice, "  ")  # is asked for again
        child = ":subagent:" in request.owner
        if not child and dice.random() < 0.06:
            self.drawn["child"] += 1
            return draw_turn(dice, "", calls=(("sessions_spawn", {"task": "count"}),))
        if dice.random() < 0.35:
            self.drawn["tool"] += 1
            return draw_turn(dice, "", calls=(("ls", {"path": ".", "limit": depth + 1}),))
        return draw_turn(dice, "word " * 1200 if dice.random() < 0.3 else "done")


class Hurried(SystemClock):
    """Waits between tries cost little."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds if seconds > 30 else seconds / 200)


def compare_figures(facts: RunFacts) -> None:
    """Of one run: ledger, cards and transcript say the same."""
    told, cards, every = describe_run(facts), facts.cards, (*facts.cards, *facts.aside)
    assert [card.number for card in cards] == list(range(1, len(cards) + 1))
    for name, own in _FIGURES.items():
        ledger = sum(getattr(call, own) for call in facts.calls)
        assert told["cost"][name] == ledger == sum(getattr(card, own) for card in every), name
    assert told["cost"]["totalCost"] == pytest.approx(sum(card.cost or 0.0 for card in every))
    assert told["cost"]["calls"] == sum(card.input > 0 for card in every)  # nothing used: no line there
    assert Counter((f"{c.provider}/{c.model}", c.input, c.cost) for c in facts.calls) == Counter(
        (card.model, card.input, card.cost) for card in every if card.input
    )
    answers = [m for m in facts.said if isinstance(m, AssistantMessage)]
    spoken = [card for card in cards if not card.failure]
    if answers and answers[-1].text.startswith("The model said nothing more."):  # ours, in the place of an empty one
        assert "empty" in cards[-1].failure and answers.pop().usage.input == cards[-1].input
    assert [m.usage.input for m in answers] == [card.input for card in spoken]
    assert told["model"]["used"] == list(dict.fromkeys(f"{m.provider}/{m.model}" for m in answers))
    assert told["time"]["model"] == sum(card.ms for card in cards)
    assert [one["name"] for one in told["tools"]["called"]] == [call.name for m in answers for call in m.calls]
    for topic in TOPICS:
        assert format_why(told, topic)


_FIGURES = {"input": "input", "output": "output", "cacheRead": "cache_read", "cacheWrite": "cache_write"}


async def test_every_figure_of_every_card_is_the_ledgers(tmp_path: Path) -> None:
    """200 drawn runs and those of their children: tools, retries, fallbacks, empty answers, compactions."""
    model = DrawnModel(random.Random(25))
    small = [{**one, "contextWindow": 24_000} for one in MODELS]
    async with running(tmp_path / "h", model, Hurried(), models=small) as app:
        for n in range(200):
            await ask(app, f"number {n}", f"e{n}", f"s{n % 7}")
        with open_reader(str(tmp_path / "h")) as reader:
            quiet = 0  # children, and what they tell: nothing new for a while
            while quiet < 20:
                rows, before = reader.items(limit=2000), len(model.requests)
                await asyncio.sleep(0.01)
                busy = any(row.state in ("queued", "running") for row in rows) or before != len(model.requests)
                quiet = 0 if busy else quiet + 1
        rows, asked = [row for row in rows if row.state == "done"], 0
        for row in rows:
            facts = await gather(app, row.id)
            compare_figures(facts)
            asked += len(facts.cards) + len(facts.aside)
            stood_in = {card.model for card in facts.cards}
            model.drawn["fallback"] += "fake/spare" in stood_in
            model.drawn["children's runs"] += ":subagent:" in row.session
    assert len(rows) > 200 and asked == len(model.requests) > 300
    wanted = ("summary", "storm", "failure", "empty", "child", "tool", "fallback", "children's runs")
    assert all(model.drawn[what] >= 3 for what in wanted), model.drawn


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
    assert "exec was kept away: tools.deny" in tool and '"moon" is nothing to ask about' in unknown
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
    with pytest.raises(
        NotFound, match=r"begins with 'nonsense', and no session or topic.*\n  fix: .*topics are model, "
    ):
        run_why(["nonsense"])


def test_cards_of_another_version_are_left_out() -> None:
    good = '{"number":1,"at":2,"model":"a/b","model_why":"","level":"off","level_why":""}'
    assert [card.model for card in read_cards(["{}", "no json", good])] == ["a/b"]


async def test_a_run_that_goes_on_says_so(tmp_path: Path) -> None:
    reached, gate = asyncio.Event(), asyncio.Event()

    async def hold(payload: dict[str, Any]) -> None:
        reached.set()
        await gate.wait()

    async with running(tmp_path / "h", ScriptedModel([call_tools(("ls", {})), say("Done.")])) as app:
        app.hooks.on("before_tool_call", hold)
        item = (await app.submit(inbound("go", sender=OWNER))).id
        await asyncio.wait_for(reached.wait(), 60)
        told = format_why(describe_run(await gather(app, item)), "run")
        assert "ls not ended yet" in told and "not yet: it is running" in told
        gate.set()
        await app.wait(item)
        assert "ls ok; " in format_why(describe_run(await gather(app, item)), "run")
