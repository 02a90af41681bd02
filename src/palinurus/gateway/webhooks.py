"""Requests of programs outside. POST /hooks/NAME: a webhook's, read within its limits in this order: lock-out,
credential, type, size, time. /channels/CHANNEL/ACCOUNT: a chat platform calls us; no gateway token is asked for,
because platforms cannot send one: the channel checks the platform's signature over the bytes that were read.

What hooks and channels there are and what they do is behind the port; nothing is parsed here.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response

from palinurus.config.sections.webhooks import WebhookSettings
from palinurus.core.types.channel import ChannelHttpRequest
from palinurus.core.webhooks import WEBHOOK_NOT_FOUND, WebhookAnswer, WebhookHead, refuse_webhook
from palinurus.core.window import SlidingWindow
from palinurus.errors import PalinurusError
from palinurus.gateway import http
from palinurus.gateway.http import HttpFault, RouteRequest, make_error_fault
from palinurus.gateway.limits import ADDRESSES, WINDOW, LoginFailures, canonicalize_address
from palinurus.gateway.port import WebhookPort

CHANNEL_BODY = 4 * 1024 * 1024
CHANNEL_SECONDS = 10.0  # for the whole body
RATE = 6000  # requests a minute, per address; a platform, or the proxy before us, is one address
AT_ONCE = 32  # bodies being read or judged; more are told to come again

_BUSY = HttpFault(503, "too many requests at once", code="busy", headers={"Retry-After": "1"}, retry=True, close=True)
_UNREAD = {
    "large": HttpFault(413, f"at most {CHANNEL_BODY:,} bytes are taken", code="too_large", close=True),
    "late": HttpFault(408, "the body did not arrive in time", code="late", close=True),
    "broken": HttpFault(400, "the body is broken", code="broken", close=True),
}
_NOWHERE = HttpFault(404, "there is no such channel or account", "not_found", code="not_found", close=True)


class ChannelEndpoint:
    """The door of the platforms. Wrong signatures lock nobody out: behind a proxy all callers share one address."""

    def __init__(self, monotonic: Callable[[], float], rate: int = RATE, seconds: float = CHANNEL_SECONDS) -> None:
        self._now = monotonic
        self._pace = SlidingWindow(rate, WINDOW, ADDRESSES)
        self._seconds = seconds
        self._inside = 0

    async def answer(self, visit: RouteRequest) -> Response | HttpFault:
        """What the platform is told. Busy, draining and a full disk are 429, 503 and 507: platforms try again."""
        wait = self._pace.count(canonicalize_address(visit.address), self._now())
        if wait > 0:
            headers = {"Retry-After": str(int(wait) + 1)}
            return HttpFault(429, "too many requests", "rate_limit_error", code="rate", headers=headers, close=True)
        if self._inside >= AT_ONCE:
            return _BUSY
        self._inside += 1
        try:
            return await self._judged(visit)
        finally:
            self._inside -= 1

    async def _judged(self, visit: RouteRequest) -> Response | HttpFault:
        request = visit.request
        body = await http.read_limited(request, CHANNEL_BODY, self._seconds, packed=True)
        if not isinstance(body, bytes):
            return _UNREAD[body.kind]
        told = ChannelHttpRequest(request.method, http.join_headers(request), dict(request.query), body)
        try:
            said = await visit.host.hook(visit.part("name"), visit.part("account"), told)
        except PalinurusError as exc:
            return make_error_fault(exc)
        if said is None:
            return _NOWHERE
        kind, _, rest = said.content_type.partition(";")
        response = http.reply_bytes(said.body, kind.strip(), said.status)
        if "charset=" in rest:
            response.charset = rest.partition("charset=")[2].strip()
        return response


SECONDS = 10.0  # for the whole body
BASE = "/hooks"
_REFUSED = {
    "encoding": (415, "compressed bodies are not accepted"),
    "large": (413, "payload too large"),
    "late": (408, "the body did not arrive in time"),
    "broken": (400, "the body is broken"),
}


class WebhookEndpoint:
    """The door of the webhooks. It counts wrong credentials by itself: a flood at it locks nobody out elsewhere."""

    def __init__(self, monotonic: Callable[[], float], seconds: float = SECONDS) -> None:
        self._tries = LoginFailures(monotonic)
        self._seconds = seconds

    async def answer(self, visit: RouteRequest) -> Response:
        """One request."""
        request, hooks = visit.request, visit.host.webhooks
        if hooks is None:
            return _sent(WEBHOOK_NOT_FOUND)
        wait = self._tries.wait(visit.address)
        if wait > 0:
            return _sent(WebhookAnswer(429, {"ok": False, "error": "too many wrong credentials"}, retry=int(wait) + 1))
        head = WebhookHead(visit.match["name"], http.join_headers(request))
        judged = hooks.judge_head(head)
        said = judged if isinstance(judged, WebhookAnswer) else await self._taken(request, head, judged, hooks)
        if said.wrong:
            self._tries.count_failure(visit.address)
        return _sent(said)

    async def _taken(self, request: BaseRequest, head: WebhookHead, size: int, hooks: WebhookPort) -> WebhookAnswer:
        kind = request.content_type.lower()
        if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
            return refuse_webhook(415, "send application/json")
        body = await http.read_limited(request, size, self._seconds)
        if not isinstance(body, bytes):
            return refuse_webhook(*_REFUSED[body.kind])
        try:
            return await hooks.take(head, body)
        except PalinurusError as exc:
            fault = make_error_fault(exc)
            return WebhookAnswer(fault.status, {"ok": False, "error": exc.message}, retry=5 if fault.retry else 0)


def to_local_path(path: str, settings: WebhookSettings) -> str:
    """The path as the table of routes knows it, when hooks.path says another base."""
    if settings.enabled and settings.path != BASE and path.startswith(settings.path + "/"):
        return BASE + path[len(settings.path) :]
    return path


def _sent(said: WebhookAnswer) -> Response:
    made = http.reply_bytes(said.body.encode(), "text/plain", said.status) if isinstance(said.body, str) else None
    made = made or http.reply_json(said.body, said.status)
    if said.retry:
        made.headers["Retry-After"] = str(said.retry)
    if said.status >= 400:
        made.force_close()  # what is left of the body is not worth reading
    return made
