"""A Twilio on loopback: the Messages API, and people with telephones. It calls once and never again, takes no ids of
ours, and lists what was said both ways.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from email.utils import formatdate
from typing import Any, ClassVar
from urllib.parse import urlencode

from aiohttp import web

from palinurus.core.types.channel import ChannelHttpRequest, SendTrouble
from palinurus.testing.loopback import LoopbackHttp, abort_connection
from palinurus.testing.platform import HumanMessage, VisibleMessage
from palinurus.testing.web.hooked import HookedPlatform

SID, TOKEN, NUMBER, ALICE = "AC" + "0" * 32, "twilio-auth-token", "+15550001111", "+15552223333"
ADDRESS = "https://pal.example/channels/sms/default"
_CODES: dict[str, tuple[int, int]] = {
    "limited": (429, 20429), "long": (400, 21617), "media": (400, 21620), "signed_out": (401, 20003),
    "blocked": (400, 21610), "gone": (400, 21211), "refused": (400, 21408),
}  # fmt: skip


class FakeTwilio(HookedPlatform):
    """Implements `FakePlatform`. `calls_us`: false, and messages are only on the list."""

    name = "sms"
    groups = False
    refusals = ()
    troubles: ClassVar[tuple[SendTrouble, ...]] = (
        "down", "cut", "limited", "long", "signed_out", "blocked", "gone", "refused",
    )  # fmt: skip

    def __init__(self) -> None:
        home = f"/2010-04-01/Accounts/{SID}"
        routes = {
            f"GET {home}.json": self._account, f"GET {home}/Messages.json": self._list,
            f"POST {home}/Messages.json": self._send, f"GET {home}/Messages/{{sid}}/Media.json": self._media,
            f"GET {home}/Messages/{{sid}}/Media/{{id}}": self._file,
        }  # fmt: skip
        super().__init__(LoopbackHttp(routes, middleware=self._gate))
        self.rows: list[dict[str, Any]] = []  # oldest first
        self.files: dict[str, list[tuple[str, bytes]]] = {}  # by message
        self.calls_us = True
        self.silent = False  # it answers no list

    @property
    def section(self) -> dict[str, Any]:
        own = {"accountSid": SID, "authToken": TOKEN, "fromNumber": NUMBER, "apiBase": self.http.url}
        return {**own, "publicWebhookUrl": ADDRESS, "pollSeconds": 0.2}

    # --- people

    def make_request(self, said: HumanMessage, ident: str, more: dict[str, Any]) -> ChannelHttpRequest:
        who = said.sender or ALICE
        self.files[ident] = more.pop("files", [])
        self._add(ident, who, NUMBER, said.text, "inbound")
        form = {
            "MessageSid": ident, "From": who, "To": NUMBER, "Body": said.text, "SmsStatus": "received",
            "NumMedia": str(len(self.files[ident])), "ToState": "", **more,
        }  # fmt: skip
        for number, (mime, _) in enumerate(self.files[ident]):
            where = f"{self.http.url}/2010-04-01/Accounts/{SID}/Messages/{ident}/Media/{number}"
            form |= {f"MediaUrl{number}": where, f"MediaContentType{number}": mime}
        return self.sign_request(form)

    def sign_request(self, form: dict[str, str], url: str = ADDRESS, token: str = TOKEN) -> ChannelHttpRequest:
        """A request as Twilio makes it."""
        signed = url + "".join(name + form[name] for name in sorted(form))
        signature = base64.b64encode(hmac.new(token.encode(), signed.encode(), hashlib.sha1).digest()).decode()
        return ChannelHttpRequest("POST", {"x-twilio-signature": signature}, {}, urlencode(form).encode())

    async def _tell(self, request: ChannelHttpRequest, times: int) -> None:
        if self.calls_us and self._up.is_set():  # a call that nobody answers is not made again
            await super()._tell(request, times)

    def visible_messages(self, chat: str = "") -> list[VisibleMessage]:
        to = chat or ALICE
        shown = [row for row in self.rows if row["to"] == to and row["direction"] != "inbound"]
        return [VisibleMessage(row["sid"], row["body"], tuple(row["files"])) for row in shown]

    def _add(self, ident: str, sender: str, to: str, text: str, direction: str) -> dict[str, Any]:
        row = {
            "sid": ident, "from": sender, "to": to, "body": text, "direction": direction, "files": [],
            "num_media": str(len(self.files.get(ident, ()))), "date_created": formatdate(self._clock.now() / 1000),
        }  # fmt: skip
        if all(one["sid"] != ident for one in self.rows):
            self.rows.append(row)
        return row

    # --- the API

    @web.middleware
    async def _gate(self, request: web.Request, handler: Any) -> web.StreamResponse:
        right = base64.b64encode(f"{SID}:{TOKEN}".encode()).decode()
        if request.headers.get("Authorization") != f"Basic {right}":
            return _no("signed_out")
        return await handler(request)  # type: ignore[no-any-return]

    async def _account(self, request: web.Request) -> web.Response:
        return web.json_response({"sid": SID, "friendly_name": "Pal", "status": "active"})

    async def _list(self, request: web.Request) -> web.Response:
        if self.silent:
            return web.Response(status=503)
        to = request.query.get("To", "")
        return web.json_response({"messages": [row for row in reversed(self.rows) if to in ("", row["to"])]})

    async def _send(self, request: web.Request) -> web.StreamResponse:
        form, trouble = await request.post(), self.next_fault()
        if trouble == "down":
            return web.Response(status=503, text="unavailable")
        if trouble in _CODES:
            return _no(trouble, self.retry_after)
        row = self._add(
            f"SM{self.next_number()}", str(form["From"]), str(form["To"]), str(form["Body"]), "outbound-api"
        )
        row["files"] = [(await self.fetch_public(str(url)))[0] for url in form.getall("MediaUrl", [])]
        return abort_connection(request) if trouble == "cut" else web.json_response(row, status=201)

    async def _media(self, request: web.Request) -> web.Response:
        ident = request.match_info["sid"]
        home = f"/2010-04-01/Accounts/{SID}/Messages/{ident}/Media"
        rows = [
            {"sid": str(number), "content_type": mime, "uri": f"{home}/{number}.json"}
            for number, (mime, _) in enumerate(self.files[ident])
        ]
        return web.json_response({"media_list": rows})

    async def _file(self, request: web.Request) -> web.Response:
        mime, data = self.files[request.match_info["sid"]][int(request.match_info["id"])]
        return web.Response(body=data, content_type=mime)


def _no(trouble: str, after: float = 0.0) -> web.Response:
    status, code = _CODES[trouble]
    headers = {"Retry-After": str(int(after))} if trouble == "limited" else {}
    return web.json_response({"code": code, "message": "no", "status": status}, status=status, headers=headers)
