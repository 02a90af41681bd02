"""POST /hooks/NAME: reads a webhook's request within its limits, in this order: lock-out, credential, type, size, time.

What hooks there are and what they do is behind the port; nothing is parsed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from palinurus.config.webhooks import WebhookSettings
from palinurus.core.hooks.call import WEBHOOK_NOT_FOUND, WebhookAnswer, WebhookHead, refuse_webhook
from palinurus.errors import PalinurusError
from palinurus.gateway import reply
from palinurus.gateway.fault import make_error_fault
from palinurus.gateway.limits import LoginFailures
from palinurus.gateway.port import WebhookPort

SECONDS = 10.0  # for the whole body
BASE = "/hooks"


class WebhookEndpoint:
    """The door of the webhooks. It counts wrong credentials by itself: a flood at it locks nobody out elsewhere."""

    def __init__(self, monotonic: Callable[[], float], seconds: float = SECONDS) -> None:
        self._tries = LoginFailures(monotonic)
        self._seconds = seconds

    async def answer(
        self, request: web.BaseRequest, name: str, address: str, hooks: WebhookPort | None
    ) -> web.Response:
        """One request."""
        if hooks is None:
            return _sent(WEBHOOK_NOT_FOUND)
        wait = self._tries.wait(address)
        if wait > 0:
            return _sent(WebhookAnswer(429, {"ok": False, "error": "too many wrong credentials"}, retry=int(wait) + 1))
        headers = {key.lower(): ", ".join(request.headers.getall(key)) for key in request.headers}
        head = WebhookHead(name, headers)
        terms = hooks.judge_head(head)
        said = terms if isinstance(terms, WebhookAnswer) else await self._taken(request, head, terms.size, hooks)
        if said.wrong:
            self._tries.count_failure(address)
        return _sent(said)

    async def _taken(self, request: web.BaseRequest, head: WebhookHead, size: int, hooks: WebhookPort) -> WebhookAnswer:
        body = await self._body(request, size)
        if isinstance(body, WebhookAnswer):
            return body
        try:
            return await hooks.take(head, body)
        except PalinurusError as exc:
            fault = make_error_fault(exc)
            return WebhookAnswer(fault.status, {"ok": False, "error": exc.message}, retry=5 if fault.retry else 0)

    async def _body(self, request: web.BaseRequest, size: int) -> bytes | WebhookAnswer:
        kind = request.content_type.lower()
        if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
            return refuse_webhook(415, "send application/json")
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            return refuse_webhook(415, "compressed bodies are not accepted")
        if (request.content_length or 0) > size:
            return refuse_webhook(413, "payload too large")
        data = bytearray()
        try:
            async with asyncio.timeout(self._seconds):
                async for chunk in request.content.iter_any():
                    data += chunk
                    if len(data) > size:
                        return refuse_webhook(413, "payload too large")
        except TimeoutError:
            return refuse_webhook(408, "the body did not arrive in time")
        except web.RequestPayloadError:
            return refuse_webhook(400, "the body is broken")
        return bytes(data)


def to_local_path(path: str, settings: WebhookSettings) -> str:
    """The path as the table of routes knows it, when hooks.path says another base."""
    if settings.enabled and settings.path != BASE and path.startswith(settings.path + "/"):
        return BASE + path[len(settings.path) :]
    return path


def _sent(said: WebhookAnswer) -> web.Response:
    made = reply.reply_bytes(said.body.encode(), "text/plain", said.status) if isinstance(said.body, str) else None
    made = made or reply.reply_json(said.body, said.status)
    if said.retry:
        made.headers["Retry-After"] = str(said.retry)
    if said.status >= 400:
        made.force_close()  # what is left of the body is not worth reading
    return made
