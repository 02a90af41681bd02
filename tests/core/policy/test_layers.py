"""Sub-agents by depth."""

from __future__ import annotations

import pytest

from palinurus.core.policy.layers import find_subagent_role, list_denied_tools


@pytest.mark.parametrize(
    ("depth", "deepest", "what"),
    [(0, 1, "main"), (1, 1, "leaf"), (1, 2, "orchestrator"), (2, 2, "leaf"), (3, 2, "leaf"), (2, 5, "orchestrator")],
)
def test_roles(depth: int, deepest: int, what: str) -> None:
    assert find_subagent_role(depth, deepest) == what


@pytest.mark.seed(289)
def test_what_each_is_kept_from() -> None:
    every = {"gateway", "agents_list", "cron", "memory_search", "memory_get", "sessions_send", "session_search"}
    assert list_denied_tools(0, 1) == ()
    assert set(list_denied_tools(1, 2)) == every
    leaf = set(list_denied_tools(1, 1))
    assert leaf == every | {"sessions_list", "sessions_history", "sessions_spawn"}
    assert "subagents" not in leaf and "session_status" not in leaf  # to look only; see C22 and C23 of the checklist
