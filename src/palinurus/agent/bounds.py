"""What a session's history and its tools' results may take of a model's window: settings and a message -> rules."""

from __future__ import annotations

import os

import msgspec

from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.history import truncate
from palinurus.core.history.fit import HistoryLimits
from palinurus.core.history.images import Budget
from palinurus.core.history.limit import find_turn_limit
from palinurus.core.types.inbound import Inbound, Route
from palinurus.core.types.model import ModelSpec
from palinurus.core.types.tool import ToolSettings
from palinurus.sessions.files import RESULT_INFIX


def resolve_window(agent: AgentSettings, model: ModelSpec) -> int:
    """Tokens: what the model has, or less where the config says so."""
    return min(agent.context_tokens or model.context_window, model.context_window)


def resolve_history_rules(
    settings: Settings, agent: AgentSettings, model: ModelSpec, inbound: Inbound, route: Route
) -> HistoryLimits:
    """The rules for one run."""
    room = resolve_window(agent, model)
    context = settings.context
    return HistoryLimits(
        window=room,
        turns=find_turn_limit(route.key, context.turns, inbound.target.channel, inbound.sender.id),
        result_chars=truncate.limit_result_chars(room, context.results(agent.id)),
        pruning=context.pruning,
        images=Budget() if model.vision else None,
    )


def limit_tool_results(tools: ToolSettings, rules: HistoryLimits, home: str, transcript: str) -> ToolSettings:
    """The tools' settings with the room for a result, and where whole ones are kept: beside the transcript."""
    kept = os.path.join(home, transcript) + RESULT_INFIX
    return msgspec.structs.replace(tools, result_chars=rules.result_chars, results=kept)
