"""One configured server: connected in the background, connected again when it is needed after it was lost.

Its last list of tools outlives a broken connection, so that what models are told stays the same. At kill -9 nothing
is lost: all of this is made anew, and programs of the last life are ended at the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from palinurus.clock import Clock
from palinurus.config.sections.mcp import McpServerSettings
from palinurus.core.types.sampling import SamplerPort
from palinurus.core.types.tool import ToolFailure
from palinurus.core.untrusted import clean_label
from palinurus.tools.mcp import port

log = logging.getLogger(__name__)

STEADY = 60.0  # seconds after which a connection counts as one that worked
SLOWEST = 300.0  # seconds between two attempts at most
T = TypeVar("T")


class McpServer:
    """`wake` connects in the background; `call` connects if need be. `listed` is what it last said it has."""

    def __init__(
        self,
        settings: McpServerSettings,
        connect: Callable[[], port.McpConnect],
        means: port.McpMeans,
        clock: Clock,
        *,
        idle: float = 0.0,  # seconds without use after which it is ended; 0: never
    ) -> None:
        self.settings = settings
        self.listed: tuple[port.McpToolListing, ...] = ()
        self.facts: port.McpServerFacts | None = None
        self.left = 0  # tools that are more than are used
        self.problem = ""
        self.locked = False  # it wants a sign-in, and there is none that works
        self.noise = ""
        self.sampler: SamplerPort | None = None
        self.changed: Callable[[], None] = lambda: None
        self.began = 0.0  # when the first attempt began
        self._load = connect
        self._means = means
        self._clock = clock
        self._link: port.McpLink | None = None
        self._task: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()  # the present attempt has come to something
        self._over = asyncio.Event()
        self._stale = False
        self._failures = 0
        self._next = 0.0
        self._idle = idle
        self._busy = 0  # calls under way
        self._helps: list[port.McpHelp] = []  # of the calls under way: who can ask a person
        self._used = 0.0

    @property
    def connected(self) -> bool:
        return self._link is not None

    @property
    def starting(self) -> bool:
        """Is an attempt under way?"""
        return self._task is not None and not self._settled.is_set()

    def wake(self) -> None:
        """Connect in the background, unless that is so already or it failed a moment ago."""
        if self._task is not None or self._clock.monotonic() < self._next:
            return
        self.began = self.began or self._clock.monotonic()
        self._settled, self._over = asyncio.Event(), asyncio.Event()
        self._task = asyncio.create_task(self._run())

    def retry(self) -> None:
        """As `wake`, however often it has failed."""
        if self._next != float("inf"):
            self._next, self._failures = 0.0, 0
            self.wake()

    async def wait_settled(self) -> None:
        """Returns when the attempt that is under way has come to something."""
        if self.starting:
            await self._settled.wait()

    async def refresh(self) -> None:
        """Ask again for the tools if the server said that they changed. Never raises."""
        link = self._link
        if link is None or not self._stale:
            return
        self._stale = False
        try:
            async with asyncio.timeout(self.settings.start):
                self._list(await link.tools())
        except (port.McpConnectionLost, port.McpRefusal, TimeoutError) as exc:  # the old list stays
            self._stale = True
            log.warning("mcp server %s: its tools cannot be listed: %s", self.settings.name, describe_error(exc))

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        progress: port.McpProgress,
        help: port.McpHelp = port.NO_HELP,
    ) -> dict[str, Any]:
        """The result. Raises ToolFailure for what is our failure, McpRefusal for the server's. What the server asks
        meanwhile is put to `help`; of several calls to the one that began last: a question does not say whose it is."""
        limit = self.settings.timeout
        self._helps.append(help)
        try:
            return await self.use(lambda link: link.call(tool, arguments, limit, progress))
        finally:
            self._helps.remove(help)

    def _help(self) -> port.McpHelp:
        return self._helps[-1] if self._helps else port.NO_HELP

    async def close(self) -> None:
        """End the connection, and the program if it is one."""
        self._next = float("inf")
        task = self._task
        if task is None:
            return
        self._over.set()
        if self._link is None:
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def use(self, ask: Callable[[port.McpLink], Awaitable[T]]) -> T:
        """What came of asking it. Raises as `call` does."""
        name = self.settings.name
        for last in (False, True):
            link = await self._linked()
            self._busy += 1
            try:
                return await ask(link)
            except port.McpConnectionLost as lost:
                self._drop(link)
                if not lost.unsent or last:
                    raise ToolFailure(
                        f"the MCP server {name} went away during the call ({lost}); whether it was done is not known"
                    ) from None
            except TimeoutError:
                raise ToolFailure(
                    f"the MCP server {name} did not answer within {self.settings.timeout:g} s; the call was cancelled "
                    "(mcp.servers.….requestTimeoutMs)"
                ) from None
            finally:
                self._busy, self._used = self._busy - 1, self._clock.monotonic()
        raise AssertionError("unreachable")

    async def _linked(self) -> port.McpLink:
        """The connection, made anew if it is gone. Raises ToolFailure."""
        if self._link is None and self._task is not None and self._settled.is_set():
            await asyncio.wait({self._task})  # the old one is being taken down
        self.wake()
        await self.wait_settled()
        if self._link is None:
            why = f": {self.problem}" if self.problem else ""
            rest = max(self._next - self._clock.monotonic(), 0)
            raise ToolFailure(
                f"the MCP server {self.settings.name} is not connected{why}. "
                + (f"It is tried again in {rest:.0f} s at the earliest." if 0 < rest <= SLOWEST else "")
            )
        return self._link

    def _drop(self, link: port.McpLink) -> None:
        if self._link is link:
            self._link = None
            self._over.set()

    async def _run(self) -> None:
        """One life of the connection; whatever ends it becomes `problem`."""
        since, rested = self._clock.monotonic(), False
        try:
            rested = await self._lived()
            self.problem = self.problem or ("" if rested else "the connection ended")
        except Exception as exc:  # task boundary: a server that fails is a problem of its tools only
            self.problem = describe_error(exc)
            log.debug("mcp server %s", self.settings.name, exc_info=True)
        finally:
            self._link, self._task = None, None
            now = self._clock.monotonic()
            self._failures = 0 if rested else 1 if now - since > STEADY else self._failures + 1
            if self._next != float("inf") and not rested:  # at first at once, then slower and slower
                self._next = now + (0 if self._failures == 1 else min(2.0 ** (self._failures - 2), SLOWEST))
                log.warning("mcp server %s: %s", self.settings.name, self.problem or "stopped")
            self._settled.set()

    async def _lived(self) -> bool:
        """True: it was ended because nobody used it."""
        connect, first = await asyncio.to_thread(self._load), ""
        for wire in self.settings.wires:
            watch = port.McpWatch()
            watch.gone, watch.changed, watch.help = self._over.set, self.expect_change, self._help
            joined = False
            try:
                async with asyncio.timeout(self.settings.start) as limit:
                    async with connect(self.settings, wire, self._means, watch) as link:
                        listed = await link.tools()
                        limit.reschedule(None)
                        joined = True
                        self._link, self.facts, self.problem, self.locked = link, link.facts, "", False
                        self._list(listed)
                        self._settled.set()
                        rested = await self._watch_use()
                        self._link, self.problem = None, watch.end
                return rested
            except Exception as exc:  # border: the next way is tried, and the first reason is told
                self._link, self.locked = None, watch.locked
                late = f"it did not start within {self.settings.start:g} s" if isinstance(exc, TimeoutError) else ""
                first = first or ": ".join(one for one in (late, watch.why) if one) or describe_error(exc)
                if joined or watch.locked or wire == self.settings.wires[-1]:
                    raise port.McpConnectionLost(first) from exc
            finally:
                self.noise = watch.noise
        return False

    async def _watch_use(self) -> bool:
        """Wait for its end; True: it is to end, because nobody has used it for long enough."""
        self._used = self._clock.monotonic()
        while self._idle and not self._over.is_set():
            rest = self._used + self._idle - self._clock.monotonic()
            if rest <= 0 and not self._busy:
                return True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(rest, 0.05)):
                    await self._over.wait()
        await self._over.wait()
        return False

    def _list(self, listed: tuple[port.McpToolListing, ...]) -> None:
        if listed != self.listed:
            self.listed = listed
            self.changed()

    def expect_change(self) -> None:
        """What it lists is not what it was: it is asked before the next run."""
        self._stale = True


def describe_error(exc: BaseException) -> str:
    """The innermost reason, on one line."""
    while isinstance(exc, BaseExceptionGroup) and exc.exceptions:
        exc = exc.exceptions[0]
    if isinstance(exc, FileNotFoundError):
        return f"{exc.filename or 'the command'} is not there"
    if isinstance(exc, OSError):
        return exc.strerror or str(exc)
    return clean_label(str(exc), 400) or type(exc).__name__
