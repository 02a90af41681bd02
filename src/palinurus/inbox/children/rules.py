"""Who may start which sub-agent. Pure: settings and counts in, the reason for a no out."""

from __future__ import annotations

from palinurus.agent.cell import is_sandboxed
from palinurus.config.settings import Settings
from palinurus.core.types.keys import SessionKey


def get_max_depth(settings: Settings, agent: str) -> int:
    """How deep sub-agents of this agent's sessions may go (maxSpawnDepth)."""
    return settings.policy.deepest.get(agent, 1)


def can_start_subagents(settings: Settings, agent: str, depth: int) -> bool:
    """May a session of this depth start others?"""
    return depth < get_max_depth(settings, agent)


def check_depth(settings: Settings, caller: SessionKey, depth: int) -> str:
    """ "" if there is room below."""
    if can_start_subagents(settings, caller.agent, depth):
        return ""
    most = get_max_depth(settings, caller.agent)
    return f"this session is at depth {depth} and maxSpawnDepth is {most}: it cannot start sub-agents"


def check_count(settings: Settings, caller: SessionKey, active: int) -> str:
    """ "" if one more may run."""
    most = settings.subagents[caller.agent].children
    if active < most:
        return ""
    return f"{active} sub-agents of this session are running and maxChildrenPerAgent is {most}; wait for one to end"


def check_agent(settings: Settings, caller: SessionKey, wanted: str) -> str:
    """`wanted` is the agent id asked for, "" for none. "" if it may be started from here."""
    allowed = settings.reach.spawn.get(caller.agent, ())
    if not wanted:
        named = settings.subagents[caller.agent].named
        return "say which agent it is to be (agentId): subagents.requireAgentId is set" if named else ""
    if wanted != caller.agent and wanted not in allowed and "*" not in allowed:
        others = ", ".join(dict.fromkeys((caller.agent, *allowed)))
        return f"agent '{wanted[:64]}' may not be started from here (subagents.allowAgents: {others})"
    if wanted not in settings.agents:
        return f"there is no agent '{wanted[:64]}'"
    return ""


def check_sandbox(settings: Settings, caller: SessionKey, child: SessionKey, required: bool) -> str:
    """A sandboxed session never starts one outside. "" if it does not."""
    inside = is_sandboxed(settings.agents[child.agent], child)
    if required and not inside:
        return f"sandbox=require: sessions of agent '{child.agent}' are not sandboxed"
    if is_sandboxed(settings.agents[caller.agent], caller) and not inside:
        return f"this session is sandboxed and sub-agents of '{child.agent}' would not be"
    return ""
