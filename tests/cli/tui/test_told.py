from __future__ import annotations

from typing import get_args

from palinurus.cli.tui.told import FIXES, ShownStep, read_plan, tell_failure, tidy_result
from palinurus.core.types.model import FailureKind


def test_every_fix_is_of_a_kind_there_is_and_all_say_how_to_ask_again() -> None:
    assert set(FIXES) <= set(get_args(FailureKind))
    assert tell_failure("no", "auth").startswith("no\nfix: the key was refused") and "/retry" in tell_failure("x")


def test_plans_are_read_whatever_a_model_writes() -> None:
    plan = {"plan": [{"step": "a\x1b[1m", "status": "completed"}, "x", {}]}
    assert read_plan("update_plan", plan) == (ShownStep("a[1m", "completed"), ShownStep("", ""))
    assert read_plan("read", plan) == () == read_plan("update_plan", {"plan": "x"}) == read_plan("update_plan", None)


def test_a_started_sub_agent_is_told_in_words() -> None:
    assert tidy_result("sessions_spawn", '{"status":"accepted"}').startswith("started")
    assert tidy_result("sessions_spawn", '{"status":"error"}') == '{"status":"error"}'
    assert tidy_result("sessions_spawn", "{x") == "{x" and tidy_result("exec", "{}") == "{}"
