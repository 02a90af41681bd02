"""What sub-agents are kept from by default, by how deep they are. Knows names and numbers only."""

from __future__ import annotations

from typing import Literal, TypeAlias

SubagentRole: TypeAlias = Literal["main", "orchestrator", "leaf"]

# Every sub-agent: it serves one task of its parent, and neither steers the program nor speaks for it.
SUBAGENT_DENY: tuple[str, ...] = ("gateway", "agents_list", "cron", "memory_search", "memory_get", "sessions_send")
# One that may not start others has nobody to look after. `subagents` stays, for looking only.
LEAF_DENY: tuple[str, ...] = ("sessions_list", "sessions_history", "sessions_spawn")


def find_subagent_role(depth: int, deepest: int) -> SubagentRole:
    """A session at the greatest depth starts no others."""
    if depth <= 0:
        return "main"
    return "leaf" if depth >= deepest else "orchestrator"


def list_denied_tools(depth: int, deepest: int) -> tuple[str, ...]:
    """The tools that a session of this depth does not get unless the config names them."""
    return {"main": (), "orchestrator": SUBAGENT_DENY, "leaf": (*SUBAGENT_DENY, *LEAF_DENY)}[
        find_subagent_role(depth, deepest)
    ]
