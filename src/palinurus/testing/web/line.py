"""A LINE on loopback: the Messaging API, and people in front of it. Reply tokens take one answer, retry keys one push,
and a message that is refused with its key may be sent with it again, as LINE has it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any, ClassVar

from aiohttp import web

from palinurus.core.types.channel import ChannelHttpRequest, SendTrouble
from palinurus.testing.loopback import LoopbackHttp, abort_connection
from palinurus.testing.platform import HumanMessage, VisibleMessage
from palinurus.testing.web.hooked import HookedPlatform

SECRET, TOKEN = "line-channel-secret", "line-access-token"
ALICE, GROUP = "U" + "a" * 32, "C" + "1" * 32
_FAILS: dict[str, tuple[int, str]] = {
    "down": (503, "unavailable"), "limited": (429, "The API rate limit has been exceeded. Try again later."),
    "signed_out": (401, "Authentication failed. Confirm that the access token in the header is valid."),
    "gone": (400, "Failed to send messages"), "refused": (429, "You have reached your monthly limit."),
}  # fmt: skip


class FakeLine(HookedPlatform):
    """Implements `FakePlatform`. `expired`: reply tokens are too old already."""

    name = "line"
    troubles: ClassVar[tuple[SendTrouble, ...]] = ("down", "cut", "limited", "signed_out", "gone", "refused")

    def __init__(self) -> None:
        routes = {
            "POST /v2/bot/message/{how}": self._send, "POST /v2/bot/chat/loading/start": self._load,
            "GET /v2/bot/message/{id}/content": self._content, "GET /v2/bot/{path:.*}": self._look,
        }  # fmt: skip
        super().__init__(LoopbackHttp(routes))
        self.seen: list[dict[str, Any]] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []  # how it was sent, and what
        self.files: dict[str, bytes] = {}
        self.expired = False
        self.loading: list[str] = []
        self._tokens: dict[str, str] = {}  # those that were not used, and the chat of each
        self._keys: dict[str, list[dict[str, Any]]] = {}

    @property
    def section(self) -> dict[str, Any]:
        own = {"channelAccessToken": TOKEN, "channelSecret": SECRET, "apiBase": self.http.url}
        return {**own, "publicWebhookUrl": "https://pal.example/channels/line/default"}

    # --- people

    def make_request(self, said: HumanMessage, ident: str, more: dict[str, Any]) -> ChannelHttpRequest:
        who = said.sender or ALICE
        source = {"type": "user", "userId": who}
        if said.chat:
            source |= {"type": "group", "groupId": GROUP}
        token = f"reply-{ident}"
        self._tokens[token] = source.get("groupId", who)
        message: dict[str, Any] = {"type": "text", "id": ident, "text": said.text, "quoteToken": f"q-{ident}", **more}
        if said.mention:
            message["text"] = f"@pal {said.text}"
            message["mention"] = {"mentionees": [{"index": 0, "length": 4, "type": "user", "isSelf": True}]}
        event = {
            "type": "message", "mode": "active", "timestamp": self._clock.now(), "source": source,
            "webhookEventId": f"ev-{ident}", "deliveryContext": {"isRedelivery": False}, "replyToken": token,
            "message": message,
        }  # fmt: skip
        return self.sign_request(json.dumps({"destination": "Ubot", "events": [event]}).encode())

    def sign_request(self, body: bytes, secret: str = SECRET) -> ChannelHttpRequest:
        """A request as LINE makes it."""
        signature = base64.b64encode(hmac.new(secret.encode(), body, hashlib.sha256).digest()).decode()
        return ChannelHttpRequest("POST", {"x-line-signature": signature}, {}, body)

    def visible_messages(self, chat: str = "") -> list[VisibleMessage]:
        where = {"": ALICE, "group": GROUP}.get(chat, chat)
        return [
            VisibleMessage(one["id"], one.get("text", ""), tuple(one["files"]), reply_to=one.get("quoteToken", "")[2:])
            for one in self.seen
            if one["to"] == where
        ]

    # --- the API

    async def _send(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _no("signed_out")
        how, body, key = request.match_info["how"], await request.json(), request.headers.get("X-Line-Retry-Key", "")
        self.calls.append((how, body))
        trouble = self.next_fault()
        if trouble and trouble != "cut":
            return _no(trouble)
        if how == "reply":
            if key:
                return web.json_response({"message": "The retry key is not supported"}, status=400)
            to = self._tokens.pop(body["replyToken"], "")
            if not to or self.expired:
                return web.json_response({"message": "Invalid reply token"}, status=400)
        else:
            to = body["to"]
            if key in self._keys:
                told = {"message": "The retry key is already accepted", "sentMessages": self._keys[key]}
                return web.json_response(told, status=409)
        sent = self._keys[key or f"none-{len(self.seen)}"] = [await self._show(to, one) for one in body["messages"]]
        if trouble == "cut":
            return abort_connection(request)
        return web.json_response({"sentMessages": sent})

    async def _show(self, to: str, message: dict[str, Any]) -> dict[str, Any]:
        ident = str(5000 + len(self.seen))
        url = message.get("originalContentUrl", "")
        files = [(await self.fetch_public(url))[0]] if url else []
        self.seen.append({**message, "id": ident, "to": to, "files": files})
        return {"id": ident, "quoteToken": f"q-{ident}"}

    async def _load(self, request: web.Request) -> web.Response:
        self.loading.append((await request.json())["chatId"])
        return web.json_response({}, status=202)

    async def _content(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _no("signed_out")
        data = self.files.get(request.match_info["id"])
        return web.json_response({"message": "Not found"}, status=404) if data is None else web.Response(body=data)

    async def _look(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _no("signed_out")
        path = request.match_info["path"]
        if path == "info":
            return web.json_response({"userId": "Ubot", "displayName": "Pal"})
        return web.json_response({"groupName": "Harbour"} if path.endswith("summary") else {"displayName": "Alice"})


def _no(trouble: str) -> web.Response:
    status, words = _FAILS[trouble]
    return web.json_response({"message": words}, status=status)
