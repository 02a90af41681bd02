"""Reading foreign formats in a child process: parsers meet hostile input, and some of them crash or never end on it.

One child per format, kept warm for a while. Its crash, its time-out and its memory limit are a ToolFailure here,
never the end of the program. Knows frames and processes; nothing of HTML or PDF.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import sys
from collections.abc import Sequence
from typing import Any

from palinurus.core.types.tool import ToolFailure
from palinurus.tools.web.serve import HEAD

PAGE_MODULE = "palinurus.tools.web.page"
PDF_MODULE = "palinurus.tools.web.pdf"
IDLE = 60.0  # seconds a child waits for more work
_NEEDS = {PAGE_MODULE: ("selectolax", "htmd"), PDF_MODULE: ("pypdf",)}
_ANSWER = 32 << 20  # bytes


def is_usable(module: str) -> bool:
    """Are the libraries there that this child needs?"""
    return all(importlib.util.find_spec(name) is not None for name in _NEEDS[module])


class FormatReader:
    """`ask` puts jobs to the child one after another. `close` at the end."""

    def __init__(self, module: str, what: str, argv: Sequence[str] = ()) -> None:
        self._what = what  # for messages: "the page"
        # -I: nothing of the working directory or the environment is imported.
        self._argv = tuple(argv) or (sys.executable, "-I", "-X", "utf8", "-m", module)
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._idle: asyncio.TimerHandle | None = None

    async def ask(self, job: str, told: dict[str, Any], data: bytes, seconds: float) -> Any:
        """The child's answer. Raises ToolFailure."""
        async with self._lock:
            if self._idle is not None:
                self._idle.cancel()
            try:
                async with asyncio.timeout(seconds):
                    answer = await self._put({**told, "job": job}, data)
            except BaseException as exc:
                # Whoever was cut off in the middle would be answered with another's page: start anew.
                await self._end()
                if isinstance(exc, TimeoutError):
                    raise ToolFailure(f"{self._what} could not be read in {seconds:g} seconds") from None
                if isinstance(exc, OSError | EOFError | ValueError):
                    raise ToolFailure(f"{self._what} could not be read: its reader broke off") from None
                raise
            self._idle = asyncio.get_running_loop().call_later(IDLE, self._kill)
        if "failed" in answer:
            raise ToolFailure(f"{self._what} could not be read: {answer['failed']}")
        return answer.get("ok")

    async def _put(self, told: dict[str, Any], data: bytes) -> dict[str, Any]:
        process = self._process
        if process is None or process.returncode is not None:
            process = self._process = await asyncio.create_subprocess_exec(
                *self._argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin"},
                cwd="/",
                start_new_session=True,
            )
        assert process.stdin is not None and process.stdout is not None
        body = json.dumps(told).encode()
        process.stdin.write(HEAD.pack(len(body), len(data)) + body)
        process.stdin.write(data)
        await process.stdin.drain()
        first, second = HEAD.unpack(await process.stdout.readexactly(HEAD.size))
        if first > _ANSWER or second:
            raise ValueError("too long")
        answer: dict[str, Any] = json.loads(await process.stdout.readexactly(first))
        return answer

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _end(self) -> None:
        self._kill()
        process, self._process = self._process, None
        if process is not None:
            # Not wait(): it waits for the pipes too, and one that is full of unread answer never closes.
            await asyncio.shield(process.communicate())

    async def close(self) -> None:
        """End the child."""
        if self._idle is not None:
            self._idle.cancel()
        await self._end()
