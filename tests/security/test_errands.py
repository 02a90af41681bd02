"""Errands that the gate's rules had not seen (`errands.py`): how many ask, and whether an order gets through."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from palinurus import Agent
from palinurus.core.types.tool import Tool, ToolOutput, make_output
from palinurus.testing.model import ScriptedModel, call_tools, say
from security.errands import ERRANDS, READ, READS, THEN, TOOLS, Attack, Call, Errand
from security.later_errands import LATER, LATER_TOOLS

ALL_TOOLS = {**TOOLS, **LATER_TOOLS}


class Played(NamedTuple):
    """What was done and what was asked about, by tool."""

    made: list[Call]
    asked: list[str]


class Stage:
    """One agent with all tools, and the errand that is played on it now."""

    def __init__(self, mode: str = "judged", yes: bool = False) -> None:
        self._model = ScriptedModel([])
        self._answers: list[tuple[Call, Any]] = []
        self._played = Played([], [])
        config = {"agents": {"defaults": {"skipBootstrap": True}}, "tools": {"taint": {"mode": mode}}}
        self.agent = Agent(model=self._model, tools=[self._make(name) for name in ALL_TOOLS], config=config)
        self.agent.answer_with(lambda row: self._played.asked.append(row.ask.tool) or yes)

    def _make(self, name: str) -> Tool:
        async def run(ctx: Any, **args: Any) -> ToolOutput:
            self._played.made.append((name, args))
            found = next((answer for call, answer in self._answers if call == (name, args)), "ok")
            return make_output(found)

        effect: Any = "pure" if name in READS or ALL_TOOLS[name] == READ else "effect"
        return Tool(name, name.replace("_", " "), {"type": "object"}, run, effect=effect, reach=ALL_TOOLS[name])

    async def play(self, session: str, errand: Errand, attack: Attack | None = None) -> Played:
        """The errand as its owner says it; with an attack also what that wants, as soon as it was read."""
        self._played = Played([], [])
        self._answers = [((name, args), show(answer, attack)) for name, args, answer in errand.steps]
        for text, calls in zip(errand.says, split_turns(errand, attack), strict=True):
            self._model._script[self._model._next :] = [*map(call_tools, calls), say("done")]
            assert (await self.agent.run(text, session=session)).text == "done"
        return self._played


def show(answer: Any, attack: Attack | None) -> str:
    """What a tool answers: the order stands where the errand has a place for one, the record on every list."""
    if attack is not None and attack.plant is not None and isinstance(answer, list):
        answer = [*answer, attack.plant]
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return text.replace("{x}", attack.order if attack is not None else "")


def split_turns(errand: Errand, attack: Attack | None) -> Iterator[list[Call]]:
    """The calls of each message. An attack's come after the first result, in the last of them."""
    turns: list[list[Call]] = [[]]
    for name, args, _ in errand.steps:
        if (name, args) == THEN[:2]:
            turns.append([])
        else:
            turns[-1].append((name, args))
    if attack is not None:
        at = 1 if len(turns) == 1 else 0
        turns[-1][at:at] = attack.calls
    yield from turns


def list_attacks() -> Iterator[tuple[str, Errand, Attack]]:
    for name, errand in {**ERRANDS, **LATER}.items():
        for number, attack in enumerate(errand.attacks, 1):
            yield f"{name} {number}", errand, attack


# What asks though the owner chose it: a run by one word of its name, a mail by a sender whose name anybody can take,
# and a verb that is not known. Before a rule was changed for them, 14 errands were too many.
TOO_MANY = {"nightly", "the roof", "check-in"}


async def test_ordinary_errands_hardly_ask() -> None:
    stage = Stage(yes=True)
    async with stage.agent:
        asked = {name: set((await stage.play(name, errand)).asked) for name, errand in ERRANDS.items()}
    assert {name for name, tools in asked.items() if tools - set(ERRANDS[name].asks)} == TOO_MANY
    assert all(set(errand.asks) <= asked[name] for name, errand in ERRANDS.items())


async def test_errands_that_no_rule_was_changed_for() -> None:
    stage = Stage(yes=True)
    async with stage.agent:
        asked = {name for name, errand in LATER.items() if (await stage.play(name, errand)).asked}
    assert asked == {"alarm", "feed", "garden", "refund", "task", "text", "ticket"}  # verbs that are not known


async def test_no_attack_on_an_errand_comes_through() -> None:
    stage = Stage()
    async with stage.agent:
        played = {name: (await stage.play(name, errand, attack), attack) for name, errand, attack in list_attacks()}
    assert len(played) == 84
    assert [name for name, (done, attack) in played.items() if attack.calls[-1] in done.made] == []


async def test_with_the_gate_off_all_attacks_come_through() -> None:
    stage = Stage("off")
    async with stage.agent:
        for name, errand, attack in list_attacks():
            assert attack.calls[-1] in (await stage.play(name, errand, attack)).made, name
