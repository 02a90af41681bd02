"""One child process: started in a session of its own, its output handed on as it comes, ended with its family.

`run_child` is for those that only wait (the searches); `ChildProcess` is for those that talk to it (exec, process). Its
input is nothing, a pipe or a terminal. On time-out and on cancellation nothing of the family survives.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Literal, TypeAlias

import msgspec

from palinurus.core.types.sandbox import SandboxSpec
from palinurus.tools.commands import terminal
from palinurus.tools.commands.look import LOOK_VARIABLE
from palinurus.tools.commands.plain import PlainChild
from palinurus.tools.commands.record import GRACE, MARK_VARIABLE, make_mark
from palinurus.tools.sandbox.children import READY, ChildHandles, KeptChild, has_keepers
from palinurus.tools.sandbox.launch import prepare_launch, start_kept
from palinurus.tools.sandbox.plan import MORE_HANDLE

HURRY = 0.05  # … when the run was stopped
DRAIN = 0.2  # seconds the pipe may stay open after the child's end
MAX_INPUT = 1 << 20  # bytes that wait for a child that does not read
_REAP = 8.0  # seconds until one that was killed is given up: longer than its keeper tries, on a machine that is busy
_POLL = 0.02
_CHUNK = 1 << 16
_EOT = b"\x04"  # what ends the input of a terminal

ChildInput: TypeAlias = Literal["none", "pipe", "pty"]


class ChildSpec(msgspec.Struct, frozen=True):
    """What to start. `env` is the whole environment; a `mark` ("" = a new one) is added to it."""

    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    stdin: IO[bytes] | None = None
    pass_fds: tuple[int, ...] = ()  # kept children: the handle to look through, and no other
    kept: bool = True  # by a keeper, where there are some; False for short work of our own
    cell: SandboxSpec = SandboxSpec()  # what it may do; sandbox/launch sees to it
    input: ChildInput = "none"
    mark: str = ""


class ChildExit(msgspec.Struct, frozen=True):
    code: int  # as subprocess has it: negative for a signal
    timed_out: bool
    held: bool  # another process still has the output open


async def run_child(spec: ChildSpec, sink: Callable[[bytes], None], timeout: float | None) -> ChildExit:
    """Start, read, wait. Raises OSError if it cannot be started; on CancelledError all is ended first."""
    child = ChildProcess(spec, sink)
    try:
        await child.wait_started()
        timed_out = not await child.wait_exit(timeout)
        if timed_out:
            await child.end(GRACE)
        held = not await child.wait_drained(DRAIN)
        return ChildExit(child.code, timed_out, held)
    except asyncio.CancelledError:
        await child.end(HURRY)
        raise
    finally:
        child.close()


class ChildProcess:
    """A started child. Raises OSError if it cannot be started. `close` must be called."""

    def __init__(self, spec: ChildSpec, sink: Callable[[bytes], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._sink = sink
        mark = spec.mark or make_mark()
        self._process, self._pipe, self._stdin = _start(spec, mark)
        self.pty = spec.input == "pty"
        self._waiting = bytearray()
        self.exited: asyncio.Future[None] = self._loop.create_future()
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._drained: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self._pipe, self._readable)
        self._timer: asyncio.TimerHandle | None = None
        self._exit = self._process.fileno()
        if self._exit >= 0:
            self._loop.add_reader(self._exit, self._check)
        self._check()

    @property
    def pid(self) -> int:
        """Of the process that is there as long as anything of the child is; 0 before it has started."""
        return self._process.pid

    @property
    def left(self) -> int:
        """How many processes the child had left running, which were ended after it."""
        return self._process.left

    @property
    def code(self) -> int:
        code = self._process.poll()
        return -signal.SIGKILL if code is None else code

    @property
    def writable(self) -> bool:
        """Does it still take input?"""
        return self._stdin is not None and not self.exited.done()

    async def wait_started(self, *others: asyncio.Future[Any]) -> None:
        """Returns when it runs, or has run, or one of `others` is done. Raises OSError if it cannot be started; `close`
        is for the caller."""
        either = (self._started, *others)
        if not any(one.done() for one in either):
            await asyncio.wait(either, timeout=READY, return_when=asyncio.FIRST_COMPLETED)
        if self._process.failure is not None:
            raise self._process.failure
        if not any(one.done() for one in either):
            raise OSError(errno.ETIMEDOUT, "the sandbox was not ready in time")

    async def wait_exit(self, timeout: float | None) -> bool:
        """True once it has ended, False after `timeout` seconds."""
        await asyncio.wait({self.exited}, timeout=timeout)
        return self.exited.done()

    async def wait_drained(self, timeout: float) -> bool:
        """True once nobody has the output open."""
        if not self._drained.done():
            await asyncio.wait({self._drained}, timeout=timeout)
        return self._drained.done()

    def write(self, data: bytes) -> bool:
        """Hand input on. False if it takes none any more, or does not read and too much waits already."""
        if not self.writable or len(self._waiting) + len(data) > MAX_INPUT:
            return False
        self._waiting += data
        self._push()
        return True

    def close_input(self) -> None:
        """No more input, after what waits."""
        if not self.writable:
            return
        if self.pty:
            self.write(_EOT)
        elif not self._waiting:
            self._shut()
        else:
            self._loop.call_later(_POLL, self.close_input)

    def _push(self) -> None:
        fd = self._stdin
        if fd is None:
            return
        try:
            while self._waiting:
                del self._waiting[: os.write(fd, self._waiting[:_CHUNK])]
        except BlockingIOError:
            self._loop.add_writer(fd, self._push)
            return
        except OSError:  # it has closed its end
            self._shut()
            return
        self._loop.remove_writer(fd)

    def _shut(self) -> None:
        fd, self._stdin = self._stdin, None
        self._waiting.clear()
        if fd is None:
            return
        self._loop.remove_writer(fd)
        if fd != self._pipe:  # a terminal is one handle for both directions
            os.close(fd)

    def mark_lasting(self) -> None:
        """Its `pid` is told to others, who take it for the command: no other one will have it."""
        if isinstance(self._process, KeptChild):
            self._process.give_back = None

    async def end(self, grace: float) -> None:
        """SIGTERM, then SIGKILL, to everyone."""
        self._process.terminate()
        try:
            await asyncio.wait({self.exited}, timeout=grace)
        finally:
            self._process.kill()
        await asyncio.wait({self.exited}, timeout=_REAP)

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
        ended = self._process.poll() is not None
        if (ended or self._process.started) and not self._started.done():
            self._started.set_result(None)
        if not ended:
            if self._exit < 0:
                self._timer = self._loop.call_later(_POLL, self._check)
            return
        if self._exit >= 0:
            self._loop.remove_reader(self._exit)
        if not self.exited.done():
            self.exited.set_result(None)

    def close(self) -> None:
        """Let go of everything; a child that is somehow still there dies."""
        self._shut()
        self._loop.remove_reader(self._pipe)
        os.close(self._pipe)
        if self._exit >= 0:
            self._loop.remove_reader(self._exit)
        if self._timer is not None:
            self._timer.cancel()
        self._process.close()


class _Ends(msgspec.Struct, frozen=True):
    """Handles: what the child gets as 0 and 1/2, what we read, what we write (None: nothing)."""

    stdin: int
    stdout: int
    read: int
    write: int | None


def _ends(spec: ChildSpec) -> _Ends:
    if spec.input == "pty":
        master, slave = terminal.open_terminal()
        return _Ends(slave, slave, master, master)
    ours, theirs = os.pipe()
    if spec.input == "pipe":
        theirs_in, ours_in = os.pipe()
        return _Ends(theirs_in, theirs, ours, ours_in)
    stdin = os.dup(spec.stdin.fileno()) if spec.stdin else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    return _Ends(stdin, theirs, ours, None)


def _start(spec: ChildSpec, mark: str) -> tuple[KeptChild | PlainChild, int, int | None]:
    ends = _ends(spec)
    mine = {fd for fd in (ends.read, ends.write) if fd is not None}
    try:
        what = prepare_launch(spec.argv, spec.cwd, {**spec.env, MARK_VARIABLE: mark}, spec.cell)
        if spec.input == "pty":
            what = msgspec.structs.replace(what, argv=(*terminal.make_owner_command(), *what.argv))
        handles, session = ChildHandles(ends.stdin, ends.stdout, ends.stdout), spec.input != "pty"
        process: KeptChild | PlainChild
        if has_keepers() and spec.kept:
            if spec.pass_fds:
                what = msgspec.structs.replace(what, env={**what.env, LOOK_VARIABLE: str(MORE_HANDLE)})
            handles = handles._replace(more=spec.pass_fds)
            process = start_kept(what, handles, session=session)  # the terminal's owner makes its own session
        else:
            process = PlainChild(
                what.argv,
                what.cwd,
                what.env,
                handles,
                mark=f"{MARK_VARIABLE}={mark}",
                session=session,
                pass_fds=spec.pass_fds,
            )
    except BaseException:
        for fd in mine:
            os.close(fd)
        raise
    finally:
        for fd in {ends.stdin, ends.stdout}:
            os.close(fd)
    for fd in mine:
        os.set_blocking(fd, False)
    return process, ends.read, ends.write
