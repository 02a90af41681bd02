"""Who may start which sub-agent. Pure: settings and counts in, the reason for a no out."""

from __future__ import annotations

from palinurus.agent.cell import sandboxed
from palinurus.config.settings import Settings
from palinurus.core.types.keys import SessionKey


def deepest(settings: Settings, agent: str) -> int:
    """How deep sub-agents of this agent's sessions may go (maxSpawnDepth)."""
    return settings.policy.deepest.get(agent, 1)


def may_start(settings: Settings, agent: str, depth: int) -> bool:
    """May a session of this depth start others?"""
    return depth < deepest(settings, agent)


def depth_refusal(settings: Settings, caller: SessionKey, depth: int) -> str:
    """ "" if there is room below."""
    if may_start(settings, caller.agent, depth):
        return ""
    most = deepest(settings, caller.agent)
    return f"this session is at depth {depth} and maxSpawnDepth is {most}: it cannot start sub-agents"


def count_refusal(settings: Settings, caller: SessionKey, active: int) -> str:
    """ "" if one more may run."""
    most = settings.subagents[caller.agent].children
    if active < most:
        return ""
    return f"{active} sub-agents of this session are running and maxChildrenPerAgent is {most}; wait for one to end"


def agent_refusal(settings: Settings, caller: SessionKey, wanted: str) -> str:
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


def box_refusal(settings: Settings, caller: SessionKey, child: SessionKey, required: bool) -> str:
    """A sandboxed session never starts one outside. "" if it does not."""
    inside = sandboxed(settings.agents[child.agent], child)
    if required and not inside:
        return f"sandbox=require: sessions of agent '{child.agent}' are not sandboxed"
    if sandboxed(settings.agents[caller.agent], caller) and not inside:
        return f"this session is sandboxed and sub-agents of '{child.agent}' would not be"
    return ""
