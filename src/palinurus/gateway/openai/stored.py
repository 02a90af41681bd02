"""Responses and conversations that are asked for again: GET /v1/responses/<id>, its input, its end; /v1/conversations.

Nothing is stored for them: a response is a message of the inbox, a conversation is a session. Both are there after a
kill, and gone when the message is (`session.maintenance`).
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp.web_response import StreamResponse

from palinurus.core.types.inbound import EarlierMessage, Inbound, Target, decode_inbound
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import AssistantMessage, Message, UserMessage
from palinurus.gateway import http
from palinurus.gateway.http import HttpFault, RouteRequest
from palinurus.gateway.openai import responses
from palinurus.gateway.openai.completions import NOBODY, OpenAiReply
from palinurus.gateway.openai.endpoints import sum_usage
from palinurus.gateway.views import SessionReader
from palinurus.inbox.commands.command import CommandContext
from palinurus.inbox.route import make_dedupe
from palinurus.patterns import decode_late
from palinurus.sessions.entries import MessageEntry
from palinurus.store.port import InboxRow

ITEMS, MOST = 20, 100  # of a list: as a rule, and at most
_OPEN = {"queued": "queued", "running": "in_progress"}
_ENDED = {"answered": "completed", "silent": "completed", "aborted": "cancelled"}


class _NewConversation(msgspec.Struct, frozen=True):
    items: list[Any] | None = None
    metadata: dict[str, Any] | None = None


_NEW = decode_late(_NewConversation)


async def handle_stored(visit: RouteRequest, what: str) -> StreamResponse | HttpFault:
    """Answer one request; `what` is a row of the table below."""
    program = visit.host.program
    if not visit.host.settings.gateway.responses or program is None:
        return HttpFault(404, "responses are switched off (gateway.http.endpoints.responses)", "not_found")
    return await _HANDLERS[what](visit, program)


async def _find(visit: RouteRequest, program: CommandContext) -> InboxRow | HttpFault:
    """The message that a response answers."""
    ident = visit.part("id")
    event = responses.find_response_event(ident)
    row = await program.store.find(make_dedupe(Inbound(Target("http"), NOBODY, event, "", at=0))) if event else None
    if row is None or row.session != str(responses.find_response_session(ident)):
        return HttpFault(404, f"there is no response {ident[:80]!r}", "not_found", "id", code="response_not_found")
    return row


async def _retrieve(visit: RouteRequest, program: CommandContext) -> StreamResponse | HttpFault:
    row = await _find(visit, program)
    if isinstance(row, HttpFault):
        return row
    if visit.request.query.get("stream", "") == "true":
        return http.make_bad_request("a response is not streamed again", "stream", code="unsupported_parameter")
    return http.reply_json(await _show(visit, program, row))


async def _show(visit: RouteRequest, program: CommandContext, row: InboxRow) -> dict[str, Any]:
    ident, inbound, created = visit.part("id"), decode_inbound(row.body), row.at // 1000
    model = inbound.options.model or "openclaw"
    while row.absorbed_by and (into := await program.store.item(row.absorbed_by)) is not None:
        row = into  # it was answered together with another
    if row.outcome is None:
        return responses.make_response(ident, created, model, _OPEN.get(row.state, "queued"))
    usage = await sum_usage(visit.host, row)
    status = _ENDED.get(row.outcome, "failed")
    if status != "completed":
        error = {"code": "server_error", "message": row.note or row.outcome} if status == "failed" else None
        spent = responses.render_response_usage(usage)
        return responses.make_response(ident, created, model, status, error=error, usage=spent)
    names = {tool.name for tool in inbound.options.client_tools}
    said = [m for m in await _read(program, row) if isinstance(m, AssistantMessage)]
    calls = tuple(call for message in said for call in message.calls if call.name in names)
    text = "" if row.outcome == "silent" else row.note
    return responses.make_settled_response(ident, created, model, OpenAiReply(text, usage=usage, calls=calls))


async def _read(program: CommandContext, row: InboxRow) -> list[Message]:
    """What the transcript has of a message's turn."""
    _, transcript = await SessionReader(program).read(row.session)
    entries = transcript.entries_of(row.id) if transcript is not None else []
    return [entry.message for entry in entries if isinstance(entry, MessageEntry)]


async def _cancel(visit: RouteRequest, program: CommandContext) -> StreamResponse | HttpFault:
    """On disk when it is answered: the message does not come back."""
    row = await _find(visit, program)
    if isinstance(row, HttpFault):
        return row
    if row.outcome is None:
        await program.inbox.stop(row.session, "user", item=row.id)
        row = await program.store.item(row.id) or row
    return http.reply_json(await _show(visit, program, row))


async def _list_input(visit: RouteRequest, program: CommandContext) -> StreamResponse | HttpFault:
    row = await _find(visit, program)
    if isinstance(row, HttpFault):
        return row
    inbound, ident = decode_inbound(row.body), visit.part("id")
    told = [*inbound.options.context, *(inbound.options.results or (EarlierMessage("user", inbound.text),))]
    made = [item for one in told for item in _make_items(ident, one)]
    return _list(visit, [{**item, "id": f"msg_{ident[5:]}_{at}"} for at, item in enumerate(made, 1)])


def _make_items(ident: str, told: EarlierMessage) -> list[dict[str, Any]]:
    if told.role == "tool":
        return [{"type": "function_call_output", "call_id": told.call, "output": told.content, "status": "completed"}]
    calls = responses.make_call_items(ident, OpenAiReply(calls=told.calls))
    return [*([_make_message(told.role, told.content)] if told.content else []), *calls]


def _make_message(role: str, text: str) -> dict[str, Any]:
    part = responses.make_text_part(text) if role == "assistant" else {"type": "input_text", "text": text}
    return {"type": "message", "role": role, "status": "completed", "content": [part]}


def _list(visit: RouteRequest, items: list[dict[str, Any]]) -> StreamResponse | HttpFault:
    """A page of them: the newest first, as a rule."""
    query = visit.request.query
    order, after, typed = query.get("order", "desc"), query.get("after", ""), query.get("limit", str(ITEMS))
    if order not in ("asc", "desc") or not typed.isdecimal() or not 1 <= int(typed) <= MOST:
        return http.make_bad_request(f"order is asc or desc, limit is 1 to {MOST}", "limit", code="invalid_value")
    items = items if order == "asc" else items[::-1]
    begin = next((at for at, item in enumerate(items, 1) if item["id"] == after), 0)
    shown = items[begin : begin + int(typed)]
    ends = {"first_id": shown[0]["id"], "last_id": shown[-1]["id"]} if shown else {"first_id": None, "last_id": None}
    return http.reply_json({"object": "list", "data": shown, "has_more": begin + len(shown) < len(items), **ends})


# --- conversations --------------------------------------------------------------------------------------------


async def _begin_conversation(visit: RouteRequest, program: CommandContext) -> StreamResponse | HttpFault:
    data = await http.read_body(visit.request)
    if isinstance(data, HttpFault):
        return data
    asked = http.decode_body(_NEW, data or b"{}")
    if isinstance(asked, HttpFault):
        return asked
    for name in ("items", "metadata"):
        if getattr(asked, name):
            text = f"{name} of a new conversation are not kept: say it with the first response"
            return http.make_bad_request(text, name, code="unsupported_parameter")
    key = SessionKey(program.settings.default_agent, f"openai:conversation:{uuid.uuid4()}")
    return http.reply_json(_make_conversation(responses.make_conversation_id(str(key)), visit.gateway.clock.now()))


def _make_conversation(ident: str, created: int) -> dict[str, Any]:
    return {"id": ident, "object": "conversation", "created_at": created // 1000, "metadata": {}}


async def _open_conversation(
    visit: RouteRequest, program: CommandContext
) -> tuple[SessionKey, list[Message], int] | HttpFault:
    ident = visit.part("id")
    key = responses.find_response_session(ident) if ident.startswith("conv_") else None
    if key is None or key.agent not in program.settings.agents:
        return HttpFault(
            404, f"there is no conversation {ident[:80]!r}", "not_found", "id", code="conversation_not_found"
        )
    _, transcript = await SessionReader(program).read(str(key))
    messages = list(transcript.messages()) if transcript is not None else []
    return key, messages, messages[0].timestamp if messages else visit.gateway.clock.now()


async def _show_conversation(visit: RouteRequest, program: CommandContext) -> StreamResponse | HttpFault:
    found = await _open_conversation(visit, program)
    return found if isinstance(found, HttpFault) else http.reply_json(_make_conversation(visit.part("id"), found[2]))


async def _list_conversation(visit: RouteRequest, program: CommandContext) -> StreamResponse | HttpFault:
    found = await _open_conversation(visit, program)
    if isinstance(found, HttpFault):
        return found
    told = [(m, "user" if isinstance(m, UserMessage) else "assistant") for m in found[1]]
    said = [_make_message(role, m.text) for m, role in told if isinstance(m, UserMessage | AssistantMessage) and m.text]
    return _list(visit, [{**item, "id": f"msg_{visit.part('id')[5:]}_{at}"} for at, item in enumerate(said, 1)])


StoredHandler = Callable[[RouteRequest, CommandContext], Awaitable[StreamResponse | HttpFault]]
_HANDLERS: dict[str, StoredHandler] = {
    "response": _retrieve,
    "input": _list_input,
    "cancel": _cancel,
    "begin": _begin_conversation,
    "conversation": _show_conversation,
    "items": _list_conversation,
}
