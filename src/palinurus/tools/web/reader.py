"""Reading foreign formats in a child process: parsers meet hostile input, and some of them crash or never end on it.

A few children per format, kept warm for a while, each in a sandbox in which it can read programs and nothing else. Its
crash, its time-out and its memory limit are a ToolFailure here, never the end of the program. Knows frames and
processes; nothing of HTML or PDF.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from palinurus.core.types.tool import ToolFailure
from palinurus.tasks import TaskSet
from palinurus.tools.sandbox.children import KeptChild
from palinurus.tools.sandbox.launch import StartedChild, prepare_launch, start_child
from palinurus.tools.sandbox.probe import make_empty_sandbox
from palinurus.tools.web.serve import HEAD

PAGE_MODULE = "palinurus.tools.web.page"
PDF_MODULE = "palinurus.tools.web.pdf"
IDLE = 60.0  # seconds a child waits for more work
AT_ONCE = 4  # children of one format
_REAP = 5.0
_NEEDS = {PAGE_MODULE: ("selectolax", "htmd"), PDF_MODULE: ("pypdf",)}
_ANSWER = 32 << 20  # bytes


def is_usable(module: str) -> bool:
    """Are the libraries there that this child needs?"""
    return all(importlib.util.find_spec(name) is not None for name in _NEEDS[module])


class FormatReader:
    """`ask` puts jobs to children, of which there are as many as jobs at a time, up to a few: a page on which a reader
    gets stuck holds up nobody else. `close` at the end."""

    def __init__(self, module: str, what: str, argv: Sequence[str] = ()) -> None:
        self._what = what  # for messages: "the page"
        # -I: nothing of the working directory or the environment is imported.
        self._argv = tuple(argv) or (sys.executable, "-I", "-X", "utf8", "-m", module)
        self._room = asyncio.Semaphore(AT_ONCE)
        self._free: list[_ReaderChild] = []  # the one used last is at the end
        self._idle: asyncio.TimerHandle | None = None
        self._tasks = TaskSet("ending a reader")

    async def ask(self, job: str, told: dict[str, Any], data: bytes, seconds: float) -> Any:
        """A child's answer. Raises ToolFailure."""
        async with self._room:
            child = self._take()
            try:
                async with asyncio.timeout(seconds):
                    child = child or await _start_reader(self._argv)
                    answer = await child.put({**told, "job": job}, data)
            except BaseException as exc:
                # Whoever was cut off in the middle would be answered with another's page: start anew.
                if child is not None:
                    await asyncio.shield(child.end())
                if isinstance(exc, TimeoutError):
                    raise ToolFailure(f"{self._what} could not be read in {seconds:g} seconds") from None
                if isinstance(exc, OSError | EOFError | ValueError):
                    raise ToolFailure(f"{self._what} could not be read: its reader broke off") from None
                raise
            self._give_back(child)
        if "failed" in answer:
            raise ToolFailure(f"{self._what} could not be read: {answer['failed']}")
        return answer.get("ok")

    def _take(self) -> _ReaderChild | None:
        while self._free:
            child = self._free.pop()
            if child.alive:
                return child
            self._tasks.start(child.end())
        return None

    def _give_back(self, child: _ReaderChild) -> None:
        self._free.append(child)
        if self._idle is not None:
            self._idle.cancel()
        self._idle = asyncio.get_running_loop().call_later(IDLE, self._dismiss)

    def _dismiss(self) -> None:
        free, self._free = self._free, []
        for child in free:
            self._tasks.start(child.end())

    async def close(self) -> None:
        """End the children."""
        if self._idle is not None:
            self._idle.cancel()
        for child in self._free:
            await child.end()
        self._free = []
        await self._tasks.close()


class _ReaderChild:
    """One process in a sandbox with nothing in it: it has its two pipes, no network, and no file to write."""

    def __init__(self, process: StartedChild, answers: asyncio.StreamReader) -> None:
        self._process = process
        self._answers = answers
        self._given: asyncio.WriteTransport
        self._pipes: list[asyncio.BaseTransport] = []

    async def connect(self) -> None:
        """To be called once."""
        loop = asyncio.get_running_loop()
        reading, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._answers), self._process.stdout
        )
        self._given, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, self._process.stdin)
        self._pipes = [reading, self._given]

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    async def put(self, told: dict[str, Any], data: bytes) -> dict[str, Any]:
        """Raises OSError, EOFError or ValueError when it breaks off."""
        body = json.dumps(told).encode()
        self._given.write(HEAD.pack(len(body), len(data)) + body)
        self._given.write(data)
        first, second = HEAD.unpack(await self._answers.readexactly(HEAD.size))
        if first > _ANSWER or second:
            raise ValueError("too long")
        answer: dict[str, Any] = json.loads(await self._answers.readexactly(first))
        return answer

    async def end(self) -> None:
        self._process.kill()
        for pipe in self._pipes:
            if not pipe.is_closing():
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self._process.wait, _REAP)
        if isinstance(self._process, KeptChild):
            self._process.close()


async def _start_reader(argv: Sequence[str]) -> _ReaderChild:
    """Raises OSError. Who gives up waiting leaves no process behind."""
    starting = asyncio.ensure_future(asyncio.to_thread(_start, tuple(argv)))
    try:
        process = await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(lambda done: done.cancelled() or done.exception() or done.result().kill())
        raise
    made = _ReaderChild(process, asyncio.StreamReader())
    await made.connect()
    return made


def _start(argv: tuple[str, ...]) -> StartedChild:
    launch = prepare_launch(argv, "/", {"PATH": "/usr/bin:/bin"}, make_empty_sandbox())
    return start_child(launch, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
