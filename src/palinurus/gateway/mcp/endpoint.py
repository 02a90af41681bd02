"""/mcp: our MCP server over HTTP (streamable). POST brings a message, and is answered with JSON, or with a stream where
something is said before the answer; GET is the stream of what belongs to no request; DELETE ends the session.

Rights are those of each request's caller, method by method: memory needs operator.admin, speaking to the agent
operator.write. `x-openclaw-scopes` lowers them; `?session=KEY` names the session whose tools are offered, `?send=0`
leaves out speaking to the agent. A request without a session is served alone.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp.web_response import Response, StreamResponse

from palinurus import __version__, late
from palinurus.core.types.keys import parse_session_key
from palinurus.gateway import http
from palinurus.gateway.auth import narrow_scopes
from palinurus.gateway.http import HttpFault, RouteRequest, read_body
from palinurus.gateway.limits import KEEPALIVE
from palinurus.gateway.mcp.envelope import STATELESS, is_stateless
from palinurus.gateway.mcp.face import INVALID_REQUEST, PARSE_ERROR, VERSIONS, McpFace, Params
from palinurus.gateway.mcp.modern import handle_stateless
from palinurus.gateway.mcp.session import McpSession, McpSessions
from palinurus.gateway.mcp.stream import McpStream
from palinurus.gateway.rpc import ADMIN, WRITE, ClientDescription, ConnectedClient, MethodCall, MethodError, serve_call
from palinurus.gateway.ws.frames import encode_json
from palinurus.plugins.peer import find_mcp_peer

BODY = 4 * 1024 * 1024
SESSION = "Mcp-Session-Id"
RETRY = 1000  # milliseconds after which a client comes back
_PRIMED = "2025-11-25"  # since then a stream begins with an empty event


class _Inside:
    """Methods of this gateway, with the rights of the HTTP caller."""

    def __init__(self, visit: RouteRequest, sessions: McpSessions) -> None:
        info = ClientDescription("mcp", __version__, "http", "mcp", display_name="MCP")
        self._gateway = visit.gateway.clients
        self._client = ConnectedClient(f"mcp-{uuid.uuid4()}", visit.caller, info)
        self._sessions = sessions

    async def call(self, method: str, params: Params, *, begun: Callable[[], None] | None = None) -> Any:
        found = late.load_part("methods")[method]
        if not self._client.may(found.scope):
            raise MethodError(f"{method} needs the scope {found.scope}")
        tell = (lambda payload: begun()) if begun is not None else lambda payload: None
        call = MethodCall(self._gateway, self._client, str(uuid.uuid4()), method, reply=tell)
        run, peer = str(params.get("idempotencyKey") or ""), find_mcp_peer()
        if run and peer is not None:
            self._sessions.expect_run(run, lambda step, words: peer.progress(step, message=words))
        try:
            return await serve_call(found, call, msgspec.Raw(msgspec.json.encode(params)))
        finally:
            self._sessions.forget_run(run)


async def handle_mcp(visit: RouteRequest) -> StreamResponse | HttpFault:
    """Answer one request."""
    lowered = narrow_scopes(visit.request.headers, visit.caller.scopes)
    visit = msgspec.structs.replace(visit, caller=msgspec.structs.replace(visit.caller, scopes=lowered))
    sessions = _open_sessions(visit)
    face = _make_face(visit, sessions)
    if isinstance(face, Response):
        return face
    asked: Any = None
    version = visit.request.headers.get("MCP-Protocol-Version", "")
    if visit.request.method == "POST":
        data = await read_body(visit.request)
        if isinstance(data, HttpFault):
            return data
        try:
            asked = msgspec.json.decode(data[: BODY + 1])
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return _refuse(PARSE_ERROR, "the body is not JSON")
        if is_stateless(asked, version):
            return await handle_stateless(visit, sessions, face, asked)
    elif version and version not in VERSIONS:
        status = 405 if version == STATELESS else 400  # there only POST is known
        return _refuse(INVALID_REQUEST, f"MCP-Protocol-Version: one of {', '.join(VERSIONS)}", status=status)
    named = visit.request.headers.get(SESSION, "")
    session = sessions.find(named, visit.caller) if named else None
    if named and session is None:
        return _refuse(INVALID_REQUEST, "this session is not known (any more): initialize again", status=404)
    if visit.request.method == "POST":
        return await _take(visit, sessions, session, face, asked=asked)
    if session is None:
        return _refuse(INVALID_REQUEST, f"{SESSION} is needed: initialize first")
    if visit.request.method == "DELETE":
        sessions.end(session.id)
        return Response(status=204)
    return await _listen(visit, session, face)


def _open_sessions(visit: RouteRequest) -> McpSessions:
    gateway = visit.gateway
    if gateway.mcp is None:
        made = gateway.mcp = McpSessions(gateway.clock)
        made.unfollow = visit.host.follow(made, lambda: len(made) > 0)
        if visit.host.program is not None:
            visit.host.program.hooks.resource_changed = made.tell_change
    return gateway.mcp


def _make_face(visit: RouteRequest, sessions: McpSessions) -> McpFace | Response:
    settings, query, program = visit.host.settings, visit.request.query, visit.host.program
    main = f"agent:{settings.default_agent}:{settings.session.main_key}"
    key = parse_session_key(query.get("session", main), settings.default_agent)
    if key is None or key.agent not in settings.agents:
        return _refuse(INVALID_REQUEST, "session: that is no session key of a known agent")
    may = visit.caller.may
    send = may(WRITE) and query.get("send") != "0"
    face = McpFace(_Inside(visit, sessions), str(key), send=send, memory=may(ADMIN))
    if program is not None:
        face.resources, face.prompts = program.resources, program.prompts
    return face


async def _take(
    visit: RouteRequest, sessions: McpSessions, session: McpSession | None, face: McpFace, asked: Any
) -> StreamResponse | HttpFault:
    if isinstance(asked, dict) and ("result" in asked or "error" in asked):
        if session is not None:
            session.take_answer(asked)
        return Response(status=202)
    if not isinstance(asked, dict) or not isinstance(asked.get("method"), str):
        return _refuse(INVALID_REQUEST, "no method")
    if not isinstance(asked.get("id"), str | int):
        params = asked.get("params")
        if session is not None:
            session.take_notice(asked["method"], params if isinstance(params, dict) else {})
        return Response(status=202)
    if session is None:
        begins = asked["method"] == "initialize"
        session = sessions.open(visit.caller) if begins else McpSession("", visit.caller)
    return await _answer(visit, session, session.start(asked, face))


async def _answer(visit: RouteRequest, session: McpSession, stream: McpStream) -> StreamResponse:
    """As JSON if the answer is the first thing that is said."""
    turn = stream.take()
    stream.wake.clear()
    await stream.wake.wait()
    headers = {SESSION: session.id} if session.id else {}
    said = stream.since(0)
    if stream.ended and len(said) == 1:
        answer = http.reply_json(said[0][1])
        answer.headers.update(headers)
        return answer
    response = await http.open_event_stream(visit.request, headers)
    if session.id and session.version >= _PRIMED:
        await response.write(f"retry: {RETRY}\nid: {stream.name}-0\ndata: \n\n".encode())
    if stream.holds(turn):
        await _write(stream, response, 0, None)
    return response


async def _listen(visit: RouteRequest, session: McpSession, face: McpFace) -> StreamResponse | HttpFault:
    """What belongs to no request; or the rest of a stream that broke off."""
    name, _, number = visit.request.headers.get("Last-Event-ID", "").partition("-")
    stream = session.streams.get(name or "0")
    if stream is None:
        return _refuse(INVALID_REQUEST, "that stream is over and forgotten", status=404)
    taken = visit.gateway.clients.count_taken()
    response = await http.open_event_stream(visit.request, {SESSION: session.id})
    await response.write(b": here\n\n")

    async def look() -> bool:
        """Who lost a right shows that it has others left by coming again."""
        await session.look(face)
        return visit.gateway.clients.count_taken() == taken

    await _write(stream, response, int(number) if number.isdecimal() else 0, look)
    return response


async def _write(
    stream: McpStream, response: StreamResponse, number: int, look: Callable[[], Awaitable[bool]] | None
) -> None:
    """What comes after `number`, until it ends, the client goes, or another connection reads it. `look` is asked from
    time to time whether to go on."""
    turn = stream.take()
    try:
        while True:
            stream.wake.clear()
            for at, said in stream.since(number):
                number = at
                await response.write(b"id: %s-%d\ndata: %s\n\n" % (stream.name.encode(), number, encode_json(said)))
            if stream.ended or not stream.holds(turn):
                return
            try:
                async with asyncio.timeout(KEEPALIVE):
                    await stream.wake.wait()
            except TimeoutError:
                await response.write(b": keep-alive\n\n")
                if look is not None and not await look():
                    return
    except ConnectionError:  # it went away; what is said meanwhile waits for it
        return


def _refuse(code: int, message: str, *, status: int = 400) -> Response:
    error = {"code": code, "message": message}
    return http.reply_json({"jsonrpc": "2.0", "id": None, "error": error}, status)
