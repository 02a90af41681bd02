"""One answer, however many tries: models that stand in, notices, fast mode by the clock."""

from __future__ import annotations

from typing import Any

import pytest

from palinurus.agent.loop import loop
from palinurus.agent.plan.runplan import ModelCandidate
from palinurus.agent.think import Thinker
from palinurus.agent.toolcalls import CALLS_KEPT
from palinurus.core.levels.resolve import LevelRequest, ThinkingDecision, resolve_fast_mode
from palinurus.core.types.events import AgentEnd, MessageEnd, MessageUpdate, RunEvent
from palinurus.core.types.messages import UserMessage
from palinurus.core.types.model import (
    ModelFailure,
    ModelSpec,
    StreamDone,
    StreamFailed,
    StreamNotice,
    StreamProgress,
    StreamRetry,
)
from palinurus.core.types.tool import ToolOutput, make_output
from palinurus.core.types.usage import TokenUsage
from palinurus.testing.clock import FakeClock
from palinurus.testing.model import ScriptedModel, call_tools, fail, make_model_info, say
from support import Notes, collect, plan, ports, tool

A, B = make_model_info(provider="one", model="a"), make_model_info(provider="two", model="b")


class Diary(Notes):
    def __init__(self) -> None:
        super().__init__()
        self.steps: list[tuple[str, str]] = []

    def step(self, what: str, detail: str) -> None:
        self.steps.append((what, detail))


async def think(
    model: Any, *models: ModelSpec, notes: Diary | None = None, **changes: Any
) -> tuple[Thinker, list[RunEvent]]:
    made = plan(choices=tuple(ModelCandidate(m) for m in models or (A, B)), **changes)
    thinker = Thinker(made, ports(model, notes or Diary()))
    return thinker, await collect(thinker.think((UserMessage("hi"),)))


def text(events: list[RunEvent]) -> str:
    return "".join(e.delta for e in events if isinstance(e, MessageUpdate) and e.kind == "text")


async def test_the_fallback_answers_and_the_person_is_told_once() -> None:
    model = ScriptedModel([fail("rate_limit"), say("from b"), say("again from b")])
    notes = Diary()
    thinker, events = await think(model, notes=notes)
    assert text(events) == "from b" and thinker.failure is None and thinker.active == "two/b"
    assert thinker.notices == ["↪️ Model Fallback: two/b (selected one/a; rate limit)"]
    await collect(thinker.think((UserMessage("more"),)))
    assert [str(r.model.ref) for r in model.requests] == ["one/a", "two/b", "two/b"]  # the run stays with it
    assert len(thinker.notices) == 1
    assert [what for what, _ in notes.steps] == ["model failed", "model again"]


async def test_who_knows_already_is_not_told_again() -> None:
    thinker, _ = await think(ScriptedModel([fail("server"), say("from b")]), fallback="two/b")
    assert thinker.notices == []


async def test_keys_of_a_model_with_another_behind_it_may_rest_the_last_one_s_not() -> None:
    model = ScriptedModel([fail("auth"), say("ok")])
    await think(model)
    assert [r.fallback for r in model.requests] == [True, False]


async def test_another_key_is_the_same_model_again() -> None:
    model = ScriptedModel(
        [ModelFailure("auth", "no", rotate=True), ModelFailure("auth", "no", rotate=True), say("third key")]
    )
    thinker, events = await think(model)
    assert text(events) == "third key" and {str(r.model.ref) for r in model.requests} == {"one/a"}
    assert thinker.notices == []


async def test_when_all_fail_each_is_named_and_the_text_stays_short() -> None:
    thinker, _ = await think(ScriptedModel([fail("auth", "bad key"), fail("server", "down" * 200)]))
    assert thinker.failure is not None and thinker.failure.kind == "server"
    assert thinker.failure.message.startswith("all 2 models failed: one/a: bad key; two/b: down")
    assert len(thinker.failure.message) <= 400 and thinker.reply.errorMessage == thinker.failure.message


async def test_after_visible_text_nothing_is_tried_again() -> None:
    model = ScriptedModel([fail("cut", after="half an ans"), say("whole answer")])
    thinker, events = await think(model)
    assert text(events) == "half an ans" and len(model.requests) == 1
    assert thinker.failure is not None and thinker.reply.text == "half an ans"


async def test_the_next_answer_of_the_run_may_be_tried_again() -> None:
    model = ScriptedModel([say("first"), fail("server"), say("second")])
    thinker, _ = await think(model)
    events = await collect(thinker.think((UserMessage("more"),)))
    assert text(events) == "second" and thinker.usage == TokenUsage(10, 5, 0, 0, 15)


@pytest.mark.parametrize("nothing", ["", "  \n "])
async def test_an_empty_answer_is_asked_for_once_more_then_elsewhere(nothing: str) -> None:
    model, notes = ScriptedModel([say(nothing), say(nothing, thinking="hm"), say("b speaks")]), Diary()
    thinker, events = await think(model, notes=notes)
    assert text(events).strip() == "b speaks"
    assert [r.model.ref.model for r in model.requests] == ["a", "a", "b"]
    assert [card.output for card in notes.cards] == [5, 5, 5]  # they cost something all the same
    assert thinker.usage.output == 15


async def test_an_aborted_answer_is_not_asked_for_again() -> None:
    thinker, _ = await think(ScriptedModel([fail("aborted"), say("no")]))
    assert thinker.failure is not None and thinker.failure.kind == "aborted"


async def test_notices_of_the_provider_reach_the_person() -> None:
    class Warns(ScriptedModel):
        async def stream(self, request: Any, stop: Any) -> Any:
            async for event in super().stream(request, stop):
                if isinstance(event, StreamDone | StreamFailed):
                    yield StreamNotice("careful")
                yield event

    thinker, events = await think(Warns([say("ok")]))
    assert thinker.notices == ["careful"] and text(events) == "ok"


async def test_people_are_told_what_a_model_here_is_busy_with() -> None:
    class Slow(ScriptedModel):
        async def stream(self, request: Any, stop: Any) -> Any:
            yield StreamProgress("waiting")
            yield StreamProgress("loading", 1_117_320_768, seconds=4)
            yield StreamProgress("reading", 3_400, 1_700, 12)
            async for event in super().stream(request, stop):
                yield event

    notes = Diary()
    thinker, events = await think(Slow([say("ok")]), notes=notes)
    said = [e.delta for e in events if isinstance(e, MessageUpdate) and e.kind == "status"]
    assert said.pop(0) == "waiting: a is answering another question"
    assert said == ["loading a (1.1 GB) … 4 s", "reading 3,400 tokens … 50 % (12 s)"]
    assert thinker.reply.text == "ok" and text(events) == "ok"


async def test_the_request_says_who_asks() -> None:
    model = ScriptedModel([say("ok")])
    await think(model, profile="one:work")
    (request,) = model.requests
    assert (request.session, request.owner, request.profile) == ("sid", "agent:main:main", "one:work")


async def test_a_lowered_level_is_what_is_sent() -> None:
    model = ScriptedModel([fail("format", "reasoning effort 'high' is not supported"), say("ok")])
    made = plan(
        choices=(ModelCandidate(A, ThinkingDecision("high", "inline", "", "high"), levels=("off", "low", "high")),)
    )
    await collect(Thinker(made, ports(model, Diary())).think((UserMessage("hi"),)))
    assert [r.level for r in model.requests] == ["high", "low"]


# --- fast mode ------------------------------------------------------------------------------------------------


def params(model: ModelSpec, **own: Any) -> ModelSpec:
    return ModelSpec(model.ref, model.api, params=own)


async def fasts(mode: Any, seconds: list[float], **own: Any) -> list[bool | None]:
    """The fast flags of a run of tool calls, each of which takes so long."""
    clock = FakeClock(0)
    waits = list(seconds)

    async def work(ctx: Any, x: str = "") -> ToolOutput:
        await clock.advance(waits.pop(0))
        return make_output("ok")

    model = ScriptedModel([*(call_tools(("work", {"x": str(n)})) for n in range(len(seconds))), say("done")])
    chosen = params(A, **own)
    made = plan(
        tool("work", work), choices=(ModelCandidate(chosen, fast=resolve_fast_mode(chosen, LevelRequest(mode))),)
    )
    events = await collect(loop(made, ports(model, clock=clock)))
    assert isinstance(events[-1], AgentEnd) and events[-1].end == "stop"
    return [r.fast for r in model.requests]


@pytest.mark.seed(75, 76, 77)
async def test_auto_is_decided_anew_at_each_call_with_sixty_seconds() -> None:
    assert await fasts("auto", [30, 29.999, 0.001, 5]) == [True, True, True, False, False]


@pytest.mark.seed(78)
async def test_the_model_s_own_cutoff() -> None:
    assert await fasts("auto", [4, 2, 60], fastAutoOnSeconds=5) == [True, True, False, False]
    assert await fasts("auto", [1], fastAutoOnSeconds=0) == [False, False]


async def test_on_off_and_never_set_do_not_look_at_the_clock() -> None:
    assert await fasts("on", [100]) == [True, True]
    assert await fasts("off", [100]) == [False, False]
    assert await fasts(None, [100]) == [None, None]
    assert await fasts(None, [100], fastMode=True) == [True, True]


@pytest.mark.seed(76)
async def test_a_retry_or_fallback_after_the_cutoff_is_not_fast() -> None:
    clock = FakeClock(0)

    def late(kind: Any) -> Any:
        def step(request: Any) -> Any:
            clock.jump(40)
            return fail(kind)

        return step

    model = ScriptedModel([late("malformed"), late("malformed"), say("ok")])
    choices = tuple(ModelCandidate(m, fast=resolve_fast_mode(m, LevelRequest("auto"))) for m in (A, B))
    await collect(Thinker(plan(choices=choices), ports(model, Diary(), clock=clock)).think((UserMessage("hi"),)))
    assert [(r.model.ref.model, r.fast) for r in model.requests] == [("a", True), ("a", True), ("b", False)]
    assert {r.fast_until for r in model.requests} == {60_000}  # a try inside the provider layer knows it too


async def test_an_answer_with_thousands_of_calls_is_cut_before_anything_is_made_of_it() -> None:
    """Each call would be a line of the transcript, a result, and a part of every later request."""
    notes = Diary()
    flood = call_tools(*[("echo", {"n": n}) for n in range(10_000)])
    thinker, events = await think(ScriptedModel([flood]), notes=notes)
    assert [call.arguments["n"] for call in thinker.reply.calls] == list(range(CALLS_KEPT))
    assert isinstance(events[-1], MessageEnd) and events[-1].message == thinker.reply
    assert notes.steps == [("calls dropped", f"{10_000 - CALLS_KEPT} beyond the first {CALLS_KEPT} of one answer")]


async def test_every_fallback_is_asked_in_turn() -> None:
    models = [make_model_info(provider="p", model=name) for name in "abcd"]
    steps = [fail("billing"), fail("auth"), fail("billing"), say("from d")]
    thinker, events = await think(model := ScriptedModel(steps), *models)
    assert text(events) == "from d" and thinker.failure is None
    assert [r.model.ref.model for r in model.requests] == ["a", "b", "c", "d"]
    thinker, _ = await think(ScriptedModel([fail("billing")] * 4), *models)
    assert thinker.failure is not None


async def test_while_a_call_is_made_again_people_are_told_why_nothing_comes() -> None:
    class Busy(ScriptedModel):
        async def stream(self, request: Any, stop: Any) -> Any:
            yield StreamRetry(ModelFailure("rate_limit", "too many requests"), 1, 6.0)
            async for event in super().stream(request, stop):
                yield event

    notes = Diary()
    _, events = await think(Busy([fail("server", "down"), say("from b")]), notes=notes)
    told = [e.delta for e in events if isinstance(e, MessageUpdate) and e.kind == "status"]
    assert told == [
        "one/a: too many requests; trying again in 6 s (try 2)",
        "one/a failed; asking two/b",
        "two/b: too many requests; trying again in 6 s (try 2)",
    ]
    assert text(events) == "from b" and told[0] in [detail for _, detail in notes.steps]
