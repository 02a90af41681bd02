"""The table of points, and its copy in the docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from palinurus.plugins.hooks import HOOK_POINTS

DOCS = Path(__file__).parents[2] / "docs" / "plugins.md"
SEEDS = [
    "before_agent_start",
    "agent_end",
    "before_compaction",
    "after_compaction",
    "before_reset",
    "before_tool_call",
    "after_tool_call",
    "tool_result_persist",
    "message_received",
    "message_sending",
    "message_sent",
    "session_start",
    "session_end",
    "gateway_start",
    "gateway_stop",
]
KINDS = {
    "before_agent_start": "modify", "before_tool_call": "guard", "tool_result_persist": "sync",
    "message_sending": "modify",
}  # fmt: skip


def table() -> str:
    """As it stands in the docs."""
    rows = ["| point | when | kind | event | result |", "|---|---|---|---|---|"]
    for name, point in HOOK_POINTS.items():
        results = ", ".join(f"{field} ({rule})" for field, rule in point.results.items()) or "–"
        mark = " †" if point.conversation else ""
        rows.append(
            f"| `{name}`{mark} | {point.about} | {point.kind}, {point.deadline:g} s | {point.gets} | {results} |"
        )
    return "\n".join(rows)


@pytest.mark.seed(335, 336, 337, 338, 339, 340, 341, 342, 343, 344, 345, 346, 347, 348, 349)
@pytest.mark.parametrize("name", SEEDS)
def test_the_seeds_points_have_the_kind_the_seeds_say(name: str) -> None:
    assert HOOK_POINTS[name].kind == KINDS.get(name, "observe")


def test_the_docs_show_the_table() -> None:
    found = re.search(r"<!-- points -->\n(.*?)\n<!-- /points -->", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None and found[1] == table()


def test_every_result_has_a_rule_and_observers_have_none() -> None:
    for name, point in HOOK_POINTS.items():
        assert bool(point.results) == (point.kind != "observe"), name
        assert point.about and 0 < point.deadline <= 30, name
