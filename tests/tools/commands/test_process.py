"""The process tool on real commands: pipes, terminals, logs, ends."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from descriptors import count_open
from palinurus.core.types.messages import ToolCall
from palinurus.plugins.hooks import Hooks
from palinurus.testing.clock import FakeClock
from palinurus.tools.call import call_tool
from palinurus.tools.collect import make_builtin_tools
from palinurus.tools.commands.descendants import list_processes as alive
from palinurus.tools.commands.table import RUNNING, CommandTable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")


async def started(do: Any, command: str, **args: Any) -> str:
    """The session id of a command in the background."""
    result = await do("exec", command=command, **{"background": True, **args})
    assert not result.isError and result.details["status"] == "running", result.text
    ident = result.details["sessionId"]
    assert isinstance(ident, str)
    return ident


async def polled(do: Any, ident: str, until: str) -> str:
    """All that was printed, until it holds `until`: first lines may have come with the starting call."""
    seen: str = (await do("process", action="log", sessionId=ident)).text
    for _ in range(200):
        if until in seen:
            return seen
        seen += (await do("process", action="poll", sessionId=ident, timeout=5000)).text
    raise AssertionError(f"never saw {until!r} in {seen!r}")


async def finished(do: Any, ident: str) -> Any:
    for _ in range(100):
        result = await do("process", action="poll", sessionId=ident, timeout=30_000)
        if result.details["status"] != "running":
            return result
    raise AssertionError("it does not end")


async def gone(pid: int) -> bool:
    for _ in range(4000):
        if pid not in alive():
            return True
        await asyncio.sleep(0.005)
    return False


@pytest.mark.seed(275)
async def test_a_command_that_takes_longer_goes_on_and_is_polled(do: Any, workspace: Path) -> None:
    result = await do("exec", command="echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; exit 3", yieldMs=300)
    details = result.details
    assert details["status"] == "running" and details["tail"] == "one" and details["cwd"] == str(workspace)
    assert result.text.startswith("one\n\nCommand still running (session ")
    assert f"pid {details['pid']}" in result.text and details["pid"] in alive() and details["startedAt"] == 1234
    again = await do("process", action="poll", sessionId=details["sessionId"])
    assert again.text.startswith("(no new output)\n\n") and "still running" in again.text
    (workspace / "go").touch()
    end = await finished(do, details["sessionId"])
    assert end.text == "two\n\n(exit code 3)"
    assert (end.details["status"], end.details["exitCode"], end.isError) == ("completed", 3, False)


async def test_yield_is_clamped_to_ten_milliseconds_and_background_does_not_wait(do: Any) -> None:
    for args in ({"yieldMs": -5}, {"yieldMs": 0}, {"background": True}):
        assert (await do("exec", command="sleep 100", **args)).details["status"] == "running"


async def test_without_the_process_tool_everything_is_waited_for(do: Any, ctx: Any) -> None:
    ctx.set(background=False)
    result = await do("exec", command="sleep 0.1; echo done", yieldMs=10, background=True)
    assert (result.text, result.details["status"]) == ("done", "completed")


async def test_the_hint_grows_while_nothing_comes(do: Any) -> None:
    ident = await started(do, "sleep 100")
    hints = [(await do("process", action="poll", sessionId=ident)).details["retryInMs"] for _ in range(5)]
    assert hints == [5000, 10_000, 30_000, 60_000, 60_000]


async def test_list_shows_the_sessions_own_and_nobody_elses(do: Any, ctx: Any) -> None:
    assert (await do("process", action="list")).text == "No running or recent sessions."
    one, two = await started(do, "sleep 100"), await started(do, "true")
    await finished(do, two)
    shown = await do("process", action="list")
    assert [(r["sessionId"], r["status"]) for r in shown.details["sessions"]] == [(one, "running"), (two, "completed")]
    assert re.match(rf"{one}  running    \ds  sleep 100\n{two}  completed", shown.text)
    ctx.session = "agent:main:subagent:1"
    assert (await do("process", action="list")).details["sessions"] == []
    for action in ("poll", "log", "kill", "remove", "write", "clear", "submit"):
        result = await do("process", action=action, sessionId=one)
        assert result.isError and "no session" in result.text
    ctx.session = "agent:main:main"
    assert (await do("process", action="poll", sessionId=one)).details["status"] == "running"


async def test_input_through_a_pipe(do: Any) -> None:
    ident = await started(do, 'read a; echo "got $a"; cat | tr a-z A-Z')
    await do("process", action="submit", sessionId=ident, data="hello")
    assert "got hello" in await polled(do, ident, "got hello")
    result = await do("process", action="write", sessionId=ident, data="more\n" * 20_000, eof=True)
    assert result.text == f"Wrote 100000 bytes to session {ident} and closed its input."
    end = await finished(do, ident)
    assert end.details["exitCode"] == 0 and end.text.count("MORE") > 3000 and "bytes left out" in end.text
    again = await do("process", action="write", sessionId=ident, data="x")
    assert again.isError and "has ended" in again.text


async def test_a_closed_input_says_so(do: Any) -> None:
    result = await do("exec", command="sleep 100", yieldMs=10)
    for action in ("write", "submit", "paste", "send-keys"):
        said = await do("process", action=action, sessionId=result.details["sessionId"], data="x", keys=["Enter"])
        assert said.isError and "input of session" in said.text and "pty or background" in said.text


async def test_a_child_that_never_reads_its_input(do: Any) -> None:
    ident = await started(do, "sleep 100")
    results = [await do("process", action="write", sessionId=ident, data="x" * 400_000) for _ in range(4)]
    assert not results[0].isError
    assert results[-1].isError and "does not read its input" in results[-1].text


# terminals


@pytest.mark.seed(275)
async def test_a_python_prompt_in_a_terminal(do: Any) -> None:
    ident = await started(do, f"exec {sys.executable} -q -i -c 'import sys'", pty=True)
    await polled(do, ident, ">>>")
    await do("process", action="submit", sessionId=ident, data="print(6 * 7, sys.stdin.isatty())")
    assert "42 True" in await polled(do, ident, "42 True")
    await do("process", action="submit", sessionId=ident, data="import time; time.sleep(1000)")
    await polled(do, ident, "sleep(1000)")
    await do("process", action="send-keys", sessionId=ident, keys=["C-c"])
    assert "KeyboardInterrupt" in await polled(do, ident, "KeyboardInterrupt")
    await do("process", action="write", sessionId=ident, eof=True)
    end = await finished(do, ident)
    assert end.details["status"] in ("completed", "failed")  # Python ends itself by SIGINT after a KeyboardInterrupt


async def test_a_question_of_bash_and_the_size_of_the_terminal(do: Any) -> None:
    ident = await started(do, "stty size; tty >/dev/null && echo terminal; read -p 'Name? ' n </dev/tty; echo \"<$n>\"",
                          pty=True)  # fmt: skip
    seen = await polled(do, ident, "Name?")
    assert "30 120" in seen and "terminal" in seen
    await do("process", action="send-keys", sessionId=ident, literal="Aeneaz", keys=["BSpace", "s", "Enter"])
    assert "<Aeneas>" in await polled(do, ident, "<Aeneas>")


async def test_control_c_ends_a_command_in_a_terminal(do: Any) -> None:
    ident = await started(do, "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.05; done", pty=True)
    await polled(do, ident, "ready")
    await do("process", action="send-keys", sessionId=ident, hex=["03"])
    end = await finished(do, ident)
    assert "caught" in end.text and end.details["exitCode"] == 7


async def test_a_program_that_asks_where_the_cursor_is_gets_an_answer(do: Any) -> None:
    ask = r"stty raw -echo; printf '\033[6n'; dd bs=1 count=6 2>/dev/null | od -An -c | tr -d ' \n'; stty sane; echo"
    assert "[1;1R" in await polled(do, await started(do, ask, pty=True), "R")


async def test_a_paste_is_marked_and_cannot_be_broken_out_of(do: Any) -> None:
    ident = await started(
        do, "stty raw -echo; echo go; head -c 24 | od -An -c | tr -d ' \\n'; stty sane; echo", pty=True
    )
    await polled(do, ident, "go")
    await do("process", action="paste", sessionId=ident, text="ab\x1b[201~cd\nef rest")
    assert "033[200~abcd\\nefrest033[201~" in (await finished(do, ident)).text


async def test_unknown_keys_are_sent_as_text_and_said(do: Any) -> None:
    ident = await started(do, "cat", pty=True)
    result = await do("process", action="send-keys", sessionId=ident, keys=["Hyper-Q", "Enter"])
    assert "No key is called Hyper-Q; sent as text." in result.text
    await polled(do, ident, "Hyper-Q")
    bad = await do("process", action="send-keys", sessionId=ident, hex=["zz"])
    assert bad.isError and "no hex byte" in bad.text
    assert (await do("process", action="send-keys", sessionId=ident)).isError


async def test_a_foreground_terminal(do: Any) -> None:
    result = await do("exec", command="tty >/dev/null && echo $TERM; exit 4", pty=True)
    assert result.text == "xterm-256color\n\n(exit code 4)" and result.details["status"] == "completed"


# the log


async def test_the_log_shows_the_last_lines_and_pages(do: Any) -> None:
    ident = await started(do, "seq 1 500")
    await finished(do, ident)
    last = await do("process", action="log", sessionId=ident)
    assert last.text.startswith("301\n302\n") and "[lines 301 to 500 of 500;" in last.text
    assert last.details["totalLines"] == 500
    middle = await do("process", action="log", sessionId=ident, offset=10, limit=3)
    assert middle.text.startswith("11\n12\n13\n\n") and "[lines 11 to 13 of 500;" in middle.text
    rest = await do("process", action="log", sessionId=ident, offset=498)
    assert rest.text.startswith("499\n500\n\n")
    tail = await do("process", action="log", sessionId=ident, limit=2)
    assert tail.text.startswith("499\n500\n\n")
    beyond = await do("process", action="log", sessionId=ident, offset=9000)
    assert beyond.text.startswith("(no output)")
    assert (await do("process", action="log", sessionId=await started(do, "sleep 50"))).details["totalLines"] == 0


async def test_a_flood_is_bounded_and_the_rest_goes_on(do: Any, processes: CommandTable) -> None:
    ident = await started(do, "yes 0123456789abcde.")
    await asyncio.sleep(0.5)
    held = processes.find("agent:main:main", ident)
    assert held is not None and held.kept.total > 1_000_000
    result = await do("process", action="poll", sessionId=ident)
    assert len(result.text) < 40_000 and "left out" in result.text
    assert len(held.kept.text()) < 1_010_000 and len((await do("process", action="log", sessionId=ident)).text) < 20_000
    assert (await do("exec", command="echo still here")).text == "still here"
    await do("process", action="kill", sessionId=ident)


# the end


ESCAPED = "(setsid sh -c 'echo $$ > pid; trap \"\" TERM HUP; while :; do sleep 0.05; done' >/dev/null 2>&1 &)"


@pytest.mark.parametrize("pty", [False, True])
async def test_kill_ends_double_forkers_too(do: Any, workspace: Path, pty: bool) -> None:
    ident = await started(do, f"{ESCAPED}\nsleep 1000", pty=pty)
    while not (workspace / "pid").exists() or not (workspace / "pid").read_text():
        await asyncio.sleep(0.005)
    pid = int((workspace / "pid").read_text())
    result = await do("process", action="kill", sessionId=ident)
    assert result.text == f"Killed session {ident}, with all it had started."
    assert (result.details["status"], result.details["reason"]) == ("failed", "killed")
    assert await gone(pid)
    assert "had ended already" in (await do("process", action="kill", sessionId=ident)).text


async def test_a_timeout_covers_the_background(do: Any, workspace: Path) -> None:
    ident = await started(do, "echo begun; sleep 1000 & echo $! > pid; wait", timeout=3)
    end = await finished(do, ident)
    assert "timed out after 3 seconds" in end.text and end.isError
    assert (end.details["status"], end.details["reason"], end.details["exitCode"]) == ("failed", "timeout", None)
    assert await gone(int((workspace / "pid").read_text()))


async def test_clear_takes_the_finished_and_remove_everything(do: Any) -> None:
    ident = await started(do, "sleep 1000")
    assert "kill it first" in (await do("process", action="clear", sessionId=ident)).text
    assert (await do("process", action="remove", sessionId=ident)).text == f"Removed session {ident}."
    assert "no session" in (await do("process", action="poll", sessionId=ident)).text
    ident = await started(do, "true")
    await finished(do, ident)
    assert (await do("process", action="clear", sessionId=ident)).text == f"Cleared session {ident}."
    assert (await do("process", action="list")).details["sessions"] == []


@pytest.mark.parametrize("args", [{"action": "poll"}, {"action": "dance", "sessionId": "x"}, {}])
async def test_refusals(do: Any, args: dict[str, Any]) -> None:
    assert (await do("process", **args)).isError


async def test_stopping_the_run_ends_what_is_waited_for_and_not_what_went_on(do: Any, workspace: Path) -> None:
    ident = await started(do, "echo $$ > back; sleep 1000")
    task = asyncio.ensure_future(do("exec", command="echo $$ > front; sleep 1000"))
    while not all((workspace / n).exists() and (workspace / n).read_text() for n in ("back", "front")):
        await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await gone(int((workspace / "front").read_text()))
    assert int((workspace / "back").read_text()) in alive()
    assert (await do("process", action="poll", sessionId=ident)).details["status"] == "running"


async def test_a_real_test_suite_in_the_background(do: Any, workspace: Path) -> None:
    (workspace / "test_it.py").write_text(
        "import time\ndef test_a():\n    time.sleep(0.3)\ndef test_b():\n    assert 1 == 2\n"
    )
    pytest_command = f"{sys.executable} -m pytest -q -p no:cacheprovider -p no:xdist test_it.py"
    ident = await started(do, pytest_command, env={"NODE_ENV": "test"})
    end = await finished(do, ident)
    log = await do("process", action="log", sessionId=ident)
    assert "1 failed, 1 passed" in log.text and end.details["exitCode"] == 1


async def test_too_many_at_once_are_refused(do: Any) -> None:
    for _ in range(RUNNING):
        await started(do, "sleep 1000")
    refused = await do("exec", command="true")
    assert refused.isError and "commands of this session are running" in refused.text


async def test_finished_ones_are_kept_for_a_while(ctx: Any) -> None:
    clock = FakeClock(0)
    table = CommandTable(clock=clock)
    made = table_do(table, ctx)
    ident = await started(made, "true")
    await finished(made, ident)
    await clock.advance(1799)
    assert table.find(ctx.session, ident) is not None
    await clock.advance(1)
    assert table.find(ctx.session, ident) is None and table.all() == ()


def table_do(table: CommandTable, ctx: Any) -> Any:
    tools = make_builtin_tools(table)

    async def one(name: str, **args: Any) -> Any:
        return await call_tool(ToolCall("c", name, args), tools, ctx, Hooks())

    return one


async def test_what_runs_is_seen_from_outside(do: Any, processes: CommandTable, workspace: Path) -> None:
    ident = await started(do, "sleep 1000", pty=True)
    (row,) = processes.all()
    assert (row.id, row.session, row.agent, row.command, row.cwd) == (
        ident,
        "agent:main:main",
        "main",
        "sleep 1000",
        str(workspace),
    )
    assert row.pid in alive() and row.status == "running" and row.code is None and row.background and row.pty


async def test_nothing_is_left_open(do: Any) -> None:
    await do("exec", command="true")
    before = count_open()
    for pty in (False, True) * 5:
        await finished(do, await started(do, "echo x", pty=pty))
    assert count_open() == before
