"""Containment seen from a conversation: what the model's commands and file tools get, by default and sandboxed."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.core.types.messages import ToolResult
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, call_tools, say
from palinurus.tools.sandbox.probe import detect_support

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="containment is Linux's"),
    pytest.mark.skipif(detect_support().landlock < 6, reason="needs Landlock of kernel 6.12"),
]

MODEL = {
    "models": {"providers": {"fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "canary", "models": [{"id": "m"}]}}}
}


@asynccontextmanager
async def running(home: Path, model: ScriptedModel, channel: FakeChannel, **defaults: Any) -> AsyncIterator[App]:
    home.mkdir(exist_ok=True)
    config = {**MODEL, "agents": {"defaults": {"model": {"primary": "fake/m"}, **defaults}}}
    (home / "palinurus.json").write_text(json.dumps(config))
    environ = {"HOME": str(home.parent / "user")}
    (home.parent / "user" / ".ssh").mkdir(parents=True, exist_ok=True)
    (home.parent / "user" / ".ssh" / "id_rsa").write_text("canary")
    app = App(
        load_config(str(home), environ).settings, environ, SystemClock(), model=model, channels={channel.name: channel}
    )
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


async def results(home: Path, *wanted: tuple[str, dict[str, Any]], **defaults: Any) -> tuple[list[str], ScriptedModel]:
    """What the tools told the model, and the model with the requests it got."""
    script = call_tools(*((name, args) for name, args in wanted))
    model, channel = ScriptedModel([script, say("done")]), FakeChannel(owner=True)
    async with running(home, model, channel, **defaults) as app:
        (ident,) = await channel.receive("go", event="e1")
        await app.wait(ident)
    told = [m.text for m in model.requests[-1].messages if isinstance(m, ToolResult)]
    return told, model


@pytest.mark.parametrize("kind", ["landlock", "bubblewrap"])
async def test_commands_and_file_tools_are_contained_without_a_setting(tmp_path: Path, kind: str) -> None:
    if kind == "bubblewrap" and not detect_support().bubblewrap:
        pytest.skip("bubblewrap does not work here")
    home = tmp_path / "state"
    told, _ = await results(
        home,
        ("exec", {"command": f"cat {home}/palinurus.json {tmp_path}/user/.ssh/id_rsa"}),
        ("read", {"path": f"{tmp_path}/user/.ssh/id_rsa"}),
        ("write", {"path": f"{tmp_path}/user/.bashrc", "content": "owned"}),
        ("exec", {"command": "echo kept > note && cat note && echo $HOME"}),
        sandbox={"contain": kind},
    )
    assert all("canary" not in text for text in told)
    assert ("Permission denied" in told[0] and "Note: commands here" in told[0]) or "No such file" in told[0]
    if kind == "landlock":  # in bubblewrap /tmp, where this test lives, is the cell's own
        assert "agents.defaults.sandbox.read" in told[1] and "agents.defaults.sandbox.write" in told[2]
    assert "kept" in told[3] and str(home / "cells" / "main" / "home") in told[3]
    assert (home / "workspace" / "note").read_text() == "kept\n" and not (tmp_path / "user" / ".bashrc").exists()


async def test_a_background_command_and_a_terminal_are_contained_too(tmp_path: Path) -> None:
    """S7: no sibling path skips the gate."""
    home = tmp_path / "state"
    look = f"cat {home}/palinurus.json"
    told, _ = await results(
        home,
        ("exec", {"command": f"{look}; echo end", "yieldMs": 5000}),
        ("exec", {"command": f"{look}; echo end", "pty": True}),
        ("exec", {"command": f"{look} > copy 2>&1; echo end >> copy; sleep 0.1", "background": True}),
        ("exec", {"command": "for i in $(seq 40); do grep -q end copy && break; sleep 0.1; done; cat copy"}),
    )  # fmt: skip
    for text in (told[0], told[1], told[3]):
        assert "end" in text and "canary" not in text, text


@pytest.mark.seed(262, 210)
async def test_a_sandboxed_session_works_in_its_own_folder_and_is_told_so(tmp_path: Path) -> None:
    home = tmp_path / "state"
    told, model = await results(
        home,
        ("exec", {"command": "echo mine > here && pwd"}),
        ("read", {"path": str(home / "workspace" / "AGENTS.md")}),
        sandbox={"mode": "all", "backend": "landlock", "workspaceRoot": str(tmp_path / "boxes")},
    )
    (box,) = (tmp_path / "boxes").iterdir()
    assert (box / "here").read_text() == "mine\n" and str(box) in told[0]
    assert "outside" in told[1]
    prompt = model.requests[0].prompt.stable
    assert "## Sandbox" in prompt and f"Working directory inside: {box}" in prompt


async def test_switched_off_there_is_no_cell(tmp_path: Path) -> None:
    home = tmp_path / "state"
    told, model = await results(home, ("read", {"path": f"{home.parent}/user/x"}), sandbox={"contain": "off"})
    assert "does not exist" in told[0] and "## Sandbox" not in model.requests[0].prompt.stable
