"""The tools that look outside, put together: one egress guard, one child per format. `close` ends the children."""

from __future__ import annotations

from typing import TYPE_CHECKING

from palinurus.clock import Clock
from palinurus.config.sections.web import PdfSettings, WebSettings
from palinurus.core.types.tool import Tool
from palinurus.late import load_part
from palinurus.tools.web.egress import EgressGuard, HostResolver, resolve_host
from palinurus.tools.web.reader import PAGE_MODULE, PDF_MODULE, FormatReader, is_usable

if TYPE_CHECKING:  # loaded with the first run, which is told of them
    from palinurus.tools.web.media import ImageDescriber, ImageShrinker, PaperReader

USUAL = PdfSettings()


class WebToolset:
    """web_fetch, web_search, image and pdf; each only where it can be used. `egress` is for others who fetch."""

    def __init__(self, settings: WebSettings, clock: Clock, resolve: HostResolver = resolve_host) -> None:
        self.egress = EgressGuard(settings.fetch.rules, resolve, settings.fetch.agent)
        self._settings = settings
        self._clock = clock
        self._pages = FormatReader(PAGE_MODULE, "the page")
        self._papers = FormatReader(PDF_MODULE, "the PDF") if is_usable(PDF_MODULE) else None

    def tools(
        self,
        vision: ImageDescriber | None = None,
        shrink: ImageShrinker | None = None,
        pdf: PdfSettings = USUAL,
        reader: PaperReader | None = None,
    ) -> dict[str, Tool]:
        """By name, in the order the model is told of them."""
        fetch, media, search = (load_part(f"web-{name}") for name in ("fetch", "media", "search"))
        paper = media.PaperSource(self._papers, self.egress, pdf, reader) if self._papers is not None else None
        fetching = fetch.FetchSource(self.egress, self._settings.fetch, self._clock, self._pages, papers=self._papers)
        return {
            **search.make_search_tool(
                search.SearchSource(self.egress, self._settings.search, self._clock, self._pages)
            ),
            **fetch.make_fetch_tool(fetching),
            **media.make_image_tool(vision, self.egress, shrink),
            **media.make_pdf_tool(paper),
        }

    async def close(self) -> None:
        """End the children; nothing is lost."""
        await self._pages.close()
        if self._papers is not None:
            await self._papers.close()
