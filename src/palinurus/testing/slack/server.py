"""A Slack on loopback: Web API, socket mode, signed requests, and people in front of it.

It answers as the real one does where a client can tell the difference: envelopes that are not acknowledged come again,
tokens are checked, private files want the token, errors are codes in the body.
"""

from __future__ import annotations

import hashlib
import hmac
import html
import json
import re
from typing import Any, ClassVar

import aiohttp
from aiohttp import web

from palinurus.clock import SystemClock
from palinurus.core.types.channel import ChannelHttpRequest, SendTrouble
from palinurus.testing.loopback import LoopbackHttp, abort_connection
from palinurus.testing.platform import FakePlatform, HumanMessage, VisibleMessage
from palinurus.testing.slack.state import ME, MY_BOT, TEAM, FakeSlackState, SlackForm

BOT, APP, SIGNING = "xoxb-fake-bot", "xapp-fake-app", "signing-secret"

_ERRORS: dict[str, str] = {
    "markup": "invalid_blocks", "long": "msg_too_long", "signed_out": "token_revoked",
    "blocked": "messages_tab_disabled", "gone": "channel_not_found", "refused": "no_permission",
    "media": "file_upload_size_restricted",
}  # fmt: skip


class FakeSlack(FakePlatform, FakeSlackState):
    """Implements `FakePlatform`. `calls` holds every Web API call as (method, form)."""

    name = "slack"
    troubles: ClassVar[tuple[SendTrouble, ...]] = (
        "down", "cut", "limited", "markup", "long", "signed_out", "blocked", "gone", "refused",
    )  # fmt: skip

    def __init__(self) -> None:
        routes = {"POST /api/{method}": self._call, "GET /socket": self._socket}
        self._http = LoopbackHttp(routes | {"POST /upload/{id}": self._upload, "GET /files/{id}": self._download})
        super().__init__(self._http)
        self.calls: list[tuple[str, SlackForm]] = []
        self.acknowledged: list[str] = []
        self.revoked = False
        self.forbidden: set[str] = set()  # methods for which a scope is missing
        self._clock = SystemClock()
        self._count = 0
        self._waiting: dict[str, dict[str, Any]] = {}  # envelopes without acknowledgement
        self._sockets: list[web.WebSocketResponse] = []

    async def mend(self) -> None:
        await super().mend()
        self.url = self._http.url

    async def cut(self) -> None:
        for socket in list(self._sockets):
            await socket.close(code=1001)
        await super().cut()

    @property
    def section(self) -> dict[str, Any]:
        return {"botToken": BOT, "appToken": APP, "apiBase": f"{self.url}/api/"}

    # --- people

    async def _say(self, said: HumanMessage, more: dict[str, Any]) -> str:
        """`more` are further fields of the message event; `files` as (name, mime, data)."""
        made = self.add_message(said.text, chat=said.chat, sender=said.sender, mention=said.mention, **more)
        if said.event:
            made["ts"] = said.event
        callback = {"type": "event_callback", "team_id": TEAM, "event_id": f"Ev{made['ts']}", "event": made}
        for _ in range(said.times):
            await self.tell("events_api", callback)
        return str(made["ts"])

    def add_message(
        self, text: str, *, chat: str = "", sender: str = "", mention: bool = False, **more: Any
    ) -> dict[str, Any]:
        """The event of a message, which then is in the chat."""
        who = sender or "UALICE"
        channel = self.resolve_channel(chat, who)
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        made = {
            "type": "message", "channel": channel, "user": who, "ts": self.stamp(),
            "text": f"<@{ME}> {escaped}" if mention else escaped, "team": TEAM,
            "channel_type": "im" if channel.startswith("D") else "channel", **more,
        }  # fmt: skip
        if "files" in more:
            made["subtype"] = "file_share"
            made["files"] = [self.keep_file(*file) for file in more["files"]]
        self.chats.setdefault(channel, []).append(made)
        return made

    async def command(self, name: str, text: str, *, chat: str = "", sender: str = "") -> None:
        """Somebody types a slash command."""
        who = sender or "UALICE"
        payload = {
            "command": f"/{name}", "text": text, "user_id": who, "user_name": self.names.get(who, who),
            "channel_id": self.resolve_channel(chat, who), "team_id": TEAM, "trigger_id": self.stamp(),
        }  # fmt: skip
        await self.tell("slash_commands", payload)

    async def press(self, message_id: str, label: str, *, chat: str = "", sender: str = "") -> None:
        await self.tell("interactive", self.make_press(message_id, label, chat=chat, sender=sender))

    def make_press(self, message_id: str, label: str, *, chat: str = "", sender: str = "") -> dict[str, Any]:
        """The payload of a pressed button."""
        who = sender or "UALICE"
        channel = self.resolve_channel(chat, who)
        message = self.find_message(channel, message_id)
        elements = [e for block in message.get("blocks") or () for e in block.get("elements", ())]
        (button,) = (e for e in elements if e["text"]["text"] == label)
        return {
            "type": "block_actions", "user": {"id": who, "name": self.names.get(who, who)}, "team": {"id": TEAM},
            "channel": {"id": channel}, "message": message, "trigger_id": self.stamp(),
            "container": {"type": "message", "message_ts": message_id, "channel_id": channel},
            "actions": [{**button, "action_ts": self.stamp()}],
        }  # fmt: skip

    def visible_messages(self, chat: str = "") -> list[VisibleMessage]:
        return [
            _shown(one)
            for one in self.chats.get(self.resolve_channel(chat, "UALICE"), ())
            if one.get("bot_id") == MY_BOT
        ]

    def forget(self) -> None:
        """It was too long ago: what was not acknowledged is not told again."""
        self._waiting.clear()

    async def refresh(self) -> None:
        """Slack asks its clients to connect anew."""
        for socket in self._sockets:
            await socket.send_json({"type": "disconnect", "reason": "refresh_requested"})

    def sign_request(
        self, body: bytes, kind: str = "application/json", *, secret: str = SIGNING, late: int = 0
    ) -> ChannelHttpRequest:
        """A request as Slack makes it in mode http; `late` seconds old."""
        at = str(self._clock.now() // 1000 - late)
        signature = hmac.new(secret.encode(), f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
        headers = {"content-type": kind, "x-slack-request-timestamp": at, "x-slack-signature": f"v0={signature}"}
        return ChannelHttpRequest("POST", headers, {}, body)

    # --- the socket

    async def tell(self, kind: str, payload: dict[str, Any]) -> None:
        """An envelope for our app: now, and again over each new connection until it is acknowledged."""
        self._count += 1
        envelope = {"envelope_id": f"env-{self._count}", "type": kind, "payload": payload}
        self._waiting[str(envelope["envelope_id"])] = envelope
        for socket in self._sockets[-1:]:
            await socket.send_json(envelope)

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "num_connections": 1})
        for envelope in list(self._waiting.values()):
            await socket.send_json({**envelope, "retry_attempt": 1, "retry_reason": "timeout"})
        self._sockets.append(socket)
        async for frame in socket:
            if frame.type is aiohttp.WSMsgType.TEXT:
                ident = str(json.loads(frame.data).get("envelope_id"))
                self._waiting.pop(ident, None)
                self.acknowledged.append(ident)
        self._sockets.remove(socket)
        return socket

    # --- the Web API

    async def _call(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        form = await _form(request)
        wanted = APP if method == "apps.connections.open" else BOT
        if request.headers.get("Authorization") != f"Bearer {wanted}":
            return _no("invalid_auth")
        if self.revoked:
            return _no("token_revoked")
        self.calls.append((method, form))
        if method in self.forbidden:
            return _no("missing_scope")
        trouble = self.next_fault() if method in ("chat.postMessage", "files.completeUploadExternal") else ""
        if trouble == "limited":
            return _no("ratelimited", 429, {"Retry-After": str(int(self.retry_after))})
        if trouble == "down":
            return web.Response(status=503, text="unavailable")
        if trouble in _ERRORS:
            return _no(_ERRORS[trouble])
        answer = self.answer(method, form)
        if trouble == "cut":
            return abort_connection(request)
        return _no(answer) if isinstance(answer, str) else web.json_response({"ok": True, **answer})

    # --- files

    async def _upload(self, request: web.Request) -> web.Response:
        file = self.files[request.match_info["id"]]
        file["data"] = await request.read()
        return web.Response(status=200 if len(file["data"]) == file["length"] else 400, text="OK")

    async def _download(self, request: web.Request) -> web.Response:
        self.fetched += 1
        if request.headers.get("Authorization") != f"Bearer {BOT}":
            return web.Response(status=302, headers={"Location": f"{self.url}/sign-in"})
        return web.Response(body=self.files[request.match_info["id"]]["data"])


async def _form(request: web.Request) -> SlackForm:
    """A call's arguments, wherever the client put them."""
    told: SlackForm = dict(request.query)
    if request.content_type == "application/json":
        body = await request.json()
        return told | {key: one if isinstance(one, str) else json.dumps(one) for key, one in body.items()}
    return told | dict(await request.post())


def _no(code: str, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response({"ok": False, "error": code}, status=status, headers=headers)


def _shown(message: dict[str, Any]) -> VisibleMessage:
    labels = [e["text"]["text"] for block in message.get("blocks") or () for e in block.get("elements", ())]
    media = tuple(file["name"] for file in message.get("files") or ())
    text = message["text"]
    if message.get("mrkdwn", True):
        text = re.sub(r"<([^<>|]+)\|([^<>]+)>", r"\2", text)
        text = re.sub(r"(?<!\w)([*_~`])(?=\S)(.+?)(?<=\S)\1(?!\w)", r"\2", text)
    return VisibleMessage(
        message["ts"], html.unescape(text), media, tuple(labels), reply_to=message.get("thread_ts", "")
    )
