"""A Bot Framework on loopback: its sign-in, its keys, its Connector, and people in Teams in front of it."""

from __future__ import annotations

import html
import json
import re
from typing import Any, ClassVar

from aiohttp import web

from palinurus.core.types.channel import ChannelHttpRequest, SendTrouble
from palinurus.testing.loopback import LoopbackHttp, abort_connection
from palinurus.testing.platform import HumanMessage, VisibleMessage
from palinurus.testing.web.hooked import HookedPlatform
from palinurus.testing.web.keys import show_test_keys, sign_with_test_key

APP, TENANT, PASSWORD, TOKEN = "app-0000", "tenant-1", "client-secret", "bot-framework-token"
ALICE, DIRECT, GROUP = "aad-alice", "a:dm-alice", "19:town@thread.tacv2"
_ERRORS: dict[str, tuple[int, str]] = {
    "down": (503, ""), "limited": (429, "TooManyRequests"), "signed_out": (401, "Unauthorized"),
    "long": (413, "MessageSizeTooBig"), "blocked": (403, "MessageWritesBlocked"),
    "gone": (404, "ConversationNotFound"), "refused": (400, "BadSyntax"),
}  # fmt: skip


class FakeTeams(HookedPlatform):
    """Implements `FakePlatform`. `logins` counts how often a token was bought."""

    name = "msteams"
    renews = True
    troubles: ClassVar[tuple[SendTrouble, ...]] = (
        "down", "cut", "limited", "long", "signed_out", "blocked", "gone", "refused",
    )  # fmt: skip

    def __init__(self) -> None:
        talk = "/teams/v3/conversations/{chat}/activities"
        routes = {
            f"POST /{TENANT}/oauth2/v2.0/token": self._login, "GET /openid": self._openid, "GET /keys": self._keys,
            f"POST {talk}": self._post, f"PUT {talk}/{{id}}": self._put, f"DELETE {talk}/{{id}}": self._delete,
            "GET /files/{name}": self._file,
        }  # fmt: skip
        super().__init__(LoopbackHttp(routes))
        self.seen: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}
        self.typing: list[str] = []
        self.logins = 0

    @property
    def section(self) -> dict[str, Any]:
        url = self.http.url
        own = {"appId": APP, "appPassword": PASSWORD, "tenantId": TENANT, "loginBase": url}
        own |= {"openIdUrl": f"{url}/openid", "serviceUrl": f"{url}/teams"}
        return {**own, "publicWebhookUrl": "https://pal.example/channels/msteams/default"}

    # --- people

    def make_request(self, said: HumanMessage, ident: str, more: dict[str, Any]) -> ChannelHttpRequest:
        who = said.sender or ALICE
        where = {"id": DIRECT, "conversationType": "personal"}
        if said.chat:
            where = {"id": GROUP, "conversationType": "channel", **more.pop("conversation", {})}
        text = f"<at>Pal</at> {said.text}" if said.mention else said.text
        mention = {"type": "mention", "mentioned": {"id": f"28:{APP}"}, "text": "<at>Pal</at>"}
        activity = {
            "type": "message", "id": ident, "channelId": "msteams", "serviceUrl": f"{self.http.url}/teams",
            "timestamp": "2026-11-18T02:00:00.000Z", "from": {"id": f"29:{who}", "aadObjectId": who, "name": "Alice"},
            "recipient": {"id": f"28:{APP}", "name": "Pal"}, "conversation": where, "textFormat": "plain",
            "text": text, "entities": [mention] if said.mention else [],
            "channelData": {"team": {"id": "t1"}, "channel": {"name": "Town"}} if said.chat else {}, **more,
        }  # fmt: skip
        return self.sign_request(activity)

    def sign_request(self, activity: dict[str, Any], **claims: Any) -> ChannelHttpRequest:
        """A request as the Bot Framework makes it."""
        now = self._clock.now() // 1000
        told = {
            "iss": "https://api.botframework.com", "aud": APP, "exp": now + 600, "nbf": now - 10,
            "serviceurl": activity.get("serviceUrl"), **claims,
        }  # fmt: skip
        headers = {"authorization": f"Bearer {sign_with_test_key(told)}"}
        return ChannelHttpRequest("POST", headers, {}, json.dumps(activity).encode())

    def visible_messages(self, chat: str = "") -> list[VisibleMessage]:
        where = {"": DIRECT, "group": GROUP}.get(chat, chat)
        return [
            VisibleMessage(one["id"], _read(one), tuple(one["files"]), reply_to=one["chat"].partition(";messageid=")[2])
            for one in self.seen
            if one["chat"].partition(";")[0] == where
        ]

    # --- signing in

    async def _login(self, request: web.Request) -> web.Response:
        form = await request.post()
        self.logins += 1
        right = (form["client_id"], form["client_secret"], form["scope"])
        if right != (APP, PASSWORD, "https://api.botframework.com/.default"):
            return web.json_response({"error": "invalid_client", "error_description": "AADSTS7000215"}, status=401)
        return web.json_response({"access_token": TOKEN, "expires_in": 3599, "token_type": "Bearer"})

    async def _openid(self, request: web.Request) -> web.Response:
        return web.json_response({"issuer": "https://api.botframework.com", "jwks_uri": f"{self.http.url}/keys"})

    async def _keys(self, request: web.Request) -> web.Response:
        return web.json_response(show_test_keys(endorsements=["msteams", "skype"]))

    # --- the Connector

    async def _post(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _no("signed_out")
        body, chat = await request.json(), request.match_info["chat"]
        if body["type"] == "typing":
            self.typing.append(chat)
            return web.json_response({"id": ""}, status=201)
        trouble = self.next_fault()
        if trouble in _ERRORS:
            return _no(trouble, self.retry_after)
        files = [(await self.fetch_public(one["contentUrl"]))[0] for one in body.get("attachments", ())]
        self.seen.append({**body, "id": f"a{self.next_number()}", "chat": chat, "files": files})
        return (
            abort_connection(request)
            if trouble == "cut"
            else web.json_response({"id": self.seen[-1]["id"]}, status=201)
        )

    async def _put(self, request: web.Request) -> web.Response:
        for one in self.seen:
            if one["id"] == request.match_info["id"]:
                one |= await request.json()
        return web.json_response({"id": request.match_info["id"]})

    async def _delete(self, request: web.Request) -> web.Response:
        self.seen = [one for one in self.seen if one["id"] != request.match_info["id"]]
        return web.Response(status=200)

    async def _file(self, request: web.Request) -> web.Response:
        return web.Response(body=self.files[request.match_info["name"]])


def _read(activity: dict[str, Any]) -> str:
    text = str(activity["text"])
    if activity["textFormat"] == "plain":
        return text
    return html.unescape(re.sub(r"<[^<>]+>", "", re.sub(r"<br/?>", "\n", text)))


def _no(trouble: str, after: float = 0.0) -> web.Response:
    status, code = _ERRORS[trouble]
    headers = {"Retry-After": str(int(after))} if trouble == "limited" else {}
    return web.json_response({"error": {"code": code, "message": "no"}}, status=status, headers=headers)
