"""A Feishu on loopback: tokens, messages, files and reactions of its open platform, and people in front of it. A uuid
shows one message, as Feishu has it for an hour. It seals its events only where somebody hands it a way to: no library
that we keep encrypts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, ClassVar

from aiohttp import web

from palinurus.core.types.channel import ChannelHttpRequest, SendTrouble
from palinurus.testing.loopback import EVERY_REQUEST, LoopbackHttp, abort_connection
from palinurus.testing.platform import HumanMessage, VisibleMessage
from palinurus.testing.web.hooked import HookedPlatform

APP, SECRET, TOKEN, KEY = "cli_a1b2c3d4e5f60708", "feishu-app-secret", "feishu-verification", "feishu-encrypt-key"
ME, ANN, DIRECT, GROUP = "ou_bot", "ou_ann", "oc_direct", "oc_group"
FAILS: dict[str, tuple[int, int, str]] = {
    "limited": (400, 230020, "This operation triggers the frequency limit."),
    "signed_out": (400, 99991663, "Invalid access token for authorization. Please make a test attempt."),
    "blocked": (400, 230053, "The user has stopped the bot from sending messages."),
    "gone": (400, 230002, "The bot can not be outside the group."),
    "long": (400, 230025, "The length of the message content reaches its limit."),
    "media": (400, 230017, "Bot is NOT the owner of the resource."),
    "down": (400, 230049, "The message is being sent."),
    "refused": (400, 230027, "Lack of necessary permissions."),
}


class FeishuFault(Exception):
    """An answer with another code than 0."""

    def __init__(self, status: int, code: int, words: str) -> None:
        super().__init__(words)
        self.status, self.body = status, {"code": code, "msg": words}


class FakeFeishu(HookedPlatform):
    """Implements `FakePlatform`. `tokens`: how many were bought; `nameless`: the app may not ask who people are."""

    name = "feishu"
    renews = True
    troubles: ClassVar[tuple[SendTrouble, ...]] = (
        "cut", "limited", "signed_out", "blocked", "gone", "long", "media", "down", "refused",
    )  # fmt: skip

    def __init__(self, seal: Callable[[str, bytes], str] | None = None) -> None:
        super().__init__(LoopbackHttp({EVERY_REQUEST: self._handle}))
        self.seal = seal
        self.seen: dict[str, dict[str, Any]] = {}  # by id
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        self.files: dict[str, tuple[str, bytes]] = {}
        self.reactions: list[dict[str, Any]] = []
        self.pins: list[str] = []
        self.recalled: set[str] = set()
        self.places: dict[str, str] = {}  # messages of people, and their chats
        self.tokens = 0
        self.nameless = False
        self._uuids: dict[str, str] = {}

    @property
    def section(self) -> dict[str, Any]:
        own = {"appId": APP, "appSecret": SECRET, "verificationToken": TOKEN, "domain": self.http.url}
        return {**own, "encryptKey": KEY} if self.seal else own

    # --- people

    def make_request(self, said: HumanMessage, ident: str, more: dict[str, Any]) -> ChannelHttpRequest:
        text, mentions = said.text, []
        if said.mention:
            text, mentions = f"@_user_1 {text}", [{"key": "@_user_1", "id": {"open_id": ME}, "name": "Pal"}]
        message = {
            "message_id": ident if ident.startswith("om_") else f"om_{ident}", "create_time": "1767225600000",
            "chat_id": GROUP if said.chat else DIRECT, "chat_type": "group" if said.chat else "p2p",
            "message_type": "text", "content": json.dumps({"text": text}), "mentions": mentions, **more,
        }  # fmt: skip
        self.places[str(message["message_id"])] = str(message["chat_id"])
        sender = {"sender_id": {"open_id": said.sender or ANN, "user_id": "u1"}, "sender_type": "user"}
        header = {"event_id": f"ev-{ident}", "event_type": "im.message.receive_v1", "token": TOKEN, "app_id": APP}
        told = {"schema": "2.0", "header": header, "event": {"sender": sender, "message": message}}
        return self.sign_request(json.dumps(told).encode())

    def sign_request(self, plain: bytes, key: str = KEY) -> ChannelHttpRequest:
        """A request as Feishu makes it: sealed and signed if there is a key."""
        if self.seal is None:
            return ChannelHttpRequest("POST", {}, {}, plain)
        body = json.dumps({"encrypt": self.seal(key, plain)}).encode()
        signature = hashlib.sha256(f"1767225600nonce{key}".encode() + body).hexdigest()
        headers = {
            "x-lark-request-timestamp": "1767225600", "x-lark-request-nonce": "nonce", "x-lark-signature": signature,
        }  # fmt: skip
        return ChannelHttpRequest("POST", headers, {}, body)

    def visible_messages(self, chat: str = "") -> list[VisibleMessage]:
        where = {"": DIRECT, "group": GROUP}.get(chat, chat)
        return [self._shown(ident, one) for ident, one in self.seen.items() if one["to"] == where]

    def _shown(self, ident: str, one: dict[str, Any]) -> VisibleMessage:
        content = json.loads(one["content"])
        key = content.get("image_key") or content.get("file_key")
        media = (self.files[key][0],) if key else ()
        text = "" if key else read_post(content)
        return VisibleMessage(ident, text, media, reply_to=one.get("root", ""))

    # --- the API

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            told = await self._answer(request)
        except FeishuFault as fault:
            headers = {"x-ogw-ratelimit-reset": str(self.retry_after or 1)}
            return web.json_response(fault.body, status=fault.status, headers=headers)
        except ConnectionError:
            return abort_connection(request)
        return told if isinstance(told, web.Response) else web.json_response({"code": 0, "msg": "success", **told})

    async def _answer(self, request: web.Request) -> dict[str, Any] | web.Response:
        parts = request.path.split("/")[2:]
        if parts[0] == "auth":
            return self._bought(await request.json())
        if request.headers.get("Authorization") != f"Bearer t-{self.tokens}":
            raise FeishuFault(400, 99991663, "Invalid access token for authorization.")
        if parts[0] == "bot":
            return {"bot": {"app_name": "Pal", "open_id": ME, "activate_status": 2}}
        if parts[0] == "contact":
            if self.nameless:
                raise FeishuFault(400, 99991672, "Access denied. One of the following scopes is required: [contact]")
            return {"data": {"user": {"name": "Ann"}}}
        does = getattr(self, f"_{parts[2]}")
        made: dict[str, Any] | web.Response = await does(request, parts[3:])
        return made

    def _bought(self, given: dict[str, Any]) -> dict[str, Any]:
        if (given["app_id"], given["app_secret"]) != (APP, SECRET):
            raise FeishuFault(400, 10014, "app secret invalid")
        self.tokens += 1
        return {"tenant_access_token": f"t-{self.tokens}", "expire": 7200}

    async def _chats(self, request: web.Request, rest: list[str]) -> dict[str, Any]:
        return {"data": {"name": "Harbour"}}

    async def _pins(self, request: web.Request, rest: list[str]) -> dict[str, Any]:
        if request.method == "DELETE":
            self.pins.remove(rest[0])
        else:
            self.pins.append((await request.json())["message_id"])
        return {"data": {}}

    async def _images(self, request: web.Request, rest: list[str]) -> dict[str, Any]:
        return await self._kept(request, "image")

    async def _files(self, request: web.Request, rest: list[str]) -> dict[str, Any]:
        return await self._kept(request, "file")

    async def _kept(self, request: web.Request, field: str) -> dict[str, Any]:
        form = await request.post()
        part = form[field]
        assert isinstance(part, web.FileField)
        data = part.file.read()
        if not data:
            raise FeishuFault(400, 234010, "File's size can't be 0.")
        key = f"{'img' if field == 'image' else 'file'}_v3_{self.next_number()}"
        self.files[key] = (part.filename, data)
        self.calls.append(("upload", str(form.get("file_type") or form.get("image_type")), {}))
        return {"data": {f"{field}_key": key}}

    async def _messages(self, request: web.Request, rest: list[str]) -> dict[str, Any] | web.Response:
        if not rest:
            given = await request.json()
            return self._sent(given["receive_id"], given, request.query["receive_id_type"])
        what = rest[1] if len(rest) > 1 else request.method
        where = self.places.get(rest[0]) or self.seen.get(rest[0], {}).get("to")
        if where is None:
            raise FeishuFault(400, 230001, "Your request contains an invalid request parameter.")
        if what == "GET":
            return {"data": {"items": [{"message_id": rest[0], "chat_id": where}]}}
        if what == "resources":
            return web.Response(body=self.files[rest[2]][1])
        if what == "reply":
            if rest[0] in self.recalled:
                raise FeishuFault(400, 230011, "The message is recalled.")
            given = await request.json()
            return self._sent(GROUP if given.get("reply_in_thread") else DIRECT, given, "reply", rest[0])
        if what == "reactions":
            return await self._reacted(request, rest)
        if what == "PUT":
            self.seen[rest[0]]["content"] = (await request.json())["content"]
        elif what == "DELETE":
            del self.seen[rest[0]]
        return {"data": {}}

    def _sent(self, to: str, given: dict[str, Any], how: str, root: str = "") -> dict[str, Any]:
        self.calls.append((how, root, given))
        trouble = self.next_fault()
        if trouble and trouble != "cut":
            raise FeishuFault(*FAILS[trouble])
        if len(given["content"].encode()) > 30 * 1024:
            raise FeishuFault(*FAILS["long"])
        ident = self._uuids.get(given["uuid"], "")
        if not ident:
            ident = self._uuids[given["uuid"]] = f"om_x{self.next_number()}"
            self.seen[ident] = {"to": to, "content": given["content"], "type": given["msg_type"], "root": root}
        if trouble == "cut":
            raise ConnectionError
        return {"data": {"message_id": ident}}

    async def _reacted(self, request: web.Request, rest: list[str]) -> dict[str, Any]:
        if request.method == "GET":
            return {"data": {"items": [one for one in self.reactions if one["on"] == rest[0]]}}
        if request.method == "DELETE":
            self.reactions = [one for one in self.reactions if one["reaction_id"] != rest[2]]
            return {"data": {}}
        name = (await request.json())["reaction_type"]
        made = {
            "reaction_id": f"r{self.next_number()}", "on": rest[0], "reaction_type": name,
            "operator": {"operator_id": APP, "operator_type": "app"},
        }  # fmt: skip
        self.reactions.append(made)
        return {"data": made}


def read_post(content: dict[str, Any]) -> str:
    """What people read of a rich text."""
    rows = content["zh_cn"]["content"]
    return "\n".join("".join(one.get("text", "") for one in row) for row in rows)
