"""A signal-cli daemon with people on Signal: HTTP (rpc, events, check), and the same calls over a TCP socket.

Like the real one in `--receive-mode=on-connection`: what people say while nobody is connected waits on Signal's
servers, and is told once.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
from aiohttp import web

from palinurus.channels.signal.channel import SignalChannel
from palinurus.core.types.channel import Channel, SendTrouble
from palinurus.testing.platform import VisibleMessage, make_channel_kit

NUMBER = "+15550000001"
OWN = "00000000-0000-4000-8000-000000000001"
GROUP = "R3JvdXBHcm91cEdyb3VwR3JvdXBHcm91cEdyb3VwMDA="
START = 1_700_000_000_000
PEOPLE = {"human": ("11111111-1111-4111-8111-111111111111", "+15551111111")}
_STYLE = re.compile(r"\d+:\d+:(BOLD|ITALIC|STRIKETHROUGH|MONOSPACE|SPOILER)")

# How signal-cli says each: code, message, and the kinds of its results.
FAULTS: dict[str, tuple[int, str, str]] = {
    "down": (-3, "Failed to send message: connection lost (IOException)", ""),
    "limited": (-5, "Failed to send message due to rate limiting", "RATE_LIMIT_FAILURE"),
    "markup": (-1, "Invalid textStyle syntax (x) expected 'start:length:STYLE'", ""),
    "media": (-32603, "Failed to send message: bad file (AttachmentInvalidException)", ""),
    "signed_out": (-32602, "Specified account does not exist", ""),
    "gone": (-1, "Failed to send message", "UNREGISTERED_FAILURE"),
    "refused": (-4, "Failed to send message due to untrusted identities", "IDENTITY_FAILURE"),
}


class FakeSignal:
    """Implements `Platform`. `transport`: how our client connects, "http" or "tcp"."""

    name = "signal"
    groups = True
    troubles: ClassVar[tuple[SendTrouble, ...]] = (
        "down", "cut", "limited", "markup", "media", "signed_out", "gone", "refused",
    )  # fmt: skip

    def __init__(self, transport: str = "http") -> None:
        self.transport = transport
        self.accounts = [NUMBER]
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.files: dict[str, bytes] = {}  # attachments of people, by id
        self.fetched = 0  # files that were asked for
        self.seen: list[dict[str, Any]] = []
        self._people = dict(PEOPLE)
        self._time = START
        self._waiting: list[dict[str, Any]] = []
        self._news = asyncio.Condition()
        self.faults: list[tuple[SendTrouble, float]] = []
        self._ports = [0, 0]
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> FakeSignal:
        await self.mend()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.cut()

    async def mend(self) -> None:
        app = web.Application(client_max_size=128 * 1024 * 1024)
        app.router.add_post("/api/v1/rpc", self._rpc)
        app.router.add_get("/api/v1/events", self._events)
        app.router.add_get("/api/v1/check", self._check)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._ports[0]).start()
        limit = 128 * 1024 * 1024
        self._server = await asyncio.start_server(self._socket, "127.0.0.1", self._ports[1], limit=limit)
        self._ports = [self._runner.addresses[0][1], self._server.sockets[0].getsockname()[1]]

    async def cut(self) -> None:
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._runner.cleanup()

    @property
    def section(self) -> dict[str, Any]:
        """The account's part of a config."""
        where = {"http": f"http://127.0.0.1:{self._ports[0]}", "tcp": f"tcp://127.0.0.1:{self._ports[1]}"}
        return {"account": NUMBER, "httpUrl": where[self.transport]}

    def channel(self, folder: str) -> Channel:
        return SignalChannel(make_channel_kit("signal", folder, self.section))

    # --- people

    def person(self, name: str = "") -> tuple[str, str]:
        """uuid and number of somebody; whoever is not known yet is made."""
        at = len(self._people) + 1
        made = (f"{at:08x}-2222-4222-8222-222222222222", f"+1555{at:07d}")
        return self._people.setdefault(name or "human", made)

    async def say(
        self,
        text: str,
        *,
        chat: str = "",
        sender: str = "",
        event: str = "",
        mention: bool = False,
        times: int = 1,
        **more: Any,
    ) -> str:
        """`more` are further keys of the dataMessage."""
        uuid, number = self.person(sender)
        self._time += 1
        at = int(event) if event else self._time
        data: dict[str, Any] = {"timestamp": at, "message": text, "expiresInSeconds": 0, "viewOnce": False}
        if chat == "group":
            data["groupInfo"] = {"groupId": GROUP, "groupName": "The group", "revision": 1, "type": "DELIVER"}
        if mention:
            data["message"] = f"\ufffc {text}"
            data["mentions"] = [{"name": NUMBER, "number": NUMBER, "uuid": OWN, "start": 0, "length": 1}]
        envelope = {
            "source": number, "sourceNumber": number, "sourceUuid": uuid, "sourceName": (sender or "human").title(),
            "sourceDevice": 1, "timestamp": at, "serverReceivedTimestamp": at, "dataMessage": {**data, **more},
        }  # fmt: skip
        await self.tell({"envelope": envelope, "account": NUMBER}, times)
        return f"{uuid}:{at}"

    async def tell(self, event: dict[str, Any], times: int = 1) -> None:
        """Something is received."""
        async with self._news:
            self._waiting += [event] * times
            self._news.notify_all()

    def visible_messages(self, chat: str = "") -> list[VisibleMessage]:
        where = GROUP if chat == "group" else self.person(chat)[0]
        return [
            VisibleMessage(str(one["timestamp"]), one["text"], tuple(one["media"]), (), one["quote"])
            for one in self.seen
            if one["to"] == where
        ]

    async def press(self, message_id: str, label: str, *, chat: str = "", sender: str = "") -> None:
        raise NotImplementedError("Signal has no buttons")

    def fail(self, trouble: SendTrouble, times: int = 1, *, retry_after: float = 0.0) -> None:
        self.faults += [(trouble, retry_after)] * times

    # --- the daemon

    async def _check(self, request: web.Request) -> web.Response:
        return web.Response()

    async def _events(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("account", NUMBER) not in self.accounts:
            return web.Response(status=400)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while True:
            event = await self._next()
            try:
                await response.write(b":\n\nevent:receive\ndata:" + msgspec.json.encode(event) + b"\n\n")
            except OSError:
                self._waiting.insert(0, event)
                raise

    async def _next(self) -> dict[str, Any]:
        async with self._news:
            await self._news.wait_for(lambda: bool(self._waiting))
            return self._waiting.pop(0)

    async def _rpc(self, request: web.Request) -> web.StreamResponse:
        asked = msgspec.json.decode(await request.read())
        answer = self._answered(asked)
        if answer is None:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    async def _socket(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        news = asyncio.ensure_future(self._notify(writer))
        try:
            while line := await reader.readline():
                answer = self._answered(msgspec.json.decode(line))
                if answer is None:
                    writer.transport.abort()
                    return
                writer.write(msgspec.json.encode(answer) + b"\n")
        except OSError:
            pass
        finally:
            news.cancel()
            self._writers.discard(writer)
            writer.close()

    async def _notify(self, writer: asyncio.StreamWriter) -> None:
        while True:
            event = await self._next()
            line = {"jsonrpc": "2.0", "method": "receive", "params": event}
            writer.write(msgspec.json.encode(line) + b"\n")

    def _answered(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to one call; None: the connection breaks instead."""
        method, params = asked["method"], asked.get("params") or {}
        self.calls.append((method, params))
        self.fetched += method == "getAttachment"
        head = {"jsonrpc": "2.0", "id": asked["id"]}
        fault, after = self.faults.pop(0) if method == "send" and self.faults else ("", 0.0)
        if "account" in params and params["account"] not in self.accounts:
            fault = "signed_out"
        if fault in FAULTS:
            return {**head, "error": _error(fault, after)}
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
    code, message, kind = FAULTS[fault]
    result: dict[str, Any] = {"recipientAddress": {}, "type": kind}
    if fault == "limited":
        result["retryAfterSeconds"] = int(after)
    data = {"response": {"timestamp": 1, "results": [result]}} if kind else None
    return {"code": code, "message": message, "data": data}
