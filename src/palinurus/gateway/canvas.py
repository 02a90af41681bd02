"""The gateway's side of canvases: documents behind capability addresses, and what clients hear of them.

Loaded with the first canvas. A request needs no credential but its address, and gets nothing with ours on it: every
answer carries the canvas's own policy, which makes it a page of no origin (core/canvas.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from aiohttp.web_response import Response

from palinurus.core.canvas import FRAME_POLICY, build_frame_page
from palinurus.gateway import http
from palinurus.gateway.http import HttpFault, RouteRequest
from palinurus.gateway.rpc import make_session_topic
from palinurus.store.news import StoreNews
from palinurus.tools.canvas.offer import KIND, CanvasNews, CanvasOffer
from palinurus.tools.canvas.serve import HEADERS, answer_canvas

if TYPE_CHECKING:
    from palinurus.gateway.clients import GatewayClients

_GONE = HttpFault(404, "there is no canvas at this address, or no longer", "not_found", code="not_found")


async def serve_canvas(visit: RouteRequest) -> Response | HttpFault:
    """What stands at a capability's address. To somebody who opens it by itself a frame around it is served."""
    program = visit.host.program
    offer = program.canvas if program is not None else None
    if offer is None or offer.absence:
        return _GONE
    token, path = visit.match["token"], visit.part("path")
    state = await offer.board.open_address(token)
    if state is None:
        return _GONE
    base = f"{visit.host.settings.gateway.page_base}/__openclaw__/cap/{token}"
    found = await answer_canvas(state, path, base)
    if found is None:
        return _GONE
    if found.type == "text/html" and visit.request.headers.get("Sec-Fetch-Dest") == "document":
        page = build_frame_page(f"{base}/{path}").encode()
        return http.reply_bytes(page, "text/html", Content_Security_Policy=FRAME_POLICY, X_Frame_Options="DENY")
    return Response(
        body=found.body, content_type=found.type, charset=_charset(found.type), headers={**http.HEADERS, **HEADERS}
    )


def _charset(kind: str) -> str | None:
    return "utf-8" if kind.startswith("text/") else None


def attach_canvas(gateway: GatewayClients, offer: CanvasOffer) -> Callable[[], None]:
    """Tell clients what becomes of canvases, from now on. Returns the function that ends it."""

    def hear(news: CanvasNews) -> None:
        told = {"sessionKey": news.session, "action": news.action, **news.told}
        if news.action != "eval":
            gateway.broadcast("canvas", told)
            return
        connected = {client.conn for client in gateway.clients()}
        viewers = offer.board.list_viewers(news.session, connected)
        for conn in viewers:
            gateway.send(conn, "canvas", told)
        if not viewers:
            offer.board.refuse(told["id"])

    async def reread(name: str) -> None:
        state = await offer.board.find_named(name)
        if state is not None:
            hear(CanvasNews(state.session, "present" if state.shown else "hide", {"revision": state.revision}))

    def hear_of_others(news: StoreNews) -> None:  # another node has changed one
        if news.what == "record" and news.key == KIND:
            gateway.tasks.start(reread(news.detail))

    unwatch = gateway.host.store.watch(hear_of_others)
    offer.listeners.append(hear)
    offer.count_watchers = lambda session: len(gateway.followers([make_session_topic(session)]))

    def end() -> None:
        unwatch()
        offer.listeners.remove(hear)
        offer.count_watchers = lambda session: 0

    return end
