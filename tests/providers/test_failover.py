"""Keys, models and faults together, over HTTP: which key is sent when, what rests, and how many calls are made."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from palinurus.agent.plan.runplan import ModelCandidate
from palinurus.agent.think import Thinker
from palinurus.config.sections.credentials import AuthProfileSettings, AuthSettings
from palinurus.config.sections.models import ModelSettings, ProviderSettings
from palinurus.config.settings import Secret
from palinurus.core.levels.resolve import LevelRequest, ThinkingDecision, resolve_fast_mode
from palinurus.core.types.events import MessageUpdate
from palinurus.core.types.messages import AssistantMessage, ToolCall, UserMessage
from palinurus.core.types.model import ModelSpec
from palinurus.providers.catalog import Catalog
from palinurus.providers.http import HttpTimeouts
from palinurus.providers.rotation import KeyRotation
from palinurus.providers.stream import ProviderModels
from palinurus.testing.clock import FakeClock
from palinurus.testing.server import ModelServer, cut_stream, refuse_connection, respond_status, say
from providers.kit import agent, settings
from support import Notes, collect, plan, ports

LIMITED = '{"error": {"type": "rate_limit_error", "message": "slow down"}}'
BROKE = '{"error": {"message": "Your credit balance is too low"}}'


class QuickClock(FakeClock):
    """Time passes by itself when somebody waits."""

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._passed += max(0.0, seconds)


class Bench:
    """One provider "p" with keys k1, k2 …, one "q" to fall back on, both the same server."""

    def __init__(self, url: str, keys: int = 2, fallback: bool = True) -> None:
        p = ProviderSettings("p", url, "openai-completions", models=(ModelSettings("m", reasoning=True),))
        q = ProviderSettings("q", url, "openai-completions", Secret("kq"), models=(ModelSettings("n"),))
        auth = AuthSettings(
            {f"p:{n}": AuthProfileSettings(f"p:{n}", "p", key=Secret(f"k{n}")) for n in range(1, keys + 1)}
        )
        self.catalog = Catalog(msgspec.structs.replace(settings(p, q), auth=auth), {})
        self.clock = QuickClock()
        self.models = ProviderModels(
            self.catalog, self.clock, limits=HttpTimeouts(2, 5, 5), chance=lambda: 0.5, keys=KeyRotation(self.clock)
        )
        self.fallback = fallback

    def choice(self, name: str, level: str = "off", mode: Any = None) -> ModelCandidate:
        found = self.catalog.find(name, agent())
        assert isinstance(found, ModelSpec)
        return ModelCandidate(
            found, ThinkingDecision(level, "inline", "", level), resolve_fast_mode(found, LevelRequest(mode))
        )

    async def ask(self, *messages: Any, **choice: Any) -> Thinker:
        names = ("p/m", "q/n") if self.fallback else ("p/m",)
        made = plan(choices=tuple(self.choice(n, **choice) for n in names), started=self.clock.now())
        thinker = Thinker(made, ports(self.models, Notes(), clock=self.clock))
        events = await collect(thinker.think(messages or (UserMessage("hello"),)))
        self.said = "".join(e.delta for e in events if isinstance(e, MessageUpdate) and e.kind == "text")
        return thinker


def sent(server: ModelServer) -> list[str]:
    return [asked.headers["authorization"].removeprefix("Bearer ") for asked in server.requests]


async def run(script: list[Any], *messages: Any, **bench: Any) -> tuple[Bench, Thinker, list[str]]:
    async with ModelServer(script) as server:
        made = Bench(server.url, **bench)
        try:
            thinker = await made.ask(*messages)
        finally:
            await made.models.close()
        return made, thinker, sent(server)


@pytest.mark.parametrize(
    "fault",
    [
        respond_status(401),
        respond_status(403),
        respond_status(402, BROKE),
        respond_status(429, LIMITED),
        respond_status(529),
    ],
)
async def test_the_next_key_answers_without_a_wait(fault: Any) -> None:
    bench, thinker, keys = await run([fault, say("hi")])
    assert keys == ["k1", "k2"] and bench.said == "hi" and thinker.failure is None
    assert bench.clock.slept == [] and thinker.notices == []


async def test_refused_keys_are_each_tried_once_then_the_other_model() -> None:
    bench, thinker, keys = await run(
        [respond_status(401), respond_status(401), respond_status(401), say("from q")], keys=3
    )
    assert keys == ["k1", "k2", "k3", "kq"] and bench.said == "from q"
    assert thinker.notices == ["↪️ Model Fallback: q/n (selected p/m; auth)"]


async def test_a_limit_rotates_once_waits_on_the_last_key_and_falls_back() -> None:
    bench, _, keys = await run([respond_status(429, LIMITED)] * 2 + [say("from q")], keys=3)
    assert keys == ["k1", "k2", "kq"] and bench.said == "from q" and bench.clock.slept == []


async def test_a_single_key_waits_as_long_as_the_provider_asks_if_that_is_short() -> None:
    bench, _, keys = await run([respond_status(429, LIMITED, {"retry-after": "1"}), say("hi")], keys=1)
    assert keys == ["k1", "k1"] and bench.said == "hi" and bench.clock.slept == [pytest.approx(1.05)]


@pytest.mark.parametrize("wish", ["3600", "Fri, 01 Jan 2027 00:00:00 GMT"])
async def test_a_long_wish_goes_to_the_next_model_at_once(wish: str) -> None:
    bench, thinker, keys = await run([respond_status(429, LIMITED, {"retry-after": wish}), say("from q")], keys=1)
    assert keys == ["k1", "kq"] and bench.clock.slept == [] and bench.said == "from q"
    assert len(thinker.notices) == 1


async def test_a_resting_key_is_not_asked_while_another_model_stands_by() -> None:
    async with ModelServer([respond_status(401), say("one"), say("two"), say("three")]) as server:
        bench = Bench(server.url, keys=1)
        for _ in range(2):
            await bench.ask()
        assert sent(server) == ["k1", "kq", "kq"]
        await bench.clock.advance(61)
        await bench.ask()
        assert sent(server)[-1] == "k1" and bench.said == "three"
        await bench.models.close()


async def test_without_one_it_is_asked_all_the_same_once_per_message() -> None:
    async with ModelServer(default=respond_status(401)) as server:
        bench = Bench(server.url, keys=1, fallback=False)
        for _ in range(3):
            thinker = await bench.ask()
            assert thinker.failure is not None and thinker.failure.kind == "auth"
        assert sent(server) == ["k1"] * 3
        await bench.models.close()


@pytest.mark.parametrize(
    "fault", [respond_status(500), respond_status(502), refuse_connection(), cut_stream(say("x" * 50), 0)]
)
async def test_a_burst_is_ridden_out_then_the_next_model_and_the_answer_comes_once(fault: Any) -> None:
    async with ModelServer(
        default=lambda asked: say("from q") if "kq" in asked.headers["authorization"] else fault
    ) as s:
        bench = Bench(s.url, keys=2)
        await bench.ask()
        await bench.models.close()
        keys = sent(s)
    assert bench.said == "from q" and keys.count("kq") == 1 and keys.count("k1") in (3, 4) and "k2" not in keys
    assert len(bench.clock.slept) == keys.count("k1") - 1  # with a pause before every further try


@pytest.mark.parametrize("code", [400, 422])
async def test_our_own_fault_is_mended_once_and_no_key_rests(code: int) -> None:
    orphan = (UserMessage("a"), AssistantMessage((ToolCall("c1", "read", {}),), stopReason="toolUse"), UserMessage("b"))
    wrong = respond_status(code, '{"error": {"message": "tool_calls must be followed by tool messages"}}')
    async with ModelServer([wrong, wrong, say("from q"), say("p again")]) as server:
        bench = Bench(server.url, keys=2)
        await bench.ask(*orphan)
        first = sent(server)
        assert first[:1] == ["k1"] and first.count("k2") == 0 and bench.said in ("from q", "p again")
        await bench.ask()
        assert sent(server)[len(first)] == "k1"
        await bench.models.close()


async def test_visible_text_is_never_repeated() -> None:
    bench, thinker, keys = await run([cut_stream(say("one two three four five"), 700), say("one two three four five")])
    assert keys == ["k1"] and thinker.failure is not None
    assert bench.said and "one two three four five".startswith(bench.said)


async def test_a_refused_level_is_lowered_on_the_wire() -> None:
    wrong = respond_status(400, '{"error": {"message": "Unsupported value: reasoning_effort does not support high. '
                        'Supported values are: low"}}')  # fmt: skip
    async with ModelServer([wrong, say("hi")]) as server:
        bench = Bench(server.url)
        await bench.ask(level="high")
        await bench.models.close()
        assert [r.body.get("reasoning_effort") for r in server.requests] == ["high", "low"]
        assert sent(server) == ["k1", "k1"]


@pytest.mark.seed(76)
async def test_a_retry_after_the_cutoff_is_not_fast() -> None:
    """Fast mode auto, and the provider asks for a minute: the second try of the same call is past the cut-off."""
    seen: list[Any] = []

    class Watching(ProviderModels):
        def _prepare(self, request: Any, key: Any) -> Any:
            seen.append(request.fast)
            return super()._prepare(request, key)

    async with ModelServer([respond_status(429, LIMITED, {"retry-after": "60"}), say("hi")]) as server:
        bench = Bench(server.url, keys=1)
        bench.models = Watching(bench.catalog, bench.clock, chance=lambda: 0.5)
        await bench.ask(mode="auto")
        await bench.models.close()
    assert seen == [True, False]


async def test_total_calls_of_one_message_are_bounded() -> None:
    async with ModelServer(default=respond_status(503)) as server:
        bench = Bench(server.url, keys=5)
        thinker = await bench.ask()
        await bench.models.close()
        assert thinker.failure is not None and len(server.requests) <= 10
        assert thinker.failure.message.startswith("all 2 models failed")
