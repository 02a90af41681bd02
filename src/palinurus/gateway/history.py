"""GET /sessions/<key>/history: a session's messages as JSON, or as a stream that goes on when new ones come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse

from palinurus.core.types.events import AgentEnd, MessageEnd, RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.keys import parse_session_key
from palinurus.gateway import http
from palinurus.gateway.http import HttpFault, RouteRequest, make_bad_request
from palinurus.gateway.limits import KEEPALIVE
from palinurus.gateway.port import GatewayHost
from palinurus.gateway.views import SessionReader, list_visible_entries, project_entry, project_history
from palinurus.gateway.ws.frames import encode_json

LIMIT, MOST = 200, 1000


async def handle_history(visit: RouteRequest) -> StreamResponse | HttpFault:
    """Answer one request."""
    request, host, settings, typed = visit.request, visit.host, visit.host.settings, visit.part("key")
    key = parse_session_key(settings.session.main_key if typed == "main" else typed, settings.default_agent)
    limit, cursor = _number(request.query.get("limit"), LIMIT), _number(request.query.get("cursor"), 0)
    if key is None:
        return make_bad_request("that is not a session key", "key")
    if limit is None or cursor is None or not 1 <= limit <= MOST:
        return make_bad_request(
            f"limit is 1 to {MOST}; cursor is the nextCursor of an answer", "limit", code="invalid_value"
        )
    program = host.program
    reader = SessionReader(program) if program is not None else None
    _, transcript = await reader.read(str(key)) if reader is not None else (None, None)
    if reader is None or transcript is None:
        missing = {"ok": False, "error": {"type": "not_found", "message": f"Session not found: {key}"}}
        return http.reply_json(missing, 404)
    first = make_history_page(str(key), project_history(transcript, limit, before=cursor or None))
    if "text/event-stream" not in request.headers.get("Accept", ""):
        return http.reply_json(first)
    return await _follow(request, host, reader, str(key), first=first, told=len(list_visible_entries(transcript)))


def make_history_page(key: str, shown: list[dict[str, Any]]) -> dict[str, Any]:
    """A run of messages, oldest first, and where the older ones begin. The rows stand there twice: both names are in
    use."""
    more = bool(shown) and _seq(shown[0]) > 1
    made: dict[str, Any] = {"sessionKey": key, "items": shown, "messages": shown, "hasMore": more}
    return {**made, "nextCursor": str(_seq(shown[0]))} if more else made


class _Watcher:
    """Wakes when something may have been added to one session. Implements `inbox.feed.RunFollower`."""

    def __init__(self, session: str) -> None:
        self.wake = asyncio.Event()
        self._session = session
        self._items: set[str] = set()

    def on_accepted(self, item: str, session: str, inbound: Inbound) -> None:
        if session == self._session:
            self._items.add(item)

    on_started = on_accepted

    def on_event(self, item: str, event: RunEvent) -> None:
        if item in self._items and isinstance(event, MessageEnd | AgentEnd):
            self.wake.set()

    def on_merged(self, item: str, into: str) -> None:
        self._items.discard(item)

    def on_ended(self, item: str) -> None:
        if item in self._items:
            self._items.discard(item)
            self.wake.set()


async def _follow(
    request: BaseRequest, host: GatewayHost, reader: SessionReader, key: str, first: dict[str, Any], told: int
) -> StreamResponse:
    watcher = _Watcher(key)
    unfollow: Callable[[], None] = host.follow(watcher, lambda: True)
    response = await http.open_event_stream(request)
    try:
        await response.write(http.encode_sse("history", encode_json(first)))
        while True:
            try:
                async with asyncio.timeout(KEEPALIVE):
                    await watcher.wake.wait()
            except TimeoutError:
                await response.write(b": keep-alive\n\n")
                continue
            watcher.wake.clear()
            _, transcript = await reader.read(key)
            news = list_visible_entries(transcript)[told:] if transcript is not None else []
            for entry in news:
                told += 1
                message = {"sessionKey": key, "message": project_entry(entry, told)}
                await response.write(http.encode_sse("message", encode_json(message)))
    except ConnectionError:
        return response
    finally:
        unfollow()


def _seq(message: dict[str, Any]) -> int:
    return int(message["__openclaw"]["seq"])


def _number(text: str | None, default: int) -> int | None:
    if not text:
        return default
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
