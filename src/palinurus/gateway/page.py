"""The web page: serves what `make web` has built into `static/`, and what the page asks for besides: its config, and
pictures and sounds of a workspace (only kinds that run nothing in a browser, for callers that may read).
What the page does it does over the WebSocket. Without a built page it says how to make one.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import html
import os
import re
from collections.abc import Mapping

import msgspec
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response

from palinurus import __version__
from palinurus.beneath import read_file_beneath, resolve_beneath
from palinurus.config.paths import PAGE_FOLDER, SITE_FOLDER
from palinurus.config.sections.gateway import PageLook
from palinurus.config.settings import Settings
from palinurus.gateway import http
from palinurus.gateway.http import HttpFault, RouteRequest
from palinurus.patterns import compile_late

USUAL = PageLook()
MEDIA_BYTES = 32 * 1024 * 1024
MEDIA_TYPES: dict[str, str] = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
    ".wav": "audio/wav",
    ".m4a": "audio/mp4",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
}
MEDIA_POLICY = "default-src 'none'; sandbox"
_NONE = HttpFault(404, "there is no such file, or it is none that is shown", "not_found", code="not_found")


def make_page_config(visit: RouteRequest) -> Response:
    """control-ui-config.json: what a page needs before it connects."""
    settings = visit.host.settings
    agent, look = settings.agents[settings.default_agent], settings.gateway.look
    return http.reply_json(
        {
            "basePath": settings.gateway.page_base,
            "assistantName": look.name or agent.name or settings.default_agent,
            "assistantAvatar": look.avatar or None,
            "assistantAvatarSource": "config" if look.avatar else None,
            "assistantAvatarStatus": "ready" if look.avatar else "none",
            "assistantAvatarReason": None if look.avatar else "missing",
            "seamColor": look.color or None,
            "assistantAgentId": settings.default_agent,
            "serverVersion": __version__,
            "localMediaPreviewRoots": [a.workspace for a in settings.agents.values()],
            "embedSandbox": "strict",
            "allowExternalEmbedUrls": False,
        }
    )


def describe_avatar(visit: RouteRequest) -> Response | HttpFault:
    """/avatar/<agent>: there are none yet, and the page asks first whether there is one."""
    if visit.match["agent"] not in visit.host.settings.agents or visit.request.query.get("meta") != "1":
        return _NONE
    return http.reply_json({"avatarUrl": None, "avatarSource": None, "avatarStatus": "none", "avatarReason": "missing"})


async def serve_workspace_media(visit: RouteRequest) -> Response | HttpFault:
    """A file of a workspace (`source`, absolute or relative to the default agent's); with meta=1 whether there is."""
    query = visit.request.query
    source = query.get("source", "").removeprefix("file://")
    found = await asyncio.to_thread(read_workspace_media, source, visit.host.settings)
    if query.get("meta") == "1":
        return http.reply_json(
            {"available": found is not None, **({} if found else {"reason": "not found or not shown"})}
        )
    if found is None:
        return _NONE
    data, kind = found
    return http.reply_bytes(data, kind, Content_Security_Policy=MEDIA_POLICY, Content_Disposition="inline")


def read_workspace_media(source: str, settings: Settings) -> tuple[bytes, str] | None:
    """The bytes, if size, kind and the workspaces allow it. Links are followed before judging."""
    kind = MEDIA_TYPES.get(os.path.splitext(source)[1].lower())
    if kind is None or "\0" in source or len(source) > 4096:
        return None
    path = os.path.join(settings.agents[settings.default_agent].workspace, source)
    roots = (agent.workspace for agent in settings.agents.values())
    root, inner = next(((root, inner) for root in roots if (inner := resolve_beneath(root, path))), ("", ""))
    if os.path.splitext(inner)[1].lower() not in MEDIA_TYPES:
        return None
    try:
        return read_file_beneath(root, inner, MEDIA_BYTES), kind
    except OSError:
        return None


VIEWS = (  # as in web/src/control.ts
    "overview|usage|channels|sessions|agents|models|skills|integrations|memory|cron|nodes|fleet|access|config|logs|debug"
    "|setup"
)
OTHER_FILES = r"favicon\.svg|icon-\d+\.png|manifest\.webmanifest|sw\.js|stage\.html"
PAGE_PATHS = compile_late(
    rf"/(?:(?:chat|config)(?:/[^/]*)?|{VIEWS})?|/(?P<file>[a-z]+-[0-9A-Z]{{8}}\.(?:js|css)|{OTHER_FILES})"
)
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; media-src blob:; "
    "connect-src 'self'; frame-src 'self' blob:; worker-src 'self'; manifest-src 'self'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types lit-html dompurify palinurus"
)
# stage.html shows what a model wrote: it is of no origin, reaches nobody, and only our own page may frame it.
STAGE_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'unsafe-inline'; img-src data: blob:; media-src data: blob:; font-src data:; connect-src 'none'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"} | {
    ".png": "image/png",
    ".webmanifest": "application/manifest+json",
}
MISSING = b"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Palinurus</title>
<h1>Palinurus is running</h1>
<p>Its web page has not been built: run <code>make web</code> in the source folder and reload.</p>
<p>Meanwhile <code>pal chat</code> talks to it from a terminal, and any OpenAI client with this address and /v1.</p>
</html>
"""


DOCS_PATHS = compile_late(r"/docs(?:/(?P<page>(?:[a-z0-9-]+/)?[\w-]+\.(?:html|css|js|json))?)?")
DOCS_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; frame-ancestors 'none'"
DOCS_MISSING = b"the docs have not been built here: run `make docs` in the source folder; as Markdown they are in docs/"


class PageFile(msgspec.Struct, frozen=True):
    """One file in memory, plain and packed."""

    body: bytes
    packed: bytes
    type: str
    tag: str
    lasting: bool  # its name changes with its content


class WebPage:
    """The built page. Each file is read on its first request; a new build is seen after a restart."""

    def __init__(self, folder: str = PAGE_FOLDER, base: str = "", look: PageLook = USUAL) -> None:
        """`base`: the path that it stands under, without a slash at the end."""
        self._base = base
        self._look = look
        self._folder = folder
        self.site = SITE_FOLDER
        self._files: dict[str, PageFile] = {}

    async def answer(self, visit: RouteRequest) -> Response:
        """The `file` of the path, or the page itself; 304 to a browser that has it, 404 for what is not there."""
        return await self._reply(visit.match["file"] or "index.html", visit.request.headers)

    async def answer_lost(self, request: BaseRequest) -> Response | None:
        """To a browser at an address where nothing is: the page, which says so. None: whoever asks is none."""
        if request.method != "GET" or "text/html" not in request.headers.get("Accept", ""):
            return None
        answer = await self._reply("index.html", {})
        answer.set_status(404)
        return answer

    async def _reply(self, name: str, asked: Mapping[str, str]) -> Response:
        found, staged = self._files.get(name), name == "stage.html"
        if found is None:  # in a thread: packing what draws diagrams takes a while
            found = await asyncio.to_thread(self._find, name)
        if found is None:
            return http.reply_bytes(b"there is no such file", "text/plain", 404)
        headers = {
            **http.HEADERS,
            "Content-Security-Policy": STAGE_POLICY if staged else PAGE_POLICY,
            "X-Frame-Options": "SAMEORIGIN" if staged else "DENY",
            "ETag": found.tag,
            "Cache-Control": "public, max-age=31536000, immutable" if found.lasting else "no-cache",
            "Vary": "Accept-Encoding",
        }
        if found.tag in asked.get("If-None-Match", ""):
            return Response(status=304, headers=headers)
        packed = "gzip" in asked.get("Accept-Encoding", "")
        if packed:
            headers["Content-Encoding"] = "gzip"
        return Response(body=found.packed if packed else found.body, content_type=found.type, headers=headers)

    def _find(self, name: str) -> PageFile | None:
        """Read when it is first asked for: what draws diagrams is larger than all the rest, and few need it."""
        if name not in self._files:
            body = _read(os.path.join(self._folder, name), self._base, self._look)
            if body is None:
                return None  # not kept: anybody may ask for names that are not there
            self._files[name] = _file(name, body)
        return self._files[name]

    async def answer_docs(self, visit: RouteRequest) -> Response:
        """The site that `make docs` has built, from disk: nobody reads it often enough to keep it in memory."""
        if visit.request.path.endswith("/docs"):  # its links are relative
            return Response(status=302, headers={**http.HEADERS, "Location": "docs/"})
        name = visit.match["page"] or "index.html"
        try:
            body = await asyncio.to_thread(read_file_beneath, self.site, name, MEDIA_BYTES)
        except OSError:
            return http.reply_bytes(DOCS_MISSING, "text/plain", 404)
        kind = TYPES.get(os.path.splitext(name)[1], "application/json")
        return http.reply_bytes(body, kind, Content_Security_Policy=DOCS_POLICY, Cache_Control="no-cache")


def _read(path: str, base: str, look: PageLook) -> bytes | None:
    """A file of the page, made for where it stands."""
    name = os.path.basename(path)
    try:
        with open(path, "rb") as file:  # our own
            body = file.read()
    except OSError:
        return MISSING if name == "index.html" else None
    if base and name.endswith(".html"):
        body = body.replace(b'="/', f'="{base}/'.encode())  # the page itself looks where its script is from
    if name == "index.html":
        told = {"assistant": look.name, "avatar": look.avatar, "seam": look.color}
        words = "".join(f'<meta name="{key}" content="{html.escape(text)}">' for key, text in told.items() if text)
        body = body.replace(b"</head>", f"{words}</head>".encode())
    return body


def _file(name: str, body: bytes) -> PageFile:
    tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
    lasting = re.fullmatch(r"\w+-[0-9A-Z]{8}\.\w+", name) is not None
    return PageFile(body, gzip.compress(body, mtime=0), TYPES[os.path.splitext(name)[1]], tag, lasting=lasting)
