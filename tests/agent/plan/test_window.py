"""Settings and a message -> the rules for its history and its tools' results."""

from __future__ import annotations

import msgspec

from palinurus.agent.plan.window import limit_tool_results, resolve_history_rules, resolve_window
from palinurus.config.sections.context import ContextSettings
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.history.fit import TurnLimits
from palinurus.core.history.prune import PruningRules
from palinurus.core.types.inbound import Route, Sender
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.tool import ToolSettings
from palinurus.testing.model import make_model_info
from support import inbound

AGENT = AgentSettings("main", "main", "/w")
KEY = SessionKey("main", "main")
ROUTE = Route("main", KEY, "main")


def settings(**context: object) -> Settings:
    return Settings("/home", {"main": AGENT}, "main", context=ContextSettings(**context))  # type: ignore[arg-type]


def test_the_window_is_the_models_or_less() -> None:
    model = msgspec.structs.replace(make_model_info(), context_window=100_000)
    assert resolve_window(AGENT, model) == 100_000
    assert resolve_window(msgspec.structs.replace(AGENT, context_tokens=50_000), model) == 50_000
    assert resolve_window(msgspec.structs.replace(AGENT, context_tokens=500_000), model) == 100_000


def test_rules() -> None:
    large = msgspec.structs.replace(make_model_info(), context_window=200_000, vision=True)
    blind = msgspec.structs.replace(large, vision=False)
    plain = resolve_history_rules(settings(), AGENT, large, inbound(), ROUTE)
    assert (plain.turns, plain.result_chars, plain.pruning.mode) == (None, 64_000, "off")
    assert plain.images is not None and resolve_history_rules(settings(), AGENT, blind, inbound(), ROUTE).images is None
    told = settings(
        pruning=PruningRules(mode="aggressive"),
        turns={"fake": TurnLimits(direct=9, people={"vip": 3})},
        result_chars={"": 9000},
    )
    rules = resolve_history_rules(told, AGENT, large, inbound(sender=Sender("vip")), ROUTE)
    assert (rules.turns, rules.result_chars, rules.pruning.mode) == (3, 9000, "aggressive")
    assert resolve_history_rules(told, AGENT, large, inbound(), ROUTE).turns == 9


def test_whole_results_stand_beside_the_transcript() -> None:
    rules = resolve_history_rules(
        settings(), AGENT, msgspec.structs.replace(make_model_info(), context_window=32_000), inbound(), ROUTE
    )
    made = limit_tool_results(ToolSettings(workspace_only=True), rules, "/home", "agents/main/sessions/a.jsonl")
    assert (made.result_chars, made.results) == (16_000, "/home/agents/main/sessions/a.jsonl.result-")
    assert made.workspace_only
