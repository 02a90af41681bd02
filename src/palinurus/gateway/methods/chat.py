"""chat.*: sending, stopping and reading one conversation. A message is on disk before it is acknowledged."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from palinurus.core.types.inbound import Inbound, Target, TurnOptions, decode_inbound
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import AssistantMessage, TextBlock
from palinurus.core.types.usage import TokenUsage
from palinurus.errors import PalinurusError
from palinurus.gateway import attachments
from palinurus.gateway.context import MethodContext, SessionParams, write_idle
from palinurus.gateway.methods import agents, menus
from palinurus.gateway.rpc import ADMIN, READ, WRITE, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.gateway.views import mark_run, project_entry, project_history
from palinurus.inbox.message import is_stop_word
from palinurus.inbox.route import MAX_TEXT, make_dedupe
from palinurus.sessions.entries import MessageEntry
from palinurus.sessions.transcript import Transcript
from palinurus.sessions.tree import list_versions
from palinurus.store.port import Acceptance, InboxRow

Key = Annotated[str, Meta(min_length=1, max_length=512)]

CHANNEL = "webchat"
STOP = 100  # characters in which a command to stop is looked for: a message may have millions


class ChatSendParams(SessionParams, frozen=True, kw_only=True):
    session_key: Key
    message: str
    idempotency_key: NonEmpty
    session_id: NonEmpty | None = None
    thinking: str | None = None
    fast_mode: bool | None = None
    deliver: bool | None = None
    originating_channel: str | None = None
    originating_to: str | None = None
    originating_account_id: str | None = None
    originating_thread_id: str | None = None
    attachments: list[Any] | None = None
    timeout_ms: Annotated[int, Meta(ge=0)] | None = None
    system_input_provenance: dict[str, Any] | None = None
    system_provenance_receipt: str | None = None
    suppress_command_interpretation: bool | None = None
    model: str | None = None  # ours: retry with another model, for one turn
    queue: Literal["steer", "followup"] | None = None  # ours: while a run goes on, read by it or answered after it


class ChatAbortParams(SessionParams, frozen=True):
    run_id: NonEmpty | None = None


class ChatQueueParams(SessionParams, frozen=True):
    order: Annotated[tuple[NonEmpty, ...], Meta(max_length=200)] = ()  # names of runs
    steer: NonEmpty | None = None


class ChatHistoryParams(SessionParams, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200
    max_chars: Annotated[int, Meta(ge=1, le=500_000)] | None = None
    before: Annotated[int, Meta(ge=1)] | None = None  # ours: only messages with a smaller number, to look further back
    input_run_ids: Annotated[tuple[NonEmpty, ...], Meta(max_length=50)] = ()  # which messages are these runs'?


class ChatMetadataParams(MethodParams, frozen=True):
    agent_id: NonEmpty | None = None


class ChatMessageParams(SessionParams, frozen=True, kw_only=True):
    message_id: NonEmpty
    max_chars: Annotated[int, Meta(ge=1, le=2_000_000)] | None = None


class ChatFilesParams(MethodParams, frozen=True):
    item: NonEmpty


class ChatFileParams(ChatFilesParams, frozen=True):
    index: Annotated[int, Meta(ge=0, le=1000)] = 0


class ChatInjectParams(SessionParams, frozen=True, kw_only=True):
    message: Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
    label: Annotated[str, Meta(max_length=100)] | None = None


async def send_chat(call: MethodCall, asked: ChatSendParams) -> dict[str, Any]:
    """Accept a message; its reply comes as events. A stop word stops instead."""
    here = call.context
    key = asked.resolve(call)
    if _halts(asked.message) and not asked.attachments:
        return await _stopped(call, key, None, "stop-command")
    if not asked.message.strip() and not asked.attachments:
        raise MethodError("message or attachment required")
    fast = "" if asked.fast_mode is None else "on" if asked.fast_mode else "off"
    options = TurnOptions(asked.model or "", asked.thinking or "", fast, queue=asked.queue or "")
    inbound = await make_inbound(
        call, key, options, event=asked.idempotency_key, text=asked.message, attached=asked.attachments
    )
    accepted = await submit_inbound(call, inbound)
    if accepted.duplicate:
        status = "ok" if accepted.state == "done" else "in_flight"
        return {"runId": asked.idempotency_key, "status": status}
    here.broadcaster.announce_change(str(key), "send")
    after = here.program.inbox.waiting.get_place(str(key), accepted.id) == "line"
    return {"runId": asked.idempotency_key, "status": "started", **({"after": True} if after else {})}


def _halts(text: str) -> bool:
    return is_stop_word(text) or (len(text) <= STOP and text.strip().lower() == "/stop")


async def make_inbound(
    call: MethodCall, key: SessionKey, options: TurnOptions, *, event: str, text: str, attached: list[Any] | None
) -> Inbound:
    """What a client said as a message to a session; its files are on disk. Raises MethodError."""
    images, files = await attachments.keep_attachments(attached, call.program.keep)
    return Inbound(
        Target(CHANNEL, to=str(key)),
        call.sender,
        event,
        text,
        at=call.program.clock.now(),
        images=images,
        files=files,
        session=str(key),
        agent=key.agent,
        options=options,
        push=False,
    )


async def submit_inbound(call: MethodCall, inbound: Inbound) -> Acceptance:
    """Put the message on disk for this client. Raises MethodError with the reason it was not taken."""
    here = call.context
    here.broadcaster.expect_run(inbound.event, call.client.conn)
    try:
        accepted = await call.gateway.host.submit(inbound)
    except PalinurusError as exc:
        await attachments.delete_attachments(inbound.files)
        text = exc.message + (f" ({exc.fix})" if exc.fix else "")
        raise MethodError(text, code="UNAVAILABLE", retryable=True) from exc
    if accepted.duplicate:  # the files of the first time are those that count
        await attachments.delete_attachments(inbound.files)
        if not is_repeat(await call.program.store.item(accepted.id), inbound):
            raise MethodError("this idempotency key was used for another message", code="INVALID_REQUEST")
    return accepted


def is_repeat(row: InboxRow | None, inbound: Inbound) -> bool:
    """Is it the message that was stored? Another text, or another session, under one key is a client's mistake."""
    try:
        first = decode_inbound(row.body) if row is not None else inbound
    except msgspec.DecodeError:
        return True
    return (first.text, first.session) == (inbound.text, inbound.session)


async def abort_chat(call: MethodCall, asked: ChatAbortParams) -> dict[str, Any]:
    """Stop what runs in a session (or one run of it). The `aborted` event comes with the run's end."""
    return await _stopped(call, asked.resolve(call), asked.run_id, "rpc")


async def _stopped(call: MethodCall, key: SessionKey, run_id: str | None, reason: str) -> dict[str, Any]:
    """With a name it is that message and no other: what we show as running may be over, and another in its place."""
    here = call.context
    runs = [run for run in here.broadcaster.running(str(key)) if run_id is None or run_id in (run.id, run.item)]
    item = ""
    if run_id is not None:
        item = runs[0].item if runs else await _find_open(call, key, run_id)
        if not item:
            return {"ok": True, "aborted": False, "runIds": []}
    for run in runs:
        run.stop = reason
    # without a run of its own the session may have sub-agents going: they end too, unless a waiting message is meant
    whole, why = not item or bool(runs), reason if runs or not item else "user"
    stopped = (await here.program.inbox.stop(str(key), why, item=item, children=whole)).ran
    here.broadcaster.announce_change(str(key), "abort")
    names = [run.id for run in runs] or ([run_id] if run_id is not None else [])
    return {"ok": True, "aborted": stopped, "runIds": names if stopped else []}


async def _find_open(call: MethodCall, key: SessionKey, run_id: str) -> str:
    """The id of a message that waits for its turn, or that another node runs and we see nothing of; "" if there is none
    of that name."""
    for row in await call.program.store.list_waiting(str(key)):
        if (shown := _queued(row)) and run_id == shown["runId"]:
            return row.id
    found = await find_run(call, run_id)
    return found.id if found is not None and found.session == str(key) and found.state in ("queued", "running") else ""


async def find_run(call: MethodCall, ident: str) -> InboxRow | None:
    """A run as the store knows it, by the key its sender gave it or by its id."""
    made = make_dedupe(Inbound(Target(CHANNEL), call.sender, ident, "", at=0))
    row = await call.program.store.find(made) or await call.program.store.item(ident)
    return row if row is not None and (row.id == ident or row.dedupe == made) else None


async def read_chat_history(call: MethodCall, asked: ChatHistoryParams) -> dict[str, Any]:
    """The conversation so far, and what applies to it."""
    here = call.context
    key = asked.resolve(call)
    seen, transcript = await here.reader.open(key)
    row = here.reader.row(seen)
    answer: dict[str, Any] = {
        "sessionKey": str(key),
        "messages": await _describe_history(here, transcript, asked) if transcript else [],
        "defaults": here.reader.defaults(seen.agent),
        "sessionInfo": row,
    }
    if seen.record is not None:
        answer["sessionId"] = seen.record.sessionId
    if asked.input_run_ids:
        answer["inputReceipts"] = await _mark_inputs(call, answer["messages"], asked.input_run_ids)
    for name in ("thinkingLevel", "fastMode", "verboseLevel", "traceLevel", "reasoningLevel"):
        if name in row:
            answer[name] = row[name]
    running = here.broadcaster.running(str(key))
    if running:
        answer["inFlightRun"] = {"runId": running[-1].id, "text": running[-1].text}
    if queued := await _list_queued(here, key):
        answer["queued"] = queued
    return answer


async def arrange_chat_queue(call: MethodCall, asked: ChatQueueParams) -> dict[str, Any]:
    """What waits in a session: have it wait in this order, or have the run that goes on read one of them now. Ours."""
    here, key = call.context, asked.resolve(call)
    waiting = here.program.inbox.waiting
    items = {one["runId"]: one["item"] for one in await _list_queued(here, key)}
    if asked.order:
        await waiting.move(str(key), [items[run] for run in asked.order if run in items])
    steered = asked.steer is not None and await waiting.hurry(items.get(asked.steer, ""))
    here.broadcaster.announce_change(str(key), "queue")
    return {"queued": await _list_queued(here, key), "steered": steered}


async def _list_queued(here: MethodContext, key: SessionKey) -> list[dict[str, Any]]:
    found = await here.program.store.list_waiting(str(key))
    waiting = here.program.inbox.waiting
    shown = [(row.id, told) for row in found if (told := _queued(row))]
    return [told | {"after": waiting.get_place(str(key), ident) != "run"} for ident, told in shown]


async def _mark_inputs(call: MethodCall, messages: list[dict[str, Any]], runs: tuple[str, ...]) -> list[dict[str, Any]]:
    """Messages of these runs say so; runs whose message waits, or was taken into another's turn, are the answer."""
    receipts: list[dict[str, Any]] = []
    for run in runs:
        row = await find_run(call, run)
        if row is None:
            continue
        own = [one for one in messages if one.get("item") == row.id]
        for one in own:
            mark_run(one, run)
        if not own:
            receipts.append({"runId": run, "state": "pending" if row.state in ("queued", "running") else "consumed"})
    return receipts


async def _describe_history(
    here: MethodContext, transcript: Transcript, asked: ChatHistoryParams
) -> list[dict[str, Any]]:
    """The messages. Ours: one of a person that failed says why (`failed`) or that it was stopped (`stopped`), and what
    else was said in its place (`versions`)."""
    shown = project_history(transcript, asked.limit, asked.max_chars, asked.before)
    versions = list_versions(transcript)
    for at, message in enumerate(shown):
        if run := here.broadcaster.name_run(message.get("item", "")):
            mark_run(message, run)
        if message["__openclaw"]["id"] in versions:
            message["versions"] = versions[message["__openclaw"]["id"]]
        alone = message["role"] == "user" and "program" not in message and message["item"]
        if alone and (at + 1 == len(shown) or shown[at + 1]["role"] == "user"):
            row = await here.program.store.item(message["item"])
            if row is not None and row.outcome in ("failed", "refused", "dead"):
                message["failed"] = row.note or "The run failed."
            elif row is not None and row.outcome == "aborted":
                message["stopped"] = True
    return shown


def _queued(row: InboxRow) -> dict[str, Any] | None:
    """A message that waits for its turn, as its sender wrote it; None for what the program says itself. Ours."""
    try:
        found = decode_inbound(row.body)
    except msgspec.DecodeError:
        return None
    if found.system:
        return None
    told = {"runId": found.event, "item": row.id, "text": found.text, "at": row.at}
    return told | {"files": len(found.files) + len(found.images), "images": len(found.images)}


async def load_chat_startup(call: MethodCall, asked: ChatHistoryParams) -> dict[str, Any]:
    """All a page needs to begin with: history, agents, models."""
    known = await menus.list_models(call, None)
    return {
        **await read_chat_history(call, asked),
        "agentsList": await agents.list_agents(call, None),
        "metadata": {"models": known["models"]},
    }


async def get_chat_metadata(call: MethodCall, asked: ChatMetadataParams) -> dict[str, Any]:
    """Models and commands, for menus."""
    known = await menus.list_models(call, None)
    shown = await menus.list_commands(call, menus.CommandListParams(agent_id=asked.agent_id))
    return {"models": known["models"], "commands": shown["commands"]}


async def get_chat_message(call: MethodCall, asked: ChatMessageParams) -> dict[str, Any]:
    """One message, whole."""
    _, transcript = await call.context.reader.open(asked.resolve(call))
    entry = transcript.entry(asked.message_id) if transcript is not None else None
    if not isinstance(entry, MessageEntry):
        return {"ok": False, "unavailableReason": "not_found"}
    return {"ok": True, "message": project_entry(entry, 0, asked.max_chars)}


async def list_chat_files(call: MethodCall, asked: ChatFilesParams) -> dict[str, Any]:
    """Which files came with a message. Ours."""
    found = attachments.find_sent_files(await call.program.store.item(asked.item))
    return {"files": [attachments.describe_file(one) for one in found]}


async def get_chat_file(call: MethodCall, asked: ChatFileParams) -> dict[str, Any]:
    """One of them, with its content as base64. Ours."""
    program = call.program
    found = attachments.find_sent_files(await program.store.item(asked.item))
    if asked.index >= len(found):
        raise MethodError("the message has no such file")
    return await attachments.load_sent_file(program.settings.home, found[asked.index], program.store)


async def inject_chat_note(call: MethodCall, asked: ChatInjectParams) -> dict[str, Any]:
    """Put a note into the conversation, as the assistant's. Refused while the session's turn runs."""
    here = call.context
    key = asked.resolve(call)
    _, transcript = await here.reader.open(key)
    if transcript is None:
        raise MethodError("session not found")
    now = here.program.clock.now()
    text = f"[{asked.label}]\n\n{asked.message}" if asked.label else asked.message
    note = AssistantMessage(
        (TextBlock(text),),
        "palinurus",
        "openclaw",
        "gateway-injected",
        usage=TokenUsage(),
        stopReason="stop",
        errorMessage=None,
        timestamp=now,
    )
    lines = await write_idle(call, str(key), transcript, lambda at: transcript.add(note, "", at))
    payload = {"runId": f"inject-{lines[-1].id}", "sessionKey": str(key), "seq": 0, "state": "final"}
    shown = {"role": "assistant", "content": [{"type": "text", "text": text}], "timestamp": now}
    call.gateway.broadcast("chat", {**payload, "message": shown})
    return {"ok": True, "messageId": lines[-1].id}


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("chat.send", WRITE, ChatSendParams, send_chat),
    GatewayMethod("chat.abort", WRITE, ChatAbortParams, abort_chat),
    GatewayMethod("chat.queue", WRITE, ChatQueueParams, arrange_chat_queue),
    GatewayMethod("chat.history", READ, ChatHistoryParams, read_chat_history),
    GatewayMethod("chat.startup", READ, ChatHistoryParams, load_chat_startup),
    GatewayMethod("chat.metadata", READ, ChatMetadataParams, get_chat_metadata),
    GatewayMethod("chat.message.get", READ, ChatMessageParams, get_chat_message),
    GatewayMethod("chat.files", READ, ChatFilesParams, list_chat_files),
    GatewayMethod("chat.file.get", READ, ChatFileParams, get_chat_file),
    GatewayMethod("chat.inject", ADMIN, ChatInjectParams, inject_chat_note, listed=False),
)
