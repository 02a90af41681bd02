"""A Nextcloud on loopback: Talk's bot API, as much of its own API as looks rooms up, and people in front of it."""

from __future__ import annotations

import base64
import html
import json
import re
from typing import Any, ClassVar

from aiohttp import web

from palinurus.channels.nextcloudtalk.channel import sign_talk
from palinurus.config.secrets import Secret
from palinurus.core.types.channel import ChannelHttpRequest, SendTrouble
from palinurus.testing.loopback import LoopbackHttp, abort_connection
from palinurus.testing.platform import HumanMessage, VisibleMessage
from palinurus.testing.web.hooked import HookedPlatform

SECRET, USER, PASSWORD, ALICE, DIRECT, GROUP = "s" * 40, "pal", "app-password", "alice", "dmroom", "town"
_STATUSES = {"down": 503, "limited": 429, "long": 413, "gone": 401, "refused": 400}


class FakeNextcloud(HookedPlatform):
    """Implements `FakePlatform`."""

    name = "nextcloud-talk"
    troubles: ClassVar[tuple[SendTrouble, ...]] = ("down", "cut", "limited", "long", "gone", "refused")

    def __init__(self) -> None:
        api = "/ocs/v2.php/apps/spreed/api"
        routes = {
            "GET /status.php": self._status, f"POST {api}/v1/bot/{{room}}/message": self._post,
            f"POST {api}/v1/bot/{{room}}/reaction/{{id}}": self._react, f"GET {api}/v4/room/{{room}}": self._room,
            f"GET {api}/v1/chat/{{room}}": self._chat,
        }  # fmt: skip
        super().__init__(LoopbackHttp(routes))
        self.seen: list[dict[str, Any]] = []
        self.reactions: list[tuple[str, str]] = []

    @property
    def section(self) -> dict[str, Any]:
        own = {"baseUrl": self.http.url, "botSecret": SECRET, "botName": "Pal"}
        return {**own, "apiUser": USER, "apiPassword": PASSWORD}

    # --- people

    def make_request(self, said: HumanMessage, ident: str, more: dict[str, Any]) -> ChannelHttpRequest:
        who = said.sender or ALICE
        text = f"@Pal {said.text}" if said.mention else said.text
        content = {"message": text, "parameters": more.pop("parameters", {})}
        told = {
            "type": "Create", "actor": {"type": "Person", "id": f"users/{who}", "name": "Alice"},
            "object": {"type": "Note", "id": ident, "name": "message", "content": json.dumps(content)},
            "target": {"type": "Collection", "id": GROUP if said.chat else DIRECT, "name": "Town"}, **more,
        }  # fmt: skip
        return self.sign_request(json.dumps(told).encode())

    def sign_request(self, body: bytes, secret: str = SECRET, random: str = "r" * 64) -> ChannelHttpRequest:
        """A request as Nextcloud makes it."""
        signature = sign_talk(Secret(secret), random, body.decode())
        headers = {"x-nextcloud-talk-random": random, "x-nextcloud-talk-signature": signature}
        return ChannelHttpRequest("POST", headers, {}, body)

    def visible_messages(self, chat: str = "") -> list[VisibleMessage]:
        where = {"": DIRECT, "group": GROUP}.get(chat, chat)
        return [
            VisibleMessage(one["referenceId"], _read(one["message"]), reply_to=str(one.get("replyTo", "")))
            for one in self.seen
            if one["room"] == where
        ]

    # --- the API

    async def _status(self, request: web.Request) -> web.Response:
        return web.json_response({"installed": True, "version": "31.0.0.1"})

    def _right(self, request: web.Request, signed: str) -> bool:
        random = request.headers["X-Nextcloud-Talk-Bot-Random"]
        return request.headers["X-Nextcloud-Talk-Bot-Signature"] == sign_talk(Secret(SECRET), random, signed)

    async def _post(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        trouble = self.next_fault() if self._right(request, body["message"]) else "gone"
        if trouble in _STATUSES:
            headers = {"Retry-After": str(int(self.retry_after))} if trouble == "limited" else {}
            told = {"ocs": {"meta": {"message": "no"}, "data": {}}}
            return web.json_response(told, status=_STATUSES[trouble], headers=headers)
        self.seen.append({**body, "room": request.match_info["room"]})
        return abort_connection(request) if trouble == "cut" else web.json_response({"ocs": {"data": None}}, status=201)

    async def _react(self, request: web.Request) -> web.Response:
        emoji = (await request.json())["reaction"]
        if not self._right(request, emoji):
            return web.Response(status=401)
        self.reactions.append((request.match_info["id"], emoji))
        return web.json_response({"ocs": {"data": None}}, status=201)

    def _known(self, request: web.Request) -> bool:
        right = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        return request.headers.get("Authorization") == f"Basic {right}"

    async def _room(self, request: web.Request) -> web.Response:
        if not self._known(request):
            return web.Response(status=401)
        return web.json_response({"ocs": {"data": {"type": 1 if request.match_info["room"] == DIRECT else 2}}})

    async def _chat(self, request: web.Request) -> web.Response:
        if not self._known(request):
            return web.Response(status=401)
        return web.json_response({"ocs": {"data": [m for m in self.seen if m["room"] == request.match_info["room"]]}})


def _read(text: str) -> str:
    """What can be read of Markdown as Talk shows it."""
    shown = []
    for at, part in enumerate(re.split(r"`([^`\n]*)`", text)):
        if at % 2 == 0:
            part = re.sub(r"(?<!\\)\*\*(.+?)(?<!\\)\*\*", r"\1", part)
            part = html.unescape(re.sub(r"\\([\\`*_~|\[\](){}#+\-.!>:])", r"\1", part))
        shown.append(part)
    return "".join(shown)
