"""A Google Chat on loopback: its sign-in for service accounts, its keys, its API, and people in front of it. A request
id that was seen gives the message that it made.
"""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar

from aiohttp import web

from palinurus.core.jwt import verify_token
from palinurus.core.types.channel import ChannelHttpRequest, SendTrouble
from palinurus.testing.loopback import LoopbackHttp, abort_connection
from palinurus.testing.platform import HumanMessage, VisibleMessage
from palinurus.testing.web.hooked import HookedPlatform
from palinurus.testing.web.keys import read_test_key, show_test_keys, sign_with_test_key, write_test_pem

TOKEN, MAIL, AUDIENCE = (
    "google-token",
    "pal@project.iam.gserviceaccount.com",
    "https://pal.example/channels/googlechat/default",
)
ALICE, DIRECT, GROUP, ME = "users/1", "spaces/DM", "spaces/TOWN", "users/99"
_ERRORS: dict[str, tuple[int, str]] = {
    "down": (503, "UNAVAILABLE"), "limited": (429, "RESOURCE_EXHAUSTED"), "signed_out": (401, "UNAUTHENTICATED"),
    "gone": (404, "NOT_FOUND"), "refused": (400, "INVALID_ARGUMENT"),
}  # fmt: skip


class FakeGoogleChat(HookedPlatform):
    """Implements `FakePlatform`."""

    name = "googlechat"
    renews = True
    troubles: ClassVar[tuple[SendTrouble, ...]] = ("down", "cut", "limited", "signed_out", "gone", "refused")

    def __init__(self) -> None:
        routes = {
            "POST /token": self._login, "GET /keys": self._keys, "GET /v1/media/{name}": self._media,
            "POST /v1/spaces/{space}/messages": self._post, "GET /v1/spaces/{space}/messages/{id}": self._get,
            "PATCH /v1/spaces/{space}/messages/{id}": self._patch,
            "DELETE /v1/spaces/{space}/messages/{id}": self._delete,
        }  # fmt: skip
        super().__init__(LoopbackHttp(routes, middleware=self._gate))
        self.seen: list[dict[str, Any]] = []
        self.files: dict[str, bytes] = {}

    @property
    def section(self) -> dict[str, Any]:
        url = self.http.url
        account = {"client_email": MAIL, "private_key": write_test_pem(), "private_key_id": "k1"}
        own = {"serviceAccount": account, "audienceType": "app-url", "audience": AUDIENCE, "botUser": ME}
        return {
            **own,
            "apiBase": url,
            "tokenUrl": f"{url}/token",
            "openIdUrl": f"{url}/keys",
            "publicWebhookUrl": AUDIENCE,
        }

    # --- people

    def make_request(self, said: HumanMessage, ident: str, more: dict[str, Any]) -> ChannelHttpRequest:
        space = {"name": DIRECT, "spaceType": "DIRECT_MESSAGE"}
        if said.chat:
            space = {"name": GROUP, "spaceType": "SPACE", "displayName": "Town"}
        user = {"name": said.sender or ALICE, "displayName": "Alice", "type": "HUMAN"}
        mention = {"type": "USER_MENTION", "userMention": {"user": {"name": ME, "type": "BOT"}}}
        message = {
            "name": f"{space['name']}/messages/{ident}", "sender": user, "text": said.text, "space": space,
            "createTime": "2026-11-18T02:00:00.5Z", "thread": {"name": f"{space['name']}/threads/T"}, **more,
        }  # fmt: skip
        if said.mention:
            message |= {"text": f"@Pal {said.text}", "argumentText": f" {said.text}", "annotations": [mention]}
        return self.sign_request({"type": "MESSAGE", "message": message, "space": space, "user": user})

    def sign_request(self, event: dict[str, Any], **claims: Any) -> ChannelHttpRequest:
        """A request as Google makes it."""
        now = self._clock.now() // 1000
        told = {
            "iss": "https://accounts.google.com", "aud": AUDIENCE, "exp": now + 600, "iat": now - 5,
            "email": "chat@system.gserviceaccount.com", "email_verified": True, **claims,
        }  # fmt: skip
        headers = {"authorization": f"Bearer {sign_with_test_key(told)}"}
        return ChannelHttpRequest("POST", headers, {}, json.dumps(event).encode())

    def visible_messages(self, chat: str = "") -> list[VisibleMessage]:
        where = {"": DIRECT, "group": GROUP}.get(chat, chat)
        return [
            VisibleMessage(one["name"], _read(one["text"]), tuple(one["files"]), reply_to=one["thread"])
            for one in self.seen
            if one["name"].startswith(f"{where}/")
        ]

    # --- signing in

    async def _login(self, request: web.Request) -> web.Response:
        token, now = str((await request.post())["assertion"]), self._clock.now() // 1000
        claims = verify_token(token, read_test_key(), (MAIL,), "https://oauth2.googleapis.com/token", now=now)
        if claims is None or claims["scope"] != "https://www.googleapis.com/auth/chat.bot":
            return web.json_response({"error": "invalid_grant"}, status=400)
        return web.json_response({"access_token": TOKEN, "expires_in": 3599})

    async def _keys(self, request: web.Request) -> web.Response:
        return web.json_response(show_test_keys())

    # --- the API

    @web.middleware
    async def _gate(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if request.path.startswith("/v1/") and request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _no("signed_out")
        return await handler(request)  # type: ignore[no-any-return]

    async def _post(self, request: web.Request) -> web.StreamResponse:
        body, trouble = await request.json(), self.next_fault()
        if trouble in _ERRORS:
            return _no(trouble, self.retry_after)
        known = next((one for one in self.seen if one["request"] == request.query["requestId"]), None)
        if known is None:
            links = re.findall(r"<(https://[^|<>]+)\|[^<>]+>", body["text"])
            known = {
                "name": f"spaces/{request.match_info['space']}/messages/m{self.next_number()}", "text": body["text"],
                "request": request.query["requestId"], "id": request.query["messageId"],
                "thread": body.get("thread", {}).get("name", ""),
                "files": [(await self.fetch_public(url))[0] for url in links],
            }  # fmt: skip
            self.seen.append(known)
        return abort_connection(request) if trouble == "cut" else web.json_response(known)

    def _find(self, request: web.Request) -> dict[str, Any] | None:
        ident = request.match_info["id"]
        return next((one for one in self.seen if ident in (one["id"], one["name"].rpartition("/")[2])), None)

    async def _get(self, request: web.Request) -> web.Response:
        found = self._find(request)
        return _no("gone") if found is None else web.json_response(found)

    async def _patch(self, request: web.Request) -> web.Response:
        found = self._find(request)
        if found is None or request.query["updateMask"] != "text":
            return _no("gone")
        found["text"] = (await request.json())["text"]
        return web.json_response(found)

    async def _delete(self, request: web.Request) -> web.Response:
        found = self._find(request)
        self.seen = [one for one in self.seen if one is not found]
        return _no("gone") if found is None else web.json_response({})

    async def _media(self, request: web.Request) -> web.Response:
        return web.Response(body=self.files[request.match_info["name"]])


def _read(text: str) -> str:
    """What can be read of Google Chat's own marks."""
    text = re.sub(r"\n?<https://[^<>]+>", "", text)
    return re.sub(r"(?<![\w*])([*_~`])(?=[^\s*])(.+?)(?<=[^\s*])\1(?![\w*])", r"\2", text)


def _no(trouble: str, after: float = 0.0) -> web.Response:
    status, code = _ERRORS[trouble]
    headers = {"Retry-After": str(int(after))} if trouble == "limited" else {}
    return web.json_response(
        {"error": {"code": status, "status": code, "message": "no"}}, status=status, headers=headers
    )
