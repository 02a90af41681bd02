"""A signal-cli daemon with people on Signal: HTTP (rpc, events, check), and the same calls over a TCP socket.

Like the real one in `--receive-mode=on-connection`: what people say while nobody is connected waits on Signal's
servers, and is told once.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, cast

import msgspec
from aiohttp import web

from palinurus.core.types.channel import SendTrouble
from palinurus.patterns import compile_late
from palinurus.testing.loopback import LoopbackHttp, LoopbackTcp, NewsBell, abort_connection
from palinurus.testing.platform import FakePlatform, HumanMessage, VisibleMessage

NUMBER = "+15550000001"
OWN = "00000000-0000-4000-8000-000000000001"
GROUP = "R3JvdXBHcm91cEdyb3VwR3JvdXBHcm91cEdyb3VwMDA="
START = 1_700_000_000_000
PEOPLE = {"human": ("11111111-1111-4111-8111-111111111111", "+15551111111")}
_STYLE = compile_late(r"\d+:\d+:(BOLD|ITALIC|STRIKETHROUGH|MONOSPACE|SPOILER)")

# How signal-cli says each: code, message, and the kinds of its results.
FAULTS: dict[SendTrouble, tuple[int, str, str]] = {
    "down": (-3, "Failed to send message: connection lost (IOException)", ""),
    "limited": (-5, "Failed to send message due to rate limiting", "RATE_LIMIT_FAILURE"),
    "markup": (-1, "Invalid textStyle syntax (x) expected 'start:length:STYLE'", ""),
    "media": (-32603, "Failed to send message: bad file (AttachmentInvalidException)", ""),
    "signed_out": (-32602, "Specified account does not exist", ""),
    "gone": (-1, "Failed to send message", "UNREGISTERED_FAILURE"),
    "refused": (-4, "Failed to send message due to untrusted identities", "IDENTITY_FAILURE"),
}


class FakeSignal(FakePlatform):
    """Implements `FakePlatform`. `transport`: how our client connects, "http" or "tcp"."""

    name = "signal"
    troubles: ClassVar[tuple[SendTrouble, ...]] = ("cut", *FAULTS)

    def __init__(self, transport: str = "http") -> None:
        routes = {"POST /api/v1/rpc": self._rpc, "GET /api/v1/events": self._events, "GET /api/v1/check": self._check}
        self._http, self._tcp = LoopbackHttp(routes, cancels=True), LoopbackTcp(self._socket)
        super().__init__(self._http, self._tcp)
        self.transport = transport
        self.accounts = [NUMBER]
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.files: dict[str, bytes] = {}  # attachments of people, by id
        self.fetched = 0  # files that were asked for
        self.seen: list[dict[str, Any]] = []
        self._people = dict(PEOPLE)
        self._time = START
        self._waiting: list[dict[str, Any]] = []
        self._news = NewsBell()

    @property
    def section(self) -> dict[str, Any]:
        where = {"http": self._http.url, "tcp": f"tcp://127.0.0.1:{self._tcp.port}"}
        return {"account": NUMBER, "httpUrl": where[self.transport]}

    # --- people

    def person(self, name: str = "") -> tuple[str, str]:
        """uuid and number of somebody; whoever is not known yet is made."""
        at = len(self._people) + 1
        made = (f"{at:08x}-2222-4222-8222-222222222222", f"+1555{at:07d}")
        return self._people.setdefault(name or "human", made)

    async def _say(self, said: HumanMessage, more: dict[str, Any]) -> str:
        """`more` are further keys of the dataMessage."""
        uuid, number = self.person(said.sender)
        self._time += 1
        at = int(said.event) if said.event else self._time
        data: dict[str, Any] = {"timestamp": at, "message": said.text, "expiresInSeconds": 0, "viewOnce": False}
        if said.chat == "group":
            data["groupInfo"] = {"groupId": GROUP, "groupName": "The group", "revision": 1, "type": "DELIVER"}
        if said.mention:
            data["message"] = f"\ufffc {said.text}"
            data["mentions"] = [{"name": NUMBER, "number": NUMBER, "uuid": OWN, "start": 0, "length": 1}]
        envelope = {
            "source": number, "sourceNumber": number, "sourceUuid": uuid,
            "sourceName": (said.sender or "human").title(), "sourceDevice": 1, "timestamp": at,
            "serverReceivedTimestamp": at, "dataMessage": {**data, **more},
        }  # fmt: skip
        await self.tell({"envelope": envelope, "account": NUMBER}, said.times)
        return f"{uuid}:{at}"

    async def tell(self, event: dict[str, Any], times: int = 1) -> None:
        """Something is received."""
        self._waiting += [event] * times
        self._news.wake()

    def visible_messages(self, chat: str = "") -> list[VisibleMessage]:
        where = GROUP if chat == "group" else self.person(chat)[0]
        return [
            VisibleMessage(str(one["timestamp"]), one["text"], tuple(one["media"]), (), reply_to=one["quote"])
            for one in self.seen
            if one["to"] == where
        ]

    # --- the daemon

    async def _check(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("account", NUMBER) not in self.accounts:
            return web.Response(status=400)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await self._tell_news(
            lambda event: response.write(b":\n\nevent:receive\ndata:" + msgspec.json.encode(event) + b"\n\n")
        )
        return response

    async def _tell_news(self, write: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        """All that is received, for ever. What could not be written waits for the next connection."""
        while True:
            if not self._waiting:
                await self._news.wait()
                continue
            event = self._waiting[0]
            await write(event)
            if event in self._waiting:
                self._waiting.remove(event)

    async def _rpc(self, request: web.Request) -> web.StreamResponse:
        asked = msgspec.json.decode(await request.read())
        answer = self._answered(asked)
        if answer is None:
            return abort_connection(request)
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    async def _socket(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def write(event: dict[str, Any]) -> None:
            writer.write(msgspec.json.encode({"jsonrpc": "2.0", "method": "receive", "params": event}) + b"\n")
            await writer.drain()

        news = asyncio.ensure_future(self._tell_news(write))
        try:
            while line := await reader.readline():
                answer = self._answered(msgspec.json.decode(line))
                if answer is None:
                    writer.transport.abort()
                    return
                writer.write(msgspec.json.encode(answer) + b"\n")
        finally:
            news.cancel()

    def _answered(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to one call; None: the connection breaks instead."""
        method, params = asked["method"], asked.get("params") or {}
        self.calls.append((method, params))
        self.fetched += method == "getAttachment"
        head = {"jsonrpc": "2.0", "id": asked["id"]}
        fault = self.next_fault() if method == "send" else ""
        if "account" in params and params["account"] not in self.accounts:
            fault = "signed_out"
        if fault in FAULTS:
            return {**head, "error": _error(fault, self.retry_after)}
        known: dict[str, Callable[[], Any]] = {
            "listAccounts": lambda: [{"number": one} for one in self.accounts],
            "getUserStatus": lambda: [{"recipient": NUMBER, "number": NUMBER, "uuid": OWN, "isRegistered": True}],
            "getAttachment": lambda: {"data": base64.b64encode(self.files[params["id"]]).decode()},
            "send": lambda: self._show(params),
            "remoteDelete": lambda: self._delete(params),
            "sendTyping": dict, "sendReaction": dict, "sendReceipt": dict,
        }  # fmt: skip
        if method not in known:
            return {**head, "error": {"code": -32601, "message": "Method not implemented", "data": None}}
        result = known[method]()
        return None if fault == "cut" else {**head, "result": result}

    def _show(self, params: dict[str, Any]) -> dict[str, Any]:
        assert all(_STYLE.fullmatch(style) for style in params.get("textStyle", ()))
        self._time += 1
        to = params.get("groupId") or params["recipient"][0]
        names = [re.search(r";filename=([^;]*);base64,", one) for one in params.get("attachments", ())]
        media = [found[1] for found in names if found]
        quote = f"{params['quoteAuthor']}:{params['quoteTimestamp']}" if "quoteTimestamp" in params else ""
        text = {"text": params["message"], "media": media, "quote": quote, "style": params.get("textStyle", [])}
        self.seen.append({"timestamp": self._time, "to": to, **text})
        return {"timestamp": self._time, "results": [{"recipientAddress": {"uuid": to}, "type": "SUCCESS"}]}

    def _delete(self, params: dict[str, Any]) -> dict[str, Any]:
        self.seen = [one for one in self.seen if one["timestamp"] != params["targetTimestamp"]]
        return {"timestamp": self._time, "results": []}


def _error(fault: str, after: float) -> dict[str, Any]:
    code, message, kind = FAULTS[cast("SendTrouble", fault)]
    result: dict[str, Any] = {"recipientAddress": {}, "type": kind}
    if fault == "limited":
        result["retryAfterSeconds"] = int(after)
    data = {"response": {"timestamp": 1, "results": [result]}} if kind else None
    return {"code": code, "message": message, "data": data}
