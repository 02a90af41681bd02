"""The fake Discord: its REST API with its checks, limits and errors, and the people in front of it (`FakePlatform`)."""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar, cast

from aiohttp import web

from palinurus.core.types.channel import SendTrouble
from palinurus.testing.discord.gateway import RECONNECT, FakeDiscordGateway
from palinurus.testing.discord.state import GUILD, ME, TOKEN, FakeDiscordState
from palinurus.testing.loopback import LoopbackHttp, abort_connection
from palinurus.testing.platform import FakePlatform, HumanMessage, VisibleMessage

LARGEST = 10 * 1024 * 1024
SPOKEN = ("duration_secs", "waveform")  # what a voice message says of its file
_LONG = {"content": {"_errors": [{"code": "BASE_TYPE_MAX_LENGTH", "message": "Must be 2000 or fewer in length."}]}}
# status, Discord's number, its words
_FAULTS: dict[SendTrouble, tuple[int, int, str]] = {
    "down": (503, 0, "upstream connect error"),
    "long": (400, 50035, "Invalid Form Body"),
    "media": (413, 40005, "Request entity too large"),
    "signed_out": (401, 0, "401: Unauthorized"),
    "blocked": (403, 50007, "Cannot send messages to this user"),
    "gone": (404, 10003, "Unknown Channel"),
    "refused": (403, 50013, "Missing Permissions"),
}


class FakeDiscord(FakePlatform):
    """Implements `FakePlatform`. Ids are Discord's; a chat is "", "group", or the id of a thread or channel."""

    name = "discord"
    troubles: ClassVar[tuple[SendTrouble, ...]] = (*_FAULTS, "cut", "limited")

    def __init__(self) -> None:
        self.world = FakeDiscordState()
        self.sessions = FakeDiscordGateway(self.world)
        api = {f"{method} /api/v10{path}": handler for method, path, handler in self._routes()}
        files = {"GET /attachments/{number}/{name}": self._file}
        self._http = LoopbackHttp({"GET /gateway": self.sessions.serve, **api, **files}, middleware=self._gate)
        super().__init__(self._http)
        self.everywhere = False  # is a limit one for all requests?
        self.remaining: float | None = None  # every message uses its limit up for so many seconds
        self.refused = 0  # requests answered with 429
        self.looks: dict[str, Any] = {}  # answers about the server: roles, voice-states, scheduled-events, search
        self.asked: list[dict[str, str]] = []  # the query of each look
        self.extra: dict[str, Any] = {}  # further keys of the account's section

    @property
    def base(self) -> str:
        return self._http.url

    async def mend(self) -> None:
        await super().mend()
        self.sessions.url = f"ws://127.0.0.1:{self._http.port}/gateway"

    async def cut(self) -> None:
        self.sessions.drop()
        await super().cut()

    @property
    def section(self) -> dict[str, Any]:
        return {"token": TOKEN, "apiBase": f"{self.base}/api/v10", **self.extra}

    # --- people

    async def _say(self, said: HumanMessage, more: dict[str, Any]) -> str:
        """`more` are further keys of the message; `files` are (name, mime, data)."""
        where, author = self.world.chat(said.chat, said.sender), self.world.person(said.sender)
        files = more.pop("files", ())
        content = f"<@{ME}> {said.text}" if said.mention else said.text
        more["attachments"] = [self.world.attach(self.base, *file) for file in files]
        made = self.world.write(where["id"], author, content, ident=said.event, **more)
        told = dict(made)
        if "guild_id" in where:
            told |= {"guild_id": GUILD, "member": self.world.member(author["id"])}
        for _ in range(said.times):
            await self.sessions.tell("MESSAGE_CREATE", told)
        return str(made["id"])

    def visible_messages(self, chat: str = "") -> list[VisibleMessage]:
        return self.world.shown(chat)

    async def press(self, message_id: str, label: str, *, chat: str = "", sender: str = "") -> None:
        # a stranger sees the same message: the chat is that of the message, not theirs
        where = self.world.chat(chat)
        custom = self.world.button(where["id"], message_id, label)
        data = {"custom_id": custom, "component_type": 2}
        await self._interact(3, where, sender, data, message={"id": message_id})

    async def command(self, name: str, text: str = "", *, chat: str = "", sender: str = "") -> None:
        """A human chooses a command from the menu."""
        assert name in {one["name"] for one in self.world.commands}, f"the menu has no {name}"
        options = [{"name": "text", "type": 3, "value": text}] if text else []
        await self._interact(2, self.world.chat(chat, sender), sender, {"name": name, "options": options})

    async def _interact(self, kind: int, where: dict[str, Any], sender: str, data: Any, **more: Any) -> None:
        user = self.world.person(sender)
        who: dict[str, Any] = {"user": user}
        if "guild_id" in where:
            who = {"member": {**self.world.member(user["id"]), "user": user}, "guild_id": GUILD}
        ident = self.world.ident()
        told = {"id": ident, "type": kind, "token": f"aW50ZXJhY3Rpb24{ident}", "channel_id": where["id"]}
        await self.sessions.tell("INTERACTION_CREATE", {**told, "channel": where, "data": data, **who, **more})

    # --- what goes wrong

    def fail(self, trouble: SendTrouble, times: int = 1, *, retry_after: float = 0.0, everywhere: bool = False) -> None:
        super().fail(trouble, times, retry_after=retry_after)
        self.everywhere = everywhere

    async def ask_to_reconnect(self) -> None:
        """Discord wants the connection made anew, as it does now and then."""
        await self.sessions.everyone(RECONNECT)

    @web.middleware
    async def _gate(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if not request.path.startswith("/api/"):
            return await handler(request)  # type: ignore[no-any-return]
        self.world.calls.append(f"{request.method} {request.path.removeprefix('/api/v10')}")
        if request.headers.get("Authorization") != f"Bot {TOKEN}":
            return make_error(401, 0, "401: Unauthorized")
        return await handler(request)  # type: ignore[no-any-return]

    # --- the API

    def _routes(self) -> list[tuple[str, str, Any]]:
        message = "/channels/{chat}/messages/{message}"
        return [
            ("GET", "/gateway/bot", self._gateway),
            ("GET", "/users/@me", self._me),
            ("POST", "/users/@me/channels", self._open),
            ("PUT", "/applications/{application}/commands", self._commands),
            ("GET", "/guilds/{guild}/members/{user}", self._member),
            ("GET", "/guilds/{guild}/roles", self._look),
            ("GET", "/guilds/{guild}/voice-states/{user}", self._look),
            ("GET", "/guilds/{guild}/scheduled-events", self._look),
            ("GET", "/guilds/{guild}/messages/search", self._look),
            ("GET", "/channels/{chat}", self._chat),
            ("POST", "/channels/{chat}/typing", self._typing),
            ("GET", "/channels/{chat}/messages", self._list),
            ("POST", "/channels/{chat}/messages", self._post),
            ("GET", message, self._get),
            ("PATCH", message, self._patch),
            ("DELETE", message, self._delete),
            ("PUT", "/channels/{chat}/messages/pins/{message}", self._pin),
            ("DELETE", "/channels/{chat}/messages/pins/{message}", self._pin),
            ("PUT", message + "/reactions/{emoji}/@me", self._react),
            ("DELETE", message + "/reactions/{emoji}/@me", self._react),
            ("POST", message + "/threads", self._thread),
            ("POST", "/channels/{chat}/threads", self._thread),
            ("POST", "/interactions/{interaction}/{token}/callback", self._callback),
        ]

    async def _gateway(self, request: web.Request) -> web.Response:
        limit = {"total": 1000, "remaining": self.sessions.starts, "reset_after": 5000, "max_concurrency": 1}
        return web.json_response({"url": self.sessions.url, "shards": 1, "session_start_limit": limit})

    async def _me(self, request: web.Request) -> web.Response:
        return web.json_response(self.world.me())

    async def _open(self, request: web.Request) -> web.Response:
        return web.json_response(self.world.direct((await request.json())["recipient_id"]))

    async def _commands(self, request: web.Request) -> web.Response:
        wanted = await request.json()
        sound = all(re.fullmatch(r"[-_a-z0-9]{1,32}", one["name"]) and one["description"] for one in wanted)
        if not sound or len(wanted) > 100 or len({one["name"] for one in wanted}) < len(wanted):
            return make_error(400, 50035, "Invalid Form Body")
        self.world.commands = wanted
        return web.json_response(self.world.commands)

    async def _member(self, request: web.Request) -> web.Response:
        return web.json_response(self.world.member(request.match_info["user"]))

    async def _look(self, request: web.Request) -> web.Response:
        """What the test put there, by the last word of the path that is no id."""
        self.asked.append(dict(request.query))
        name = next(part for part in reversed(request.path.split("/")) if not part.isdigit())
        return web.json_response(self.looks[name])

    async def _chat(self, request: web.Request) -> web.Response:
        found = self.world.chats.get(request.match_info["chat"])
        return web.json_response(found) if found else make_error(404, 10003, "Unknown Channel")

    async def _typing(self, request: web.Request) -> web.Response:
        self.world.typed.append(request.match_info["chat"])
        return web.Response(status=204)

    async def _list(self, request: web.Request) -> web.Response:
        rows = self.world.messages.get(request.match_info["chat"], [])
        limit = int(request.query.get("limit", 50))
        if after := int(request.query.get("after", 0)):
            rows = [row for row in rows if int(row["id"]) > after][:limit]
        return web.json_response(rows[-limit:][::-1])

    async def _post(self, request: web.Request) -> web.Response:
        chat = request.match_info["chat"]
        fault = self.next_fault()
        if fault and fault != "cut":
            return self._fault(fault)
        if chat not in self.world.chats:
            return make_error(404, 10003, "Unknown Channel")
        body, files = await self._body(request)
        if wrong := find_refusal(body, files):
            return wrong
        known = self.world.nonces.get(body.get("nonce", "")) if body.get("enforce_nonce") else None
        made = known or self._made(chat, body, files)
        if known is None:
            where = self.world.chats[chat]
            guild = {"guild_id": GUILD} if "guild_id" in where else {}
            await self.sessions.tell("MESSAGE_CREATE", {**made, **guild})
        if fault:
            abort_connection(request)
        headers = {}
        if self.remaining is not None:
            headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset-After": str(self.remaining)}
        return web.json_response(made, headers=headers)

    def _made(self, chat: str, body: dict[str, Any], files: list[tuple[str, str, bytes]]) -> dict[str, Any]:
        if self.world.forgetful:
            body = {name: value for name, value in body.items() if name != "nonce"}
        names = ("components", "flags", "message_reference", "nonce", "poll")
        kept = {name: body[name] for name in names if name in body}
        told = [{k: v for k, v in one.items() if k in SPOKEN} for one in body.get("attachments", [])]
        attached = [{**self.world.attach(self.base, *file), **more} for file, more in zip(files, told, strict=True)]
        made = self.world.write(chat, self.world.me(), body.get("content", "").strip(), attachments=attached, **kept)
        if "nonce" in body:
            self.world.nonces[body["nonce"]] = made
        return made

    async def _body(self, request: web.Request) -> tuple[dict[str, Any], list[tuple[str, str, bytes]]]:
        if not request.content_type.startswith("multipart/"):
            return await request.json(), []
        form = await request.post()
        body = json.loads(cast("bytes", form["payload_json"]))
        files = [
            (str(field.filename), str(field.content_type), field.file.read())
            for name, field in form.items()
            if name.startswith("files[") and isinstance(field, web.FileField)
        ]
        return body, files

    def _fault(self, fault: str) -> web.Response:
        if fault == "limited":
            self.refused += 1
            after, words = self.retry_after, "You are being rate limited."
            body = {"message": words, "retry_after": after, "global": self.everywhere}
            return web.json_response(body, status=429, headers={"Retry-After": str(int(after) + 1)})
        status, code, words = _FAULTS[cast("SendTrouble", fault)]
        return make_error(status, code, words, _LONG if fault == "long" else None)

    def _found(self, request: web.Request) -> dict[str, Any]:
        """The message that is meant. Raises Discord's answer where there is none."""
        found = self.world.message(request.match_info["chat"], request.match_info["message"])
        if found is None:
            text = json.dumps({"message": "Unknown Message", "code": 10008})
            raise web.HTTPNotFound(text=text, content_type="application/json")
        return found

    async def _get(self, request: web.Request) -> web.Response:
        return web.json_response(self._found(request))

    async def _patch(self, request: web.Request) -> web.Response:
        found, body = self._found(request), await request.json()
        if found["author"]["id"] != ME:
            return make_error(403, 50005, "Cannot edit a message authored by another user")
        if wrong := find_refusal(body, []):
            return wrong
        found |= {"content": body["content"], "components": body["components"], "edited": True}
        return web.json_response(found)

    async def _delete(self, request: web.Request) -> web.Response:
        found = self._found(request)
        self.world.messages[request.match_info["chat"]].remove(found)
        return web.Response(status=204)

    async def _pin(self, request: web.Request) -> web.Response:
        found = self._found(request)
        found["pinned"] = request.method == "PUT"
        return web.Response(status=204)

    async def _react(self, request: web.Request) -> web.Response:
        found, emoji = self._found(request), request.match_info["emoji"]
        rest = [one for one in found.get("reactions", ()) if one["emoji"]["name"] != emoji]
        ours = {"emoji": {"id": None, "name": emoji}, "me": True, "count": 1}
        found["reactions"] = [*rest, ours] if request.method == "PUT" else rest
        return web.Response(status=204)

    async def _thread(self, request: web.Request) -> web.Response:
        body = await request.json()
        ident = request.match_info.get("message", "")
        made = self.world.thread(request.match_info["chat"], body["name"], ident)
        await self.sessions.tell("THREAD_CREATE", made)
        return web.json_response(made, status=201)

    async def _callback(self, request: web.Request) -> web.Response:
        ident = request.match_info["interaction"]
        if ident in {known for known, _ in self.world.answers}:
            return make_error(400, 40060, "Interaction has already been acknowledged.")
        self.world.answers.append((ident, await request.json()))
        return web.Response(status=204)

    async def _file(self, request: web.Request) -> web.Response:
        assert "Authorization" not in request.headers, "our token went to the files' server"
        self.world.fetched += 1
        data = self.world.files.get(f"{request.match_info['number']}/{request.match_info['name']}")
        return web.Response(body=data) if data is not None else web.Response(status=404)


def find_refusal(body: dict[str, Any], files: list[tuple[str, str, bytes]]) -> web.Response | None:
    """What Discord refuses of a message, or None."""
    if len(body.get("content") or "") > 2000:
        return make_error(400, 50035, "Invalid Form Body", _LONG)
    if not (body.get("content") or files or body.get("poll")):
        return make_error(400, 50006, "Cannot send an empty message")
    if sum(len(data) for _, _, data in files) > LARGEST:
        return make_error(413, 40005, "Request entity too large")
    rows = body.get("components") or []
    buttons = [one for row in rows for one in row["components"]]
    customs = [one["custom_id"] for one in buttons]
    sound = (
        len(body.get("nonce", "")) <= 25
        and len(rows) <= 5
        and all(1 <= len(row["components"]) <= 5 for row in rows)
        and all(1 <= len(one["label"]) <= 80 and 1 <= len(one["custom_id"]) <= 100 for one in buttons)
        and len(set(customs)) == len(customs)
    )
    return None if sound else make_error(400, 50035, "Invalid Form Body")


def make_error(status: int, code: int, words: str, errors: Any = None) -> web.Response:
    """As Discord says it."""
    body = {"message": words, "code": code}
    return web.json_response({**body, "errors": errors} if errors else body, status=status)
