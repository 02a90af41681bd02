"""Claims that nothing bears out: told to the person, sent back to the model once, and on the run's card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from flow.test_app import running, transcript
from palinurus.core.evidence import MARK
from palinurus.core.types.card import EVIDENCE, read_findings
from palinurus.core.types.events import AgentEnd
from palinurus.core.types.inbound import Sender
from palinurus.services.why import RunFacts, describe_run, format_why
from palinurus.testing.model import (
    ScriptedModel,
    ScriptStep,
    StreamGate,
    assert_prefix_stable,
    call_tools,
    hold_at,
    say,
)
from support import inbound

LIE = "I've created report.md with all the figures."
FAILS = call_tools(("exec", {"command": "exit 3"}))


async def ask(home: Path, script: list[ScriptStep], evidence: str | None = None) -> tuple[Any, ScriptedModel, Any, Any]:
    """One message: how its run ended, the model, the explanation, the inbox row."""
    model = ScriptedModel(script)
    defaults = {"evidence": evidence} if evidence else {}
    ends: list[AgentEnd] = []
    async with running(home, model, agents={"defaults": {"model": "fake/m", **defaults}}) as app:
        accepted = await app.submit(
            inbound("make a report", event="e1", sender=Sender("me", owner=True)),
            lambda event: ends.append(event) if isinstance(event, AgentEnd) else None,
        )
        row = await app.wait(accepted.id)
        steps = await app.store.trace(row.id)
        calls = [call for call in await app.store.list_usage(0) if call.item == row.id]
    return ends[0], model, describe_run(RunFacts(row, steps, calls)), row


async def test_the_person_is_told_and_the_card_says_it(tmp_path: Path) -> None:
    end, model, told, _ = await ask(tmp_path / "h", [say(LIE)])
    assert len(model.requests) == 1
    assert [notice for notice in end.notices if "report.md" in notice]
    (found,) = told["evidence"]
    assert found["claims"][0]["kind"] == "files" and not found.get("asked")
    assert "doubtful" in format_why(told, "run") and "no tool wrote report.md" in format_why(told, "short")


async def test_what_was_done_is_not_doubted(tmp_path: Path) -> None:
    wrote = call_tools(("write", {"path": "report.md", "content": "x"}))
    end, _, told, _ = await ask(tmp_path / "h", [wrote, say(LIE)])
    assert end.notices == () and told["evidence"] == []


async def test_what_a_command_wrote_is_known(tmp_path: Path) -> None:
    wrote = call_tools(("exec", {"command": "echo x > report.md"}))
    end, _, _, _ = await ask(tmp_path / "h", [wrote, say(LIE)])
    assert end.notices == ()
    end, _, told, _ = await ask(tmp_path / "i", [call_tools(("exec", {"command": "echo x > other.md"})), say(LIE)])
    assert "no command changed such a file" in end.notices[0] and told["evidence"]


async def test_the_model_is_asked_once_with_the_facts(tmp_path: Path) -> None:
    script = [FAILS, say("The build is fixed."), say("It still exits with 3."), say("never asked")]
    end, model, told, row = await ask(tmp_path / "h", script, "ask")
    assert len(model.requests) == 3 and row.outcome == "answered"
    doubt = model.requests[-1].messages[-1]
    assert doubt.text.startswith(MARK) and "exit code 3" in doubt.text
    assert end.notices == () and told["evidence"][0]["asked"] is True
    assert told["cost"]["calls"] == 3  # the further call is in the ledger, and so in budgets
    assert_prefix_stable(model.requests)


async def test_who_insists_is_not_asked_again_and_the_person_is_told(tmp_path: Path) -> None:
    end, model, told, _ = await ask(tmp_path / "h", [FAILS, say("It works now."), say("It works now.")], "ask")
    assert len(model.requests) == 3
    assert "exit code 3" in end.notices[0] and [one.get("asked", False) for one in told["evidence"]] == [True, False]


async def test_a_turn_that_is_taken_up_again_does_not_ask_twice(tmp_path: Path) -> None:
    """It ends while the model answers the doubt; the next start finds the doubt on disk."""
    gate, home = StreamGate(), tmp_path / "h"
    config: dict[str, Any] = {"agents": {"defaults": {"model": "fake/m", "evidence": "ask"}}}
    first = ScriptedModel([FAILS, say("It works now."), hold_at(say("It works now, really."), gate)])
    async with running(home, first, **config) as app:
        accepted = await app.submit(inbound("fix it", event="e1", sender=Sender("me", owner=True)))
        await gate.wait_reached(60)
    second = ScriptedModel([say("It works now."), say("never asked")])
    async with running(home, second, **config) as app:
        row = await app.wait(accepted.id)
    assert row.outcome == "answered" and len(second.requests) == 1
    said = [line["message"] for line in transcript(home) if line["type"] == "message"]
    assert sum(MARK in str(message.get("content")) for message in said) == 1


async def test_off(tmp_path: Path) -> None:
    end, _, told, _ = await ask(tmp_path / "h", [say(LIE)], "off")
    assert end.notices == () and told["evidence"] == []


@pytest.mark.parametrize("text", ["not json", "[]", '{"claims": 3}'])
def test_a_step_of_another_version_is_left_out(text: str) -> None:
    good = msgspec.json.encode({"claims": []}).decode()
    assert len(read_findings([text, good])) == 1 and EVIDENCE == "evidence"
