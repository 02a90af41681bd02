"""A BlueBubbles server on loopback, and people with iPhones in front of it. It calls once, and forgets a `tempGuid`
when the message is out.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from aiohttp import web

from palinurus.core.types.channel import ChannelHttpRequest, SendTrouble
from palinurus.testing.loopback import LoopbackHttp, abort_connection
from palinurus.testing.platform import HumanMessage, VisibleMessage
from palinurus.testing.web.hooked import HookedPlatform

PASSWORD, ALICE = "on-the-mac", "+15552223333"
DIRECT, GROUP = f"iMessage;-;{ALICE}", "iMessage;+;chat77"
_STATUSES = {"signed_out": 401, "gone": 404, "refused": 400}


class FakeBlueBubbles(HookedPlatform):
    """Implements `FakePlatform`. `private`: its Private API is on."""

    name = "bluebubbles"
    groups = False  # nobody can be mentioned there: patterns say who is meant
    refusals = ()
    troubles: ClassVar[tuple[SendTrouble, ...]] = ("down", "cut", "signed_out", "gone", "refused")

    def __init__(self) -> None:
        routes = {
            "GET /api/v1/server/info": self._info, "POST /api/v1/message/query": self._query,
            "POST /api/v1/message/text": self._text, "POST /api/v1/message/attachment": self._attach,
            "POST /api/v1/message/react": self._react, "POST /api/v1/message/{guid}/edit": self._edit,
            "POST /api/v1/message/{guid}/unsend": self._unsend, "POST /api/v1/chat/{guid}/typing": self._ok,
            "GET /api/v1/attachment/{guid}/download": self._download,
        }  # fmt: skip
        super().__init__(LoopbackHttp(routes, middleware=self._gate))
        self.private = True
        self.rows: list[dict[str, Any]] = []
        self.files: dict[str, tuple[str, str, bytes]] = {}
        self.reactions: list[dict[str, Any]] = []
        self.methods: set[str] = set()
        self._last = 0

    @property
    def section(self) -> dict[str, Any]:
        return {"serverUrl": self.http.url, "password": PASSWORD, "pollSeconds": 0.2}

    def _add(self, guid: str, chat: str, text: str, **more: Any) -> dict[str, Any]:
        self._last = max(self._last + 1, self._clock.now())
        row = {
            "guid": guid, "text": text, "chats": [{"guid": chat, "displayName": "Town"}], "attachments": [],
            "dateCreated": self._last, "isFromMe": False, "itemType": 0, "associatedMessageGuid": None, **more,
        }  # fmt: skip
        self.rows.append(row)
        return row

    # --- people

    def make_request(self, said: HumanMessage, ident: str, more: dict[str, Any]) -> ChannelHttpRequest:
        files = []
        for name, mime, data in more.pop("files", ()):
            guid = f"at_{len(self.files)}"
            self.files[guid] = name, mime, data
            files.append({"guid": guid, "transferName": name, "mimeType": mime, "totalBytes": len(data)})
        row = next((one for one in self.rows if one["guid"] == ident), None) or self._add(
            ident, GROUP if said.chat else DIRECT, said.text, handle={"address": said.sender or ALICE}, **more
        )
        row["attachments"] = files
        return self.sign_request({"type": "new-message", "data": row})

    def sign_request(self, body: Any, password: str = PASSWORD) -> ChannelHttpRequest:
        """A request as the server makes it, to the address with the password."""
        return ChannelHttpRequest("POST", {}, {"password": password}, json.dumps(body).encode())

    async def _tell(self, request: ChannelHttpRequest, times: int) -> None:
        if self._up.is_set():  # a call that nobody answers is not made again
            await super()._tell(request, times)

    def visible_messages(self, chat: str = "") -> list[VisibleMessage]:
        where = {"": DIRECT, "group": GROUP}.get(chat, chat)
        shown = [row for row in self.rows if row["isFromMe"] and row["chats"][0]["guid"] == where]
        return [VisibleMessage(row["guid"], row["text"], tuple(row["names"])) for row in shown]

    # --- the API

    @web.middleware
    async def _gate(self, request: web.Request, handler: Any) -> web.StreamResponse:
        return await handler(request) if request.query.get("password") == PASSWORD else _no(401)

    async def _ok(self, request: web.Request) -> web.Response:
        return web.json_response({"status": 200})

    async def _info(self, request: web.Request) -> web.Response:
        told = {"private_api": self.private, "helper_connected": self.private, "detected_imessage": "me@icloud.com"}
        return web.json_response({"status": 200, "data": told})

    async def _query(self, request: web.Request) -> web.Response:
        asked = await request.json()
        found = [row for row in self.rows if row["dateCreated"] >= asked["after"]]
        found = [row for row in found if asked.get("chatGuid") in (None, row["chats"][0]["guid"])]
        return web.json_response({"status": 200, "data": found if asked["sort"] == "ASC" else found[::-1]})

    async def _text(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        return await self._sent(request, body, [])

    async def _attach(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        body = {key: str(form[key]) for key in ("chatGuid", "tempGuid", "method")}
        return await self._sent(request, {**body, "message": ""}, [str(form["name"])])

    async def _sent(self, request: web.Request, body: dict[str, Any], names: list[str]) -> web.StreamResponse:
        trouble = self.next_fault()
        if trouble == "down":
            return web.Response(status=503)
        if trouble in _STATUSES:
            return _no(_STATUSES[trouble])
        self.methods.add(body["method"])
        row = self._add(f"p:0/{self.next_number()}", body["chatGuid"], body["message"], isFromMe=True, names=names)
        return abort_connection(request) if trouble == "cut" else web.json_response({"status": 200, "data": row})

    def _find(self, request: web.Request) -> dict[str, Any]:
        return next(row for row in self.rows if row["guid"] == request.match_info["guid"])

    async def _edit(self, request: web.Request) -> web.Response:
        self._find(request)["text"] = (await request.json())["editedMessage"]
        return web.json_response({"status": 200})

    async def _unsend(self, request: web.Request) -> web.Response:
        self.rows.remove(self._find(request))
        return web.json_response({"status": 200})

    async def _react(self, request: web.Request) -> web.Response:
        self.reactions.append(await request.json())
        return web.json_response({"status": 200})

    async def _download(self, request: web.Request) -> web.Response:
        return web.Response(body=self.files[request.match_info["guid"]][2])


def _no(status: int) -> web.Response:
    return web.json_response({"status": status, "error": {"type": "Error", "message": "no"}}, status=status)
