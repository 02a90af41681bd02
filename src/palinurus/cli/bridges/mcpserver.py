"""`pal mcp serve`: the gateway's /mcp on standard input and output. Messages go through as they are; what they mean is
the gateway's affair (`gateway/mcp`), so both ways are the same server.
"""

from __future__ import annotations

import asyncio
import base64
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from palinurus.cli.reach.http import (
    NOT_LET_IN,
    NOT_LET_IN_THERE,
    GatewayEndpoint,
    GatewayHttpAnswer,
    send_request,
)
from palinurus.errors import GatewayUnreachable
from palinurus.tasks import TaskSet

Say = Callable[[bytes], None]
VERSION = "io.modelcontextprotocol/protocolVersion"
AGAIN = 2.0  # seconds after which a stream that broke off is opened again


class McpPipe:
    """One client on standard input, one session at the gateway."""

    def __init__(self, address: GatewayEndpoint, query: Mapping[str, str], scopes: str, say: Say) -> None:
        self._address = address
        self._path = "/mcp?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
        self._headers = {"x-openclaw-scopes": scopes, "Content-Type": "application/json"}
        self._say = say
        self._tasks = TaskSet("an MCP message")
        self._begun = b""  # what the client said first
        self._asked: dict[object, asyncio.Task[None]] = {}  # requests that stand for themselves

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        """Until the client closes its end."""
        try:
            async for line in lines:
                if not line.strip():
                    continue
                said = _read(line)
                if said.get("method") == "initialize":
                    self._begun = line
                    await self._post(line)  # nothing can be asked before
                    self._tasks.start(self._listen())
                elif alone := _list_headers(said):
                    self._start_alone(line, said["id"], alone)
                elif not self._cancels(said):
                    self._tasks.start(self._post(line))
        finally:
            self._tasks.cancel()
            if "Mcp-Session-Id" in self._headers:
                await self._end()

    def _start_alone(self, line: bytes, ident: object, headers: Mapping[str, str]) -> None:
        """A request of the revision without sessions: who wants it no more closes its connection."""
        task = self._asked[ident] = self._tasks.start(self._ask_alone(line, headers))
        task.add_done_callback(lambda _: self._asked.pop(ident, None))

    async def _ask_alone(self, line: bytes, headers: Mapping[str, str]) -> None:
        try:
            named = {**self._headers, **headers}
            await self._pass_on(await send_request(self._address, "POST", self._path, line, headers=named))
        except (GatewayUnreachable, ConnectionError) as exc:
            self._fail(line, str(exc))

    def _cancels(self, said: dict[str, Any]) -> bool:
        params = said.get("params")
        ident = params.get("requestId") if isinstance(params, dict) else None
        task = self._asked.get(ident) if said.get("method") == "notifications/cancelled" else None
        return task is not None and task.cancel()

    async def _end(self) -> None:
        try:
            (await send_request(self._address, "DELETE", self._path, headers=self._headers)).close()
        except (GatewayUnreachable, ConnectionError):
            return  # it is gone, and the session with it

    async def _post(self, line: bytes) -> None:
        try:
            answer = await self._send(line)
            if answer.status == 404 and self._begun != line:  # the gateway has begun anew
                answer.close()
                await self._begin_again()
                answer = await self._send(line)
            if answer.status in (401, 403):  # its body is no JSON-RPC
                answer.close()
                fix = NOT_LET_IN_THERE.format("token", "token") if self._address.remote else NOT_LET_IN
                self._fail(line, f"the gateway refused us; {fix}")
                return
            await self._pass_on(answer)
        except (GatewayUnreachable, ConnectionError) as exc:
            self._fail(line, str(exc))

    async def _send(self, line: bytes) -> GatewayHttpAnswer:
        answer = await send_request(self._address, "POST", self._path, line, headers=self._headers)
        if (ident := answer.headers.get("mcp-session-id")) is not None:
            self._headers["Mcp-Session-Id"] = ident
        return answer

    async def _begin_again(self) -> None:
        """The client does not hear of it: the new session is told what the old one was."""
        self._headers.pop("Mcp-Session-Id", None)
        (await self._send(self._begun)).close()

    async def _pass_on(self, answer: GatewayHttpAnswer) -> None:
        try:
            if "event-stream" in answer.headers.get("content-type", ""):
                async for _, data in answer.events():
                    self._say(data)
            elif data := await answer.read_body():
                self._say(data)
        finally:
            answer.close()

    async def _listen(self) -> None:
        """What the gateway says by itself."""
        while True:
            try:
                answer = await send_request(self._address, "GET", self._path, headers=self._headers)
                if answer.status == 200:
                    await self._pass_on(answer)
                answer.close()
            except (GatewayUnreachable, ConnectionError):
                pass
            await asyncio.sleep(AGAIN)

    def _fail(self, line: bytes, why: str) -> None:
        asked = _read(line)
        if "id" in asked and "method" in asked:
            error = {"code": -32603, "message": why}
            self._say(msgspec.json.encode({"jsonrpc": "2.0", "id": asked["id"], "error": error}))


def _list_headers(said: dict[str, Any]) -> dict[str, str]:
    """Those that repeat what a request of the revision without sessions says; none for others."""
    params = said.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    version = meta.get(VERSION) if isinstance(meta, dict) else None
    if not isinstance(params, dict) or not isinstance(version, str) or "id" not in said:
        return {}
    name = params.get("name", params.get("uri", params.get("taskId")))
    plain = isinstance(name, str) and re.fullmatch(r"[!-~](?:[ -~]*[!-~])?", name) and not name.startswith("=?")
    coded = name if plain else f"=?base64?{base64.b64encode(str(name).encode()).decode()}?="
    made = {"MCP-Protocol-Version": version, "Mcp-Method": str(said.get("method"))}
    return {**made, "Mcp-Name": str(coded)} if name is not None else made


def _read(line: bytes) -> dict[str, Any]:
    try:
        asked = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError):
        return {}
    return asked if isinstance(asked, dict) else {}


async def read_lines() -> AsyncIterator[bytes]:
    """Those of standard input."""
    reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield line


def print_line(data: bytes) -> None:
    """On standard output, at once."""
    sys.stdout.buffer.write(data.replace(b"\n", b" ") + b"\n")
    sys.stdout.buffer.flush()


async def serve_mcp(address: GatewayEndpoint, query: Mapping[str, str], scopes: str) -> None:
    """Until the other agent closes its end."""
    await McpPipe(address, query, scopes, print_line).run(read_lines())
