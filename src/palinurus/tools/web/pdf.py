"""PDF -> text, page by page. The main program of a child of `reader`; the only file that knows pypdf."""

from __future__ import annotations

import io
import logging
from typing import Any

from pypdf import PdfReader

from palinurus.tools.web.serve import serve_jobs


def extract_pdf(told: dict[str, Any], data: bytes) -> dict[str, Any]:
    """{pages, total, title}: `wanted` are page numbers from 1 on; [] means from the first to `most`."""
    logging.disable(logging.CRITICAL)
    paper = PdfReader(io.BytesIO(data), strict=False)
    if paper.is_encrypted and not paper.decrypt(""):
        raise ValueError("it is protected with a password")
    total = len(paper.pages)
    most, room = int(told.get("most") or 20), int(told.get("chars") or 200_000)
    wanted = [n for n in told.get("wanted") or range(1, total + 1) if 0 < n <= total][:most]
    pages: list[dict[str, Any]] = []
    for number in wanted:
        text = (paper.pages[number - 1].extract_text() or "").strip()[:room]
        room -= len(text)
        pages.append({"page": number, "text": text})
        if room <= 0:
            break
    title = str(paper.metadata.title or "") if paper.metadata else ""
    return {"pages": pages, "total": total, "title": title[:300]}


if __name__ == "__main__":
    serve_jobs({"extract": extract_pdf})
