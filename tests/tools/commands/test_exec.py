"""exec with real processes: what it returns, what it leaves behind (nothing), and what it does not give away."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import sys
from pathlib import Path
from typing import Any

import pytest

from descriptors import count_open

BEGUN = 3  # seconds in which a shell has come so far, also on a busy machine
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")


async def pid_in(path: Path) -> int:
    """The pid a command wrote into a file, as soon as it is there."""
    for _ in range(12_000):
        if path.exists() and (text := path.read_text()).endswith("\n"):
            return int(text)
        await asyncio.sleep(0.005)
    raise AssertionError("the command never wrote its pid")


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


async def gone(pid: int) -> bool:
    """A killed process is not gone at once; it may take the kernel a moment."""
    for _ in range(4000):
        if not runs(pid):  # looking at all that run takes long on a busy machine
            return True
        await asyncio.sleep(0.005)
    return False


async def test_output_and_details(do: Any, workspace: Path) -> None:
    result = await do("exec", command="echo out; echo err >&2; pwd")
    assert result.text == f"out\nerr\n{workspace}"
    assert not result.isError
    details = result.details
    assert (details["status"], details["exitCode"], details["cwd"]) == ("completed", 0, str(workspace))
    assert details["aggregated"].startswith("out\nerr\n") and details["durationMs"] >= 0


@pytest.mark.parametrize(
    ("command", "text", "code"),
    [
        ("true", "(no output)", 0),
        ("exit 3", "(no output)\n\n(exit code 3)", 3),
        ("echo x; exit 255", "x\n\n(exit code 255)", 255),
        ("no-such-command-here 2>/dev/null", "(no output)\n\n(exit code 127)", 127),
        ("cat", "(no output)", 0),  # stdin is empty, nothing waits for input
    ],
)
async def test_exit_codes(do: Any, command: str, text: str, code: int) -> None:
    result = await do("exec", command=command)
    assert (result.text, result.details["exitCode"], result.isError) == (text, code, False)


async def test_signals(do: Any) -> None:
    result = await do("exec", command="echo x; kill -9 $$")
    assert result.isError and "ended by signal SIGKILL" in result.text and result.text.startswith("x")
    assert (result.details["status"], result.details["reason"]) == ("failed", "signal")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"command": "  "}, "command is empty"),
        ({"command": "a\x00b"}, "NUL"),
        ({"command": "x" * 130_000}, "write it to a file"),
        ({"command": "true", "timeout": -1}, "timeout must be"),
        ({"command": ["ls"]}, "expected a string"),
        ({"command": "true", "env": {"LD_PRELOAD": "/x.so"}}, "LD_PRELOAD may not be set"),
        ({"command": "true", "env": {"bash_env": "x"}}, "bash_env may not be set"),
        ({"command": "true", "env": {"A B": "x"}}, "no name"),
    ],
)
async def test_refusals(do: Any, args: dict[str, Any], says: str) -> None:
    result = await do("exec", **args)
    assert result.isError and says in result.text


async def test_a_shell_that_is_not_there(do: Any, ctx: Any) -> None:
    ctx.set(shell="/no/such/shell")
    result = await do("exec", command="true")
    assert result.isError and "could not be started" in result.text


async def test_workdir(do: Any, workspace: Path) -> None:
    (workspace / "sub").mkdir()
    assert (await do("exec", command="pwd", workdir="sub")).text == f"{workspace}/sub"
    assert (await do("exec", command="pwd", cwd="/")).text == "/"
    assert (await do("exec", command="pwd", workdir="~")).text == str(workspace)
    result = await do("exec", command="pwd", workdir="nope")
    assert result.text == f"Warning: nope is no directory; ran in {workspace}\n\n{workspace}"


async def test_the_environment_is_what_was_declared_and_nothing_of_ours(
    do: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "LD_DEBUG_CANARY", "BASH_ENV", "PYTHONSTARTUP", "GIT_SSH_COMMAND", "PAGER"):
        monkeypatch.setenv(name, "canary-env-91")
    result = await do("exec", command="env; tr '\\0' '\\n' </proc/self/environ", env={"DECLARED": "yes"})
    assert "canary-env-91" not in result.text
    names = {line.partition("=")[0] for line in result.text.splitlines()}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == {
        "PATH",
        "TERM",
        "HOME",
        "DECLARED",
        "OPENCLAW_SHELL",
        "PALINURUS_CALL",
    }
    assert "OPENCLAW_SHELL=exec" in result.text and "DECLARED=yes" in result.text


async def test_no_handle_of_ours_reaches_the_child(do: Any) -> None:
    with open("/dev/null") as extra:
        os.set_inheritable(extra.fileno(), True)
        result = await do("exec", command="ls /proc/self/fd | wc -l")
    assert int(result.text) <= 4  # 0, 1, 2 and ls's own


async def test_timeout_ends_everything(do: Any, workspace: Path) -> None:
    result = await do("exec", command="echo begun; sleep 1000 & echo $! > pid; wait", timeout=BEGUN)
    assert result.isError and "timed out after 3 seconds" in result.text and result.text.startswith("begun")
    assert (result.details["status"], result.details["reason"]) == ("failed", "timeout")
    assert await gone(int((workspace / "pid").read_text()))


async def test_the_default_timeout_is_the_settings(do: Any, ctx: Any) -> None:
    ctx.set(exec_timeout=0.2)
    assert "timed out after 0.2" in (await do("exec", command="sleep 1000")).text
    assert (await do("exec", command="sleep 0.4; echo done", timeout=0)).text == "done"


async def test_a_child_that_ignores_sigterm(do: Any, workspace: Path) -> None:
    command = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done"
    result = await do("exec", command=command, timeout=BEGUN)
    assert "timed out" in result.text
    assert await gone(int((workspace / "pid").read_text()))


async def test_a_child_gets_the_chance_to_clean_up(do: Any, workspace: Path) -> None:
    await do("exec", command="trap 'echo cleaned > trace; exit' TERM; while :; do sleep 0.05; done", timeout=BEGUN)
    assert (workspace / "trace").read_text() == "cleaned\n"


ESCAPED = {
    "own session": "setsid sh -c 'echo $$ > pid; exec sleep 1000' & wait",
    "daemon": "(setsid sh -c 'echo $$ > pid; trap \"\" TERM HUP; while :; do sleep 0.05; done' >/dev/null 2>&1 &)\n"
    "sleep 1000",
}


@pytest.mark.parametrize("how", ESCAPED)
async def test_descendants_that_left_the_group_die_too(do: Any, workspace: Path, how: str) -> None:
    task = asyncio.ensure_future(do("exec", command=ESCAPED[how], timeout=600))
    pid = await pid_in(workspace / "pid")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await gone(pid)


async def test_cancel_kills_and_reaps(do: Any, workspace: Path) -> None:
    command = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done"
    task = asyncio.ensure_future(do("exec", command=command))
    pid = await pid_in(workspace / "pid")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(60):
        while os.path.exists(f"/proc/{pid}"):  # reaped: not even a zombie stays
            await asyncio.sleep(0.005)


async def test_cancelled_twice_still_kills(do: Any, workspace: Path) -> None:
    task = asyncio.ensure_future(do("exec", command="trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done"))
    pid = await pid_in(workspace / "pid")
    task.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await gone(pid)


@pytest.mark.parametrize(
    "leave",
    [
        "(trap '' TERM; sleep 1000) & echo $! > pid",
        "sleep 1000 >/dev/null 2>&1 & echo $! > pid",
        "setsid sh -c 'echo $$ > pid; exec sleep 1000' >/dev/null 2>&1 & while [ ! -s pid ]; do sleep 0.01; done",
        "(setsid env -i /bin/sh -c '(echo $$ > pid; exec /bin/sleep 1000) >/dev/null 2>&1 &' &); "
        "while [ ! -s pid ]; do sleep 0.01; done",
    ],
    ids=["holds-output", "detached", "own-session", "daemon-without-marks"],
)
async def test_nothing_outlives_its_command(do: Any, workspace: Path, leave: str) -> None:
    """Issue 21, F6: whatever it left, however it hides, is gone with the result, and the model is told."""
    result = await do("exec", command=f"echo before; {leave}; echo after")
    assert result.text.startswith("before\nafter\n") and not result.isError
    assert "was ended with it (1 processes)" in result.text and "background: true" in result.text
    assert not runs(int((workspace / "pid").read_text()))


async def test_long_output_has_its_end_and_what_is_left_out_can_be_read(do: Any, ctx: Any, tmp_path: Path) -> None:
    """Issue 27, finding 17: also where it ends well and its end says nothing in particular."""
    ctx.set(result_chars=64_000, results=f"{tmp_path}/s.jsonl.result-")
    result = await do("exec", command="seq 1 100000")
    assert result.text.startswith("1\n2\n3\n") and result.text.endswith("\n99999\n100000")
    assert 30_000 < len(result.text) <= 32_000  # a command does not take all that a result may
    hint = re.search(r'read path="(result:\w+)" offset=(\d+)', result.text)
    assert hint is not None and f"\n{hint[2]}\n[…" in result.text
    for first in (int(hint[2]), 50_000, 90_000):
        page = await do("read", path=hint[1], offset=first, limit=3)
        assert page.text.startswith(f"{first}\n{first + 1}\n{first + 2}\n")


async def test_a_line_of_three_hundred_megabytes(do: Any) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await do("exec", command="head -c 300000000 /dev/zero | tr '\\0' '.'", yieldMs=120_000)
    assert "bytes left out" in result.text or "characters left out" in result.text
    assert result.text.startswith("...") and len(result.text) < 20_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KB


async def test_endless_output_and_a_timeout(do: Any, ctx: Any) -> None:
    result = await do("exec", command="yes", timeout=0.3)
    assert "timed out" in result.text and len(result.text) < ctx.settings.result_chars + 200


async def test_binary_output(do: Any) -> None:
    assert (await do("exec", command="head -c 1000 /dev/zero")).text.startswith("[binary output, 1000 bytes")
    assert (await do("exec", command="printf 'ok \\377 \\033[1mbold\\033[0m'")).text == "ok \ufffd bold"


async def test_progress(do: Any, ctx: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    def show(partial: str) -> None:
        shown.append(partial)
        (workspace / "go").touch()

    monkeypatch.setattr(ctx, "update", show)
    result = await do("exec", command="echo one; while [ ! -e go ]; do sleep 0.01; done; echo two")
    assert result.text == "one\ntwo"
    assert shown[0] == "one\n"  # seen while the command was still running: it waited for that


async def test_many_at_once_leave_nothing_open(do: Any) -> None:
    before = count_open()
    results = await asyncio.gather(*(do("exec", command=f"echo {i}") for i in range(30)))
    assert [r.text for r in results] == [str(i) for i in range(30)]
    assert count_open() == before
