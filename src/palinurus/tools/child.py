"""One child process: started in a session of its own, its output handed on as it comes, ended with its family.

Used by exec and by the searches. Returns when the child has ended, also if a grandchild keeps the pipe open;
on time-out and on cancellation nothing of the family survives.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import IO, NamedTuple

from palinurus.tools import family

MARK = "PALINURUS_CALL"
GRACE = 0.5  # seconds between SIGTERM and SIGKILL when the time is up
HURRY = 0.05  # … when the run was stopped
DRAIN = 0.2  # seconds the pipe may stay open after the child's end
_REAP = 2.0
_POLL = 0.02
_CHUNK = 1 << 16


class Spec(NamedTuple):
    """What to start. `env` is the whole environment."""

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    stdin: IO[bytes] | None = None
    pass_fds: tuple[int, ...] = ()


class Ended(NamedTuple):
    code: int  # as subprocess has it: negative for a signal
    timed_out: bool
    held: bool  # another process still has the output open


async def run(spec: Spec, sink: Callable[[bytes], None], timeout: float | None) -> Ended:
    """Start, read, wait. Raises OSError if it cannot be started; on CancelledError all is ended first."""
    child = _Child(spec, sink)
    try:
        timed_out = not await child.over(timeout)
        if timed_out:
            await child.end(GRACE)
        held = not await child.quiet(DRAIN)
        return Ended(child.code, timed_out, held)
    except asyncio.CancelledError:
        await child.end(HURRY)
        raise
    finally:
        child.close()


class _Child:
    def __init__(self, spec: Spec, sink: Callable[[bytes], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._sink = sink
        self._mark = f"{MARK}={secrets.token_hex(12)}"
        self._process, self._pipe = _start(spec, self._mark)
        self._since = family.started(self._process.pid)
        self._exited: asyncio.Future[None] = self._loop.create_future()
        self._drained: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self._pipe, self._readable)
        self._pidfd = _pidfd(self._process.pid)
        if self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._check)
        else:
            self._timer = self._loop.call_later(_POLL, self._check)

    @property
    def code(self) -> int:
        code = self._process.poll()
        return -signal.SIGKILL if code is None else code

    async def over(self, timeout: float | None) -> bool:
        await asyncio.wait({self._exited}, timeout=timeout)
        return self._exited.done()

    async def quiet(self, timeout: float) -> bool:
        if not self._drained.done():
            await asyncio.wait({self._drained}, timeout=timeout)
        return self._drained.done()

    async def end(self, grace: float) -> None:
        """SIGTERM, then SIGKILL, to everyone. The list from before SIGTERM is kept: orphans lose their traces."""
        known = self._members()
        family.send(self._process.pid, known, signal.SIGTERM)
        try:
            await asyncio.wait({self._exited}, timeout=grace)
        finally:
            self._kill(known)
        await asyncio.wait({self._exited}, timeout=_REAP)

    def _kill(self, known: set[family.Process]) -> None:
        for _ in range(4):  # a member may have forked between look and signal
            family.send(self._process.pid, known, signal.SIGKILL)
            known = self._members()
            if not known:
                return

    def _members(self) -> set[family.Process]:
        return family.members(self._process.pid, self._mark, self._since)

    def _readable(self) -> None:
        try:
            data = os.read(self._pipe, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._sink(data)
            return
        self._loop.remove_reader(self._pipe)
        if not self._drained.done():
            self._drained.set_result(None)

    def _check(self) -> None:
        if self._process.poll() is None:
            if self._pidfd is None:
                self._timer = self._loop.call_later(_POLL, self._check)
            return
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
        if not self._exited.done():
            self._exited.set_result(None)

    def close(self) -> None:
        """Let go of everything; a child that is somehow still there dies first."""
        if self._process.poll() is None:
            self._kill(self._members())
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.05)
        self._loop.remove_reader(self._pipe)
        os.close(self._pipe)
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
        else:
            self._timer.cancel()


def _start(spec: Spec, mark: str) -> tuple[subprocess.Popen[bytes], int]:
    ours, theirs = os.pipe()
    name, _, value = mark.partition("=")
    try:
        process = subprocess.Popen(
            spec.argv,
            stdin=spec.stdin or subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            cwd=spec.cwd,
            env={**spec.env, name: value},
            pass_fds=spec.pass_fds,
            start_new_session=True,
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    os.set_blocking(ours, False)
    return process, ours


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None  # not Linux, or an old one: the exit is polled for
