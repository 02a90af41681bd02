"""Whole messages through the App with a stand-in that speaks the Agent Client Protocol."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.runtimes.kit import KIT, OWNER, ask, begun, decide, heard, messages, running
from palinurus.agent.runtimes.acp import AcpTalk
from palinurus.agent.runtimes.bridge import ApprovalBridge
from palinurus.agent.runtimes.drive import ProgramGone, TalkSetting
from palinurus.agent.runtimes.mirror import RunMirror
from palinurus.core.types.approval import ExecRules
from palinurus.core.types.events import AgentEnd, MessageUpdate, ToolEnd
from palinurus.core.types.tool import ToolSettings
from palinurus.testing.model import ScriptedModel
from support import inbound, plan, ports, tool

MODEL = "builtin/demo"  # what our own loop would ask
OPENED = 3  # messages until a turn goes: initialize, session/new, session/prompt


async def test_a_message_is_answered_and_the_next_goes_to_the_same_session(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL) as app:
        (Path(app.settings.agents["main"].workspace) / "SOUL.md").write_text("SOUL-text")
        row, events = await ask(app, "hello")
        assert (row.outcome, row.note) == ("answered", "Heard hello.")
        assert MessageUpdate("Hm.", "thinking") in events
        assert (await ask(app, "bye"))[0].note == "Heard bye."  # without what it tells of the earlier turn
    first, second = (line["params"]["prompt"] for line in heard(tmp_path, "session/prompt"))
    assert "SOUL-text" in first[0]["text"] and first[-1]["text"] == "hello"
    assert [block["text"] for block in second][-1] == "bye" and "SOUL-text" not in str(second)
    assert heard(tmp_path, "session/load")[0]["params"]["sessionId"] == "s-1"
    assert [m["role"] for m in messages(tmp_path)] == ["user", "assistant"] * 2


@pytest.mark.parametrize(("decision", "option", "said"), [("allow-once", "y", "Done."), ("deny", "n", "Not done.")])
async def test_its_questions_go_to_a_person(tmp_path: Path, decision: str, option: str, said: str) -> None:
    async with running(tmp_path, MODEL) as app:
        deciding = asyncio.ensure_future(decide(app, decision))
        row, events = await ask(app, "run")
        await deciding
        assert row.note.endswith(said)
        (ended,) = [event for event in events if isinstance(event, ToolEnd)]
        assert (ended.name, ended.is_error) == ("exec", decision == "deny")
    (answer,) = [line for line in heard(tmp_path) if "result" in line]
    assert answer["result"]["outcome"] == {"outcome": "selected", "optionId": option}
    assert [m["role"] for m in messages(tmp_path)] == ["user", "assistant", "toolResult", "assistant"]


async def test_a_stopped_run_is_cancelled_and_a_refusal_is_a_failure(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL) as app:
        going = asyncio.ensure_future(ask(app, "linger"))
        await begun(tmp_path, OPENED)
        assert await app.abort("agent:main:main", "user")
        assert (await going)[0].outcome == "aborted" and len(heard(tmp_path, "session/cancel")) == 1
        row, events = await ask(app, "refuse")
        assert row.outcome == "failed" and isinstance(events[-1], AgentEnd) and events[-1].failure is not None


async def test_a_session_it_has_lost_is_begun_anew(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL) as app:
        await ask(app, "hello")
        (tmp_path / "fake" / "session").unlink()
        assert (await ask(app, "bye"))[0].note == "Heard bye."
    assert "You: Heard hello." in str(heard(tmp_path, "session/prompt")[1])


def test_a_session_that_may_not_run_commands_is_not_handed_to_it() -> None:
    denied = ToolSettings(rules=ExecRules(security="deny"))
    for made in (plan(tool("read")), plan(tool("exec"), settings=denied)):
        seen = ports(ScriptedModel([]))
        setting = TalkSetting(made, seen, RunMirror(made, seen, "x"), ApprovalBridge(made, seen, print, "x"), print)
        with pytest.raises(ProgramGone, match="may not run commands"):
            AcpTalk(setting, KIT)


@pytest.mark.parametrize(
    ("acp", "program"),
    [
        ({}, True),
        ({"enabled": False}, False),
        ({"allowedAgents": ["other"]}, False),
        ({"allowedAgents": ["gemini"]}, True),
    ],
)
async def test_the_config_says_which_programs_do_runs(tmp_path: Path, acp: dict[str, Any], program: bool) -> None:
    async with running(tmp_path, MODEL, {"acp": acp}) as app:
        row, _ = await ask(app, "hello")
    assert (row.note == "Heard hello.") is program and bool(heard(tmp_path)) is program


async def test_an_agent_that_names_no_program_gets_the_usual_one_where_and_how_it_says(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    own = {"type": "acp", "acp": {"cwd": str(tmp_path / "there"), "mode": "oneshot"}}
    for usual, answered in (("gemini", True), ("", False)):
        home = tmp_path / (usual or "none")
        home.mkdir()
        agents = [{"id": "main", "runtime": own}]
        more = {"acp": {"defaultAgent": usual}}
        async with running(home, MODEL, more, agents, agentRuntime={"id": "auto"}) as app:
            row, _ = await ask(app, "hello")
            await ask(app, "again")
        assert (row.note == "Heard hello.") is answered
        begun_ = heard(home, "session/new")
        assert [line["params"]["cwd"] for line in begun_] == [str(tmp_path / "there")] * 2 * answered
        assert not heard(home, "session/load")


async def test_no_more_programs_run_than_the_config_allows(tmp_path: Path) -> None:
    async with running(tmp_path, MODEL, {"acp": {"maxConcurrentSessions": 1}}) as app:
        going = asyncio.ensure_future(ask(app, "linger"))
        await begun(tmp_path, OPENED)
        other = await app.submit(inbound("hello", sender=OWNER, session="agent:main:other"))
        row = await app.wait(other.id)
        assert row.outcome == "failed" and len(heard(tmp_path, "session/new")) == 1
        await app.abort("agent:main:main", "user")
        await going
        assert (await ask(app, "hello"))[0].outcome == "answered"


@pytest.mark.parametrize(
    ("stream", "said", "live"),
    [
        ({}, "I look.|Done.", True),
        ({"deliveryMode": "final_only"}, "I look.\n\nDone.", False),
        ({"deliveryMode": "final_only", "hiddenBoundarySeparator": "space"}, "I look. Done.", False),
        ({"deliveryMode": "final_only", "hiddenBoundarySeparator": "newline"}, "I look.\nDone.", False),
        ({"maxOutputChars": 4}, "I lo …", True),
    ],
)
async def test_what_it_says_is_shown_as_the_config_says(
    tmp_path: Path, stream: dict[str, Any], said: str, live: bool
) -> None:
    async with running(tmp_path, MODEL, {"acp": {"stream": stream}}) as app:
        deciding = asyncio.ensure_future(decide(app, "allow-once"))
        _, events = await ask(app, "run")
        await deciding
    kinds = [type(event).__name__ for event in events]
    assert ("MessageUpdate" in kinds[: kinds.index("ToolStart")]) is live
    texts = ["".join(b["text"] for b in m["content"] if b["type"] == "text")
             for m in messages(tmp_path) if m["role"] == "assistant"]  # fmt: skip
    assert "|".join(filter(None, texts)) == said


@pytest.mark.parametrize(("most", "text"), [(0, "made"), (2, "ma …")])
async def test_results_of_its_tools_are_cut_as_the_config_says(tmp_path: Path, most: int, text: str) -> None:
    async with running(tmp_path, MODEL, {"acp": {"stream": {"maxSessionUpdateChars": most}}}) as app:
        deciding = asyncio.ensure_future(decide(app, "allow-once"))
        _, events = await ask(app, "run")
        await deciding
    (ended,) = [event for event in events if isinstance(event, ToolEnd)]
    assert ended.result.text == text
