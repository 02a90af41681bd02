"""A program on the other side of the webhook channel: people who write through it, and what they are shown.

It keeps the receiver's part of the bargain: signatures are checked and an Idempotency-Key is shown once.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import msgspec
from aiohttp import web

from palinurus.channels.webhook.channel import WebhookChannel, make_signed_headers
from palinurus.clock import SystemClock
from palinurus.config.secrets import Secret
from palinurus.core.types.channel import Channel, ChannelHttpRequest, ChannelHttpResponse, SendTrouble, SubmitInbound
from palinurus.core.webhooks import verify_signature
from palinurus.errors import PalinurusError
from palinurus.tasks import TaskSet
from palinurus.testing.loopback import LoopbackHttp, abort_connection
from palinurus.testing.platform import FakePlatform, HumanMessage, VisibleMessage, make_channel_kit

SECRET = "a-shared-secret"
AGAIN = 0.1  # seconds until a request that was not taken is made again

# Where requests to the agent go: the channel itself, or a gateway over HTTP.
Post = Callable[[bytes, dict[str, str]], Awaitable[int]]


class _Heard(WebhookChannel):
    """The channel, and what it was given to hand messages in."""

    submit: SubmitInbound | None = None

    async def run(self, submit: SubmitInbound) -> None:
        self.submit = submit
        await super().run(submit)


class FakeWebhook(FakePlatform):
    """Implements `FakePlatform`. `post` may be replaced to go through a gateway."""

    name = "webhook"
    connected = False
    troubles: ClassVar[tuple[SendTrouble, ...]] = (
        "down", "cut", "limited", "markup", "long", "media", "signed_out", "blocked", "gone", "refused",
    )  # fmt: skip

    def __init__(self) -> None:
        self._http = LoopbackHttp({"POST /in": self._receive})
        super().__init__(self._http)
        self.post: Post = self._straight
        self.seen: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []  # every request that was rightly signed, repeats included
        self._keys: dict[str, str] = {}
        self._made: _Heard | None = None
        self._events = 0
        self._clock = SystemClock()
        self._up = asyncio.Event()
        self._tasks = TaskSet("the webhook's people")
        self._turn = asyncio.Lock()

    async def __aexit__(self, *exc: object) -> None:
        await self._tasks.close()
        await self.cut()

    async def mend(self) -> None:
        await super().mend()
        self._up.set()

    async def cut(self) -> None:
        self._up.clear()
        await super().cut()

    @property
    def url(self) -> str:
        return f"{self._http.url}/in"

    @property
    def section(self) -> dict[str, Any]:
        return {"secret": SECRET, "url": self.url, "acts": ["typing", "edit", "delete", "react"]}

    def channel(self, folder: str) -> Channel:
        self._made = _Heard(make_channel_kit("webhook", folder, self.section))
        return self._made

    async def _say(self, said: HumanMessage, more: dict[str, Any]) -> str:
        """A request that is not taken is made again until it is."""
        self._events += 1
        who = said.sender or "human"
        body = {
            "id": said.event or f"e{self._events}", "from": who, "name": who.title(), "to": said.chat or who,
            "text": said.text,
            "kind": "group" if said.chat == "group" else "direct", "mentioned": said.mention, **more,
        }  # fmt: skip
        self._tasks.start(self._tell(msgspec.json.encode(body), said.times))
        return str(body["id"])

    async def _tell(self, data: bytes, times: int) -> None:
        async with self._turn:
            for _ in range(times):
                await self._up.wait()
                while await self._post(data) in (429, 503, 507):
                    await self._clock.sleep(AGAIN)

    async def _post(self, data: bytes) -> int:
        return await self.post(data, make_signed_headers(Secret(SECRET), data, self._clock.now()))

    async def _straight(self, data: bytes, headers: dict[str, str]) -> int:
        """To the channel itself, as the gateway would."""
        made = self._made
        if made is None or made.submit is None:
            return 503
        low = {name.lower(): value for name, value in headers.items()}
        try:
            answer: ChannelHttpResponse = await made.hook(ChannelHttpRequest("POST", low, {}, data), made.submit)
        except PalinurusError:
            return 503
        return answer.status

    def visible_messages(self, chat: str = "") -> list[VisibleMessage]:
        return [
            VisibleMessage(
                one["id"],
                one["text"],
                tuple(file["name"] for file in one.get("files", ())),
                tuple(button["label"] for button in one.get("buttons", ())),
                reply_to=one.get("replyTo", ""),
            )
            for one in self.seen
            if one["to"] == (chat or "human")
        ]

    async def press(self, message_id: str, label: str, *, chat: str = "", sender: str = "") -> None:
        (message,) = (one for one in self.seen if one["id"] == message_id)
        (text,) = (button["text"] for button in message["buttons"] if button["label"] == label)
        await self.say(text, chat=chat, sender=sender, pressed=message_id)

    async def _receive(self, request: web.Request) -> web.StreamResponse:
        data = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        if not verify_signature("generic", SECRET, headers, data, now=self._clock.now()):
            return web.json_response({"error": "wrong signature"}, status=401)
        body = msgspec.json.decode(data)
        self.requests.append(body)
        trouble = self.next_fault()
        if trouble and trouble != "cut":
            return _failed(trouble, self.retry_after)
        ident = self._keys.get(headers["idempotency-key"])
        if ident is None:
            ident = self._keys[headers["idempotency-key"]] = self._show(body)
        if trouble == "cut":
            return abort_connection(request)
        return web.json_response({"id": ident})

    def _show(self, body: dict[str, Any]) -> str:
        if body["type"] == "message":
            for file in body["files"]:
                file["data"] = base64.b64decode(file["data"])
            self.seen.append({**body, "id": f"m{len(self._keys) + 1}"})
            return str(self.seen[-1]["id"])
        for one in self.seen:
            if one["id"] == body.get("message_id") and body["type"] == "edit":
                one["text"] = body["text"].replace("**", "")
        if body["type"] == "delete":
            self.seen = [one for one in self.seen if one["id"] != body["message_id"]]
        return str(body.get("message_id", ""))


# How a receiver says each: by status where HTTP has one, else by the word.
_STATUSES: dict[str, int] = {
    "down": 503, "limited": 429, "long": 413, "media": 415, "signed_out": 401, "gone": 404, "refused": 400,
}  # fmt: skip


def _failed(trouble: str, after: float) -> web.Response:
    headers = {"Retry-After": str(int(after))} if trouble == "limited" else {}
    if trouble in _STATUSES:
        return web.json_response({"error": "no"}, status=_STATUSES[trouble], headers=headers)
    return web.json_response({"error": "no", "trouble": trouble}, status=422)
