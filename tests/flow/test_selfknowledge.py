"""The agent knows itself: `pal` in its own commands is answered by the program that runs it, which lets it look and no
more, or it says that it cannot know."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from nursery import run_program
from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.core.policy.looking import list_looks
from palinurus.core.types.inbound import Sender
from palinurus.core.types.messages import ToolResult
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, call_tools, say
from palinurus.tools.sandbox.probe import detect_support
from support import inbound

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="containment is Linux's"),
    pytest.mark.skipif(detect_support().landlock < 6, reason="needs Landlock of kernel 6.12"),
]
SECRETS = {
    "models": {
        "providers": {"fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "canary-key", "models": [{"id": "m"}]}}
    },
    "gateway": {"port": 18999, "auth": {"mode": "token", "token": "canary-token"}},
    "channels": {"webhook": {"enabled": False, "secret": "canary-hook", "url": "http://u:canary-pw@127.0.0.1:9/"}},
    "env": {"CANARY_VARIABLE": "canary-env"},
}


def contained(kind: str) -> dict[str, Any]:
    if kind == "bubblewrap" and not detect_support().bubblewrap:
        pytest.skip("bubblewrap does not work here")
    return {"contain": kind}


@asynccontextmanager
async def running(
    home: Path, model: ScriptedModel, channel: FakeChannel, sandbox: dict[str, Any]
) -> AsyncIterator[App]:
    home.mkdir(exist_ok=True)
    agents = {"defaults": {"model": {"primary": "fake/m"}, "sandbox": sandbox}}
    (home / "palinurus.json").write_text(json.dumps({**SECRETS, "agents": agents}))
    environ = {"HOME": str(home.parent / "user")}
    (home.parent / "user").mkdir(exist_ok=True)
    settings = load_config(str(home), environ).settings
    app = App(settings, environ, SystemClock(), model=model, channels={channel.name: channel})
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


async def told(home: Path, *commands: str, kind: str = "landlock", owner: bool = True, **extra: Any) -> list[str]:
    """What commands of a turn said."""
    turns = [call_tools(("exec", {"command": command, "yieldMs": 120_000, **extra})) for command in commands]
    model, channel = ScriptedModel([*turns, say("done")]), FakeChannel()
    sender = Sender("human", owner=True) if owner else Sender("phone", scopes=("operator.write",))
    async with running(home, model, channel, contained(kind)) as app:
        await app.wait((await app.submit(inbound("go", event=uuid.uuid4().hex, sender=sender))).id)
    return [m.text for m in model.requests[-1].messages if isinstance(m, ToolResult)][-len(commands) :]


@pytest.mark.parametrize("kind", ["landlock", "bubblewrap"])
async def test_status_from_inside_is_that_of_the_program_itself(tmp_path: Path, kind: str) -> None:
    home = tmp_path / "state"
    status, sessions, both = await told(
        home,
        "pal status --json || true",
        "pal sessions list",
        "pal status > a & pal usage > b & wait; head -c 30 a; cat b",  # side by side
        kind=kind,
    )
    shown = json.loads(status[: status.rindex("}") + 1])
    assert shown["home"] == str(home) and shown["sessions"] == 1 and shown["running"] == 1
    assert shown["model"] == "fake/m" and not shown["gateway"]  # no gateway here, and it says so of the right port
    assert "18999" in shown["address"] and "agent:main:main" in sessions
    assert "Palinurus" in both and "fake/m" in both


async def test_in_a_terminal_in_the_background_and_outside_the_sandbox_too(tmp_path: Path) -> None:
    home = tmp_path / "state"
    (seen,) = await told(home, "pal config explain gateway.port", pty=True)
    assert "18999" in seen
    (outside,) = await told(home, "pal config explain gateway.port", kind="off")
    assert "18999" in outside


# One interpreter for all lines: what each would load anew is not what is asked here.
EACH = """
import shlex, sys
from palinurus.cli.main import main
for line in sys.argv[1:]:
    print("==", line, flush=True)
    try:
        main(shlex.split(line)[1:])
    except SystemExit:
        pass
"""


SHOWS = ("pal policy explain exec", "pal config get env", "pal config get gateway --json", "pal config get models",
         "pal config get channels", "pal config explain gateway.auth.token")  # fmt: skip


async def test_no_look_shows_a_secret(tmp_path: Path) -> None:
    """Of all that may be asked. Asked here as the program does it for whoever is inside."""
    home = tmp_path / "state"
    looks = [line for line in list_looks() if line.split()[-1] not in ("explain", "get", "info", "why")]
    environ = {"HOME": str(tmp_path / "user"), "PATH": os.environ["PATH"], "PALINURUS_HOME": str(home), "NO_COLOR": "1"}
    async with running(home, ScriptedModel([]), FakeChannel(), {}):
        for line in (*looks, *SHOWS):
            done = await asyncio.to_thread(run_program, *shlex.split(line)[1:], env=environ, cwd=str(home))
            said = done.stdout + done.stderr
            assert said and "canary" not in said and "Traceback" not in said, line


async def test_inside_it_can_only_look_and_sees_no_secret(tmp_path: Path) -> None:
    home = tmp_path / "state"
    lines = ["pal status", "pal doctor", *SHOWS[1:3]]
    (everything,) = await told(home, shlex.join([sys.executable, "-c", EACH, *lines]))
    assert "canary" not in everything
    assert everything.count("== pal") == len(lines) and "cannot be known" not in everything

    refused = await told(
        home,
        "pal config set gateway.port 1",
        "pal config get gateway.auth.token --reveal",
        "pal doctor --fix",
        "pal sessions show main",
        "pal agent -m hello",
        "pal",
    )
    assert all("can only look" in text and "exit code 77" in text for text in refused), refused
    assert json.loads((home / "palinurus.json").read_text())["gateway"]["port"] == 18999


async def test_turns_of_others_cannot_ask(tmp_path: Path) -> None:
    home = tmp_path / "state"
    status, variable = await told(home, "pal status", "echo [$PALINURUS_LOOK]", owner=False)
    assert "cannot be known from in here" in status and "sessions" not in status
    assert "[]" in variable


async def test_who_names_a_home_means_that_one(tmp_path: Path) -> None:
    (status,) = await told(tmp_path / "state", "PALINURUS_HOME=$HOME/other pal status; pal --version; pal status -h")
    assert "cells/main/home/other" in status and "palinurus 0" in status and "usage: pal status" in status


def test_a_program_that_is_gone_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    """The handle of a killed gateway: the other end is closed."""
    line = (
        "import os, socket, subprocess, sys; ours, theirs = socket.socketpair(); ours.close();"
        "env = {**os.environ, 'OPENCLAW_SHELL': 'exec', 'PALINURUS_LOOK': str(theirs.fileno())};"
        "sys.exit(subprocess.run([sys.executable, '-m', 'palinurus', 'status'], env=env,"
        " pass_fds=[theirs.fileno()]).returncode)"
    )
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin"}
    done = subprocess.run([sys.executable, "-c", line], env=environ, capture_output=True, text=True, timeout=120)
    assert done.returncode == 69 and "does not answer any more" in done.stderr and not done.stdout
    assert not (tmp_path / ".palinurus").exists()
