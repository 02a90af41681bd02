"""Programs that bring tools: what they see of us, what they may do, and that they end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from palinurus.app import mcp
from palinurus.core.types.tool import ToolFailure
from palinurus.tools.commands import descendants
from palinurus.tools.sandbox.probe import detect_support
from tools.mcp.kit import TINY, context, joined, settings, text


def variant(*flags: str) -> dict[str, object]:
    return {**TINY, "args": [*TINY["args"], *flags]}


async def test_it_sees_the_allowlist_and_what_was_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("LD_PRELOAD_TEST", "x")
    body = {**variant("--noise"), "env": {"TOKEN": "t"}}
    async with joined(tmp_path / "h", tiny=body) as (servers, table):
        seen = json.loads(text(await table["tiny__env"].run(context())))
        assert seen["TOKEN"] == "t" and "OPENAI_API_KEY" not in seen and "LD_PRELOAD_TEST" not in seen
        assert "sk-secret" not in str(seen)
        assert text(await table["tiny__change"].run(context(), ctx="mine")) == "changed {'ctx': 'mine'}"
        refused = await table["tiny__oops"].run(context())
        assert refused.is_error and "‹system›" in text(refused)
    assert "hello, people" in servers.all["tiny"].noise and "a warning" in servers.all["tiny"].noise


@pytest.mark.skipif(detect_support().best() == "none", reason="this machine cannot contain programs")
async def test_it_cannot_write_outside_its_cell_unless_that_was_opened(tmp_path: Path) -> None:
    shut, opened = tmp_path / "shut", tmp_path / "opened"
    shut.mkdir()
    opened.mkdir()
    body = {**TINY, "sandbox": {"write": [str(opened)]}}
    async with joined(tmp_path / "h", tiny=body, free={**TINY, "sandbox": False}) as (_, table):
        touch = table["tiny__touch"].run
        # where /tmp is the sandbox's own, a file may come to be there: it is not the one that was meant
        for place in (shut / "a", tmp_path / "h" / "a"):  # the second is in the state directory
            await touch(context(), path=str(place))
            assert not place.exists()
        assert text(await touch(context(), path=str(opened / "a"))) == "written"
        assert text(await table["free__touch"].run(context(), path=str(shut / "b"))) == "written"


async def test_a_line_beyond_all_measure_ends_the_connection_and_it_comes_back(tmp_path: Path) -> None:
    async with joined(tmp_path / "h", tiny=TINY) as (_, table):
        with pytest.raises(ToolFailure, match=r"went away during the call \(it sent a line of more than 16 MB\)"):
            await table["tiny__long"].run(context())
        assert text(await table["tiny__look"].run(context())) == "seen"


async def test_what_it_started_ends_with_it(tmp_path: Path) -> None:
    async with joined(tmp_path / "h", tiny=variant("--child")) as (_, table):
        seen = json.loads(text(await table["tiny__env"].run(context())))
        mark = f"PALINURUS_MCP={seen['PALINURUS_MCP']}"
        assert len(descendants.find_strays((mark,))) >= 2
    assert not descendants.find_strays((mark,))


async def test_what_a_killed_gateway_left_is_ended_at_the_next_start(tmp_path: Path) -> None:
    here = settings(tmp_path / "h", {"tiny": variant("--stay")})
    other = settings(tmp_path / "other", {"tiny": variant("--stay")})
    launch = mcp.McpLauncher(here, os.environ, "")(here.mcp.servers["tiny"])
    left = await asyncio.create_subprocess_exec(*launch.argv, env=dict(launch.env), stdin=asyncio.subprocess.PIPE)
    mcp.kill_stray_servers(other)
    await asyncio.sleep(0.05)
    assert left.returncode is None  # not ours
    mcp.kill_stray_servers(here)
    async with asyncio.timeout(60):
        assert await left.wait() == -signal.SIGKILL


async def test_a_command_that_is_not_there_and_one_that_fails_are_told(tmp_path: Path) -> None:
    async with joined(tmp_path / "h", a={"command": "no-such-program"}, b=variant("--fail")) as (servers, table):
        assert servers.all["a"].problem == "no-such-program is not there"
        assert servers.all["b"].problem == "the connection was closed"
        assert "Permission denied" in servers.all["b"].noise and not table


@pytest.mark.parametrize(
    ("flags", "start", "words"),
    [
        (("--babble",), 60_000, "what it prints is not MCP"),
        (("--babble", "--stay"), 1_000, "it did not start within 1 s: what it prints is not MCP"),
    ],
)
async def test_a_program_that_does_not_speak_mcp_is_told_as_such(
    tmp_path: Path, flags: tuple[str, ...], start: int, words: str
) -> None:
    body = {**variant(*flags), "connectionTimeoutMs": start}
    async with joined(tmp_path / "h", tiny=body) as (servers, _):
        assert servers.all["tiny"].problem == words
        assert servers.all["tiny"].noise == "usage: tiny [OPTIONS]\n"  # of the last start only
