"""A platform that calls us at /channels/NAME/ACCOUNT: verified request, messages on disk, then the acknowledgement.
What is not taken is answered with an error, and the platform tells it again; what it tells twice is one event. And
files that a platform fetches from us, because it takes addresses only.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import mimetypes
import os
import secrets
from collections.abc import AsyncGenerator
from urllib.parse import urlencode

import aiohttp
import msgspec

from palinurus.channels.intake import ChatOrder, InboundWithFiles, RemoteFile, fetch_message_files, hand_in_once
from palinurus.channels.kit import AccountChannel, ChannelFile, ChannelKit, load_reply_files
from palinurus.channels.web.api import HttpApi
from palinurus.clock import Clock
from palinurus.core.types.channel import ChannelHttpRequest, ChannelHttpResponse, SendFailure, SubmitInbound
from palinurus.core.types.outbound import Reply
from palinurus.errors import BadRequest
from palinurus.files import read_plain_file, write_whole_file
from palinurus.patterns import compile_late

log = logging.getLogger(__name__)

DAY = 86_400.0  # seconds that a public file stays
RECHECK = 300.0  # seconds until an account that is refused is tried again
MOST = 64 * 1024 * 1024  # bytes of one
_NAME = compile_late(r"[0-9a-f]{32}(\.[a-z0-9]{1,8})?")
# Types that no browser runs anything of; others are served as bytes.
_SAFE = ("image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf")

REFUSED = ChannelHttpResponse(401, b"the signature is missing or wrong\n")
NO_POST = ChannelHttpResponse(405, b"use POST\n")
UNREADABLE = ChannelHttpResponse(400, b"the body is not understood\n")


class HookBatch(msgspec.Struct, frozen=True):
    """What a request brought, and what the platform is told once it is on disk."""

    heard: tuple[InboundWithFiles, ...] = ()
    answer: ChannelHttpResponse = ChannelHttpResponse()


def is_same_secret(right: bytes, given: str) -> bool:
    """In constant time; whatever bytes a header brought."""
    return hmac.compare_digest(right, given.encode("utf-8", "replace"))


def verify_base64_hmac(secret: str, signed: bytes, given: str, algorithm: str = "sha256") -> bool:
    """Is `given` the base64 of the HMAC of `signed`? In constant time; a blank secret never fits."""
    right = base64.b64encode(hmac.new(secret.encode(), signed, algorithm).digest())
    return bool(secret.strip()) and is_same_secret(right, given)


class HookedChannel(AccountChannel):
    """One account of such a platform. A channel says `greet`, `accept` and `send`."""

    def __init__(self, kit: ChannelKit, api: HttpApi) -> None:
        super().__init__(kit)
        self._api = api
        self._order = ChatOrder()
        self.submit: SubmitInbound | None = None  # while it runs
        url = kit.own.get("publicWebhookUrl")  # the configuration takes addresses of webhooks for secrets
        self.public = PublicFiles(kit, kit.secret("publicWebhookUrl").reveal()) if url else None

    async def greet(self) -> str | SendFailure:
        """Who we are there, asked of the platform: proves that the credentials are good."""
        raise NotImplementedError

    async def accept(self, request: ChannelHttpRequest) -> HookBatch | ChannelHttpResponse:
        """Check who calls with a POST, in constant time, and read what it tells; or what is answered instead."""
        raise NotImplementedError

    async def listen(self) -> SendFailure:
        """While all is well; ends with why it is not. Platforms that only call need nothing here."""
        for_ever: asyncio.Future[SendFailure] = asyncio.get_running_loop().create_future()
        return await for_ever

    async def run(self, submit: SubmitInbound) -> None:
        """Until it is cancelled. Credentials that are refused are tried again now and then: requests may still come."""
        self.submit = submit
        async with aiohttp.ClientSession() as http:
            self._api.use(http)
            await self.keep_connected(self._attempt, recheck=RECHECK)

    async def _attempt(self) -> SendFailure:
        me = await self.greet()
        if isinstance(me, SendFailure):
            return me
        self._backoff.reset()
        self.set_status("ready", self._status.detail if self._status.state == "ready" else "", me)
        return await self.listen()

    async def hook(self, request: ChannelHttpRequest, submit: SubmitInbound) -> ChannelHttpResponse:
        if self.public is not None and "file" in request.query and request.method == "GET":
            return await self.public.serve(request.query["file"])
        if request.method != "POST":
            return NO_POST
        batch = await self.accept(request)
        if isinstance(batch, ChannelHttpResponse):
            return batch
        for one in batch.heard:
            await self.take(one, submit)
        return batch.answer

    async def take(self, heard: InboundWithFiles, submit: SubmitInbound) -> None:
        """Put one message on our disk. Raises PalinurusError if it has to come again."""
        async with self._order.turn(heard.inbound.target.to):
            whole = await fetch_message_files(self._kit, heard.inbound, heard.files, self.fetch_file)
            try:
                await hand_in_once(submit, whole)
            except BadRequest as exc:
                log.warning("%s, account %s: a message is left out: %s", self.name, self._kit.account, exc.message)

    async def publish_files(
        self, reply: Reply, most: int, without: str, *, together: bool = False
    ) -> list[tuple[ChannelFile, str]] | SendFailure:
        """The files of a reply, each with the address it can be fetched at; `without`: what is said where there is none
        for them. At most `most` bytes each, or `together`."""
        files = await load_reply_files(self._kit, reply, most, together=together)
        if isinstance(files, SendFailure):
            return files
        if files and self.public is None:
            return SendFailure(f"{without}: set channels.{self.name}.publicWebhookUrl", "media")
        made = []
        for file in files:
            assert self.public is not None
            url = await self.public.publish(file)
            if isinstance(url, SendFailure):
                return url
            made.append((file, url))
        return made

    def fetch_file(self, file: RemoteFile) -> AsyncGenerator[bytes, None]:
        """Implements `FetchFile`."""
        return self._api.fetch_file(self._kit, file)


class PublicFiles:
    """Files below the hook's own address, under names nobody can guess, for a day. On disk before anybody is told of
    them, so that the platform can fetch them after a kill too."""

    def __init__(self, kit: ChannelKit, address: str) -> None:
        self._folder = os.path.join(kit.folder, "public")
        self._address = address
        self._media = kit.media
        self._clock: Clock = kit.clock

    async def publish(self, file: ChannelFile) -> str | SendFailure:
        """The address of a file. Its own name stands there too, for whoever reads it."""
        ending = os.path.splitext(file.name)[1].lower()
        name = secrets.token_hex(16)
        name += ending if _NAME.fullmatch(name + ending) else ""
        try:
            await asyncio.to_thread(self._write, name, file.data)
        except OSError as exc:
            return SendFailure(f"{file.name} could not be put where it can be fetched: {exc.strerror}", "media")
        # The platform may ask another node of a fleet, which knows the day it was made by the first eight bytes.
        if why := await self._media.offer(f"public-{name}", self._clock.now().to_bytes(8, "big") + file.data):
            return SendFailure(f"{file.name} could not be put where it can be fetched: {why}", "media")
        return f"{self._address}{'&' if '?' in self._address else '?'}{urlencode({'file': name, 'name': file.name})}"

    async def serve(self, name: str) -> ChannelHttpResponse:
        """The bytes of one."""
        data = await asyncio.to_thread(self._read, name) if _NAME.fullmatch(name) else None
        if data is None and _NAME.fullmatch(name):
            data = self._young(await self._media.find_offered(f"public-{name}"))
        if data is None:
            return ChannelHttpResponse(404, b"there is no such file\n")
        mime = mimetypes.guess_type(name)[0] or ""
        safe = mime in _SAFE or mime.startswith(("audio/", "video/"))
        return ChannelHttpResponse(200, data, mime if safe else "application/octet-stream")

    def _young(self, offered: bytes | None) -> bytes | None:
        made = int.from_bytes((offered or b"")[:8], "big")
        return offered[8:] if offered and self._clock.now() - made <= DAY * 1000 else None

    def _write(self, name: str, data: bytes) -> None:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        old = self._clock.now() / 1000 - DAY
        with os.scandir(self._folder) as found:
            for one in found:
                if one.stat().st_mtime < old:
                    os.unlink(one.path)
        write_whole_file(os.path.join(self._folder, name), data)

    def _read(self, name: str) -> bytes | None:
        try:
            return read_plain_file(os.path.join(self._folder, name), MOST)
        except OSError:
            return None
