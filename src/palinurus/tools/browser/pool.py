"""The browsers that run: one for each agent and profile, started when first used, ended when nobody uses it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from palinurus.clock import Clock
from palinurus.config.sections.browser import DEFAULT_PROFILE, BrowserSettings
from palinurus.core.types.tool import ToolContext, ToolFailure
from palinurus.tasks import TaskSet
from palinurus.tools.browser.link import open_socket
from palinurus.tools.browser.live import LiveBrowser
from palinurus.tools.browser.process import BrowserFolders, start_browser
from palinurus.tools.browser.proxy import GuardedProxy
from palinurus.tools.taint import require_approval
from palinurus.tools.web.egress import EgressGuard

_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"


class BrowserKey(msgspec.Struct, frozen=True):
    """Whose browser. `session` only where a person's own was opened to one session."""

    agent: str
    profile: str
    session: str = ""


class BrowserPool:
    """`use` lends a browser, starting it if need be; `find` looks without starting; `close` ends all."""

    def __init__(
        self, settings: BrowserSettings, program: str, home: str, egress: EgressGuard, *, clock: Clock
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._program = program
        self._home = home
        self._egress = egress
        self._live: dict[BrowserKey, LiveBrowser] = {}
        self._locks: dict[BrowserKey, asyncio.Lock] = {}
        self._used: dict[BrowserKey, int] = {}
        self._timers: dict[BrowserKey, asyncio.TimerHandle] = {}
        self._tasks = TaskSet("ending a browser")

    def list_profiles(self) -> list[str]:
        """Names, the usual one first."""
        return list(dict.fromkeys((self.settings.profile or DEFAULT_PROFILE, *self.settings.profiles)))

    def name_key(self, ctx: ToolContext, profile: str) -> BrowserKey:
        """Raises ToolFailure for a profile that is not there."""
        name = profile.strip() or self.settings.profile or DEFAULT_PROFILE
        if name not in self.list_profiles() or not re.fullmatch(_NAME, name):
            raise ToolFailure(f"there is no profile {name[:40]!r}; there are {', '.join(self.list_profiles())}")
        return BrowserKey(ctx.agent, name, ctx.session if self.find_address(name) else "")

    def find_address(self, profile: str) -> str:
        """Where a person's own browser listens; "" for one of ours."""
        found = self.settings.profiles.get(profile)
        return found.url if found else ""

    def find_folders(self, key: BrowserKey) -> BrowserFolders:
        """What it has of the disk."""
        agent = re.sub(r"[^A-Za-z0-9_-]", "_", key.agent)
        own = self.settings.profiles.get(key.profile)
        return BrowserFolders(os.path.join(self._home, "browser", agent, key.profile), own.folder if own else "")

    def find(self, key: BrowserKey) -> LiveBrowser | None:
        """The one that runs, if one does."""
        found = self._live.get(key)
        return found if found is not None and not found.link.ended.is_set() else None

    @asynccontextmanager
    async def use(self, ctx: ToolContext, key: BrowserKey) -> AsyncIterator[LiveBrowser]:
        """A browser that is not ended meanwhile. Raises ToolFailure."""
        self._used[key] = self._used.get(key, 0) + 1
        try:
            async with self._locks.setdefault(key, asyncio.Lock()):
                browser = self.find(key)
                if browser is None:
                    await self._drop(key)
                    browser = self._live[key] = await self._start(ctx, key)
            yield browser
        finally:
            self._used[key] -= 1
            self._rest(key)

    async def _start(self, ctx: ToolContext, key: BrowserKey) -> LiveBrowser:
        address = self.find_address(key.profile)
        browser = await (self._join(ctx, key, address) if address else self._launch(key))
        try:
            await browser.begin()
        except BaseException:
            await browser.end()
            raise
        return browser

    async def _launch(self, key: BrowserKey) -> LiveBrowser:
        folders = self.find_folders(key)
        own = self.settings.profiles.get(key.profile)
        process = await start_browser((own and own.executable) or self._program, folders, self.settings)
        proxy = GuardedProxy(self._egress, self.settings.rules)
        await proxy.serve(process.door)
        return LiveBrowser(process.link, folders.downloads, process.end, proxy, clock=self._clock)

    async def _join(self, ctx: ToolContext, key: BrowserKey, address: str) -> LiveBrowser:
        """A person's own browser, with all their logins: asked about each time, whatever was read before."""
        await require_approval(
            ctx,
            "browser",
            f"use your own browser (profile {key.profile})",
            f"attach to {address}",
            binding={"profile": key.profile, "address": address},
            why="it is your own browser, with your logins, and none of our limits hold there",
        )
        link, sender = await open_socket(address)
        self._tasks.start(sender.work(link))

        async def leave() -> None:
            link.end()

        return LiveBrowser(link, "", leave, clock=self._clock)

    def _rest(self, key: BrowserKey) -> None:
        """From now on it is idle, unless somebody else uses it."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._live and not self._used.get(key) and self.settings.cleanup:
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(self.settings.idle, lambda: self._tasks.start(self._expire(key)))

    async def _expire(self, key: BrowserKey) -> None:
        async with self._locks.setdefault(key, asyncio.Lock()):
            if not self._used.get(key):
                await self._drop(key)

    async def stop(self, key: BrowserKey) -> bool:
        """End it. False if it did not run."""
        async with self._locks.setdefault(key, asyncio.Lock()):
            running = self.find(key) is not None
            await self._drop(key)
            return running

    async def _drop(self, key: BrowserKey) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        browser = self._live.pop(key, None)
        if browser is not None:
            await browser.end()

    async def close(self) -> None:
        """End all of them."""
        await asyncio.gather(*(self._drop(key) for key in list(self._live)))
        await self._tasks.close()
