"""The tools that look outside, put together: one door, one child per format. `close` ends the children."""

from __future__ import annotations

from palinurus.clock import Clock
from palinurus.config.settings import WebSettings
from palinurus.core.types.tool import Tool
from palinurus.tools import image, pdf
from palinurus.tools.image import Shrink, Vision
from palinurus.tools.web import fetch, search
from palinurus.tools.web.door import Door, Resolve, system
from palinurus.tools.web.reader import PAGE, PAPER, Reader, usable


class Web:
    """web_fetch, web_search, image and pdf; each only where it can be used. `door` is for others who fetch."""

    def __init__(self, settings: WebSettings, clock: Clock, resolve: Resolve = system) -> None:
        self.door = Door(settings.fetch.rules, resolve, settings.fetch.agent)
        self._settings = settings
        self._clock = clock
        self._pages = Reader(PAGE, "the page")
        self._papers = Reader(PAPER, "the PDF") if usable(PAPER) else None

    def tools(self, vision: Vision | None = None, shrink: Shrink | None = None) -> dict[str, Tool]:
        """By name, in the order the model is told of them."""
        fetching = fetch.Source(self.door, self._settings.fetch, self._clock, self._pages, self._papers)
        return {
            **search.make(search.Source(self.door, self._settings.search, self._clock, self._pages)),
            **fetch.make(fetching),
            **image.make(vision, self.door, shrink),
            **pdf.make(self._papers, self.door),
        }

    async def close(self) -> None:
        """End the children; nothing is lost."""
        await self._pages.close()
        if self._papers is not None:
            await self._papers.close()
