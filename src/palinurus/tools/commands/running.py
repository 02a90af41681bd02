"""One command that may outlive the call that started it: its child, what it printed, and how it ended.

A task of its own waits for its end, its time-out or the order to end it. Knows no other command and no disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

import msgspec

from palinurus.core.types.inbound import Inbound
from palinurus.core.types.tool import HiddenTexts
from palinurus.tools.commands.child import DRAIN, HURRY, ChildProcess, ChildSpec
from palinurus.tools.commands.output import OutputBuffer, UnreadOutput
from palinurus.tools.commands.record import GRACE
from palinurus.tools.commands.terminal import TerminalAnswers

MAX_TYPED = 20_000  # characters
IDLE = 15.0  # seconds of silence after which a command that takes input may be waiting for some

EndReason: TypeAlias = Literal["exit", "signal", "timeout", "killed", "stopped"]


class CommandJob(msgspec.Struct, frozen=True):
    """What to start, for whom. `limit` in seconds, None for none."""

    command: str
    spec: ChildSpec
    limit: float | None
    session: str
    agent: str
    asker: Inbound  # the message whose turn started it
    at: int
    secrets: HiddenTexts = HiddenTexts()  # are blanked in what its session is told of its end
    check: Callable[[], None] = lambda: None  # looks once more, at the last moment; raises ToolFailure


class CommandOutcome(msgspec.Struct, frozen=True):
    code: int  # as subprocess has it: negative for a signal
    reason: EndReason
    held: bool  # another process still has the output open
    ms: int
    left: int = 0  # processes it had left running, which were ended with it

    @property
    def failed(self) -> bool:
        """Ended by force. A command that exits with an error has completed."""
        return self.reason != "exit"

    @property
    def label(self) -> str:
        """`code 3`, `signal SIGTERM`, `timeout` …"""
        if self.reason == "exit":
            return f"code {self.code}"
        return f"signal {name_signal(-self.code)}" if self.reason == "signal" else self.reason


def name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


class RunningCommand:
    """A started command. Raises OSError when it cannot be started. `over` is awaited once, after the end."""

    def __init__(self, ident: str, job: CommandJob, over: Callable[[RunningCommand], Awaitable[None]]) -> None:
        self.id = ident
        self.job = job
        self.background = False
        self.seen = False  # the session has been told how it ended
        self.recorded = False
        self.finished = 0.0  # on the table's clock
        self.empty_polls = 0
        self.typed = ""  # what it was told to do since, for who asks whose words it prints
        self.outcome: CommandOutcome | None = None
        self.kept, self.pending = OutputBuffer(), UnreadOutput()
        self.news, self.ended = asyncio.Event(), asyncio.Event()
        self.alone = asyncio.Event()  # nobody waits for news
        self.alone.set()
        self.show: Callable[[], None] | None = None
        self._watching = 0
        self._over = over
        self._answers = TerminalAnswers()
        self._loop = asyncio.get_running_loop()
        self._touched = self._started = self._loop.time()
        self._order: asyncio.Future[tuple[EndReason, float]] = self._loop.create_future()
        self.child = ChildProcess(job.spec, self._feed)
        self.task = asyncio.ensure_future(self._live())
        self.task.add_done_callback(lambda _: self.ended.set())  # also where it could not be started

    async def wait_started(self) -> None:
        """Return when it runs. Raises OSError if it cannot be started; on CancelledError it is ended first."""
        try:
            await self.child.wait_started()
        except asyncio.CancelledError:
            await self.stop()
            raise

    @property
    def running(self) -> bool:
        return self.outcome is None

    @property
    def ms(self) -> int:
        """How long it has been running, or ran."""
        return self.outcome.ms if self.outcome else round((self._loop.time() - self._started) * 1000)

    @property
    def idle(self) -> float:
        """Seconds since it last printed or was written to."""
        return self._loop.time() - self._touched

    @property
    def waiting(self) -> bool:
        """Does it look as if it waits for input?"""
        return self.running and self.child.writable and self.idle >= IDLE

    @property
    def status(self) -> str:
        if self.outcome is None:
            return "running"
        return "failed" if self.outcome.failed else "completed"

    def write(self, data: bytes) -> bool:
        """See `ChildProcess.write`."""
        self._touched = self._loop.time()
        return self.child.write(data)

    def remember_typed(self, text: str) -> None:
        """Keep what is typed into it: the last of it, and all that is needed to know that it fetched something."""
        self.typed = f"{self.typed}{text}\n"[-MAX_TYPED:]

    def end(self, reason: EndReason = "killed", grace: float = GRACE) -> None:
        """Order the end of the command and all it has started; `ended` tells when that is done."""
        if not self._order.done():
            self._order.set_result((reason, grace))

    async def stop(self) -> None:
        """End it, and return when it can do nothing any more, however often whoever waits is cancelled: its run must
        not be over before it is. What waits for it is bounded (`ChildProcess.end`)."""
        self.end("stopped", HURRY)
        while not self.ended.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await self.ended.wait()

    async def wait(self, seconds: float | None) -> bool:
        """True once it has ended. On CancelledError it is ended first."""
        try:
            async with asyncio.timeout(seconds):
                await self.ended.wait()
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            await self.stop()
            raise
        return self.ended.is_set()

    async def wait_quiet(self, seconds: float) -> None:
        """Return after `seconds`, or when it ends."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.ended.wait()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """While somebody waits who will be told of the end."""
        self._watching += 1
        self.alone.clear()
        try:
            yield
        finally:
            self._watching -= 1
            if not self._watching:
                self.alone.set()

    def _feed(self, data: bytes) -> None:
        self._touched = self._loop.time()
        self.kept.feed(data)
        self.pending.feed(data)
        self.news.set()
        if self.child.pty and (reply := self._answers.feed(data)):
            self.child.write(reply)
        if self.show is not None:
            self.show()

    async def _live(self) -> None:
        child, reason, held = self.child, "exit", False
        try:
            await child.wait_started(self._order)
        except OSError:  # told to who waits for the start
            child.close()
            return
        try:
            either: set[asyncio.Future[Any]] = {child.exited, self._order}
            if not child.exited.done():
                await asyncio.wait(either, timeout=self.job.limit, return_when=asyncio.FIRST_COMPLETED)
            if not child.exited.done():
                reason, grace = self._order.result() if self._order.done() else ("timeout", GRACE)
                await child.end(grace)
            held = not await child.wait_drained(DRAIN)
        finally:
            code = child.code
            child.close()
            ms = round((self._loop.time() - self._started) * 1000)
            self.outcome = CommandOutcome(code, _reason(reason, code), held, ms, left=child.left)
            self.ended.set()
            self.news.set()
        await self._over(self)


def _reason(reason: str, code: int) -> EndReason:
    if reason == "exit":
        return "signal" if code < 0 else "exit"
    return reason  # type: ignore[return-value]
