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
import termios
import time

import procs
from measures import Bench, Row
from system import mark, pal

WIDTH, HEIGHT = 100, 30
PROMPT = b"Say something"
LETTERS = "éüößñçàèìòùâêîôûëïÿãõåøæœšžčřěůďťňłąężźćśńğışőűđþð"  # each shows once: what comes is the echo of this key
PATIENCE = 60.0  # seconds


class Terminal:
    """A pseudo terminal with `pal` in it. `seen` is all that was drawn."""

    def __init__(self, env: dict[str, str]) -> None:
        self.began = time.monotonic()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.execve(pal(), [pal(), "chat"], {**env, "TERM": "xterm-256color", "COLORFGBG": "15;0"})
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


def _prompt(env: dict[str, str]) -> float:
    terminal = Terminal(env)
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
    prompts = [await asyncio.to_thread(_prompt, env) for _ in range(3 if bench.quick else 10)]
    took, spent = await asyncio.to_thread(_echoes, env)
    return [
        Row("`pal`: time to prompt", prompts, "s", 0.45),
        Row("`pal`: key echo while 5,000 tokens stream", took, "ms", 16.0),
        Row("… processor time of the screen meanwhile", [spent], "s"),
    ]
