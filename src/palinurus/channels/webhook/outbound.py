"""Replies as signed POST requests to the owner's address, through the one door; and what its answers mean."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any, get_args

import aiohttp
import msgspec

from palinurus.channels.kit import ChannelFile
from palinurus.clock import Clock
from palinurus.config.secrets import Secret
from palinurus.core.format.render import render_markdown
from palinurus.core.policy.address import OpenHosts, UrlParts
from palinurus.core.types.channel import SendFailure, SendReceipt, SendTrouble
from palinurus.core.types.outbound import Reply
from palinurus.tools.web.door import EgressGuard, FetchFailure, FetchLimits, FetchRequest, FetchResponse

LIMITS = FetchLimits(size=64 * 1024, time=30.0, redirects=0)
# What a status means. Others: 5xx is "down", 4xx "refused".
STATUSES: dict[int, SendTrouble] = {
    401: "signed_out",
    403: "signed_out",
    404: "gone",
    408: "down",
    409: "down",  # the same request is still being worked on
    410: "gone",
    413: "long",
    415: "media",
    425: "down",
    429: "limited",
}
WORDS: tuple[str, ...] = get_args(SendTrouble)


class WebhookPoster:
    """Posts to one address. The owner wrote it into the config, so it may be a private one; nothing else is opened."""

    def __init__(self, spot: UrlParts, secret: Secret, clock: Clock) -> None:
        self._spot = spot
        self._secret = secret
        self._clock = clock
        self._door = EgressGuard(OpenHosts(frozenset((spot.entry,))))

    async def post(self, body: dict[str, Any], key: str) -> SendReceipt | SendFailure:
        """`key` is the same whenever the same thing is posted again: the receiver shows it once."""
        data = msgspec.json.encode(body)
        headers = {**make_signed_headers(self._secret, data, self._clock.now()), "Idempotency-Key": key}
        try:
            found = await self._door.get(FetchRequest(self._spot.url, headers, data), LIMITS)
        except FetchFailure as exc:
            # The door says in words what happened; its cause tells whether the request can have arrived.
            apart = isinstance(exc.__context__, (aiohttp.ClientConnectorError, OSError))
            return SendFailure(str(exc), "down" if apart else "cut")
        return read_answer(found, key)


def make_signed_headers(secret: Secret, data: bytes, now: int) -> dict[str, str]:
    """The headers that prove who sent it and when; the same as requests to us must carry."""
    stamp = str(now // 1000)
    mac = hmac.new(secret.reveal().encode(), f"{stamp}.".encode() + data, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        "X-Webhook-Timestamp": stamp,
        "X-Webhook-Signature": f"sha256={mac}",
    }


def read_answer(found: FetchResponse, key: str) -> SendReceipt | SendFailure:
    """What an answer means. A JSON body may name the message (`id`), or a `trouble` by its word and why (`error`)."""
    try:
        said = msgspec.json.decode(found.data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = None
    said = said if isinstance(said, dict) else {}
    if 200 <= found.status < 300:
        return SendReceipt(str(said.get("id") or key)[:200])
    word = said.get("trouble")
    trouble: SendTrouble = word if word in WORDS else STATUSES.get(found.status, _other(found.status))
    reason = f"the receiver answered {found.status}: {str(said.get('error') or '')[:200]}".rstrip(": ")
    after = _seconds(found.retry) if trouble in ("limited", "down") else None
    return SendFailure(reason, trouble, after)


def _other(status: int) -> SendTrouble:
    return "down" if status >= 500 else "refused"


def _seconds(text: str) -> float | None:
    return min(float(text), 3600.0) if text.isascii() and text.isdigit() else None


def build_message(reply: Reply, files: tuple[ChannelFile, ...]) -> dict[str, Any]:
    """The body of a reply."""
    body: dict[str, Any] = {
        "type": "message",
        "id": reply.client_id,
        "account": reply.target.account,
        "to": reply.target.to,
        "thread": reply.target.thread,
        "text": reply.text if reply.plain else render_markdown(reply.text, "plain").text,
        "markdown": reply.text,
        "kind": reply.kind,
        "replyTo": reply.reply_to,
        "voice": reply.voice,
        "buttons": [{"label": one.label, "text": one.text, "style": one.style} for one in reply.buttons],
        "files": [{"name": f.name, "mime": f.mime, "data": base64.b64encode(f.data).decode()} for f in files],
    }
    return body
