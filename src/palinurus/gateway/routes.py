"""The table of routes, and the handlers that are no more than a line or two. What a request must pass before is in
`server.py`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import lru_cache

import msgspec
from aiohttp.web_response import StreamResponse

from palinurus import late
from palinurus.config.sections.gateway import GatewaySettings
from palinurus.core.types.caller import ADMIN, READ, WRITE
from palinurus.core.types.keys import parse_session_key
from palinurus.gateway import http, page
from palinurus.gateway.health import list_fleet_metrics
from palinurus.gateway.http import HttpFault, RouteRequest, make_bad_request
from palinurus.gateway.page import DOCS_PATHS, PAGE_PATHS
from palinurus.gateway.token import PROOF_HEADER
from palinurus.patterns import compile_late

RouteAnswer = StreamResponse | HttpFault
RouteHandler = Callable[[RouteRequest], RouteAnswer | Awaitable[RouteAnswer]]


class HttpRoute(msgspec.Struct, frozen=True):
    """A row of the table. `scope` None: open to everyone who passes the gate."""

    method: str
    pattern: re.Pattern[str]
    name: str  # what the log says; never the path itself
    scope: str | None
    handler: RouteHandler


def _health(visit: RouteRequest) -> RouteAnswer:
    answer = http.reply_json({"ok": True, "status": "live"})
    answer.headers[PROOF_HEADER] = visit.gateway.prove(visit.request)
    return answer


def _ready(visit: RouteRequest) -> RouteAnswer:
    (ready, failing), up = visit.host.ready(), int(1000 * visit.gateway.uptime)
    return http.reply_json({"ready": ready, "failing": failing, "uptimeMs": up}, 200 if ready else 503)


def _chat(visit: RouteRequest) -> RouteAnswer | Awaitable[RouteAnswer]:
    if not visit.host.settings.gateway.chat_completions:
        text = "chat completions are switched off (gateway.http.endpoints.chatCompletions)"
        return HttpFault(404, text, "not_found", code="switched_off")
    return visit.gateway.complete(visit, "CHAT_DIALECT")


def _reach(visit: RouteRequest) -> Awaitable[RouteAnswer]:  # `pal agent` and `pal chat --plain` are no API users
    return visit.gateway.complete(visit, "TERMINAL_DIALECT")


def _responses(visit: RouteRequest) -> RouteAnswer | Awaitable[RouteAnswer]:
    if not visit.host.settings.gateway.responses:
        return http.RESPONSES_OFF
    return visit.gateway.complete(visit, "RESPONSES_DIALECT")


def _stored(what: str) -> RouteHandler:
    return lambda visit: late.load_part("stored")(visit, what)


def _channel(visit: RouteRequest) -> Awaitable[RouteAnswer]:
    return visit.gateway.calls.answer(visit)


async def _metrics(visit: RouteRequest) -> RouteAnswer:
    gateway, program = visit.gateway, visit.host.program
    fleet = program.fleet if program is not None else None
    lines = await list_fleet_metrics(fleet, gateway.clock.monotonic()) if fleet is not None else ()
    text = gateway.metrics.text(gateway.uptime, len(gateway.clients.clients()), gateway.host.ready()[0], lines)
    return http.reply_bytes(text, "text/plain")


async def _kill(visit: RouteRequest) -> RouteAnswer:
    key = parse_session_key(visit.part("key"), visit.host.settings.default_agent)
    if key is None:
        return make_bad_request("that is not a session key", "key")
    return http.reply_json({"ok": True, "aborted": await visit.host.abort(str(key), "user")})


_LATER: dict[str, RouteHandler] = {  # loaded when somebody asks
    "models": lambda visit: late.load_part("models").list_models(visit),
    "model": lambda visit: late.load_part("models").find_model(visit),
    "asset": lambda visit: late.load_part("completions").handle_asset(visit),
    "invoke": lambda visit: late.load_part("invoke")(visit),
    "history": lambda visit: late.load_part("history")(visit),
    "mcp": lambda visit: late.load_part("mcp-http")(visit),
}
_CONVERSATION = r"/v1/conversations/(?P<id>[^/]+)"
_SCOPES = {"GET": READ, "POST": WRITE, "DELETE": ADMIN}  # as `sessions.delete`
_STORED = (
    ("response", "GET", r"/v1/responses/(?P<id>[^/]+)"),
    ("input", "GET", r"/v1/responses/(?P<id>[^/]+)/input_items"),
    ("cancel", "POST", r"/v1/responses/(?P<id>[^/]+)/cancel"),
    ("begin", "POST", r"/v1/conversations"),
    ("conversation", "GET", _CONVERSATION),
    ("change", "POST", _CONVERSATION),
    ("delete", "DELETE", _CONVERSATION),
    ("items", "GET", rf"{_CONVERSATION}/items"),
    ("item", "GET", rf"{_CONVERSATION}/items/(?P<item>[^/]+)"),
    ("add", "POST", rf"{_CONVERSATION}/items"),
)
CHANNELS = compile_late(r"/channels/(?P<name>[^/]+)/(?P<account>[^/]+)(/.*)?")
CANVAS = r"/__openclaw__/cap/(?P<token>[0-9a-f.]{40,120})/(?P<path>__openclaw__/.*)"
SHARE_PATHS = compile_late(r"/share/(?P<token>[\w-]{32})")
PROGRAMS = ("/v1/", "/mcp", "/hooks/", "/channels/", "/tools/", "/reach/", "/share/", "/push/", "/__openclaw__/")
PAGE_ROUTES = frozenset(
    ("config", "avatar", "media", "canvas", "share", "docs", "page", "push")
)  # also under the base path
ROUTES: tuple[HttpRoute, ...] = (
    HttpRoute("GET", compile_late(r"/health|/healthz"), "health", None, _health),
    HttpRoute("GET", compile_late(r"/ready|/readyz"), "ready", None, _ready),
    HttpRoute(
        "POST", compile_late(r"/hooks/(?P<name>.+)"), "hook", None, lambda visit: visit.gateway.posts.answer(visit)
    ),
    HttpRoute("POST", CHANNELS, "channel", None, _channel),
    HttpRoute("GET", CHANNELS, "channel", None, _channel),
    HttpRoute("GET", compile_late(r"/v1/models"), "models", READ, _LATER["models"]),
    HttpRoute("GET", compile_late(r"/v1/models/(?P<id>.+)"), "model", READ, _LATER["model"]),
    HttpRoute("POST", compile_late(r"/v1/chat/completions"), "chat", WRITE, _chat),
    HttpRoute("POST", compile_late(r"/v1/responses"), "responses", WRITE, _responses),
    *(HttpRoute(verb, compile_late(path), what, _SCOPES[verb], _stored(what)) for what, verb, path in _STORED),
    HttpRoute(
        "POST", compile_late(r"/v1/embeddings|/v1/audio/(?:speech|transcriptions)"), "asset", WRITE, _LATER["asset"]
    ),
    *(HttpRoute(verb, compile_late(r"/mcp"), "mcp", READ, _LATER["mcp"]) for verb in ("POST", "GET", "DELETE")),
    HttpRoute("POST", compile_late(r"/reach/turn"), "reach", ADMIN, _reach),
    HttpRoute("POST", compile_late(r"/tools/invoke"), "invoke", ADMIN, _LATER["invoke"]),
    HttpRoute("GET", compile_late(r"/metrics"), "metrics", READ, _metrics),
    HttpRoute("GET", compile_late(r"/sessions/(?P<key>[^/]+)/history"), "history", READ, _LATER["history"]),
    HttpRoute("GET", compile_late(r"/control-ui-config.json"), "config", READ, page.make_page_config),
    HttpRoute("GET", compile_late(r"/avatar/(?P<agent>[^/]+)"), "avatar", READ, page.describe_avatar),
    HttpRoute("GET", compile_late(r"/__openclaw__/assistant-media"), "media", READ, page.serve_workspace_media),
    HttpRoute("POST", compile_late(r"/sessions/(?P<key>[^/]+)/kill"), "kill", ADMIN, _kill),
    HttpRoute("GET", compile_late(CANVAS), "canvas", None, lambda visit: late.load_part("canvas-http")(visit)),
    HttpRoute("GET", SHARE_PATHS, "share", None, lambda visit: late.load_part("share-http")(visit)),
    HttpRoute("GET", compile_late(r"/push/news"), "push", None, lambda visit: late.load_part("push-news")(visit)),
    HttpRoute("GET", DOCS_PATHS, "docs", None, lambda visit: visit.gateway.page.answer_docs(visit)),
    HttpRoute("GET", PAGE_PATHS, "page", None, lambda visit: visit.gateway.page.answer(visit)),
)


def find_routes(path: str, gateway: GatewaySettings) -> tuple[tuple[HttpRoute, re.Match[str]], ...]:
    """The rows of a path. Those of the page stand under its base path, if there is a page at all."""
    base = gateway.page_base
    inside = (path[len(base) :] or "/") if f"{path}/".startswith(f"{base}/") and gateway.page else ""
    return _match(path, inside)


@lru_cache(64)  # programs ask for the same few
def _match(path: str, inside: str) -> tuple[tuple[HttpRoute, re.Match[str]], ...]:
    own = PAGE_ROUTES | {"asset"} if inside else PAGE_ROUTES  # the page asks the gateway's ears where it stands itself
    found = ((row, row.pattern.fullmatch(inside if row.name in own else path)) for row in ROUTES)
    return tuple((row, match) for row, match in found if match)


def is_page_place(path: str, gateway: GatewaySettings) -> bool:
    """Could people look for the page there? Not where only programs ask, nor beside the page's base path."""
    inside = path.removeprefix(gateway.page_base)
    return gateway.page and f"{path}/".startswith(f"{gateway.page_base}/") and not inside.startswith(PROGRAMS)
