"""The web page: serves what `make web` has built into `static/`. Knows files, their headers and the page's own
addresses; what the page does it does over the WebSocket. Without a built page it says how to make one.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
from typing import NamedTuple

from aiohttp import web

from palinurus.gateway import reply

PAGE_FOLDER = os.path.join(os.path.dirname(__file__), "static")
VIEWS = "overview|channels|sessions|agents|skills|memory|cron|access|config|logs|setup"  # as in web/src/sidebar.ts
PAGE_PATHS = re.compile(
    rf"/(?:chat(?:/[^/]*)?|{VIEWS})?|/(?P<file>(?:app|style)-[0-9a-f]{{12}}\.(?:js|css)|favicon\.svg)"
)
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src blob:; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types lit-html dompurify"
)
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
MISSING = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Palinurus</title>
<h1>Palinurus is running</h1>
<p>Its web page has not been built: run <code>make web</code> in the source folder and reload.</p>
<p>Meanwhile <code>pal chat</code> talks to it from a terminal, and any OpenAI client with this address and /v1.</p>
</html>
"""


class PageFile(NamedTuple):
    """One file in memory, plain and packed."""

    body: bytes
    packed: bytes
    type: str
    tag: str
    lasting: bool  # its name changes with its content


class WebPage:
    """The built page. Read on the first request; a new build is seen after a restart."""

    def __init__(self, folder: str = PAGE_FOLDER) -> None:
        self._folder = folder
        self._files: dict[str, PageFile] | None = None

    def answer(self, request: web.BaseRequest, name: str | None) -> web.Response:
        """The file `name`, or the page itself for None; 304 to a browser that has it, 404 for what is not there."""
        if self._files is None:
            self._files = _read(self._folder)
        found = self._files.get(name or "index.html")
        if found is None:
            return reply.reply_bytes(b"there is no such file", "text/plain", 404)
        headers = {
            **reply.HEADERS,
            "Content-Security-Policy": PAGE_POLICY,
            "X-Frame-Options": "DENY",
            "ETag": found.tag,
            "Cache-Control": "public, max-age=31536000, immutable" if found.lasting else "no-cache",
            "Vary": "Accept-Encoding",
        }
        if found.tag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        packed = "gzip" in request.headers.get("Accept-Encoding", "")
        if packed:
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=found.packed if packed else found.body, content_type=found.type, headers=headers)


def _read(folder: str) -> dict[str, PageFile]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        names = []
    found = {"index.html": _file("index.html", MISSING)}
    for name in names:
        if os.path.splitext(name)[1] in TYPES:
            with open(os.path.join(folder, name), "rb") as file:
                found[name] = _file(name, file.read())
    return found


def _file(name: str, body: bytes) -> PageFile:
    tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
    lasting = re.fullmatch(r"\w+-[0-9a-f]{12}\.\w+", name) is not None
    return PageFile(body, gzip.compress(body, mtime=0), TYPES[os.path.splitext(name)[1]], tag, lasting)
