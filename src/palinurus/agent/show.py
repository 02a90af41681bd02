"""How much of a run people see: this message's directives, then the session, then the agent's defaults. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.config.settings import AgentSettings
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.outbound import RunVisibility
from palinurus.core.types.tool import Tool
from palinurus.sessions.record import SessionRecord


def read_show(agent: AgentSettings) -> RunVisibility:
    """What the configuration says."""
    return RunVisibility(agent.verbose_default, agent.reasoning_default, False, agent.progress_detail)


def resolve_show(inline: Mapping[str, Any], record: SessionRecord, base: RunVisibility) -> RunVisibility:
    """The levels in force. A word nobody knows counts as not said."""
    return RunVisibility(
        _first(("off", "on", "full"), base.verbose, inline.get("verbose"), record.verboseLevel),
        _first(("off", "on", "stream"), base.reasoning, inline.get("reasoning"), record.reasoningLevel),
        _first(("off", "on"), "off", inline.get("trace"), record.traceLevel) == "on",
        base.detail,
        base.answer,
    )


def set_posting(
    show: RunVisibility, agent: AgentSettings, inbound: Inbound, tools: Mapping[str, Tool]
) -> RunVisibility:
    """With whether the model's text is posted: not where visibleReplies wants the message tool, and there is one. What
    the program itself has asked for (jobs, heartbeats) always is."""
    through = inbound.kind in agent.prompt.tool_only and inbound.push and not inbound.system and "message" in tools
    return msgspec.structs.replace(show, answer=not through)


def _first(words: tuple[str, ...], fallback: Any, *asked: Any) -> Any:
    return next((word for word in asked if word in words), fallback)
