"""Whole messages through the App with a stand-in for Claude Code: its arguments, what becomes of what it says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.runtimes.kit import OWNER, ask, begun, decide, heard, messages, running
from palinurus.agent.plan.runplan import ModelCandidate
from palinurus.agent.runtimes.brief import GO_ON
from palinurus.agent.runtimes.claude import build_arguments
from palinurus.config.sections.runtimes import RuntimeProgram
from palinurus.core.levels.resolve import ThinkingDecision
from palinurus.core.types.approval import ExecRules
from palinurus.core.types.card import CARD, read_cards
from palinurus.core.types.events import AgentEnd, ToolEnd
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.tool import ToolSettings
from palinurus.testing.model import make_model_info
from support import inbound, kinds, plan, tool

MODEL = "claude-cli/claude-opus-4-8"


def texts(home: Path) -> list[str]:
    """The last block of each message it was sent."""
    sent = [line for line in heard(home) if isinstance(line, dict) and line["type"] == "user"]
    return [line["message"]["content"][-1]["text"] for line in sent]


def started(home: Path) -> list[list[str]]:
    """Its arguments, each time."""
    return [line for line in heard(home) if isinstance(line, list)]


def after(args: Any, flag: str) -> str:
    return str(args[list(args).index(flag) + 1])


@pytest.mark.seed(67)
async def test_a_message_is_answered_by_claude_and_the_next_resumes_its_session(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL, thinkingDefault="high") as app:
        (Path(app.settings.agents["main"].workspace) / "AGENTS.md").write_text("AGENTS-text")
        row, events = await ask(app, "hello")
        assert (row.outcome, row.note) == ("answered", "Heard hello.")
        assert kinds(events) == [
            "agent_start", "message_start", "message_end",
            "message_start", "message_update", "message_update", "message_end", "agent_end",
        ]  # fmt: skip
        assert isinstance(events[-1], AgentEnd) and events[-1].usage.input == 25
        cards = read_cards(step.detail for step in await app.store.trace(row.id) if step.what == CARD)
        spent = [call.input for call in await app.store.list_usage(0) if call.item == row.id]
        assert sum(spent) == 25 and spent == [card.input for card in cards], "what it tells late is in the ledger, too"
        assert (cards[0].model, cards[0].level) == (MODEL, "high") and "asked by claude" in cards[0].model_why
        assert (await ask(app, "bye"))[0].note == "Heard bye."
    first, second = started(tmp_path)
    assert after(first, "--effort") == "high" and after(first, "--model") == "claude-opus-4-8"
    assert "AGENTS-text" in after(first, "--append-system-prompt")
    assert after(second, "--resume") == after(first, "--session-id")
    assert [m["role"] for m in messages(tmp_path)] == ["user", "assistant"] * 2


@pytest.mark.parametrize(("decision", "word", "error"), [("allow-once", "allow", False), ("deny", "deny", True)])
async def test_a_tool_waits_for_a_person_and_is_mirrored(tmp_path: Path, decision: str, word: str, error: bool) -> None:
    async with running(tmp_path, MODEL) as app:
        deciding = asyncio.ensure_future(decide(app, decision))
        row, events = await ask(app, "run")
        await deciding
        assert row.note.endswith(f"It was {word}.")
        (ended,) = [event for event in events if isinstance(event, ToolEnd)]
        assert (ended.id, ended.name, ended.is_error) == ("t1", "exec", error)
    assert [m["role"] for m in messages(tmp_path)] == ["user", "assistant", "toolResult", "assistant"]


async def test_a_message_that_comes_meanwhile_gets_the_next_turn_of_the_same_run(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL) as app:
        first = asyncio.ensure_future(ask(app, "run"))
        await begun(tmp_path, 2)
        await app.submit(inbound("and this", sender=OWNER))
        await decide(app, "allow-once")
        row, _ = await first
        assert row.note.endswith("Heard and this.") and len(started(tmp_path)) == 1


async def test_a_stopped_run_is_interrupted(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL) as app:
        going = asyncio.ensure_future(ask(app, "linger"))
        await begun(tmp_path, 2)
        assert await app.abort("agent:main:main", "user")
        assert (await going)[0].outcome == "aborted"
    assert heard(tmp_path)[-1]["request"] == {"subtype": "interrupt"}


async def test_one_that_dies_is_started_again_in_its_session(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL) as app:
        row, _ = await ask(app, "die")
        assert (row.outcome, row.note) == ("answered", "Half\n\nWent on.")
    assert texts(tmp_path) == ["die", GO_ON] and "--resume" in started(tmp_path)[1]


async def test_a_session_that_is_lost_is_begun_anew_and_told_what_was_said(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL) as app:
        await ask(app, "hello")
        (tmp_path / "fake" / after(started(tmp_path)[0], "--session-id")).unlink()
        assert (await ask(app, "bye"))[0].note == "Heard bye."
    first, _, third = started(tmp_path)
    assert after(third, "--session-id") != after(first, "--session-id")
    told = heard(tmp_path)[-1]["message"]["content"]
    assert "You: Heard hello." in told[0]["text"] and told[-1]["text"] == "bye"


async def test_its_errors_are_failures(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL) as app:
        row, events = await ask(app, "fail")
        assert row.outcome == "failed" and "rate limit" in row.note
        assert isinstance(events[-1], AgentEnd) and events[-1].failure and events[-1].failure.kind == "rate_limit"


def test_policy_takes_tools_away_and_settings_do_not_give_them_back() -> None:
    every = [tool(n) for n in ("exec", "write", "edit", "read", "web_fetch", "web_search", "sessions_spawn")]
    wide = RuntimeProgram(("claude",), "claude-cli", permission="bypassPermissions", mcp="m.json")
    message = inbound(sender=OWNER)
    full = build_arguments(plan(*every, inbound=message), RuntimeProgram(("claude",)), "who")
    assert "Bash" not in after(full, "--disallowedTools") and "AskUserQuestion" in after(full, "--disallowedTools")
    assert after(full, "--permission-mode") == "acceptEdits" and "--effort" not in full and "--mcp-config" not in full
    none = build_arguments(plan(inbound=message), wide, "who")
    denied = set(after(none, "--disallowedTools").split(","))
    assert {"Bash", "Write", "Edit", "Read", "Grep", "WebFetch", "WebSearch", "Task"} <= denied
    assert after(none, "--mcp-config") == "m.json"
    closed = plan(*every, inbound=message, settings=ToolSettings(rules=ExecRules(security="deny")))
    assert "Bash" in after(build_arguments(closed, wide, ""), "--disallowedTools")
    assert after(build_arguments(plan(*every), wide, ""), "--permission-mode") == "default"  # a stranger's message


@pytest.mark.seed(67)
@pytest.mark.parametrize(("level", "sent"), [("off", None), ("minimal", "low"), ("max", "max")])
def test_the_level_goes_along_as_effort(level: str, sent: str | None) -> None:
    model = msgspec.structs.replace(make_model_info(), ref=ModelRef("claude-cli", "claude-opus-4-8"))
    choice = ModelCandidate(model, ThinkingDecision(level, level, "", level))
    args = build_arguments(plan(choices=(choice,)), RuntimeProgram(("claude",)), "")
    assert (("--effort" in args and after(args, "--effort")) or None) == sent


def test_what_files_of_the_workspace_configure_does_not_run() -> None:
    """WS/.claude/settings.json (hooks) and WS/.mcp.json are files that the agent can write."""
    started = build_arguments(plan(), RuntimeProgram(("claude",)), "")
    assert after(started, "--setting-sources") == "user" and "--strict-mcp-config" in started
