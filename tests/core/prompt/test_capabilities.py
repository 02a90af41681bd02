from __future__ import annotations

import pytest

from core.prompt.kit import full, tools
from palinurus.core.prompt.capabilities import order_tools, write_delegation, write_tooling
from palinurus.core.prompt.facts import PromptFacts, PromptOptions, ToolFact
from palinurus.core.prompt.render import render_prompt
from palinurus.tools.collect import make_builtin_tools


def said(*names: str, **changes: object) -> str:
    return write_tooling(PromptFacts(tools=tools(*names), **changes))  # type: ignore[arg-type]


@pytest.mark.seed(168, 199)
def test_the_list_and_the_reminder_that_definitions_decide() -> None:
    text = said("read", "exec", "process")
    assert "- read: what read does\n- exec: what exec does" in text
    assert "structured tool definitions decide" in text
    assert "background" in text


def test_known_tools_first_in_their_order_then_the_others_by_name() -> None:
    given = (
        ToolFact("zebra", "z"),
        ToolFact("Exec", "e"),
        ToolFact("alpha", "a"),
        ToolFact("read", "r"),
        ToolFact("exec", "again"),
    )
    assert [t.name for t in order_tools(given)] == ["read", "Exec", "alpha", "zebra"]
    assert "- bare\n" in write_tooling(PromptFacts(tools=(ToolFact("bare", ""), ToolFact("more", "x"))))


def test_no_tools() -> None:
    assert "No tool list was handed over" in write_tooling(PromptFacts())


@pytest.mark.seed(219)
def test_later_is_crons_business() -> None:
    text = said("cron", "exec", "process")
    assert "`cron`" in text and "sleep loops" in text and "`yieldMs`" in text and "`process` again and again" in text
    assert "sleep loops" not in said("exec", "process") and "`exec`" not in said("cron")


@pytest.mark.seed(220, 222)
def test_exec_starts_now_and_process_looks_after_it() -> None:
    text = said("exec", "process")
    assert "commands that start now" in text and "goes on in the background" in text
    assert all(word in text for word in ("log", "status", "input", "step in"))
    assert "commands that start now" not in said("exec")


@pytest.mark.seed(221)
def test_with_the_wake_start_once() -> None:
    assert "start it once and rely on that" in said("exec", "process", wake=True)
    assert "start it once" not in said("exec", "process")
    assert "start it once" not in said("read", wake=True)


@pytest.mark.seed(223)
def test_larger_tasks_are_spawned_and_pushed_back() -> None:
    text = said("sessions_spawn")
    assert "larger" in text and "`sessions_spawn`" in text and "pushed to you" in text
    assert "sessions_spawn" not in said("exec")


@pytest.mark.seed(224)
def test_no_loops_over_lists() -> None:
    assert "Do not call `subagents` or `sessions_list` in a loop" in said("subagents", "sessions_list")
    assert "Do not call `sessions_list` in a loop" in said("sessions_list")
    assert "in a loop" not in said("read")


@pytest.mark.seed(227)
def test_the_plan() -> None:
    text = said("update_plan")
    assert "several real steps only" in text and "exactly one step in_progress" in text
    assert "do not repeat the whole plan" in text
    assert "in_progress" not in said("read")


@pytest.mark.seed(225)
def test_delegation_is_suggested_by_default_and_a_section_when_preferred() -> None:
    assert PromptOptions().delegation == "suggest"
    assert write_delegation(full(knobs=PromptOptions())) == ""
    text = write_delegation(full(knobs=PromptOptions(delegation="prefer")))
    assert text.startswith("## Sub-Agent Delegation") and "coordinator" in text and "`sessions_spawn`" in text
    assert "Sub-Agent Delegation" not in render_prompt(full(mode="minimal")).text


@pytest.mark.seed(226)
def test_delegation_changes_words_only() -> None:
    without = full(tools=tools("read"), knobs=PromptOptions(delegation="prefer"))
    assert write_delegation(without) == "" and without.tools == tools("read")
    assert "sessions_spawn" not in render_prompt(without).text


@pytest.mark.seed(218)
def test_tools_are_described_alike_on_every_channel() -> None:
    found = [t.description.lower() for t in make_builtin_tools().values()]
    for channel in ("telegram", "discord", "whatsapp", "signal", "slack", "webchat"):
        assert not any(channel in text for text in found)
        assert write_tooling(full(channel=channel)) == write_tooling(full())
