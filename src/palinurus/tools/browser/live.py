"""A running browser with its tabs and downloads: the events of the wire go to the tab they belong to."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import msgspec

from palinurus.clock import Clock
from palinurus.tasks import TaskSet
from palinurus.tools.browser.link import BrowserFault, DevtoolsLink
from palinurus.tools.browser.proxy import GuardedProxy
from palinurus.tools.browser.tab import BrowserTab

POPUPS = 20  # tabs of one session, those that pages open included
READY = 30.0  # seconds until a new tab can be used
_PAGES = [{"type": "page"}, {"exclude": True}]
_FRAMES = [{"type": "iframe"}, {"exclude": True}]
_DOCUMENTS = {"handleAuthRequests": True, "patterns": [{"urlPattern": "*", "resourceType": "Document"}]}
_EVERY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Page.enable", {}),
    ("DOM.enable", {}),
    ("Runtime.enable", {}),
    ("Log.enable", {}),
    ("Page.setLifecycleEventsEnabled", {"enabled": True}),
    ("Page.setInterceptFileChooserDialog", {"enabled": True}),
    ("Fetch.enable", _DOCUMENTS),
    ("Target.setAutoAttach", {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True, "filter": _FRAMES}),
)


class BrowserDownload(msgspec.Struct):
    """A file on its way into the browser's folder. `state`: inProgress, completed, canceled."""

    id: str
    url: str
    name: str
    state: str = "inProgress"
    taken: bool = False


class LiveBrowser:
    """`open_tab`, `find_tab`, `list_tabs`; `ended` is set when it is gone. `finish` ends what belongs to it."""

    def __init__(
        self,
        link: DevtoolsLink,
        downloads: str,
        finish: Callable[[], Awaitable[None]],
        proxy: GuardedProxy | None = None,
        *,
        clock: Clock,
    ) -> None:
        self.link = link
        self._clock = clock
        self.proxy = proxy  # None: a person's own browser, which goes its own ways
        self.tabs: dict[str, BrowserTab] = {}  # by target
        self.current: dict[str, str] = {}  # session of ours -> target
        self.given: dict[str, set[str]] = {}  # session of ours -> hosts that its owner named
        self.downloads: dict[str, BrowserDownload] = {}
        self.folder = downloads
        self._finish = finish
        self._sessions: dict[str, BrowserTab] = {}
        self._numbers = count()  # the first is the empty page that a browser begins with
        self._came = asyncio.Event()
        self._tasks = TaskSet("a browser's tab")
        link.on_event = self._hear

    async def begin(self) -> None:
        """To be called once. Raises BrowserFault."""
        if self.proxy is None:  # only tabs that we open are ours
            await self.link.send("Target.setDiscoverTargets", {"discover": True})
            return
        await self.link.send("Target.setDiscoverTargets", {"discover": True})
        told = {"behavior": "allowAndName", "downloadPath": self.folder, "eventsEnabled": True}
        await self.link.send("Browser.setDownloadBehavior", told)
        await self.link.send(
            "Target.setAutoAttach",
            {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True, "filter": _PAGES},
        )

    async def end(self) -> None:
        """Close everything."""
        for tab in self.tabs.values():
            tab.close()
        await self._tasks.close()
        if self.proxy is not None:
            await self.proxy.close()
        await self._finish()

    # tabs

    def list_tabs(self, owner: str) -> list[BrowserTab]:
        """Those of one session of ours, oldest first."""
        return [tab for tab in self.tabs.values() if tab.owner == owner and not tab.closed]

    def find_tab(self, owner: str, named: str = "") -> BrowserTab:
        """By name (t1), by target or the beginning of it; the current one without a name. Raises BrowserFault."""
        found = self.list_tabs(owner)
        if not found:
            raise BrowserFault("no tab is open; use action=open with targetUrl")
        if not named:
            current = self.current.get(owner, "")
            return next((tab for tab in found if tab.target == current), found[-1])
        for tab in found:
            if named == tab.id or tab.target.startswith(named):
                return tab
        raise BrowserFault(f"there is no tab {named[:40]!r}; open are {', '.join(tab.id for tab in found)}")

    async def open_tab(self, owner: str, most: int, context: str = "") -> BrowserTab:
        """An empty one, which is the current one from now on; `context`: of these cookies. Raises BrowserFault."""
        for old in self.list_tabs(owner)[: max(0, len(self.list_tabs(owner)) - most + 1)]:
            await self.close_tab(old)
        inside = {"browserContextId": context} if context else {}
        made = await self.link.send("Target.createTarget", {"url": "about:blank", **inside})
        target = made["targetId"]
        if self.proxy is None:
            await self.link.send("Target.attachToTarget", {"targetId": target, "flatten": True})
        try:
            async with asyncio.timeout(READY):
                while target not in self.tabs:
                    self._came.clear()
                    await self._came.wait()
                tab = self.tabs[target]
                await tab.ready.wait()
        except TimeoutError:
            raise BrowserFault("the new tab was not ready in time") from None
        tab.owner = owner
        self.current[owner] = target
        return tab

    async def close_tab(self, tab: BrowserTab) -> None:
        """Close it; its page is not asked."""
        with contextlib.suppress(BrowserFault):
            await self.link.send("Target.closeTarget", {"targetId": tab.target})
        self._drop(tab)

    async def focus_tab(self, tab: BrowserTab) -> None:
        """Make it the current one. Raises BrowserFault."""
        self.current[tab.owner] = tab.target
        await tab.send("Page.bringToFront")

    def _drop(self, tab: BrowserTab) -> None:
        tab.close()
        self.tabs.pop(tab.target, None)
        for session in [one for one, held in self._sessions.items() if held is tab]:
            del self._sessions[session]

    # what the browser tells

    def _hear(self, method: str, session: str, params: dict[str, Any]) -> None:
        heard = _EVENTS.get(method)
        if heard is not None:
            heard(self, session, params)
        elif (tab := self._sessions.get(session)) is not None:
            tab.hear(method, session, params)

    def attach(self, parent: str, params: dict[str, Any]) -> None:
        """A page or a frame has a session from now on."""
        info, session = params["targetInfo"], params["sessionId"]
        tab = self._sessions.get(parent)
        if info["type"] == "page":
            tab = BrowserTab(self.link, f"t{next(self._numbers)}", info["targetId"], session, clock=self._clock)
            tab.url, tab.title = info.get("url", ""), info.get("title", "")
            opener = self.tabs.get(info.get("openerId", ""))
            if opener is not None and len(self.list_tabs(opener.owner)) >= POPUPS:
                self._tasks.start(self._refuse(info["targetId"]))
                return
            if opener is not None:  # what a page opens belongs to who opened the page
                tab.owner = opener.owner
                self.current[opener.owner] = tab.target
            self.tabs[tab.target] = tab
            self._came.set()
        elif tab is not None:
            tab.inner[info["targetId"]] = session
            tab.around[session] = parent
        if tab is None:
            return
        self._sessions[session] = tab
        self._tasks.start(self._prepare(tab, session, page=info["type"] == "page"))

    async def _refuse(self, target: str) -> None:
        with contextlib.suppress(BrowserFault):
            await self.link.send("Target.closeTarget", {"targetId": target})

    async def _prepare(self, tab: BrowserTab, session: str, *, page: bool) -> None:
        asked = [tab.send(method, told, session) for method, told in _EVERY]
        if page:
            asked.append(tab.send("Emulation.setFocusEmulationEnabled", {"enabled": True}, session))
        # In this order, but not one after the other: a page that waits answers some of it only when it runs.
        asked.append(tab.send("Runtime.runIfWaitingForDebugger", {}, session))
        await asyncio.gather(*asked, return_exceptions=True)
        if page:
            tab.ready.set()
            tab.stir()

    def detach(self, session: str, params: dict[str, Any]) -> None:
        """A page or a frame is gone."""
        gone = params["sessionId"]
        tab = self._sessions.pop(gone, None)
        if tab is None:
            return
        if gone == tab.session:
            self._drop(tab)
        else:
            tab.inner = {frame: one for frame, one in tab.inner.items() if one != gone}

    def rename(self, session: str, params: dict[str, Any]) -> None:
        """Title and address of a page changed."""
        info = params["targetInfo"]
        if (tab := self.tabs.get(info["targetId"])) is not None:
            tab.url, tab.title = info["url"], info["title"]
            tab.stir()

    def begin_download(self, session: str, params: dict[str, Any]) -> None:
        """A page hands a file over."""
        ident = params["guid"]
        name = os.path.basename(params.get("suggestedFilename") or "") or "download"
        self.downloads[ident] = BrowserDownload(ident, params["url"], name)
        for old in list(self.downloads)[:-50]:
            del self.downloads[old]
        self._stir()

    def follow_download(self, session: str, params: dict[str, Any]) -> None:
        """How far it is."""
        if (found := self.downloads.get(params["guid"])) is not None and params["state"] != found.state:
            found.state = params["state"]
            self._stir()

    def _stir(self) -> None:
        for tab in self.tabs.values():
            tab.stir()


def _gone(browser: LiveBrowser, session: str, params: dict[str, Any]) -> None:
    if (tab := browser.tabs.get(params["targetId"])) is not None:
        browser.detach("", {"sessionId": tab.session})


_EVENTS: dict[str, Callable[[LiveBrowser, str, dict[str, Any]], None]] = {
    "Target.attachedToTarget": LiveBrowser.attach,
    "Target.detachedFromTarget": LiveBrowser.detach,
    "Target.targetInfoChanged": LiveBrowser.rename,
    "Target.targetDestroyed": _gone,
    "Browser.downloadWillBegin": LiveBrowser.begin_download,
    "Browser.downloadProgress": LiveBrowser.follow_download,
}
