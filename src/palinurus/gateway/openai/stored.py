"""Responses and conversations that are asked for again: GET /v1/responses/<id>, its input, its end; /v1/conversations.

A response is a message of the inbox, a conversation is a session; both are there after a kill, and gone when the
message is (`session.maintenance`). Only what a client gives a conversation at its beginning is stored for it.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeAlias

import msgspec
from aiohttp.web_response import StreamResponse

from palinurus.core.types.inbound import EarlierMessage, Inbound, Target, decode_inbound
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import AssistantMessage, Message, UserMessage
from palinurus.gateway import http
from palinurus.gateway.http import HttpFault, RouteRequest
from palinurus.gateway.methods.change import forget_session
from palinurus.gateway.openai import responses
from palinurus.gateway.openai.completions import NOBODY, OpenAiReply
from palinurus.gateway.openai.endpoints import sum_usage
from palinurus.gateway.openai.stream import ResponseStream, send_stream
from palinurus.gateway.views import SessionReader
from palinurus.inbox.commands.command import CommandContext
from palinurus.inbox.route import make_dedupe
from palinurus.patterns import decode_late
from palinurus.services.conversations import CONVERSATION, KeptConversation, find_conversation, keep_conversation
from palinurus.sessions.entries import MessageEntry
from palinurus.store.port import InboxRow

BEGINNING = 20  # items that a conversation begins with
ITEMS, MOST = 20, 100  # of a list: as a rule, and at most
_OPEN = {"queued": "queued", "running": "in_progress"}
_ENDED = {"answered": "completed", "silent": "completed", "aborted": "cancelled"}


_Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=64)]
_Value: TypeAlias = Annotated[str, msgspec.Meta(max_length=512)]


class _NewConversation(msgspec.Struct, frozen=True):
    items: list[Any] | None = None
    metadata: Annotated[dict[_Name, _Value], msgspec.Meta(max_length=16)] | None = None


_NEW = decode_late(_NewConversation)


async def handle_stored(visit: RouteRequest, what: str) -> StreamResponse | HttpFault:
    """Answer one request; `what` is a row of the table below."""
    program = visit.host.program
    if not visit.host.settings.gateway.responses or program is None:
        return http.RESPONSES_OFF
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
        return await _stream_again(visit, program, row)
    return http.reply_json(await _show(visit, program, row))


async def _show(visit: RouteRequest, program: CommandContext, row: InboxRow) -> dict[str, Any]:
    ident, inbound, created = visit.part("id"), decode_inbound(row.body), row.at // 1000
    model = inbound.options.model or "openclaw"
    row = await _find_answered(program, row)
    if row.outcome is None:
        return responses.make_response(ident, created, model, _OPEN.get(row.state, "queued"))
    status, reply = _ENDED.get(row.outcome, "failed"), await _make_reply(visit, program, row, inbound)
    if status != "completed":
        error = {"code": "server_error", "message": row.note or row.outcome} if status == "failed" else None
        spent = responses.render_response_usage(reply.usage)
        return responses.make_response(ident, created, model, status, error=error, usage=spent)
    return responses.make_settled_response(ident, created, model, reply)


async def _find_answered(program: CommandContext, row: InboxRow) -> InboxRow:
    """It may have been answered together with another."""
    while row.absorbed_by and (into := await program.store.item(row.absorbed_by)) is not None:
        row = into
    return row


async def _make_reply(visit: RouteRequest, program: CommandContext, row: InboxRow, inbound: Inbound) -> OpenAiReply:
    names = {tool.name for tool in inbound.options.client_tools}
    said = [m for m in await _read(program, row) if isinstance(m, AssistantMessage)]
    calls = tuple(call for message in said for call in message.calls if call.name in names)
    text = row.note if row.outcome == "answered" else ""
    return OpenAiReply(text, usage=await sum_usage(visit.host, row), calls=calls)


async def _stream_again(visit: RouteRequest, program: CommandContext, row: InboxRow) -> StreamResponse | HttpFault:
    """Whole, or what is left of it (`starting_after`). Of one that is not over its end is waited for."""
    inbound, after = decode_inbound(row.body), visit.request.query.get("starting_after", "")
    if after and not after.isdecimal():
        return http.make_bad_request("starting_after is a number", "starting_after")
    frames = ResponseStream(visit.part("id"), row.at // 1000, inbound.options.model or "openclaw")
    frames.resume(int(after)) if after else frames.replay()

    async def conclude() -> None:
        ended = await _find_answered(program, await visit.host.wait(row.id))
        reply = await _make_reply(visit, program, ended, inbound)
        frames.finish(reply, http.make_outcome_fault(ended.outcome, ended.note, None))

    frames.wake.set()
    return await send_stream(visit.request, frames, conclude())


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
        return http.make_bad_request(f"order is asc or desc, limit is 1 to {MOST}", "limit")
    items = items if order == "asc" else items[::-1]
    begin = next((at for at, item in enumerate(items, 1) if item["id"] == after), 0)
    shown = items[begin : begin + int(typed)]
    ends = {"first_id": shown[0]["id"], "last_id": shown[-1]["id"]} if shown else {"first_id": None, "last_id": None}
    return http.reply_json({"object": "list", "data": shown, "has_more": begin + len(shown) < len(items), **ends})


# --- conversations --------------------------------------------------------------------------------------------


async def _read_new(visit: RouteRequest) -> KeptConversation | HttpFault:
    asked = await http.read_json(visit.request, _NEW)
    if isinstance(asked, HttpFault):
        return asked
    if len(asked.items or ()) > BEGINNING:
        return http.make_bad_request(f"at most {BEGINNING} items", "items")
    items = responses.read_items(asked.items or [])
    if isinstance(items, HttpFault):
        return items
    return KeptConversation(visit.gateway.clock.now(), asked.metadata or {}, items)


async def _begin_conversation(visit: RouteRequest, program: CommandContext) -> StreamResponse | HttpFault:
    made = await _read_new(visit)
    if isinstance(made, HttpFault):
        return made
    key = SessionKey(program.settings.default_agent, f"{CONVERSATION}{uuid.uuid4()}")
    if made.metadata or made.items:  # nothing else of it is kept: it is a session
        await keep_conversation(program.store, str(key), made)
    return http.reply_json(_make_conversation(responses.make_conversation_id(str(key)), made))


async def _change_conversation(visit: RouteRequest, program: CommandContext) -> StreamResponse | HttpFault:
    found, asked = await _open_conversation(visit, program), await _read_new(visit)
    if isinstance(found, HttpFault) or isinstance(asked, HttpFault):
        return found if isinstance(found, HttpFault) else asked  # type: ignore[return-value]
    kept = msgspec.structs.replace(found[2], metadata=asked.metadata)
    await keep_conversation(program.store, str(found[0]), kept)
    return http.reply_json(_make_conversation(visit.part("id"), kept))


def _make_conversation(ident: str, kept: KeptConversation) -> dict[str, Any]:
    return {"id": ident, "object": "conversation", "created_at": kept.at // 1000, "metadata": kept.metadata}


async def _open_conversation(
    visit: RouteRequest, program: CommandContext
) -> tuple[SessionKey, list[Message], KeptConversation] | HttpFault:
    ident = visit.part("id")
    key = responses.find_response_session(ident) if ident.startswith("conv_") else None
    if key is None or key.agent not in program.settings.agents:
        return HttpFault(
            404, f"there is no conversation {ident[:80]!r}", "not_found", "id", code="conversation_not_found"
        )
    _, transcript = await SessionReader(program).read(str(key))
    messages = list(transcript.messages()) if transcript is not None else []
    kept = await find_conversation(program.store, str(key))
    return key, messages, kept or KeptConversation(messages[0].timestamp if messages else visit.gateway.clock.now())


async def _show_conversation(visit: RouteRequest, program: CommandContext) -> StreamResponse | HttpFault:
    found = await _open_conversation(visit, program)
    return found if isinstance(found, HttpFault) else http.reply_json(_make_conversation(visit.part("id"), found[2]))


async def _list_conversation(visit: RouteRequest, program: CommandContext) -> StreamResponse | HttpFault:
    found = await _open_conversation(visit, program)
    if isinstance(found, HttpFault):
        return found
    items = _list_items(visit, found[1], found[2])
    if not (wanted := visit.match.groupdict().get("item")):
        return _list(visit, items)
    named = next((item for item in items if item["id"] == wanted), None)
    text = f"there is no item {wanted[:80]!r}"
    return http.reply_json(named) if named else HttpFault(404, text, "not_found", "item_id", code="item_not_found")


def _list_items(visit: RouteRequest, messages: list[Message], kept: KeptConversation) -> list[dict[str, Any]]:
    said = [item for one in kept.items for item in _make_items(visit.part("id"), one)]
    told = [(m, "user" if isinstance(m, UserMessage) else "assistant") for m in messages]
    said += [
        _make_message(role, m.text) for m, role in told if isinstance(m, UserMessage | AssistantMessage) and m.text
    ]
    return [{**item, "id": f"msg_{visit.part('id')[5:]}_{at}"} for at, item in enumerate(said, 1)]


async def _add_items(visit: RouteRequest, program: CommandContext) -> StreamResponse | HttpFault:
    """To what a conversation begins with: later ones would not stand where the client thinks they do."""
    found, asked = await _open_conversation(visit, program), await _read_new(visit)
    if isinstance(found, HttpFault) or isinstance(asked, HttpFault):
        return found if isinstance(found, HttpFault) else asked  # type: ignore[return-value]
    key, messages, before = found
    text = "items are added before the first response; after it they are its `input`"
    if messages or not asked.items or len(before.items) + len(asked.items) > BEGINNING:
        return http.make_bad_request(f"{text}; at most {BEGINNING}", "items", code="conversation_begun")
    kept = msgspec.structs.replace(before, items=(*before.items, *asked.items))
    await keep_conversation(program.store, str(key), kept)
    return _list(visit, _list_items(visit, [], kept)[-len(asked.items) :])


async def _delete_conversation(visit: RouteRequest, program: CommandContext) -> StreamResponse | HttpFault:
    """Its session is forgotten as `sessions.delete` does it. Only of those that were made as conversations."""
    found, here = await _open_conversation(visit, program), visit.gateway.clients.context
    if isinstance(found, HttpFault):
        return found
    if not found[0].rest.startswith(CONVERSATION) or here is None:
        text = "it was not made by POST /v1/conversations; `pal sessions delete` forgets any session"
        return http.make_bad_request(text, "id", code="not_a_conversation")
    await forget_session(here, found[0])
    await keep_conversation(program.store, str(found[0]), None)
    return http.reply_json({"id": visit.part("id"), "object": "conversation.deleted", "deleted": True})


StoredHandler = Callable[[RouteRequest, CommandContext], Awaitable[StreamResponse | HttpFault]]
_HANDLERS: dict[str, StoredHandler] = {
    "response": _retrieve,
    "input": _list_input,
    "cancel": _cancel,
    "begin": _begin_conversation,
    "conversation": _show_conversation,
    "change": _change_conversation,
    "items": _list_conversation,
    "item": _list_conversation,
    "add": _add_items,
    "delete": _delete_conversation,
}
