"""The search process as seen from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palinurus.core.types.tool import ToolFailure
from palinurus.tools.search.tools import SearchAnswer, render_answer, run_search

JOB = {"mode": "grep", "glob": "", "ignoreCase": False, "literal": False, "context": 0, "limit": 100}


async def test_a_catastrophic_pattern_stops_the_search_and_nothing_else(ctx: Any, workspace: Path) -> None:
    (workspace / "a").write_text("a\n")
    (workspace / "b").write_text("a" * 60 + "!\n")
    answer = await run_search(ctx, ".", {**JOB, "pattern": "(a+)+$"}, seconds=0.5)
    assert answer.late and answer.lines == ["a:1: a"]  # what was found before it got stuck is kept
    assert "Search stopped after 0.5 s" in render_answer(answer, "", 0.5)


async def test_only_the_first_part_of_a_line_is_matched(ctx: Any, workspace: Path) -> None:
    (workspace / "f").write_text("x" * 20_000 + "needle\n")
    assert (await run_search(ctx, ".", {**JOB, "pattern": "n[e]edle"})).lines == []


async def test_a_pattern_that_is_too_large_to_compile(ctx: Any, workspace: Path) -> None:
    (workspace / "f").write_text("x\n")
    with pytest.raises(ToolFailure):
        answer = await run_search(ctx, ".", {**JOB, "pattern": "(" * 5000 + ")" * 5000}, seconds=2)
        render_answer(answer, "")


def test_nothing_in_time_is_a_failure() -> None:
    with pytest.raises(ToolFailure, match="stopped after 20 s"):
        render_answer(SearchAnswer([], 0, "", True), "")
