"""POST /mcp in MCP's stateless revision: one request, one answer, no session. JSON where the answer is the first thing
that is said, else a stream; who closes the connection wants it no more, and it is stopped.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp.web_response import Response, StreamResponse

from palinurus.gateway import http
from palinurus.gateway.http import RouteRequest
from palinurus.gateway.limits import KEEPALIVE
from palinurus.gateway.mcp.envelope import STATUS, SUBSCRIPTION, check_arguments_in_headers, mark_result, read_envelope
from palinurus.gateway.mcp.face import INVALID_REQUEST, McpFace, McpFault, Params
from palinurus.gateway.mcp.session import McpSession, McpSessions
from palinurus.gateway.mcp.single import WaitingCall
from palinurus.gateway.mcp.tasks import METHODS
from palinurus.gateway.ws.frames import encode_json

LOOK = 1.0  # seconds between two looks whether the client is still there
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


async def handle_stateless(visit: RouteRequest, sessions: McpSessions, face: McpFace, message: Any) -> StreamResponse:
    """Answer one message."""
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        return _refuse(None, McpFault(INVALID_REQUEST, "one request, or one notification"))
    if "id" not in message:
        return Response(status=202)
    ident, params = message["id"], message.get("params")
    if not isinstance(ident, str | int):
        return _refuse(None, McpFault(INVALID_REQUEST, "id: a string or a number"))
    try:
        envelope = read_envelope(message, visit.request.headers)
        if message["method"] == "subscriptions/listen":
            wanted = params.get("notifications") if isinstance(params, dict) else None
            wanted = wanted if isinstance(wanted, dict) else {}
            if "taskIds" in wanted and not envelope.tasks:
                raise envelope.need_tasks()
            return await _listen(visit, sessions, face, ident, wanted=wanted)
        if message["method"] in METHODS:
            if not envelope.tasks:
                raise envelope.need_tasks()
            told = await sessions.single.tasks.answer(message["method"], params or {}, visit.caller, face)
            return http.reply_json({"jsonrpc": "2.0", "id": ident, "result": mark_result("", told)})
        if message["method"] == "tools/call" and isinstance(params, dict):
            given = params.get("arguments")
            schema = await face.find_schema(params.get("name"))
            check_arguments_in_headers(schema, given if isinstance(given, dict) else {}, visit.request.headers)
        call = sessions.single.begin(message, envelope, visit.caller, face)
    except McpFault as fault:
        return _refuse(ident, fault)
    answer = await _answer(visit, call, ident)
    if call.deferred is not None and _is_gone(visit):  # it never heard the name, and will ask for the same again
        named = {"taskId": call.deferred.name}
        await sessions.single.tasks.answer("tasks/cancel", named, visit.caller, face)
    if message["method"] == "tools/call":
        sessions.stir()
    return answer


async def _answer(visit: RouteRequest, call: WaitingCall, ident: str | int) -> StreamResponse:
    response: StreamResponse | None = None
    try:
        while True:
            call.stream.wake.clear()
            for at, said in call.stream.since(call.told):
                call.told = at
                response = response or await http.open_event_stream(visit.request)
                await response.write(_frame(said))
            asked, task = call.describe_questions(), call.deferred
            told = call.outcome or ({"result": asked} if asked else None)
            if task is not None:
                told = {"result": {**mark_result("", task.describe(whole=False)), "resultType": "task"}}
            if told is not None:
                return await _conclude(response, {"jsonrpc": "2.0", "id": ident, **told})
            try:
                async with asyncio.timeout(LOOK):
                    await call.stream.wake.wait()
                await visit.gateway.clock.sleep(0)  # what is asked at the same time goes with it
            except TimeoutError:
                if _is_gone(visit):
                    call.cancel()
                    return response or Response(status=499)
    except ConnectionError:
        call.cancel()
        return response or Response(status=499)
    except asyncio.CancelledError:
        call.cancel()
        raise


def _is_gone(visit: RouteRequest) -> bool:
    return visit.request.transport is None or visit.request.transport.is_closing()


async def _conclude(response: StreamResponse | None, told: Params) -> StreamResponse:
    if response is not None:
        await response.write(_frame(told))
        return response
    return http.reply_json(told, STATUS.get(told["error"]["code"], 200) if "error" in told else 200)


async def _listen(
    visit: RouteRequest, sessions: McpSessions, face: McpFace, ident: str | int, wanted: Params
) -> StreamResponse:
    """What changes, as far as the client wants to know, for as long as it listens."""
    session, taken = sessions.open(visit.caller), visit.gateway.clients.count_taken()
    response: StreamResponse = Response(status=499)
    try:
        kept = await session.expect(wanted, face)
        with sessions.single.tasks.follow(wanted.get("taskIds"), visit.caller, session.news.say) as tasks:
            kept |= {"taskIds": tasks} if tasks else {}
            response = await http.open_event_stream(visit.request)
            await response.write(_stamp({"method": ACKNOWLEDGED, "params": {"notifications": kept}}, ident))
            while visit.gateway.clients.count_taken() == taken and not session.news.ended and not _is_gone(visit):
                await _pass_on(visit, session, response, ident, called=sessions.called)
                await session.look(face)
        if not _is_gone(visit):
            result = mark_result("", {"_meta": {SUBSCRIPTION: ident}})
            await response.write(_frame({"jsonrpc": "2.0", "id": ident, "result": result}))
    except ConnectionError:  # it hung up, as one does who wants no more
        return response
    finally:
        sessions.end(session.id)
    return response


async def _pass_on(
    visit: RouteRequest, session: McpSession, response: StreamResponse, ident: str | int, called: asyncio.Event
) -> None:
    """What is said until it is time to look again."""
    waits = [asyncio.ensure_future(one.wait()) for one in (session.news.wake, called)]
    try:
        for _ in range(int(KEEPALIVE / LOOK)):
            session.news.wake.clear()
            for at, said in session.news.since(session.heard):
                session.heard = at
                await response.write(_stamp(said, ident))
            done, _ = await asyncio.wait(waits, timeout=LOOK, return_when=asyncio.FIRST_COMPLETED)
            if done or _is_gone(visit):
                return
        await response.write(b": keep-alive\n\n")
    finally:
        for one in waits:
            one.cancel()


def _stamp(said: Params, ident: str | int) -> bytes:
    params = said.get("params") or {}
    return _frame({"jsonrpc": "2.0", **said, "params": {**params, "_meta": {SUBSCRIPTION: ident}}})


def _frame(said: Params) -> bytes:
    return b"event: message\ndata: %s\n\n" % encode_json(said)


def _refuse(ident: str | int | None, fault: McpFault) -> Response:
    return http.reply_json({"jsonrpc": "2.0", "id": ident, "error": fault.describe()}, STATUS.get(fault.code, 200))
