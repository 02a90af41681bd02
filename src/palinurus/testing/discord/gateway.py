"""The fake's gateway: sessions that outlive their connections, with all they were told, so that one can be resumed.

Speaks HELLO, HEARTBEAT, IDENTIFY, READY, RESUME with what was missed, RECONNECT and INVALID_SESSION, as zlib streams.
"""

from __future__ import annotations

import asyncio
import json
import zlib
from contextlib import suppress
from typing import Any

from aiohttp import WSMsgType, web

from palinurus.testing.discord.state import APPLICATION, GUILD, TOKEN, FakeDiscordState
from palinurus.testing.loopback import abort_connection

DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID, HELLO, ACK = 0, 1, 2, 6, 7, 9, 10, 11
CONTENT = 1 << 15
BEAT = 41_250  # milliseconds between two heartbeats


class FakeDiscordConnection:
    """One connection."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request) -> None:
        self.socket = socket
        self._request = request
        packed = request.query.get("compress") == "zlib-stream"
        self._pack = zlib.compressobj() if packed else None

    def abort(self) -> None:
        """Cut the wire."""
        abort_connection(self._request)

    async def send(self, op: int, data: Any, event: str | None = None, number: int | None = None) -> None:
        text = json.dumps({"op": op, "d": data, "t": event, "s": number})
        if self._pack is None:
            await self.socket.send_str(text)
        else:
            packed = self._pack.compress(text.encode()) + self._pack.flush(zlib.Z_SYNC_FLUSH)
            await self.socket.send_bytes(packed)


class FakeDiscordSession:
    """What one client was told since it signed in."""

    def __init__(self, ident: str, intents: int) -> None:
        self.ident = ident
        self.intents = intents
        self.told: list[tuple[str, Any]] = []  # the number of an event is its place
        self.line: FakeDiscordConnection | None = None
        self._turn = asyncio.Lock()

    async def tell(self, event: str, data: Any) -> None:
        async with self._turn:
            self.told.append((event, data))
            if self.line is not None:
                await self._say(self.line, len(self.told))

    async def resume(self, line: FakeDiscordConnection, after: int) -> None:
        """What was not told yet, and from now on everything."""
        async with self._turn:
            if after:
                self.told.append(("RESUMED", {"_trace": []}))
            self.line = line
            for number in range(after + 1, len(self.told) + 1):
                await self._say(line, number)

    async def _say(self, line: FakeDiscordConnection, number: int) -> None:
        event, data = self.told[number - 1]
        try:
            await line.send(DISPATCH, data, event, number)
        except (ConnectionError, RuntimeError):
            self.line = None  # it hears of it when it resumes


class FakeDiscordGateway:
    """All of them. `allowed` False: the portal does not let this bot read what people write."""

    def __init__(self, world: FakeDiscordState) -> None:
        self._world = world
        self.all: dict[str, FakeDiscordSession] = {}
        self.lines: set[FakeDiscordConnection] = set()
        self.url = ""
        self.allowed = True
        self.starts = 999  # sessions that may still be begun today
        self.identified: list[dict[str, Any]] = []
        self.resumed = 0
        self.beats = 0

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        line = FakeDiscordConnection(socket, request)
        self.lines.add(line)
        try:
            await line.send(HELLO, {"heartbeat_interval": BEAT})
            async for frame in socket:
                if frame.type is WSMsgType.TEXT:
                    body = json.loads(frame.data)
                    await self._heard(line, body["op"], body.get("d"))
        finally:
            self.lines.discard(line)
            for session in self.all.values():
                if session.line is line:
                    session.line = None
        return socket

    async def _heard(self, line: FakeDiscordConnection, op: int, data: Any) -> None:
        if op == HEARTBEAT:
            self.beats += 1
            await line.send(ACK, None)
        elif op == IDENTIFY:
            await self._identify(line, data)
        elif op == RESUME:
            session = self.all.get(data["session_id"])
            if session is None or data["token"] != TOKEN:
                await line.send(INVALID, False)
                return
            self.resumed += 1
            await session.resume(line, data["seq"])

    async def _identify(self, line: FakeDiscordConnection, data: dict[str, Any]) -> None:
        self.identified.append(data)
        if data["token"] != TOKEN or (data["intents"] & CONTENT and not self.allowed):
            await line.socket.close(code=4004 if data["token"] != TOKEN else 4014)
            return
        session = FakeDiscordSession(f"s{len(self.identified)}", data["intents"])
        ready = {
            "v": 10, "user": self._world.me(), "session_id": session.ident, "resume_gateway_url": self.url,
            "application": {"id": APPLICATION, "flags": 0}, "guilds": [{"id": GUILD, "unavailable": True}],
            "private_channels": [],
        }  # fmt: skip
        session.told = [("READY", ready), ("GUILD_CREATE", self._world.guild())]
        self.all[session.ident] = session
        await session.resume(line, 0)

    async def tell(self, event: str, data: dict[str, Any]) -> None:
        """Something happens. Without the intent a message in the server is empty, unless it names us."""
        for session in self.all.values():
            hidden = event == "MESSAGE_CREATE" and not session.intents & CONTENT
            if hidden and data.get("guild_id") and not data["mentions"]:
                await session.tell(event, {**data, "content": "", "attachments": []})
            else:
                await session.tell(event, data)

    async def everyone(self, op: int, data: Any = None) -> None:
        """An order to all connections."""
        for line in list(self.lines):
            with suppress(ConnectionError, RuntimeError):  # it is going already
                await line.send(op, data)

    async def hang_up(self, code: int) -> None:
        """Close every connection, saying why."""
        for line in list(self.lines):
            with suppress(ConnectionError, RuntimeError):
                await line.socket.close(code=code)

    def forget(self) -> None:
        """No session can be resumed any more; nobody is told of anything until signing in again."""
        self.all.clear()

    def drop(self) -> None:
        """Every connection breaks, without a word."""
        for line in list(self.lines):
            line.abort()
