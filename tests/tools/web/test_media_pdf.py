"""The pdf tool: pages as asked, from files and addresses; what is broken or foreign is said, and nothing hangs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from palinurus.core.types.messages import ToolCall, ToolResult
from palinurus.core.types.tool import ToolFailure
from palinurus.plugins.hooks import Hooks
from palinurus.tools.call import call_tool
from palinurus.tools.web.egress import EgressGuard
from palinurus.tools.web.media import PAGES, PaperSource, make_pdf_tool, parse_pages
from palinurus.tools.web.reader import PDF_MODULE, FormatReader, is_usable
from tools.web.kit import Site
from tools.web.paper import pdf

needs = pytest.mark.skipif(not is_usable(PDF_MODULE), reason="pypdf is not installed")


@pytest.fixture
async def papers() -> AsyncIterator[FormatReader]:
    made = FormatReader(PDF_MODULE, "the PDF")
    yield made
    await made.close()


async def read(ctx: Any, papers: FormatReader, door: EgressGuard | None = None, **args: Any) -> ToolResult:
    return await call_tool(
        ToolCall("c", "pdf", args), make_pdf_tool(PaperSource(papers, door or EgressGuard())), ctx, Hooks()
    )


@needs
async def test_the_text_of_a_file_page_by_page_in_a_frame(ctx: Any, workspace: Path, papers: FormatReader) -> None:
    (workspace / "a.pdf").write_bytes(pdf("First", "Second <|im_start|>", ""))
    result = await read(ctx, papers, pdf="a.pdf", prompt="what?")
    assert not result.isError and "[Page 1 of 3]\nFirst" in result.text and "Second ‹|im_start|›" in result.text
    assert "no text on this page" in result.text and result.text.count("EXTERNAL_UNTRUSTED_CONTENT") == 2
    assert result.details["documents"][0]["total"] == 3
    some = await read(ctx, papers, pdf="a.pdf", pages="2")
    assert "Second" in some.text and "First" not in some.text
    assert "none of the pages asked for exists; there are 3" in (await read(ctx, papers, pdf="a.pdf", pages="9")).text


@needs
async def test_long_papers_say_how_to_go_on(ctx: Any, workspace: Path, papers: FormatReader) -> None:
    (workspace / "a.pdf").write_bytes(pdf(*(f"p{n}" for n in range(1, 31))))
    first = await read(ctx, papers, pdf="a.pdf")
    assert f"continue with pages={PAGES + 1}-" in first.text
    assert "p30" in (await read(ctx, papers, pdf="a.pdf", pages="21-")).text


@needs
async def test_an_address_goes_through_the_door_and_counts_as_web(ctx: Any, papers: FormatReader) -> None:
    site = Site()
    await site.start()
    site.routes["/a.pdf"] = lambda _: web.Response(body=pdf("From afar"), content_type="application/pdf")
    try:
        output = await make_pdf_tool(PaperSource(papers, EgressGuard(site.rules)))["pdf"].run(
            ctx, pdf=site.url("/a.pdf")
        )
        assert output.source == "web" and "From afar" in output.content[0].text
        seen = len(site.seen)
        closed = await read(ctx, papers, pdf=site.url("/a.pdf"))
        assert closed.isError and "Not fetched" in closed.text and len(site.seen) == seen
    finally:
        await site.stop()


LOOP = pdf("x").replace(b"/Parent 2 0 R", b"/Parent 4 0 R").replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]")


@needs
@pytest.mark.parametrize(
    "data",
    [b"no pdf", b"%PDF-1.4\n" + b"\xff" * 500, pdf("x")[:200], LOOP, b"%PDF-", pdf("x").replace(b"xref", b"xxxx")],
)
async def test_broken_papers(ctx: Any, workspace: Path, papers: FormatReader, data: bytes) -> None:
    (workspace / "a.pdf").write_bytes(data)
    result = await read(ctx, papers, pdf="a.pdf")
    assert result.isError or "Page" in result.text or "no pages" in result.text
    (workspace / "b.pdf").write_bytes(pdf("fine"))
    assert "fine" in (await read(ctx, papers, pdf="b.pdf")).text


@pytest.mark.parametrize(
    ("text", "found"),
    [("", []), ("3", [3]), ("1-3,7", [1, 2, 3, 7]), (" 2 - 4 ,3", [2, 3, 4]), ("10-", list(range(10, 30)))],
)
def test_page_ranges(text: str, found: list[int]) -> None:
    assert parse_pages(text) == found


@pytest.mark.parametrize("text", ["x", "0", "3-1", "-2", "1--2", "1;2", "9999999"])
def test_ranges_that_make_no_sense(text: str) -> None:
    with pytest.raises(ToolFailure, match="pages"):
        parse_pages(text)


def test_ranges_are_bounded() -> None:
    assert len(parse_pages("1-999999,5000-")) == PAGES


def test_without_the_library_there_is_no_tool() -> None:
    assert make_pdf_tool(None) == {}
