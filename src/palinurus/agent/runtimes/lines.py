"""A child that speaks JSON, one object to a line, on its standard streams; ended with its whole family.

It sees the end of its input when this process dies, however that happens. If it lives on even so, it is found by its
mark, which says what it works for, when the same work is taken up again.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from palinurus.tools import family
from palinurus.tools.child import MARK_VARIABLE

LONGEST = 1 << 26  # bytes of one line
TAIL = 2_000  # characters of what it says on stderr that an error message may quote
GRACE = 2.0


class JsonLinesChild:
    """A started child. `end` must be called."""

    def __init__(self, process: asyncio.subprocess.Process, mark: str) -> None:
        self._process = process
        self._mark = f"{MARK_VARIABLE}={mark}"
        self._since = family.read_start_time(process.pid)
        self._tail = ""
        self._errors = asyncio.ensure_future(self._listen())

    @staticmethod
    async def start(argv: Sequence[str], cwd: str, env: Mapping[str, str], mark: str) -> JsonLinesChild:
        """Raises OSError if there is no such program. Who has the same mark is ended first: it is what a process of
        ours that was killed has left behind."""
        await asyncio.to_thread(_sweep, f"{MARK_VARIABLE}={mark}")
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=cwd,
            env={**env, MARK_VARIABLE: mark},
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            limit=LONGEST,
            start_new_session=True,
        )
        return JsonLinesChild(process, mark)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Mapping[str, Any]) -> None:
        """Hand a message on; nobody is told if the child has gone, its reader will see that."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, RuntimeError):
            self._process.stdin.write(msgspec.json.encode(message) + b"\n")

    async def read(self) -> dict[str, Any] | None:
        """The next object; what is none is passed over. None: the child says nothing more."""
        assert self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:
                return None  # a line beyond all measure: there is no way back into step
            if not line:
                return None
            try:
                return msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.MsgspecError:
                continue

    async def exit_reason(self) -> str:
        """Why it is not there any more, in words; call it after the last line."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), GRACE)
            await asyncio.wait_for(asyncio.shield(self._errors), GRACE)
        said = self._tail.strip().rpartition("\n")[2]
        return f"it ended with code {self._process.returncode}" + (f": {said}" if said else "")

    async def end(self, grace: float = GRACE) -> None:
        """No more input; who is still there after `grace` seconds is killed, with all it started."""
        assert self._process.stdin is not None
        known = family.find_descendants(self.pid, self._mark, self._since)
        self._process.stdin.close()
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), grace)
        finally:
            self._errors.cancel()
            known |= family.find_descendants(self.pid, self._mark, self._since)
            if known:
                family.signal_family(self.pid, known, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), GRACE)

    async def _listen(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(4096):
            self._tail = (self._tail + data.decode(errors="replace"))[-TAIL:]


def _sweep(mark: str) -> None:
    family.signal_each(family.find_strays((mark,)), signal.SIGKILL)
