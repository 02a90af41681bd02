"""Whole messages through the App with a stand-in for Codex: what is sent to it, what becomes of what it says."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.runtimes.kit import OWNER, ask, begun, decide, heard, messages, running
from palinurus.agent.plan.runplan import ModelCandidate
from palinurus.agent.runtimes.brief import BEAT, GO_ON
from palinurus.agent.runtimes.codex import build_thread_params, choose_service_tier
from palinurus.config.sections.runtimes import RuntimeProgram
from palinurus.core.levels.resolve import FastMode
from palinurus.core.types.approval import ExecRules
from palinurus.core.types.events import AgentEnd, RunEvent, ToolEnd, ToolUpdate
from palinurus.core.types.inbound import TurnOptions
from palinurus.core.types.tool import ToolSettings
from palinurus.testing.model import make_model_info
from support import inbound, kinds, plan, tool

MODEL = "codex/gpt-5.5"
VICTIM = Path(__file__).parent / "victim.py"
OPENED = 4  # messages until a turn goes: initialize, initialized, thread/start, turn/start


@pytest.mark.seed(239, 240, 242)
async def test_a_message_is_answered_by_codex_and_the_next_goes_to_the_same_thread(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL, thinkingDefault="high", fastModeDefault=True) as app:
        workspace = Path(app.settings.agents["main"].workspace)
        for name in ("AGENTS", "SOUL", "MEMORY"):
            (workspace / f"{name}.md").write_text(f"{name}-text")
        row, events = await ask(app, "hello")
        assert (row.outcome, row.note) == ("answered", "Heard hello.")
        assert kinds(events) == [
            "agent_start", "message_start", "message_end",
            "message_start", "message_update", "message_update", "message_end", "agent_end",
        ]  # fmt: skip
        again, events = await ask(app, "bye")
        assert again.note == "Heard bye."
        assert isinstance(events[-1], AgentEnd) and events[-1].usage.input == 6  # not that of the resumed turn
    (started,), (resumed,) = heard(tmp_path, "thread/start"), heard(tmp_path, "thread/resume")
    assert started["params"]["model"] == "gpt-5.5" and resumed["params"]["threadId"] == "thread-1"
    assert "SOUL-text" in started["params"]["developerInstructions"]
    first, second = (one["params"] for one in heard(tmp_path, "turn/start"))
    assert first["effort"] == "high" and first["serviceTier"] == "priority"
    assert "MEMORY-text" in first["input"][0]["text"] and first["input"][-1]["text"] == "hello"
    assert second["input"][-1]["text"] == "bye" and "Earlier" not in json.dumps(second)
    assert "AGENTS-text" not in json.dumps(heard(tmp_path))
    assert [m["role"] for m in messages(tmp_path)] == ["user", "assistant"] * 2


@pytest.mark.parametrize(("decision", "word", "error"), [("allow-once", "accept", False), ("deny", "decline", True)])
async def test_a_command_waits_for_a_person_and_is_mirrored(
    tmp_path: Path, decision: str, word: str, error: bool
) -> None:
    async with running(tmp_path, MODEL) as app:
        deciding = asyncio.ensure_future(decide(app, decision))
        row, events = await ask(app, "run")
        await deciding
        assert row.note.endswith(f"It was {word}.")
        (card,) = [event for event in events if isinstance(event, ToolUpdate)]
        assert card.approval and "make it" in card.partial and card.id == "c1"
        (ended,) = [event for event in events if isinstance(event, ToolEnd)]
        assert (ended.name, ended.is_error) == ("exec", error)
    (answer,) = [line for line in heard(tmp_path) if "result" in line]
    assert answer["result"] == {"decision": word}
    roles = [m["role"] for m in messages(tmp_path)]
    assert roles == ["user", "assistant", "toolResult", "assistant"]
    assert [b["type"] for b in messages(tmp_path)[1]["content"]] == ["text", "toolCall"]


async def test_a_patch_is_shown_whole_before_it_is_allowed(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL) as app:
        (tmp_path / "fake" / "asks-patch").touch()
        deciding = asyncio.ensure_future(decide(app, "allow-once"))
        row, events = await ask(app, "patch")
        await deciding
        card = next(event.partial for event in events if isinstance(event, ToolUpdate))
        assert "a.txt" in card and "+new" in card and row.note == "It was accept."


async def test_a_hook_that_blocks_the_call_declines_without_asking_anybody(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL) as app:
        seen: list[Any] = []

        async def block(payload: Any) -> Any:
            return {"block": True, "blockReason": "no"} if payload["params"]["command"] == "make it" else None

        async def after(payload: Any) -> Any:
            seen.append((payload["toolName"], bool(payload.get("error"))))

        app.hooks.on("before_tool_call", block)
        app.hooks.on("after_tool_call", after)
        row, _ = await ask(app, "run")
        assert row.note.endswith("It was decline.") and await app.approvals.pending() == []
        await app.hooks.drain()
        assert seen == [("exec", True)]


async def test_questions_that_nobody_can_answer_here_are_declined(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL) as app:
        assert (await ask(app, "elicit"))[0].note == "It was decline."


async def test_a_message_that_comes_meanwhile_is_steered_into_the_turn(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL) as app:
        first = asyncio.ensure_future(ask(app, "linger"))
        await begun(tmp_path, OPENED)
        second = await app.submit(inbound("and this", sender=OWNER))
        row, _ = await first
        assert row.note == "Steered: and this"
        assert (await app.wait(second.id)).state == "done"
    (steer,) = heard(tmp_path, "turn/steer")
    assert steer["params"]["expectedTurnId"] == "turn-1"
    assert [m["role"] for m in messages(tmp_path)] == ["user", "user", "assistant"]


async def test_a_stopped_run_is_interrupted(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL) as app:
        events: list[RunEvent] = []
        accepted = await app.submit(inbound("murmur", sender=OWNER), events.append)
        async with asyncio.timeout(60):  # before it is known that the turn goes, a stop ends the program instead
            while "message_update" not in kinds(events):
                await asyncio.sleep(0.02)
        assert await app.abort("agent:main:main", "user")
        row = await app.wait(accepted.id)
        assert row.outcome == "aborted" and isinstance(events[-1], AgentEnd) and events[-1].end == "aborted"
    assert len(heard(tmp_path, "turn/interrupt")) == 1


async def test_a_program_that_dies_is_started_again_and_goes_on_in_its_thread(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL) as app:
        row, _ = await ask(app, "die")
        assert (row.outcome, row.note) == ("answered", "Half a wo\n\nWent on.")
    assert [line["params"]["input"][-1]["text"] for line in heard(tmp_path, "turn/start")] == ["die", GO_ON]
    assert len(heard(tmp_path, "thread/resume")) == 1


async def test_one_that_dies_again_ends_the_run_with_its_last_words(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL) as app:
        (tmp_path / "fake" / "dies").touch()
        row, _ = await ask(app, "die")
        assert row.outcome == "failed" and "code 3" in row.note and "panicked at the disco" in row.note
        assert len(heard(tmp_path, "turn/start")) == 2


async def test_a_failed_turn_says_why_and_what_sort_of_failure_it_was(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL) as app:
        row, events = await ask(app, "fail")
        assert row.outcome == "failed" and "too many" in row.note
        assert isinstance(events[-1], AgentEnd) and events[-1].failure and events[-1].failure.kind == "rate_limit"


async def test_a_thread_that_is_lost_is_begun_anew_and_told_what_was_said(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL) as app:
        await ask(app, "hello")
        (tmp_path / "fake" / "threads").unlink()
        assert (await ask(app, "bye"))[0].outcome == "answered"
    texts = [part["text"] for part in heard(tmp_path, "turn/start")[1]["params"]["input"]]
    assert "User: hello\n\nYou: Heard hello." in texts[0] and texts[-1] == "bye"


async def test_a_run_the_process_left_goes_on_after_the_restart_in_the_same_thread(tmp_path: Path) -> None:
    """Stopped without grace, the message is claimed again; the thread has seen it."""
    async with running(tmp_path, MODEL) as app:
        accepted = await app.submit(inbound("linger", sender=OWNER))
        await begun(tmp_path, OPENED)
    async with running(tmp_path, MODEL) as app:
        async with asyncio.timeout(60):
            assert (await app.wait(accepted.id)).note == "Went on."
    assert [line["params"]["input"][-1]["text"] for line in heard(tmp_path, "turn/start")] == ["linger", GO_ON]
    assert [m["role"] for m in messages(tmp_path)] == ["user", "assistant"]


async def test_without_the_program_the_person_is_told(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL, cliBackends={"codex": {"command": "no-such-program-here"}}) as app:
        row, _ = await ask(app, "hello")
        assert row.outcome == "failed" and "no program 'no-such-program-here' is installed" in row.note


@pytest.mark.parametrize("mode", ["plan", "ask"])
async def test_modes_that_a_program_would_not_keep_to_are_no_runs_of_it(tmp_path: Path, mode: str) -> None:
    async with running(tmp_path, MODEL, permissionMode=mode) as app:
        row, _ = await ask(app, "hello")
        assert row.outcome == "failed" and f"permission mode {mode}" in row.note
    assert heard(tmp_path) == []


async def test_a_sandboxed_session_is_not_handed_to_a_program_outside_the_sandbox(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL, sandbox={"mode": "all", "backend": "landlock"}) as app:
        row, _ = await ask(app, "hello")
        assert row.outcome == "failed" and "sandbox" in row.note
    assert not (tmp_path / "fake" / "log").exists()


PROGRAM = RuntimeProgram(("codex",))


def test_policy_narrows_what_codex_may_do_and_settings_do_not_widen_it() -> None:
    message = inbound(sender=OWNER)
    full = build_thread_params(plan(tool("exec"), tool("write"), tool("web_search"), inbound=message), PROGRAM, "", {})
    assert (full["sandbox"], full["approvalPolicy"]) == ("workspace-write", "on-request") and "config" not in full
    wide = RuntimeProgram(("codex",), "codex", approval="never", sandbox="danger-full-access")
    none = build_thread_params(plan(inbound=message), wide, "", {})
    assert none["sandbox"] == "read-only"
    assert none["config"] == {"features": {"shell_tool": False, "unified_exec": False}, "web_search": "disabled"}
    denied = ToolSettings(rules=ExecRules(security="deny"))
    assert (
        build_thread_params(plan(tool("exec"), tool("write"), settings=denied), wide, "", {})["sandbox"] == "read-only"
    )
    stranger = build_thread_params(plan(tool("exec"), tool("write"), inbound=inbound()), wide, "", {})
    assert stranger["approvalPolicy"] == "untrusted"
    trusting = ToolSettings(rules=ExecRules(security="full", ask="off"))
    assert (
        build_thread_params(plan(tool("exec"), inbound=message, settings=trusting), PROGRAM, "", {})["approvalPolicy"]
        == "never"
    )


@pytest.mark.seed(81)
async def test_the_tier_is_sent_when_a_turn_starts_and_a_running_turn_keeps_it(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL, fastModeDefault="auto") as app:
        first = asyncio.ensure_future(ask(app, "linger"))
        await begun(tmp_path, OPENED)
        await app.submit(inbound("later", sender=OWNER))
        await first
    for method in ("thread/start", "turn/start"):
        assert heard(tmp_path, method)[0]["params"]["serviceTier"] == "priority"
    assert "serviceTier" not in heard(tmp_path, "turn/steer")[0]["params"]


@pytest.mark.seed(81)
def test_auto_is_asked_anew_for_every_turn_we_start() -> None:
    auto = ModelCandidate(make_model_info(), fast=FastMode("auto", "agent", 60.0))
    made = plan(choices=(auto,))
    assert choose_service_tier(made, 0) == {"serviceTier": "priority"}
    assert choose_service_tier(made, 61_000) == {"serviceTier": None}
    assert choose_service_tier(plan(), 0) == {}


@pytest.mark.seed(241)
async def test_a_heartbeat_turn_points_at_the_file_and_no_turn_carries_it(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL) as app:
        (Path(app.settings.agents["main"].workspace) / "HEARTBEAT.md").write_text("- water the plants")
        await ask(app, "hello")
        beat = inbound(
            "Heartbeat.", sender=OWNER, system=True, options=TurnOptions(trigger="heartbeat"), session="agent:main:main"
        )
        await app.wait((await app.submit(beat)).id)
    plain, beating = (json.dumps(line) for line in heard(tmp_path, "turn/start"))
    assert BEAT in beating and BEAT not in plain
    assert "water the plants" not in json.dumps(heard(tmp_path))


async def test_after_a_kill_the_run_goes_on_in_its_thread_and_nothing_of_the_old_one_is_left(tmp_path: Path) -> None:
    (tmp_path / "fake").mkdir()
    (tmp_path / "fake" / "stubborn").touch()
    folders = os.pathsep.join(str(Path(__file__).parents[n]) for n in (2, 3))
    environ = {**os.environ, "PYTHONPATH": folders}
    victim = subprocess.Popen([sys.executable, str(VICTIM), str(tmp_path), MODEL], env=environ)
    try:
        await begun(tmp_path, OPENED)
    finally:
        victim.kill()
        victim.wait()
    (left,) = (tmp_path / "fake" / "pids").read_text().split()
    assert Path(f"/proc/{left}").exists()  # it outlives the gateway
    async with running(tmp_path, MODEL), asyncio.timeout(60):
        while len(said := messages(tmp_path)) < 2:
            await asyncio.sleep(0.02)
    assert said[-1]["content"][0]["text"] == "Went on."
    assert not Path(f"/proc/{left}/exe").exists()
    assert len(heard(tmp_path, "thread/start")) == len(heard(tmp_path, "thread/resume")) == 1
    assert [m["role"] for m in messages(tmp_path)] == ["user", "assistant"]
