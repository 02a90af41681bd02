from __future__ import annotations

import asyncio
import os
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from palinurus.cli.tui.terminal import OUTPUT, UserShell, make_driver

ENV = {"SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}


async def test_output_comes_as_it_is_printed_and_the_end_of_a_long_one_is_kept() -> None:
    shell, heard = UserShell(ENV), list[str]()
    assert await shell.run("echo out; echo err >&2; exit 3", heard.append) == 3
    assert heard[-1] == "out\nerr\n" and not shell.busy
    assert await shell.run(f"head -c {OUTPUT + 100} /dev/zero | tr '\\0' x; printf end", heard.append) == 0
    assert len(heard[-1]) == OUTPUT and heard[-1].endswith("end")


async def test_stopping_ends_the_line_and_its_children() -> None:
    shell, started = UserShell(ENV), asyncio.Event()
    running = asyncio.ensure_future(shell.run("echo go; (sleep 60; echo late) & wait", lambda _: started.set()))
    await asyncio.wait_for(started.wait(), 60)
    shell.stop()
    assert await asyncio.wait_for(running, 60) < 0  # also what holds the pipe is gone


async def test_leaving_in_the_middle_leaves_nothing_behind() -> None:
    shell, heard = UserShell(ENV), list[str]()
    running = asyncio.ensure_future(shell.run("echo $$; exec sleep 60", heard.append))
    while not heard:
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not shell.busy


async def test_no_shell_is_an_error_that_says_so() -> None:
    with pytest.raises(OSError):
        await UserShell({"SHELL": "/no/such/shell"}).run("x", lambda _: None)


def test_nobody_reads_on_from_a_terminal_that_is_gone() -> None:
    """It answers at once, with nothing: whoever asks again takes a whole processor."""
    early: Any = SimpleNamespace(ready=threading.Event(), take=lambda: "", mode=None)
    early.ready.set()
    kind: Any = make_driver(early, SimpleNamespace(feed=lambda text: text))  # type: ignore[arg-type]
    driver = kind.__new__(kind)
    driver.exit_event, (driver.fileno, writing) = threading.Event(), os.pipe()
    os.close(writing)
    reader = threading.Thread(target=driver.run_input_thread, daemon=True)
    reader.start()
    reader.join(30)
    try:
        assert not reader.is_alive()
    finally:
        driver.exit_event.set()
        reader.join()
        os.close(driver.fileno)
