"""One child process with one model in memory, spoken to over pipes. Its death is a value here.

Knows the lines of `serve` and how a process is started and ended; nothing of requests, events or models.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

ENGINE = (sys.executable, "-m", "palinurus.providers.local.engine")
LIMIT = 16_000_000  # bytes of one line
GRACE = 10.0  # seconds an answer gets to stop by itself
_TAIL = 2000
# What a child inherits: enough to find libraries and a place for temporary files, no keys.
_ENV = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "SYSTEMROOT",
        "OMP_WAIT_POLICY", "OMP_NUM_THREADS")  # fmt: skip
_encode = msgspec.json.Encoder().encode


class RuntimeLine(msgspec.Struct):
    """What the child says."""

    ready: bool = False
    id: int = 0
    chunk: msgspec.Raw = msgspec.Raw(b"")
    end: bool = False
    failed: str = ""


class RuntimeDied(Exception):
    """The child is gone; the text says how. Stays inside `providers/local`."""


_decode = msgspec.json.Decoder(RuntimeLine).decode


class LocalRuntime:
    """A started child. Questions are put one after another; `close` ends it."""

    def __init__(self, process: asyncio.subprocess.Process, folder: str) -> None:
        self._process = process
        self._folder = folder  # the child's own, for what it must put somewhere while it starts
        self._tail = b""
        self._next = 0
        self._asked = 0  # the question that is being answered; 0: none
        self._errors = asyncio.ensure_future(self._drain())

    @classmethod
    async def start(cls, file: str, context: int, argv: Sequence[str] = ENGINE) -> LocalRuntime:
        """Start the child; it loads the model. Raises RuntimeDied when it cannot be started."""
        threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        folder = tempfile.mkdtemp(prefix="pal-")
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                file,
                str(context),
                str(threads),
                str(os.getpid()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=_environ(),
                cwd=folder,
                limit=LIMIT,
                start_new_session=True,  # Ctrl-C in the terminal is ours to handle
            )
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise RuntimeDied(f"it cannot be started: {error.strerror or error}") from None
        return cls(process, folder)

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ready(self) -> None:
        """Return when the model is loaded. Raises RuntimeDied."""
        while not (await self._line()).ready:
            pass
        shutil.rmtree(self._folder, ignore_errors=True)

    async def ask(self, body: dict[str, Any]) -> AsyncIterator[bytes]:
        """The chunks of one answer, as JSON. Raises RuntimeDied. Whoever leaves early calls `settle` next."""
        self._next += 1
        self._asked = self._next
        await self._send({"ask": self._asked, "body": body})
        while True:
            line = await self._line()
            if line.id != self._asked:
                continue
            if chunk := bytes(line.chunk):
                yield chunk
            if line.failed:
                self._asked = 0
                yield _encode({"error": {"message": line.failed, "code": 500}})
                return
            if line.end:
                self._asked = 0
                return

    async def settle(self, grace: float = GRACE) -> None:
        """Make sure that nothing is being answered: ask the child to stop, end it if it does not."""
        if not self._asked:
            return
        try:
            async with asyncio.timeout(grace):
                await self._send({"stop": self._asked})
                while True:
                    line = await self._line()
                    if line.id == self._asked and (line.end or line.failed):
                        self._asked = 0
                        return
        except (TimeoutError, RuntimeDied):
            await self.close()

    async def close(self) -> None:
        """End the child and wait for it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        await self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._errors.cancel()
        await asyncio.gather(self._errors, return_exceptions=True)

    async def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(_encode(message) + b"\n")
            await self._process.stdin.drain()
        except OSError:
            raise RuntimeDied(await self._how()) from None

    async def _line(self) -> RuntimeLine:
        """The next line that is one; what else is printed there is passed over."""
        assert self._process.stdout is not None
        while True:
            try:
                data = await self._process.stdout.readline()
            except ValueError:
                raise RuntimeDied("it sent a line that is too long") from None
            if not data.endswith(b"\n"):
                raise RuntimeDied(await self._how())
            with contextlib.suppress(msgspec.DecodeError):
                return _decode(data)

    async def _how(self) -> str:
        """How it ended, and the last thing it said."""
        await self.close_quietly()
        code = self._process.returncode or 0
        how = f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"it ended with code {code}"
        lines = [line for line in self._tail.decode("utf-8", "replace").splitlines() if line.strip()]
        return f"{how}: {lines[-1].strip()[:200]}" if lines else how

    async def close_quietly(self) -> None:
        """Wait a moment for the end that the closed pipe announces, and for its last words."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._process.wait()
                await asyncio.shield(self._errors)
        await self.close()

    async def _drain(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(4096):
            self._tail = (self._tail + data)[-_TAIL:]


def _environ() -> dict[str, str]:
    """What the child inherits. Its directory is another one, so paths are made whole."""
    # Threads that wait for each other sleep: those that spin take 0.8 to 6 s a token on a busy machine, not 0.2.
    env = {"OMP_WAIT_POLICY": "passive"} | {name: os.environ[name] for name in _ENV if name in os.environ}
    if "PYTHONPATH" in env:
        env["PYTHONPATH"] = os.pathsep.join(os.path.abspath(p) for p in env["PYTHONPATH"].split(os.pathsep) if p)
    return env
