"""The `canvas` tool as the program sees it before anybody uses it: is there a page that shows it, and who listens.

Small, because it is loaded with the program; all that keeps and draws a canvas comes with the first use (`late.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from palinurus.clock import Clock
from palinurus.config.paths import PAGE_FOLDER
from palinurus.config.settings import Settings
from palinurus.core.types.tool import LateTool, Tool, ToolContext, ToolOutput
from palinurus.late import load_part
from palinurus.store.port import Store

if TYPE_CHECKING:  # loaded with the first use
    from palinurus.tools.browser.offer import BrowserOffer
    from palinurus.tools.canvas.board import CanvasBoard

KIND = "canvas"  # of the records
BRIDGE = os.path.join(PAGE_FOLDER, "canvas.js")  # `make web` builds it: the page's side, and what draws A2UI
DESCRIPTION = (
    "Show the person a page beside the chat: present (html, or target: a file of the workspace, or jsonl: A2UI v0.8), "
    "navigate (target: a page of the folder canvas/), eval (javaScript in the page as it is shown), snapshot (a "
    "picture), hide, a2ui_push, a2ui_reset. Pages have no network: put everything inline, or beside it in canvas/. "
    "palinurus.send(name, data) in a page, and A2UI buttons, come back to you as a message when the person uses them."
)


def explain_canvas_absence(settings: Settings) -> str:
    """Why there is no canvas here; "" if there is one."""
    if not settings.canvas.enabled:
        return "canvasHost.enabled is false"
    if not settings.gateway.page:
        return "the page that shows it is off (gateway.controlUi.enabled)"
    return "" if os.path.isfile(BRIDGE) else "the page that shows it is not built (`make web`)"


class CanvasNews(msgspec.Struct, frozen=True):
    """What became of a session's canvas: `present`, `hide`, `a2ui` (with `messages`) or `eval` (with id and code)."""

    session: str
    action: str
    told: dict[str, Any] = {}


class CanvasOffer:
    """The tool, and the board that came of it. `listeners` are told what became of any canvas."""

    def __init__(self, settings: Settings, store: Store, clock: Clock, browser: Callable[[], BrowserOffer]) -> None:
        self.settings = settings
        self.store = store
        self.clock = clock
        self._make_browser = browser
        self.absence = explain_canvas_absence(settings)
        self.listeners: list[Callable[[CanvasNews], None]] = []
        self.count_watchers: Callable[[str], int] = lambda session: 0  # pages that have a session open
        self._board: CanvasBoard | None = None

    @property
    def board(self) -> CanvasBoard:
        """Who keeps the canvases; loaded when it is first asked for."""
        if self._board is None:
            self._board = load_part("canvas")(self)
        assert self._board is not None
        return self._board

    def tell(self, news: CanvasNews) -> None:
        """Everybody who listens hears it."""
        for listener in tuple(self.listeners):
            listener(news)

    async def sweep(self) -> None:
        """Forget what conversations showed that are gone. Loads nothing where nothing was shown."""
        if await self.store.list_records(KIND):
            await self.board.sweep()

    @cached_property
    def browser(self) -> BrowserOffer:
        """What takes pictures of it, made with the tools of the first run."""
        return self._make_browser()

    async def close_browser(self) -> None:
        """End all browsers, if there was one."""
        if "browser" in vars(self):
            await self.browser.close()

    def tools(self) -> dict[str, Tool]:
        """The tool, by name. Where nothing can show it it says why (`missing`), and nobody is offered it."""
        tool = LateTool(
            "canvas",
            DESCRIPTION,
            {},
            self._run,
            sequential=True,
            summary=summarize_canvas_call,
            aliases={"url": "target", "path": "target", "javascript": "javaScript", "code": "javaScript"},
            missing=self.absence,
            schema=cache(self._describe),
        )
        return {tool.name: tool}

    def _describe(self) -> dict[str, Any]:
        known: dict[str, Any] = load_part("canvas-tool").parameters
        if not self.browser.absence:
            return known
        actions = [one for one in known["properties"]["action"]["enum"] if one != "snapshot"]  # nobody takes pictures
        props = {**known["properties"], "action": {**known["properties"]["action"], "enum": actions}}
        return {**known, "properties": props}

    async def _run(self, ctx: ToolContext, **args: Any) -> ToolOutput:
        output: ToolOutput = await load_part("canvas-tool").run(self.board, ctx, **args)
        return output


def summarize_canvas_call(args: dict[str, Any]) -> str:
    """For progress lines."""
    return " ".join(str(one) for one in (args.get("action"), args.get("title") or args.get("target")) if one)[:120]
