"""A Mattermost on loopback: REST, the WebSocket, and people in front of it. As with the real one the socket tells each
post once, a pending id is dropped for half a minute, and files want the token.
"""

from __future__ import annotations

import html
import json
import re
from typing import Any, ClassVar

import aiohttp
from aiohttp import web

from palinurus.clock import SystemClock
from palinurus.core.types.channel import SendTrouble
from palinurus.testing.loopback import LoopbackHttp, abort_connection
from palinurus.testing.platform import FakePlatform, HumanMessage, VisibleMessage

TOKEN, ME, ALICE, DIRECT, GROUP = "mm-bot-token", "bot0", "alice0", "dm0", "town0"
_ERRORS: dict[str, tuple[int, str]] = {
    "down": (503, ""), "limited": (429, ""), "signed_out": (401, "api.context.session_expired.app_error"),
    "long": (400, "model.post.is_valid.message_length.app_error"), "gone": (403, "api.context.permissions.app_error"),
    "refused": (400, "api.post.create_post.town_square_read_only"),
}  # fmt: skip


class FakeMattermost(FakePlatform):
    """Implements `FakePlatform`. `posts` holds every post by its id, oldest first."""

    name = "mattermost"
    troubles: ClassVar[tuple[SendTrouble, ...]] = ("down", "cut", "limited", "long", "signed_out", "gone", "refused")

    def __init__(self) -> None:
        v4 = "/api/v4"
        routes = {
            f"GET {v4}/websocket": self._socket, f"GET {v4}/users/{{id}}/channels": self._channels,
            f"GET {v4}/users/{{id}}": self._user, f"POST {v4}/users/{{id}}/typing": self._ok,
            f"GET {v4}/users/username/{{name}}": self._user, f"POST {v4}/channels/direct": self._direct,
            f"GET {v4}/channels/{{id}}/posts": self._list, f"GET {v4}/posts/{{id}}/thread": self._thread,
            f"GET {v4}/posts/{{id}}": self._one, f"POST {v4}/posts": self._post,
            f"PUT {v4}/posts/{{id}}/patch": self._patch, f"DELETE {v4}/posts/{{id}}": self._delete,
            f"POST {v4}/posts/{{id}}/{{how}}": self._pin, f"POST {v4}/files": self._upload,
            f"GET {v4}/files/{{id}}": self._file, f"POST {v4}/reactions": self._react,
            f"DELETE {v4}/users/{{user}}/posts/{{id}}/reactions/{{name}}": self._unreact,
        }  # fmt: skip
        self._http = LoopbackHttp(routes, middleware=self._gate)
        super().__init__(self._http)
        self.posts: dict[str, dict[str, Any]] = {}
        self.files: dict[str, tuple[str, str, bytes]] = {}
        self.pending: dict[str, str] = {}  # forgotten by `forget`, as after half a minute
        self.revoked = False
        self.calls: list[str] = []
        self._clock = SystemClock()
        self._last = 0
        self._sockets: list[web.WebSocketResponse] = []

    async def cut(self) -> None:
        for socket in list(self._sockets):
            await socket.close(code=1001)
        await super().cut()

    @property
    def section(self) -> dict[str, Any]:
        return {"baseUrl": self._http.url, "botToken": TOKEN}

    def forget(self) -> None:
        """Half a minute passes: pending ids are not remembered."""
        self.pending.clear()

    # --- people

    async def _say(self, said: HumanMessage, more: dict[str, Any]) -> str:
        files = [self._keep(*file) for file in more.pop("files", ())]
        text = f"@pal {said.text}" if said.mention else said.text
        post = self._add(GROUP if said.chat else DIRECT, said.sender or ALICE, text, said.event, **more)
        post["file_ids"] = files
        post["metadata"] = {"files": [self._about(one) for one in files]}
        for _ in range(said.times):
            await self._tell(post)
        return str(post["id"])

    async def _tell(self, post: dict[str, Any]) -> None:
        group = post["channel_id"] == GROUP
        data = {
            "channel_type": "O" if group else "D", "channel_display_name": "Town" if group else "alice__pal",
            "sender_name": "@alice", "team_id": "team0" if group else "", "post": json.dumps(post),
        }  # fmt: skip
        for socket in self._sockets[-1:]:
            await socket.send_json({"event": "posted", "data": data, "broadcast": {}, "seq": 3})

    def _add(self, channel: str, user: str, text: str, ident: str = "", **more: Any) -> dict[str, Any]:
        self._last = max(self._last + 1, self._clock.now())
        made = ident or f"post{len(self.posts)}"
        post = {
            "id": made, "create_at": self._last, "update_at": self._last, "delete_at": 0, "user_id": user, "type": "",
            "channel_id": channel, "root_id": "", "message": text, "props": {}, "file_ids": [], **more,
        }  # fmt: skip
        return self.posts.setdefault(made, post)

    def visible_messages(self, chat: str = "") -> list[VisibleMessage]:
        where = {"": DIRECT, "group": GROUP}.get(chat, chat)
        return [
            VisibleMessage(
                post["id"],
                _read(post["message"]),
                tuple(self.files[one][0] for one in post["file_ids"]),
                reply_to=post["root_id"],
            )
            for post in self.posts.values()
            if post["channel_id"] == where and post["user_id"] == ME and not post["delete_at"]
        ]

    # --- the socket

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        first = await socket.receive_json()
        if self.revoked or first.get("data", {}).get("token") != TOKEN:
            await socket.send_json({"status": "FAIL", "error": {"id": "api.web_socket_router.bad_seq"}})
            return socket
        self._sockets.append(socket)
        self.calls.append(f"GET {request.path}")
        await socket.send_json({"event": "hello", "data": {"server_version": "10.5.0"}, "seq": 0})
        await socket.send_json({"status": "OK", "seq_reply": 1})
        async for frame in socket:
            if frame.type is aiohttp.WSMsgType.ERROR:
                break
        self._sockets.remove(socket)
        return socket

    # --- the API

    @web.middleware
    async def _gate(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if not request.path.endswith("/websocket"):
            if self.revoked or request.headers.get("Authorization") != f"Bearer {TOKEN}":
                return _no("signed_out")
            self.calls.append(f"{request.method} {request.path}")
        return await handler(request)  # type: ignore[no-any-return]

    async def _ok(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "OK"})

    async def _user(self, request: web.Request) -> web.Response:
        name = request.match_info.get("id") or request.match_info["name"]
        if name in ("me", "pal"):
            return web.json_response({"id": ME, "username": "pal", "is_bot": True})
        return web.json_response({"id": name if name.endswith("0") else f"{name}0", "username": name.rstrip("0")})

    async def _channels(self, request: web.Request) -> web.Response:
        newest = {post["channel_id"]: post["create_at"] for post in self.posts.values()}
        rows = [
            {"id": DIRECT, "type": "D", "display_name": "", "last_post_at": newest.get(DIRECT, 0)},
            {
                "id": GROUP,
                "type": "O",
                "display_name": "Town",
                "last_post_at": newest.get(GROUP, 0),
                "team_id": "team0",
            },
        ]
        return web.json_response(rows)

    async def _direct(self, request: web.Request) -> web.Response:
        people = await request.json()
        return web.json_response({"id": DIRECT if ALICE in people else f"dm-{people[1]}", "type": "D"}, status=201)

    async def _list(self, request: web.Request) -> web.Response:
        since = int(request.query.get("since") or 0)
        found = [p for p in self.posts.values() if p["channel_id"] == request.match_info["id"]]
        return _listed([p for p in found if p["update_at"] > since])

    async def _thread(self, request: web.Request) -> web.Response:
        root = request.match_info["id"]
        return _listed([p for p in self.posts.values() if root in (p["id"], p["root_id"])])

    async def _one(self, request: web.Request) -> web.Response:
        return web.json_response(self.posts[request.match_info["id"]])

    async def _post(self, request: web.Request) -> web.StreamResponse:
        body, trouble = await request.json(), self.next_fault()
        if trouble in _ERRORS:
            return _no(trouble, self.retry_after)
        known = self.pending.get(body.get("pending_post_id") or "")
        if known:
            return web.json_response(self.posts[known], status=201)
        extra = {key: body[key] for key in ("root_id", "props", "file_ids") if body.get(key)}
        post = self._add(body["channel_id"], ME, body["message"], **extra)
        self.pending[body.get("pending_post_id") or post["id"]] = post["id"]
        await self._tell(post)
        return abort_connection(request) if trouble == "cut" else web.json_response(post, status=201)

    async def _patch(self, request: web.Request) -> web.Response:
        post = self.posts[request.match_info["id"]]
        post["message"] = (await request.json())["message"]
        return web.json_response(post)

    async def _delete(self, request: web.Request) -> web.Response:
        self.posts[request.match_info["id"]]["delete_at"] = self._clock.now()
        return web.json_response({"status": "OK"})

    async def _pin(self, request: web.Request) -> web.Response:
        self.posts[request.match_info["id"]]["is_pinned"] = request.match_info["how"] == "pin"
        return web.json_response({"status": "OK"})

    async def _react(self, request: web.Request) -> web.Response:
        body = await request.json()
        rows = self.posts[body["post_id"]].setdefault("metadata", {}).setdefault("reactions", [])
        rows.append(body)
        return web.json_response(body, status=201)

    async def _unreact(self, request: web.Request) -> web.Response:
        told = self.posts[request.match_info["id"]]["metadata"]
        told["reactions"] = [r for r in told["reactions"] if r["emoji_name"] != request.match_info["name"]]
        return web.json_response({"status": "OK"})

    # --- files

    def _keep(self, name: str, mime: str, data: bytes) -> str:
        ident = f"file{len(self.files)}"
        self.files[ident] = name, mime, data
        return ident

    def _about(self, ident: str) -> dict[str, Any]:
        name, mime, data = self.files[ident]
        return {"id": ident, "name": name, "mime_type": mime, "size": len(data)}

    async def _upload(self, request: web.Request) -> web.Response:
        part = (await request.post())["files"]
        assert isinstance(part, web.FileField)
        ident = self._keep(part.filename, part.content_type, part.file.read())
        return web.json_response({"file_infos": [self._about(ident)]}, status=201)

    async def _file(self, request: web.Request) -> web.Response:
        return web.Response(body=self.files[request.match_info["id"]][2])


def _listed(posts: list[dict[str, Any]]) -> web.Response:
    order = [post["id"] for post in sorted(posts, key=lambda one: -one["create_at"])]
    return web.json_response({"order": order, "posts": {post["id"]: post for post in posts}})


def _no(trouble: str, after: float = 0.0) -> web.Response:
    status, code = _ERRORS[trouble]
    headers = {"Retry-After": str(int(after))} if trouble == "limited" else {}
    return web.json_response({"id": code, "message": "no", "status_code": status}, status=status, headers=headers)


def _read(text: str) -> str:
    """What can be read of Markdown as Mattermost shows it."""
    shown = []
    for at, part in enumerate(re.split(r"`([^`\n]*)`", text)):
        if at % 2 == 0:
            part = re.sub(r"(?<!\\)\*\*(.+?)(?<!\\)\*\*", r"\1", part)
            part = html.unescape(re.sub(r"\\([\\`*_~|\[\](){}#+\-.!>:])", r"\1", part))
        shown.append(part)
    return "".join(shown)
