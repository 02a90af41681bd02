"""The channel: signed requests in at /channels/webhook/ACCOUNT, signed requests out to `url`, through the one egress
guard. It holds no connection and no state; what is said twice is told apart by `id` on the way in and by
Idempotency-Key on the way out.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
from collections.abc import Sequence
from typing import Any, get_args

import aiohttp
import msgspec

from palinurus.channels.intake import InboundWithFiles, RemoteFile, fetch_message_files, hand_in_once, read_brought_file
from palinurus.channels.kit import BasicChannel, ChannelFile, ChannelKit, decode_object, load_reply_files
from palinurus.clock import Clock
from palinurus.config.secrets import Secret
from palinurus.core.format.render import render_markdown
from palinurus.core.policy.address import AddressRefusal, OpenHosts, UrlParts, parse_url
from palinurus.core.types import channel
from palinurus.core.types.inbound import ChatKind, Inbound, MessageQuote, Sender, Target
from palinurus.core.types.outbound import Reply
from palinurus.core.webhooks import verify_signature
from palinurus.errors import BadRequest
from palinurus.patterns import decode_late
from palinurus.tools.web.egress import EgressGuard, FetchFailure, FetchLimits, FetchRequest, FetchResponse

log = logging.getLogger(__name__)

LIMIT = 20_000
MEDIA = 8 * 1024 * 1024
BUTTONS = 10
ACTS: tuple[channel.ActionName, ...] = ("typing", "edit", "delete", "react", "pin")
KINDS: tuple[ChatKind, ...] = ("direct", "group", "channel")
LIMITS = FetchLimits(size=64 * 1024, time=30.0, redirects=0)
# What a status means. Others: 5xx is "down", 4xx "refused".
STATUSES: dict[int, channel.SendTrouble] = {
    401: "signed_out", 403: "signed_out", 404: "gone", 408: "down", 410: "gone", 413: "long", 415: "media", 425: "down",
    429: "limited", 409: "down",  # 409: the same request is still being worked on
}  # fmt: skip
WORDS: tuple[str, ...] = get_args(channel.SendTrouble)


class WebhookPoster:
    """Posts to one address. The owner wrote it into the config, so it may be a private one; nothing else is opened."""

    def __init__(self, spot: UrlParts, secret: Secret, clock: Clock) -> None:
        self._spot = spot
        self._secret = secret
        self._clock = clock
        self._egress = EgressGuard(OpenHosts(frozenset((spot.entry,))))

    async def post(self, body: dict[str, Any], key: str) -> channel.SendResult:
        """`key` is the same whenever the same thing is posted again: the receiver shows it once."""
        data = msgspec.json.encode(body)
        headers = {**make_signed_headers(self._secret, data, self._clock.now()), "Idempotency-Key": key}
        try:
            found = await self._egress.get(FetchRequest(self._spot.url, headers, data), LIMITS)
        except FetchFailure as exc:
            # The guard says in words what happened; its cause tells whether the request can have arrived.
            apart = isinstance(exc.__context__, (aiohttp.ClientConnectorError, OSError))
            return channel.SendFailure(str(exc), "down" if apart else "cut")
        return read_answer(found, key)


def make_signed_headers(secret: Secret, data: bytes, now: int) -> dict[str, str]:
    """The headers that prove who sent it and when; the same as requests to us must carry."""
    stamp = str(now // 1000)
    mac = hmac.new(secret.reveal().encode(), f"{stamp}.".encode() + data, hashlib.sha256).hexdigest()
    return {"Content-Type": "application/json", "X-Webhook-Timestamp": stamp, "X-Webhook-Signature": f"sha256={mac}"}


def read_answer(found: FetchResponse, key: str) -> channel.SendResult:
    """What an answer means. A JSON body may name the message (`id`), or a `trouble` by its word and why (`error`)."""
    said = decode_object(found.data)
    if 200 <= found.status < 300:
        return channel.SendReceipt(str(said.get("id") or key)[:200])
    word = said.get("trouble")
    usual: channel.SendTrouble = "down" if found.status >= 500 else "refused"
    trouble: channel.SendTrouble = word if word in WORDS else STATUSES.get(found.status, usual)
    reason = f"the receiver answered {found.status}: {str(said.get('error') or '')[:200]}".rstrip(": ")
    told = trouble in ("limited", "down") and found.retry.isascii() and found.retry.isdigit()
    return channel.SendFailure(reason, trouble, min(float(found.retry), 3600.0) if told else None)


def build_message(reply: Reply, files: Sequence[ChannelFile]) -> dict[str, Any]:
    """The body of a reply."""
    return {
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


class _File(msgspec.Struct):
    name: str = "file"
    mime: str = ""
    data: str = ""  # base64


class _Quote(msgspec.Struct):
    id: str = ""
    sender: str = ""
    text: str = ""


class WebhookBody(msgspec.Struct, rename={"sender": "from"}):
    """The body. `id` makes a repeated request the same message; `to` is the chat, where answers go."""

    id: str | int
    sender: str | int
    text: str = ""
    to: str | int = ""
    name: str = ""
    thread: str | int = ""
    kind: str = "direct"
    title: str = ""
    mentioned: bool = False
    bot: bool = False
    pressed: str = ""
    quote: _Quote | None = None
    files: list[_File] = []


_decoder = decode_late(WebhookBody)


def parse_request(body: bytes, account: str, now: int) -> InboundWithFiles | str:
    """What the request says, or in words what is wrong with it."""
    try:
        post = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        return f"the body is not understood: {exc}"
    ident, sender = str(post.id).strip(), str(post.sender).strip()
    if not ident or not sender:
        return "id and from must not be empty"
    if post.kind not in KINDS:
        return f"kind is one of {', '.join(KINDS)}"
    files = _files(post.files)
    if isinstance(files, str):
        return files
    chat = str(post.to).strip() or sender
    return InboundWithFiles(
        Inbound(
            Target("webhook", chat, account, str(post.thread)),
            Sender(sender, post.name[:200], bot=post.bot),
            ident,
            post.text,
            at=now,
            kind=post.kind,
            reply_to=post.quote.id if post.quote else "",
            mentioned=post.mentioned or bool(post.pressed),
            pressed=post.pressed,
            title=post.title[:200],
            quote=MessageQuote(post.quote.id, post.quote.sender, post.quote.text) if post.quote else None,
        ),
        files,
    )


def _files(sent: list[_File]) -> tuple[RemoteFile, ...] | str:
    found: list[RemoteFile] = []
    for one in sent:
        try:
            found.append(RemoteFile(one.name, one.mime, base64.b64decode(one.data, validate=True)))
        except (binascii.Error, ValueError):
            return f"the data of {one.name[:80]!r} is not base64"
    return tuple(found)


class WebhookChannel(BasicChannel):
    """Implements `Channel`. Without `url` it only takes messages in, and says so when it should send. Raises
    ConfigError without a secret, or with an address that cannot be used."""

    name = "webhook"
    dedupes = True  # the receiver's part of the bargain: docs/channels/webhook.md

    def __init__(self, kit: ChannelKit) -> None:
        super().__init__()
        self._kit = kit
        self._secret = kit.secret("secret")
        self._poster: WebhookPoster | None = None
        if url := kit.text("url"):
            at = parse_url(url)
            if isinstance(at, AddressRefusal):
                raise kit.wrong("url", what=at.why)
            self._poster = WebhookPoster(at, self._secret, kit.clock)
        acts = frozenset(name for name in ACTS if name in kit.texts("acts"))
        self.abilities = channel.ChannelAbilities(
            "markdown", LIMIT, acts=acts, buttons=BUTTONS, replies=True, threads=True, media=MEDIA
        )

    async def run(self, submit: channel.SubmitInbound) -> None:
        """Nothing to connect to: requests come to `hook`."""
        self.set_status("ready", "" if self._poster else "takes messages in; set channels.webhook.url to answer")
        await asyncio.get_running_loop().create_future()

    async def hook(
        self, request: channel.ChannelHttpRequest, submit: channel.SubmitInbound
    ) -> channel.ChannelHttpResponse:
        """200 with the message's id once it is on disk. Raises what `submit` raises: then it is to be sent again."""
        if request.method != "POST":
            return _said(405, {"ok": False, "error": "use POST"})
        if not verify_signature(
            "generic", self._secret.reveal(), request.headers, request.body, now=self._kit.clock.now()
        ):
            return _said(401, {"ok": False, "error": "the signature is missing, wrong or older than five minutes"})
        found = parse_request(request.body, self._kit.account, self._kit.clock.now())
        if isinstance(found, str):
            return _said(400, {"ok": False, "error": found})
        whole = await fetch_message_files(self._kit, found.inbound, found.files, read_brought_file)
        try:
            return _said(200, {"ok": True, "id": await hand_in_once(submit, whole)})
        except BadRequest as exc:
            return _said(400, {"ok": False, "error": exc.message})

    async def send(self, reply: Reply) -> channel.SendResult:
        files = await load_reply_files(self._kit, reply, MEDIA)
        if isinstance(files, channel.SendFailure):
            return files
        return await self._post(build_message(reply, files), reply.client_id)

    async def act(self, target: Target, act: channel.ChannelAction) -> channel.SendResult:
        """What `acts` in the config names, each as a request of that `type`."""
        body = msgspec.to_builtins(act)
        body = {**body, "account": target.account, "to": target.to, "thread": target.thread}
        return await self._post(body, f"{body['type']}-{self._kit.clock.now()}")

    async def _post(self, body: dict[str, object], key: str) -> channel.SendResult:
        if self._poster is None:
            return channel.SendFailure("channels.webhook.url is not set: there is nowhere to send answers", "refused")
        return await self._poster.post(body, key)


def _said(status: int, body: dict[str, object]) -> channel.ChannelHttpResponse:
    return channel.ChannelHttpResponse(status, msgspec.json.encode(body), "application/json")
