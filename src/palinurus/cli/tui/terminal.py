"""What the screen has to do with the terminal itself: it takes over a prompt that stands already, gives way to an
editor, ends with the terminal, and runs `!line`, a line for this machine's shell, with the rights of who typed it.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import select
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping

from textual._xterm_parser import XTermParser
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver

from palinurus.cli.tui.early import ALTERNATE, EarlyPrompt
from palinurus.cli.tui.paste import ASK_PICTURE, ClipboardReplies

LISTEN = 0.1  # seconds between looks whether the screen ends
CONSENT = 30.0  # seconds for the person to allow the terminal to hand over its clipboard


def make_driver(early: EarlyPrompt, replies: ClipboardReplies) -> type[LinuxDriver]:
    """Textual's driver, on a screen on which somebody may have typed already."""

    class TakingDriver(LinuxDriver):
        """The first time it finds the other screen open, and leaves what stands there until there is something new."""

        _open = True

        def write(self, data: str) -> None:
            if self._open and data == ALTERNATE:
                self._open = False
            else:
                super().write(data)

        def start_application_mode(self) -> None:
            super().start_application_mode()  # type: ignore[no-untyped-call]
            self.attrs_before = early.mode  # for an editor, and at the end

        def run_input_thread(self) -> None:
            """A key that came before the box had the keys would go to nobody."""
            while not early.ready.wait(LISTEN) and not self.exit_event.is_set():
                pass
            parser, decode = XTermParser(), codecs.getincrementaldecoder("utf-8")("replace").decode
            text = early.take()
            while not self.exit_event.is_set():
                for event in (*(parser.feed(text) if text else ()), *parser.tick()):
                    self.process_message(event)
                ready = select.select([self.fileno], [], [], LISTEN)[0]
                data = os.read(self.fileno, 4096) if ready else b""
                if ready and not data:
                    return  # the terminal is gone, and would say so for ever
                text = replies.feed(decode(data)) if data else ""

    return TakingDriver


async def ask_terminal_picture(driver: Driver | None, replies: ClipboardReplies) -> bytes:
    """The clipboard's picture from a terminal that speaks kitty's protocol; b"" if it has none or its user says no."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[bytes] = loop.create_future()

    def tell(data: bytes) -> None:
        if not answer.done():
            answer.set_result(data)

    replies.ask(lambda data: loop.call_soon_threadsafe(tell, data))  # from the thread that reads keys
    if driver is not None:
        driver.write(ASK_PICTURE)
    try:
        async with asyncio.timeout(CONSENT):
            return await answer
    except TimeoutError:
        return b""
    finally:
        replies.ask(None)


# A terminal that goes away takes the screen with it. Textual waits for ever to draw on one that is gone.

GRACE = 3.0  # seconds for an orderly end
LOOK = 1000  # ms between looks
CODE = 129  # as of a process that SIGHUP ended


def watch_hangup(fd: int = 0) -> None:
    """End the process when the terminal behind `fd` hangs up. What was accepted is on disk; the next start goes on."""
    threading.Thread(target=_watch, args=(fd,), name="palinurus-hangup", daemon=True).start()


def _watch(fd: int) -> None:
    poll = select.poll()
    poll.register(fd, 0)  # nothing is asked for: hang-ups are told of all the same
    while not poll.poll(LOOK):
        pass
    threading.Event().wait(GRACE)
    os._exit(CODE)


def has_job_control() -> bool:
    """Were we started by a shell that keeps jobs (a process group for each)?"""
    parent = os.getppid()
    try:
        return os.getsid(parent) == os.getsid(0) and os.getpgid(parent) != os.getpgrp()
    except OSError:
        return False


def edit_text(editor: str, text: str, environ: Mapping[str, str]) -> str | None:
    """What somebody makes of a text in an editor that has the terminal meanwhile; None if it failed."""
    handle, path = tempfile.mkstemp(suffix=".md", prefix="pal-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        line = ["/bin/sh", "-c", f'{editor} "$1"', "sh", path]
        if subprocess.run(line, env=dict(environ), check=False).returncode:
            return None
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
    finally:
        os.unlink(path)


OUTPUT = 200_000  # characters of one command that are kept; the end is


class UserShell:
    """Runs one line at a time."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._process: asyncio.subprocess.Process | None = None

    @property
    def busy(self) -> bool:
        """Is a line running?"""
        return self._process is not None

    async def run(self, line: str, show: Callable[[str], None]) -> int:
        """The exit code; `show` gets all output so far as it comes. Raises OSError if there is no shell."""
        shell = self._environ.get("SHELL") or "/bin/sh"
        self._process = await asyncio.create_subprocess_exec(
            shell,
            "-c",
            line,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            env=dict(self._environ),
        )
        try:
            assert self._process.stdout is not None
            heard = ""
            while data := await self._process.stdout.read(65536):
                heard = (heard + data.decode("utf-8", "replace"))[-OUTPUT:]
                show(heard)
            return await self._process.wait()
        finally:
            self.stop()
            await self._process.wait()
            self._process = None

    def stop(self) -> None:
        """End the line that runs, and what it started."""
        if self._process is not None and self._process.returncode is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # gone meanwhile
