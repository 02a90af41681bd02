"""The full screen of `pal` in a terminal of our own: when one can type, and how soon a key shows."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

import procs
from measures import Bench, Row
from system import mark, pal

WIDTH, HEIGHT = 100, 30
PROMPT = b"Say something"
SCREEN = b"main/main"  # of the line at the bottom, which only the full screen has
BARE = """
from textual.app import App
from textual.widgets import Input

class Bare(App):
    def compose(self):
        yield Input(placeholder="Say something")

Bare().run()
"""
LETTERS = "éüößñçàèìòùâêîôûëïÿãõåøæœšžčřěůďťňłąężźćśńğışőűđþð"  # each shows once: what comes is the echo of this key
PATIENCE = 60.0  # seconds


class Terminal:
    """A pseudo terminal with `pal` in it. `seen` is all that was drawn."""

    def __init__(self, env: dict[str, str], line: list[str] | None = None) -> None:
        line = line or [pal(), "chat"]
        self.began = time.monotonic()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(env["HOME"])  # inside a repository it would ask whether to work there
            os.execve(line[0], line, {**env, "TERM": "xterm-256color", "COLORFGBG": "15;0"})
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
        self.seen = bytearray()

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def wait(self, words: bytes, start: int = 0) -> float:
        """When `words` were drawn behind `start`. Raises SystemExit after a minute."""
        while self.seen.find(words, max(0, start)) < 0:
            if not select.select([self._fd], [], [], PATIENCE)[0]:
                raise SystemExit(f"the screen never showed {words!r}")
            self.seen += os.read(self._fd, 65536)
        return time.monotonic()

    def drain(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        with contextlib.suppress(OSError):  # nobody draws any more
            while (left := end - time.monotonic()) > 0 and select.select([self._fd], [], [], left)[0]:
                self.seen += os.read(self._fd, 65536)

    def close(self) -> None:
        os.kill(self.pid, signal.SIGTERM)
        end = time.monotonic() + 10
        while time.monotonic() < end and os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            self.drain(0.1)
        os.close(self._fd)


def _prompt(env: dict[str, str]) -> tuple[float, float, float]:
    """Seconds until there is a prompt, until a letter typed there shows, and until the screen has taken over."""
    terminal = Terminal(env)
    try:
        prompt = terminal.wait(PROMPT)
        start = len(terminal.seen)
        terminal.type(LETTERS[0])
        echo = terminal.wait(LETTERS[0].encode(), start)
        screen = terminal.wait(SCREEN, start)
        return prompt - terminal.began, echo - terminal.began, screen - terminal.began
    finally:
        terminal.close()


def _bare(env: dict[str, str]) -> float:
    """The same of a Textual app that is one field."""
    terminal = Terminal(env, [sys.executable, "-c", BARE])
    try:
        return terminal.wait(PROMPT) - terminal.began
    finally:
        terminal.close()


def _echoes(env: dict[str, str]) -> tuple[list[float], float]:
    """Milliseconds from a key to its letter while 5,000 tokens come, and the processor seconds of the screen."""
    terminal = Terminal(env)
    try:
        terminal.wait(b"tokens")
        _, text = mark(5000, 4, delay=4)
        terminal.type(text)
        terminal.drain(0.3)
        before = procs.cpu(terminal.pid)
        terminal.type("\r")
        terminal.wait(b"w010")
        took = []
        for letter in LETTERS:
            terminal.drain(0.07)
            start, now = len(terminal.seen), time.monotonic()
            terminal.type(letter)
            took.append(1000 * (terminal.wait(letter.encode(), start) - now))
        return took, procs.cpu(terminal.pid) - before
    finally:
        terminal.close()


async def screen(bench: Bench) -> list[Row]:
    """The gateway runs, as it does for people."""
    env = bench.system.env
    await asyncio.to_thread(_prompt, env)  # compiles the modules
    prompts, bare = [], []
    for _ in range(3 if bench.quick else 10):  # in turns: others slow both down alike
        prompts.append(await asyncio.to_thread(_prompt, env))
        bare.append(await asyncio.to_thread(_bare, env))
    took, spent = await asyncio.to_thread(_echoes, env)
    return [
        Row("`pal`: time to prompt", [one[0] for one in prompts], "s", 0.45),
        Row("… until a letter typed there shows", [one[1] for one in prompts], "s"),
        Row("… until the full screen has taken over", [one[2] for one in prompts], "s"),
        Row("… a bare Textual app with one field (the floor of a full screen)", bare, "s"),
        Row("`pal`: key echo while 5,000 tokens stream", took, "ms", 16.0),
        Row("… processor time of the screen meanwhile", [spent], "s"),
    ]
