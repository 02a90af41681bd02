"""A homeserver on loopback that speaks the client-server API, and people in front of it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, TypeAlias
from urllib.parse import unquote

from aiohttp import web

from palinurus.core.types.channel import SendTrouble
from palinurus.testing.loopback import EVERY_REQUEST, LoopbackHttp, NewsBell, abort_connection
from palinurus.testing.matrix.state import ALICE, BOB, ME, FakeMatrixState, MatrixJson, read_place
from palinurus.testing.platform import FakePlatform, HumanMessage, VisibleMessage

TOKEN, PASSWORD = "syt_fake_token", "open sesame"
DIRECT, GROUP = "!direct:fake", "!group:fake"
LARGEST = 65_536  # bytes of an event

_ERRORS: dict[SendTrouble, tuple[int, str]] = {
    "long": (413, "M_TOO_LARGE"), "signed_out": (401, "M_UNKNOWN_TOKEN"), "gone": (403, "M_FORBIDDEN"),
    "refused": (400, "M_UNKNOWN"), "markup": (400, "M_BAD_JSON"), "down": (502, ""),
}  # fmt: skip
Routes: TypeAlias = tuple[tuple[str, Callable[..., Awaitable[web.StreamResponse]]], ...]


class FakeMatrix(FakePlatform, FakeMatrixState):
    """Implements `FakePlatform`."""

    name = "matrix"
    troubles: ClassVar[tuple[SendTrouble, ...]] = ("cut", "limited", *_ERRORS)

    def __init__(self) -> None:
        self._http = LoopbackHttp({EVERY_REQUEST: self._answer})
        super().__init__(self._http)
        self.revoked = False
        self.token = TOKEN
        self.logins: list[dict[str, Any]] = []
        self.old_media = False  # a server from before authenticated media
        self.broken: dict[str, int] = {}  # so many requests with this word in their path fail
        self.refuse_media = 0  # so many uploads are too large
        self.requests: list[tuple[str, str]] = []
        self._lost: set[str] = set()
        self._news = NewsBell()
        self.room(DIRECT, ALICE)
        self.room(GROUP, ALICE, BOB, title="harbour")

    @property
    def url(self) -> str:
        return self._http.url

    @property
    def section(self) -> dict[str, Any]:
        return {"homeserver": self.url, "accessToken": TOKEN}

    # --- people

    async def _say(self, said: HumanMessage, more: dict[str, Any]) -> str:
        """`more` are further keys of the content. A server that tells twice does so in its stream."""
        content = {"msgtype": "m.text", "body": f"Pal: {said.text}" if said.mention else said.text, **more}
        if said.mention:
            content["m.mentions"] = {"user_ids": [ME]}
        ident = {"event_id": said.event} if said.event else {}
        told = self.add(resolve_room(said.chat), said.sender or ALICE, "m.room.message", content, **ident)
        self.stream += [told] * (said.times - 1)
        self.wake()
        return str(told["event_id"])

    async def send_file(
        self, name: str, mime: str, data: bytes, *, chat: str = "", sender: str = "", **more: Any
    ) -> str:
        """Somebody sends a file."""
        self.media[f"in{len(self.media)}"] = (mime, data)
        address = f"mxc://fake/{list(self.media)[-1]}"
        kind = {"image": "m.image", "audio": "m.audio"}.get(mime.partition("/")[0], "m.file")
        content = {"msgtype": kind, "body": name, "url": address, "info": {"mimetype": mime}, **more}
        told = self.add(resolve_room(chat), sender or ALICE, "m.room.message", content)
        self.wake()
        return str(told["event_id"])

    def invite(self, room: str, who: str, *, direct: bool = False, title: str = "") -> None:
        """Somebody makes a room and asks us in."""
        self.member(room, who, "join")
        if title:
            self.titles[room] = title
        self.member(room, ME, "invite", who, **({"is_direct": True} if direct else {}))
        self.wake()

    def visible_messages(self, chat: str = "") -> list[VisibleMessage]:
        gone, edits = self.redacted_ids(), self.edits()
        ours = [e for e in self.stream if e["room_id"] == resolve_room(chat) and e["sender"] == ME]
        return [
            show_event(e["event_id"], edits.get(e["event_id"]) or e["content"], e["content"])
            for e in ours
            if e["type"] == "m.room.message"
            and e["event_id"] not in gone
            and (e["content"].get("m.relates_to") or {}).get("rel_type") != "m.replace"
        ]

    @property
    def routes(self) -> Routes:
        return _ROUTES

    def has_more(self, since: str) -> bool:
        """Is there something to tell besides the rooms?"""
        return False

    def wake(self) -> None:
        """Who waits for news looks again."""
        self._news.wake()

    async def cut(self) -> None:
        self.wake()
        await super().cut()

    # --- the API

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        whole = request.rel_url.raw_path
        self.requests.append((request.method, whole))
        if (request.method, whole) == ("POST", f"{_C}/login"):
            return await self._login(request)
        if request.headers.get("Authorization") != f"Bearer {self.token}" or self.revoked:
            return _no(401, "M_UNKNOWN_TOKEN")
        for word, count in self.broken.items():
            if word in whole and count:
                self.broken[word] -= 1
                return _no(500, "M_UNKNOWN")
        for pattern, step in self.routes:
            if (found := re.fullmatch(pattern, f"{request.method} {whole}")) is not None:
                return await step(self, request, *(unquote(part) for part in found.groups()))
        return _no(404, "M_UNRECOGNIZED")

    async def _login(self, request: web.Request) -> web.StreamResponse:
        wanted = await request.json()
        self.logins.append(wanted)
        if wanted["password"] != PASSWORD or wanted["identifier"]["user"] != ME:
            return _no(403, "M_FORBIDDEN")
        self.token, self.revoked = f"{TOKEN}-{len(self.logins)}", False
        return web.json_response(
            {"user_id": ME, "access_token": self.token, "device_id": wanted.get("device_id", "D1")}
        )

    async def _whoami(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"user_id": ME, "device_id": "PAL"})

    async def _sync(self, request: web.Request) -> web.StreamResponse:
        since = request.query.get("since", "")
        limit = json.loads(request.query.get("filter", "{}")).get("room", {}).get("timeline", {}).get("limit", 10)
        wait = int(request.query.get("timeout", "0")) / 1000
        if since and read_place(since) >= len(self.stream) and wait and not self.has_more(since):
            await self._news.wait(wait)
        return web.json_response(self.sync(since, limit))

    async def _send(self, request: web.Request, room: str, kind: str, transaction: str) -> web.StreamResponse:
        data = await request.read()
        trouble = self.next_fault()
        if trouble == "limited":
            return _no(429, "M_LIMIT_EXCEEDED", retry_after_ms=int(self.retry_after * 1000))
        if trouble in _ERRORS:
            return _no(*_ERRORS[trouble])
        if self.members.get(room, {}).get(ME) != "join":
            return _no(403, "M_FORBIDDEN")
        if len(data) > LARGEST:
            return _no(413, "M_TOO_LARGE")
        content = json.loads(data)
        ident = self.once(f"{room}/{kind}/{transaction}", lambda: self.add(room, ME, kind, content))
        if trouble == "cut" or transaction in self._lost:
            self._lost ^= {transaction}  # the HTTP client asks once more by itself: lost too
            return abort_connection(request)
        self.wake()
        return web.json_response({"event_id": ident})

    async def _redact(self, request: web.Request, room: str, event: str, transaction: str) -> web.StreamResponse:
        made = self.once(transaction, lambda: self.add(room, ME, "m.room.redaction", {}, redacts=event))
        return web.json_response({"event_id": made})

    async def _typing(self, request: web.Request, room: str, who: str) -> web.StreamResponse:
        self.typing.append((room, bool((await request.json())["typing"])))
        return web.json_response({})

    async def _messages(self, request: web.Request, room: str) -> web.StreamResponse:
        query = request.query
        limit = int(query.get("limit", "10"))
        return web.json_response(self.messages(room, query.get("from", ""), query.get("to", ""), limit))

    async def _joined(self, request: web.Request, room: str) -> web.StreamResponse:
        people = [who for who, how in self.members.get(room, {}).items() if how == "join"]
        return web.json_response({"joined": {who: {"display_name": self.names.get(who)} for who in people}})

    async def _join(self, request: web.Request, room: str) -> web.StreamResponse:
        if self.members.get(room, {}).get(ME) not in ("invite", "join"):
            return _no(403, "M_FORBIDDEN")
        self.member(room, ME, "join")
        self.wake()
        return web.json_response({"room_id": room})

    async def _event(self, request: web.Request, room: str, ident: str) -> web.StreamResponse:
        found = self.event(ident)
        return web.json_response(found) if found else _no(404, "M_NOT_FOUND")

    async def _relations(self, request: web.Request, room: str, ident: str) -> web.StreamResponse:
        gone = self.redacted_ids()
        found = [
            e
            for e in self.stream
            if e["type"] == "m.reaction" and e["content"]["m.relates_to"]["event_id"] == ident
            if e["event_id"] not in gone
        ]
        return web.json_response({"chunk": found})

    async def _title(self, request: web.Request, room: str) -> web.StreamResponse:
        title = self.titles.get(room)
        return web.json_response({"name": title}) if title else _no(404, "M_NOT_FOUND")

    async def _pinned(self, request: web.Request, room: str) -> web.StreamResponse:
        if request.method == "PUT":
            self.pinned[room] = (await request.json())["pinned"]
            return web.json_response({"event_id": "$pin"})
        return web.json_response({"pinned": self.pinned[room]}) if room in self.pinned else _no(404, "M_NOT_FOUND")

    async def _direct(self, request: web.Request) -> web.StreamResponse:
        if request.method == "PUT":
            self.direct = await request.json()
        return web.json_response(self.direct)

    async def _create(self, request: web.Request) -> web.StreamResponse:
        wanted = await request.json()
        room = self.room(f"!made{len(self.members)}:fake")
        for who in wanted["invite"]:
            self.members[room][who] = "invite"
        return web.json_response({"room_id": room})

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        data = await request.read()
        if self.refuse_media:
            self.refuse_media -= 1
            return _no(413, "M_TOO_LARGE")
        ident = f"out{len(self.media)}"
        self.media[ident] = (request.content_type, data)
        return web.json_response({"content_uri": f"mxc://fake/{ident}"})

    async def _download(self, request: web.Request, base: str, server: str, ident: str) -> web.StreamResponse:
        if self.old_media != base.startswith("media/v3"):
            return _no(404, "M_UNRECOGNIZED")
        self.fetched += 1
        mime, data = self.media[ident]
        return web.Response(body=data, content_type=mime)


_C, _R = "/_matrix/client/v3", "/_matrix/client/v3/rooms/([^/]+)"
_ROUTES: Routes = (
    (f"GET {_C}/account/whoami", FakeMatrix._whoami),
    (f"GET {_C}/sync", FakeMatrix._sync),
    (f"PUT {_R}/send/([^/]+)/([^/]+)", FakeMatrix._send),
    (f"PUT {_R}/redact/([^/]+)/([^/]+)", FakeMatrix._redact),
    (f"PUT {_R}/typing/([^/]+)", FakeMatrix._typing),
    (f"GET {_R}/messages", FakeMatrix._messages),
    (f"GET {_R}/joined_members", FakeMatrix._joined),
    (f"POST {_R}/join", FakeMatrix._join),
    (f"GET {_R}/event/([^/]+)", FakeMatrix._event),
    ("GET /_matrix/client/v1/rooms/([^/]+)/relations/([^/]+)/m.annotation/m.reaction", FakeMatrix._relations),
    (f"GET {_R}/state/m.room.name/", FakeMatrix._title),
    (f"(?:GET|PUT) {_R}/state/m.room.pinned_events/", FakeMatrix._pinned),
    (f"(?:GET|PUT) {_C}/user/[^/]+/account_data/m.direct", FakeMatrix._direct),
    (f"POST {_C}/createRoom", FakeMatrix._create),
    ("POST /_matrix/media/v3/upload", FakeMatrix._upload),
    ("GET /_matrix/(client/v1/media|media/v3)/download/([^/]+)/([^/]+)", FakeMatrix._download),
)


def resolve_room(chat: str) -> str:
    """The room's id: "group" is one, "" the direct chat."""
    return {"": DIRECT, "group": GROUP}.get(chat, chat)


def _no(status: int, code: str, **more: Any) -> web.Response:
    return web.json_response({"errcode": code, "error": "no", **more}, status=status)


def show_event(ident: str, now: MatrixJson, first: MatrixJson) -> VisibleMessage:
    """As people see it. `first` is the content before any edit."""
    text = now["body"]
    if "formatted_body" in now:
        text = html.unescape(re.sub(r"<[^>]+>", "", re.sub(r"<br ?/?>", "\n", now["formatted_body"]))).strip()
    media = (now["filename"],) if "url" in now or "file" in now else ()
    about = first.get("m.relates_to") or {}
    answered = (about.get("m.in_reply_to") or {}).get("event_id", "")
    return VisibleMessage(ident, "" if media else text, media, (), reply_to=answered)
