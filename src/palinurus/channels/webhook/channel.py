"""The channel: requests in at /channels/webhook/ACCOUNT, requests out to `url`. It holds no connection and no state;
what is said twice is told apart by `id` on the way in and by Idempotency-Key on the way out.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from palinurus.channels.basic import BasicChannel
from palinurus.channels.files import fetch_message_files
from palinurus.channels.kit import ChannelFile, ChannelKit
from palinurus.channels.patience import hand_in_once
from palinurus.channels.webhook.inbound import parse_request
from palinurus.channels.webhook.outbound import WebhookPoster, build_message
from palinurus.core.hooks.sign import verify_signature
from palinurus.core.policy.address import AddressRefusal, parse_url
from palinurus.core.types.channel import (
    ActionName,
    ChannelAbilities,
    ChannelAction,
    ChannelHttpRequest,
    ChannelHttpResponse,
    SendFailure,
    SendReceipt,
    SubmitInbound,
)
from palinurus.core.types.inbound import Attachment, Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import BadRequest, ConfigError, Problem

log = logging.getLogger(__name__)

LIMIT = 20_000
MEDIA = 8 * 1024 * 1024
BUTTONS = 10
ACTS: tuple[ActionName, ...] = ("typing", "edit", "delete", "react", "pin")


def make_webhook_channel(kit: ChannelKit) -> WebhookChannel:
    """Raises ConfigError without a secret, or with an address that cannot be used."""
    return WebhookChannel(kit)


class WebhookChannel(BasicChannel):
    """Implements `Channel`. Without `url` it only takes messages in, and says so when it should send."""

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
                raise ConfigError((Problem("channels.webhook.url", at.why),))
            self._poster = WebhookPoster(at, self._secret, kit.clock)
        wanted = kit.own.get("acts")
        acts = frozenset(name for name in ACTS if isinstance(wanted, list) and name in wanted)
        self.abilities = ChannelAbilities(
            "markdown", LIMIT, acts=acts, buttons=BUTTONS, replies=True, threads=True, media=MEDIA
        )

    async def run(self, submit: SubmitInbound) -> None:
        """Nothing to connect to: requests come to `hook`."""
        self.set_status("ready", "" if self._poster else "takes messages in; set channels.webhook.url to answer")
        await asyncio.get_running_loop().create_future()

    async def hook(self, request: ChannelHttpRequest, submit: SubmitInbound) -> ChannelHttpResponse:
        """200 with the message's id once it is on disk. Raises what `submit` raises: then it is to be sent again."""
        if request.method != "POST":
            return _said(405, {"ok": False, "error": "use POST"})
        if not verify_signature("generic", self._secret.reveal(), request.headers, request.body, self._kit.clock.now()):
            return _said(401, {"ok": False, "error": "the signature is missing, wrong or older than five minutes"})
        found = parse_request(request.body, self._kit.account, self._kit.clock.now())
        if isinstance(found, str):
            return _said(400, {"ok": False, "error": found})
        whole = await fetch_message_files(self._kit, found.inbound, found.files, self._kept)
        try:
            return _said(200, {"ok": True, "id": await hand_in_once(submit, whole)})
        except BadRequest as exc:
            return _said(400, {"ok": False, "error": exc.message})

    async def _kept(self, file: ChannelFile) -> Attachment | str:
        return await self._kit.media.save(file.name, file.mime, file.data)

    async def send(self, reply: Reply) -> SendReceipt | SendFailure:
        files = [await self._kit.media.load(source, MEDIA) for source in reply.media]
        for one in files:
            if isinstance(one, str):
                return SendFailure(one, "media")
        body = build_message(reply, tuple(one for one in files if isinstance(one, ChannelFile)))
        return await self._post(body, reply.client_id)

    async def act(self, target: Target, act: ChannelAction) -> SendReceipt | SendFailure:
        """What `acts` in the config names, each as a request of that `type`."""
        body = msgspec.to_builtins(act)
        body = {**body, "account": target.account, "to": target.to, "thread": target.thread}
        return await self._post(body, f"{body['type']}-{self._kit.clock.now()}")

    async def _post(self, body: dict[str, object], key: str) -> SendReceipt | SendFailure:
        if self._poster is None:
            return SendFailure("channels.webhook.url is not set: there is nowhere to send answers", "refused")
        return await self._poster.post(body, key)


def _said(status: int, body: dict[str, object]) -> ChannelHttpResponse:
    return ChannelHttpResponse(status, msgspec.json.encode(body), "application/json")
