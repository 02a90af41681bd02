"""The commands that only tell or do one thing: each once, with what it must say."""

from __future__ import annotations

import json
import os
from typing import Any

import msgspec
import pytest

from palinurus import __version__
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import AssistantMessage, TextBlock, ToolCall, ToolResult, UserMessage
from palinurus.core.types.model import Prompt, PromptPart
from palinurus.inbox.commands.export import render_markdown
from palinurus.inbox.control import CommandController
from palinurus.store.port import Settlement, UsageRow

KEY = SessionKey("main", "main")


async def talk(office: Any) -> None:
    """A session with two messages on file."""
    await office.say("/think high")
    record = await office.record()
    transcript = await office.program.transcripts.load(record.path("main"), "")
    lines = [*transcript.add(UserMessage("hi"), "i", 1), *transcript.add(AssistantMessage((TextBlock("yes"),)), "i", 2)]
    claim = await office.claim(office.message("x"))
    await office.store.settle(claim, Settlement("answered", lines=tuple(lines)))


@pytest.mark.seed(88)
@pytest.mark.parametrize(("mode", "shown"), [("on", " · Fast"), ("auto", " · Fast:auto"), ("off", "")])
async def test_status_shows_fast_mode(office: Any, mode: str, shown: str) -> None:
    await office.say(f"/fast {mode}")
    line = (await office.say("/status")).splitlines()[2]
    assert line == f"Think: medium (the model reasons and declares no default){shown}"


async def test_status_is_one_card(office: Any) -> None:
    await office.say("/think low /verbose on /reasoning stream /model deep /queue collect")
    record = await office.record()
    await office.store.save_session(
        msgspec.structs.replace(record, totalTokens=50_000, inputTokens=1234, outputTokens=56).row(KEY)
    )
    office.running.add(str(KEY))
    assert (await office.say("/status")).splitlines() == [
        f"Palinurus {__version__}",
        "Model: big/deep-1 (chosen for this session)",
        "Think: low (session override) · Verbose: on · Reasoning: stream",
        "Context: 50k/200k tokens (25%)",
        "Tokens: 1.2k in / 56 out",
        f"Session: agent:main:main · {record.sessionId} · running",
        "Queue: mode=collect, debounce=500ms, cap=20, drop=summarize",
    ]
    assert "Think: high" in await office.say("/think high /status")


async def test_status_of_a_session_that_has_not_begun(office: Any) -> None:
    assert "agent:main:main · not begun · idle" in await office.say("/status")
    assert await office.record() is None


async def test_stop(office: Any) -> None:
    assert await office.say("/stop") == "Nothing is running in this session."
    office.running.add(str(KEY))
    assert await office.say("stop!") == "⚙️ Agent was aborted."
    assert office.aborted == [(str(KEY), "stop")]


async def test_stop_drops_what_waits(office: Any) -> None:
    office.waiting = 2
    office.running.add(str(KEY))
    assert await office.say("/stop") == "⚙️ Agent was aborted. 2 waiting messages dropped."


async def test_steer(office: Any) -> None:
    office.running.add(str(KEY))
    assert await office.say("/steer look left", push=False, target=Target("terminal")) == "Steering the current run."
    (message,) = office.submitted
    assert message.text == "look left" and message.options.queue == "steer"
    office.running.clear()
    assert await office.say("/steer go on") == "No run is going; sent as a message."
    assert await office.say("/steer") == "Say what the agent should know: /steer TEXT."
    assert len(office.submitted) == 2


async def test_whoami(office: Any) -> None:
    said = await office.say("/whoami", sender=Sender("42", "Ada", allowed=True, scopes=("a", "b")))
    assert said == "You are 42 (Ada): allowed.\nChannel: telegram/7\nSession: agent:main:main\nScopes: a, b"


async def test_models(office: Any) -> None:
    said = await office.say("/models")
    assert "1. fake/m *" in said and "2. fake/dull" in said and "builtin/demo" in said
    assert "fake/m" not in await office.say("/models deep")
    assert await office.say("/models zzz") == 'No model matches "zzz".'


async def test_agents(office: Any) -> None:
    assert (await office.say("/agents")).splitlines()[1] == "* main: fake/m, default"


async def test_usage(office: Any) -> None:
    assert (await office.say("/usage")).startswith("This session: nothing yet.")
    await office.say("/think high")
    claim = await office.claim(office.message("x"))
    now = office.clock.now()
    spent = [
        UsageRow("i", "r", str(KEY), "main", "fake", "m", now, 1000, 20, 500, 0, 0.25),
        UsageRow("i", "r", str(KEY), "main", "fake", "m", now, 1, 1, 0, 0, None),
    ]
    await office.store.settle(claim, Settlement("answered", spent=tuple(spent)))
    first, second = (await office.say("/usage")).splitlines()
    assert first == "This session: 2 model calls, 1.5k tokens in (500 from cache), 21 out, $0.2500 (1 call unpriced)."
    assert second.startswith("Last 24 hours, everything: 2 model calls")


async def test_context(office: Any) -> None:
    await talk(office)
    said = await office.say("/context")
    assert "of 200k tokens (fake/m)" in said and "history: 2 messages" in said and "measured with the next run" in said
    assert "    exec:" in await office.say("/context detail")
    assert '"cake" is no form' in await office.say("/context cake")

    async def report(key: SessionKey, inbound: Inbound | None) -> Prompt:
        return Prompt("x", parts=(PromptPart("tooling", 400, True),))

    office.controller = CommandController(
        msgspec.structs.replace(office.program, prompt_report=report), office.replied.extend
    )
    assert "  tooling: 400 characters, ~100 tokens" in await office.say("/context list")
    data = json.loads(await office.say("/context json"))
    assert data["prompt"] == [{"name": "tooling", "chars": 400, "stable": True}] and data["messages"] == 2


async def test_config(office: Any) -> None:
    file = office.home / "palinurus.json"
    assert '"apiKey": "***"' in await office.say("/config show")
    assert await office.say("/config get agents.defaults.model.primary") == 'agents.defaults.model.primary = "fake/m"'
    said = await office.say("/config set agents.defaults.timeoutSeconds 77")
    assert said.startswith("agents.defaults.timeoutSeconds = 77. It is in the file, and applies by itself: ")
    assert json.loads(file.read_text())["agents"]["defaults"]["timeoutSeconds"] == 77
    before = file.read_text()
    assert (await office.say("/config set agents.defaults.timeoutSeconds soon")).startswith("⚠️ ")
    assert file.read_text() == before
    said = await office.say("/config unset agents.defaults.timeoutSeconds")
    assert said.startswith("agents.defaults.timeoutSeconds removed. It is in the file, and applies by itself: ")
    assert "needs a restart" in await office.say("/config explain gateway.port")
    assert '"fly" is not known' in await office.say("/config fly")


async def test_export(office: Any) -> None:
    assert await office.say("/export") == "There is nothing to export yet."
    await talk(office)
    said = await office.say("/export")
    file = said.removeprefix("Exported 2 messages to ")
    with open(file, encoding="utf-8") as handle:
        assert "## User\n\nhi\n\n## Assistant\n\nyes" in handle.read()
    assert os.stat(file).st_mode & 0o777 == 0o600


async def test_export_follows_no_link_out_of_the_workspace(office: Any, tmp_path: Any) -> None:
    await talk(office)
    workspace = office.program.settings.agents["main"].workspace
    os.makedirs(workspace, exist_ok=True)
    (tmp_path / "outside").mkdir()
    os.symlink(tmp_path / "outside", os.path.join(workspace, "exports"))
    assert "is a link" in await office.say("/export")
    assert os.listdir(tmp_path / "outside") == []


def test_markdown_fences_what_holds_fences() -> None:
    call = AssistantMessage((ToolCall("c", "read", {}),))
    text = render_markdown("t", [call, ToolResult("c", "read", (TextBlock("```\nx\n```"),), isError=True)])
    assert "*calls read*" in text and "**read** (error)\n\n````\n```\nx\n```\n````" in text
