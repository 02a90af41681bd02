"""The pdf tool: the text of PDFs, page by page, from files or addresses. The reading itself is done by a child."""

from __future__ import annotations

import re
import secrets
from functools import partial
from typing import Any

import msgspec

from palinurus.core.types.messages import TextBlock
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput
from palinurus.core.untrusted import clean_label, wrap_untrusted
from palinurus.tools.paths import shorten_path
from palinurus.tools.web.door import EgressGuard
from palinurus.tools.web.material import collect_references, load_media
from palinurus.tools.web.reader import FormatReader

MAX_PDFS = 10  # papers of one call
PAGES = 20  # of one paper
MAX_PDF_BYTES = 10 << 20
_SECONDS = 60.0
_PART = re.compile(r"(\d{1,6})(?:\s*-\s*(\d{1,6})?)?")


def make_pdf_tool(papers: FormatReader | None, door: EgressGuard) -> dict[str, Tool]:
    """The tool, by name; empty when what reads PDFs is not installed."""
    if papers is None:
        return {}
    return {_TOOL.name: msgspec.structs.replace(_TOOL, run=partial(_pdf, papers, door))}


async def _pdf(papers: FormatReader, door: EgressGuard, ctx: ToolContext, **args: Any) -> ToolOutput:
    """Raises ToolFailure."""
    names = collect_references(args.get("pdf"), args.get("pdfs"), MAX_PDFS, "PDF")
    wanted = parse_pages(str(args.get("pages") or ""))
    room = max((ctx.settings.result_chars - 600) // len(names), 500)
    texts, details, sources = list[str](), list[dict[str, Any]](), set[str]()
    for name in names:
        found = await load_media(name, ctx, door, MAX_PDF_BYTES)
        if not found.data[:1024].lstrip().startswith(b"%PDF-"):
            raise ToolFailure(f"{found.name} is not a PDF")
        told = {"wanted": wanted, "most": PAGES, "chars": room}
        read = await papers.ask("extract", told, found.data, _SECONDS)
        shown = [one["page"] for one in read["pages"]]
        sources.add(found.source)
        details.append({"pdf": found.name, "pages": shown, "total": read["total"], "title": clean_label(read["title"])})
        texts.append(_laid(found.name, read, wanted))
    text = wrap_untrusted("\n\n".join(texts), "pdf", secrets.token_hex(16))
    source = "web" if "web" in sources else "file"
    return ToolOutput((TextBlock(text),), {"documents": details}, source=source)


def _laid(name: str, read: dict[str, Any], wanted: list[int]) -> str:
    total, parts = int(read["total"]), []
    for one in read["pages"]:
        parts.append(f"[Page {one['page']} of {total}]\n{one['text'] or '(no text on this page: it may be a picture)'}")
    if not parts:
        parts.append(f"(none of the pages asked for exists; there are {total})" if wanted else "(no pages)")
    last = read["pages"][-1]["page"] if read["pages"] else 0
    if last < total and not wanted:
        parts.append(f"[{total - last} more pages; continue with pages={last + 1}-]")
    return f"{name}\n" + "\n\n".join(parts)


def parse_pages(text: str) -> list[int]:
    """`1-3, 7, 10-` as page numbers, at most `PAGES`; [] = from the first on. Raises ToolFailure."""
    found: dict[int, None] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        match = _PART.fullmatch(part)
        if match is None or int(match[1]) < 1:
            raise ToolFailure(f"pages {text[:40]!r} cannot be read; write it as 1-3,7 or 10-")
        first = int(match[1])
        last = int(match[2]) if match[2] else first + PAGES - 1 if "-" in part else first
        if last < first:
            raise ToolFailure(f"pages {text[:40]!r}: {part} runs backwards")
        found |= dict.fromkeys(range(first, min(last, first + PAGES - 1) + 1))
    return list(found)[:PAGES]


async def _nothing(ctx: ToolContext, **_: Any) -> ToolOutput:
    raise ToolFailure("PDFs cannot be read here: pip install 'palinurus[pdf]'")


_TOOL = Tool(
    name="pdf",
    description=(
        f"Read the text of PDFs: files of the workspace or http(s) addresses. At most {PAGES} pages at a time; choose "
        "them with `pages`."
    ),
    parameters={
        "type": "object",
        "properties": {
            "pdf": {"type": "string", "description": "Path or address"},
            "pdfs": {"type": "array", "items": {"type": "string"}, "description": f"Several, at most {MAX_PDFS}"},
            "pages": {"type": "string", "description": "Such as 1-3,7 or 10-"},
            "prompt": {"type": "string", "description": "What you want to know; the text comes back, you answer"},
        },
    },
    run=_nothing,
    effect="pure",
    summary=lambda args: shorten_path(str(args.get("pdf") or next(iter(args.get("pdfs") or ()), ""))),
    aliases={"path": "pdf", "url": "pdf", "file_path": "pdf", "file": "pdf", "paths": "pdfs"},
)
