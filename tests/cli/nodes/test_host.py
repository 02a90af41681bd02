"""What a machine does as a node: commands in its sandbox, devices where they are, refusals in the protocol's words."""

from __future__ import annotations

import asyncio
import base64
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import settings
from palinurus.cli.nodes.host import NodeHost, NodeRefusal
from palinurus.core.types.node import CONTAINED
from palinurus.tools.sandbox.probe import detect_support

SHOW = [sys.executable, "-c", "import sys; sys.stdout.write(sys.argv[-1])"]
OFF = {"agents": {"defaults": {"sandbox": {"contain": "off"}}}}
needs_containment = pytest.mark.skipif(detect_support().best() == "none", reason="nothing contains commands here")


def host(tmp_path: Path, lines: list[str] | None = None, **config: Any) -> NodeHost:
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "SECRET": "sesame"}
    return NodeHost(settings(tmp_path / "h", **config), environ, (lines if lines is not None else []).append)


def sh(command: str, **more: Any) -> dict[str, Any]:
    return {"command": ["/bin/sh", "-c", command], **more}


@needs_containment
async def test_a_command_runs_contained_with_nothing_of_ours(tmp_path: Path) -> None:
    (tmp_path / "private").write_text("mine")
    made = host(tmp_path)
    assert made.surface.permissions == {CONTAINED: True}
    told = await made.answer("system.run", sh(f"pwd; env; cat {tmp_path}/private; echo wrong >&2; exit 7"))
    assert told["exitCode"] == 7 and told["success"] is False and told["timedOut"] is False
    assert "sesame" not in told["stdout"] and "mine" not in told["stdout"] and "wrong" in told["stdout"]
    late = await made.answer("system.run", sh("sleep 60", timeoutMs=200))
    assert late["timedOut"] is True and late["success"] is False


@needs_containment
async def test_a_cancelled_command_ends(tmp_path: Path) -> None:
    made = host(tmp_path)
    task = asyncio.ensure_future(made.answer("system.run", sh("touch began; sleep 60; touch ended")))
    began = tmp_path / "h" / "workspace" / "began"
    async with asyncio.timeout(60):
        while not began.exists():
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not began.with_name("ended").exists()


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "command required"),
        ({"command": "ls"}, "command required"),
        ({"command": ["ls", "a\x00b"]}, "command required"),
        (sh("ls", env={"LD_PRELOAD": "x"}), "SYSTEM_RUN_DENIED"),
        (sh("ls", cwd="/nowhere"), "cwd is no directory"),
    ],
)
async def test_what_cannot_be_run_says_why(tmp_path: Path, params: dict[str, Any], words: str) -> None:
    with pytest.raises(NodeRefusal, match=words):
        await host(tmp_path, **OFF).answer("system.run", params)


async def test_where_nothing_holds_commands_it_is_said(tmp_path: Path) -> None:
    made = host(tmp_path, **OFF)
    assert made.surface.permissions == {CONTAINED: False}
    assert (await made.answer("system.run", sh("echo hi")))["stdout"] == "hi\n"  # its owner said that this is meant


async def test_devices_are_there_where_they_are_named(tmp_path: Path) -> None:
    assert host(tmp_path).surface.commands == ("system.run", "system.which", "system.notify")
    devices = {"camera": SHOW, "screen": SHOW, "recorder": SHOW, "location": SHOW}
    made = host(tmp_path, nodeHost={"devices": devices})
    assert set(made.surface.commands) > {
        "camera.snap",
        "camera.list",
        "screen.snapshot",
        "screen.record",
        "location.get",
    }
    assert set(made.surface.caps) == {"system", "camera", "screen", "location"}
    told = await made.answer("camera.snap", {"facing": "front"})
    assert base64.b64decode(told["base64"]) == b'{"facing":"front"}'
    assert await made.answer("location.get", {"lat": 1}) == {"lat": 1}
    broken = host(tmp_path, nodeHost={"devices": {"camera": ["/nowhere/camera"], "location": ["/bin/echo", "no"]}})
    for command in ("camera.snap", "location.get", "screen.record", "canvas.eval"):
        with pytest.raises(NodeRefusal) as found:
            await broken.answer(command, {})
        assert found.value.code == "UNAVAILABLE"


async def test_notices_reach_a_program_or_the_terminal(tmp_path: Path) -> None:
    lines: list[str] = []
    assert await host(tmp_path, lines).answer("system.notify", {"title": "Tea\x1b[2J", "body": "now"}) == {
        "shown": "terminal"
    }
    assert lines == ["notice: Tea[2J: now"]
    mark = tmp_path / "mark"
    note = ["/bin/sh", "-c", f'printf "%s|%s" "$1" "$2" > {mark}', "note"]
    made = host(tmp_path, nodeHost={"notify": note})
    assert await made.answer("system.notify", {"title": "$(touch x)", "body": "-b"}) == {"shown": "sh"}
    assert mark.read_text() == "$(touch x)|-b"
    with pytest.raises(NodeRefusal, match="title or body"):
        await made.answer("system.notify", {})


async def test_which(tmp_path: Path) -> None:
    told = await host(tmp_path).answer("system.which", {"bins": ["sh", "no-such-program", "../sh", 3]})
    assert list(told["bins"]) == ["sh"]
    with pytest.raises(NodeRefusal, match="bins required"):
        await host(tmp_path).answer("system.which", {})
