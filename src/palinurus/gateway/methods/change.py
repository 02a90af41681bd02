"""Changing sessions: patch, create, reset, compact, delete, branch, send, steer, stop. Changes of a record are merged
into its row, so a run that ends at the same moment loses nothing.
"""

from __future__ import annotations

import uuid
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from palinurus.core.types.inbound import Inbound, Target
from palinurus.core.types.keys import SessionKey
from palinurus.gateway.context import BUSY, MethodContext, SessionKeyParams
from palinurus.gateway.keep.patches import make_record_changes
from palinurus.gateway.methods import chat
from palinurus.gateway.methods.sessions import Label
from palinurus.gateway.rpc import ADMIN, WRITE, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.gateway.views import SessionSnapshot
from palinurus.services.facts import change_record, gather_facts
from palinurus.sessions import lifecycle
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import SessionRow
from palinurus.workspace.folders import explain_barred, explain_mismatch

Text = str | None | UnsetType
Tag = Annotated[str, Meta(min_length=1, max_length=40)]
# Where a conversation is kept is no news of it: it stays where it stands among the others.
_KEEPING = frozenset({"label", "pinned", "archived", "tags"})
ENDING = 200  # looks whether a run that was stopped is over: ten seconds, more than a command that will not end takes


class SameSessionParams(SessionKeyParams, frozen=True):
    """For the session that a page shows, where it says so, and not for one that took its place."""

    expected_session_id: NonEmpty | None = None

    def check(self, record: SessionRecord | None) -> None:
        """Raises MethodError if it is another by now."""
        if self.expected_session_id not in (None, record.sessionId if record is not None else ""):
            raise MethodError("nothing was changed: another session has begun here meanwhile; load the page again")


class SessionPatchParams(SameSessionParams, frozen=True):
    label: Label | UnsetType | None = UNSET
    pinned: bool | UnsetType | None = UNSET  # ours, as the next two
    archived: bool | UnsetType | None = UNSET
    tags: list[Tag] | UnsetType | None = UNSET
    thinking_level: Text = UNSET
    fast_mode: bool | str | UnsetType | None = UNSET
    verbose_level: Text = UNSET
    trace_level: Text = UNSET
    reasoning_level: Text = UNSET
    response_usage: Text = UNSET
    elevated_level: Text = UNSET
    permission_mode: Text = UNSET  # ours
    exec_host: Text = UNSET
    exec_security: Text = UNSET
    exec_ask: Text = UNSET
    exec_node: Text = UNSET
    model: Text = UNSET
    send_policy: Text = UNSET
    group_activation: Text = UNSET
    queue_mode: Text = UNSET  # ours


class SessionResetParams(SameSessionParams, frozen=True):
    reason: str = "reset"


class SessionDeleteParams(SameSessionParams, frozen=True):
    delete_transcript: bool | None = None
    archived_only: bool = False
    emit_lifecycle_hooks: bool | None = None


class SessionCreateParams(MethodParams, frozen=True):
    key: NonEmpty | None = None
    agent_id: NonEmpty | None = None
    label: Label | None = None
    model: NonEmpty | None = None
    parent_session_key: NonEmpty | None = None
    emit_command_hooks: bool | None = None
    task: str | None = None
    message: str | None = None
    attachments: list[Any] | None = None  # of the message
    idempotency_key: NonEmpty | None = None  # of the message
    thinking_level: str | None = None
    fast_mode: bool | str | None = None
    permission_mode: str | None = None
    fork: bool = False  # with all that was said in the parent
    folder: NonEmpty | None = None  # ours: where it works; the owner's alone to say, and only where they gave leave

    @property
    def chosen(self) -> dict[str, Any]:
        """What is chosen for the session, as sessions.patch takes it."""
        names = ("label", "model", "thinking_level", "fast_mode", "permission_mode")
        return {name: value for name in names if (value := getattr(self, name)) is not None}

    @property
    def begins(self) -> bool:
        """Does it say something at once?"""
        return bool(self.message or self.task or self.attachments)


class SessionSendParams(SessionKeyParams, frozen=True, kw_only=True):
    message: str
    thinking: str | None = None
    attachments: list[Any] | None = None
    timeout_ms: Annotated[int, Meta(ge=0)] | None = None
    idempotency_key: NonEmpty | None = None


class SessionStopParams(MethodParams, frozen=True):
    key: NonEmpty | None = None
    run_id: NonEmpty | None = None
    agent_id: NonEmpty | None = None


class SessionBranchParams(SessionKeyParams, frozen=True, kw_only=True):
    """Ours: a new session with what was said up to (not with) an entry."""

    entry_id: NonEmpty | None = None
    before: bool = True
    label: Label | None = None


async def patch_session(call: MethodCall, asked: SessionPatchParams) -> dict[str, Any]:
    """Change what applies to a session; null goes back to the default. All or nothing."""
    here = call.context
    key = asked.resolve(call)
    seen = await here.reader.load(key)
    asked.check(seen.record)
    now = here.program.clock.now()
    record = seen.record or SessionRecord.fresh(key, now, str(uuid.uuid4()))
    if isinstance(asked.label, str):
        for other in await here.reader.load_all():
            if other.key != key and other.record is not None and other.record.label == asked.label:
                raise MethodError(f"label already in use: {asked.label}")
    about = SameSessionParams.__struct_fields__  # which session; the rest is what shall be changed
    wanted = {n: v for n in asked.__struct_fields__ if n not in about and (v := getattr(asked, n)) is not UNSET}
    made = make_record_changes(gather_facts(here.program, key, record), here.program, wanted)
    if made.get("archivedAt"):
        made["archivedAt"] = now
    still = seen.record is not None and wanted.keys() <= _KEEPING
    after = change_record(record, made, now)
    if still:
        after = msgspec.structs.replace(after, updatedAt=record.updatedAt, lastInteractionAt=record.lastInteractionAt)
    if seen.record is None:
        if not await here.program.store.save_session(after.row(key), expect=None):
            return await patch_session(call, asked)  # somebody else has begun it meanwhile
    else:
        data = msgspec.json.encode(made if still else {**made, "updatedAt": now})
        await here.program.store.touch(SessionRow(str(key), key.agent, record.sessionId, after.updatedAt, data=data))
    here.program.changed(str(key), after)
    here.broadcaster.announce_change(str(key), "patch")
    row = here.reader.row(SessionSnapshot(key, after, seen.agent))
    resolved = {n: row[n] for n in ("modelProvider", "model", "agentRuntime")}
    entry = {**msgspec.json.decode(after.encode()), **resolved}
    return {"ok": True, "path": "state.db", "key": str(key), "entry": entry, "resolved": resolved}


# --- whole sessions ----------------------------------------------------------------------------------------------


async def create_session(call: MethodCall, asked: SessionCreateParams) -> dict[str, Any]:
    """A session that has said nothing yet, one that begins with `message`, or one that goes on from another."""
    here = call.context
    if asked.fork:
        return await _fork_whole(call, asked)
    agent = asked.agent_id or here.program.settings.default_agent
    key = here.reader.key(asked.key or f"dashboard:{uuid.uuid4()}", agent)
    seen = await here.reader.load(key)
    now = here.program.clock.now()
    _check_chosen(call, asked, new=seen.record is None)
    await _check_folder(call, seen, asked.folder)
    if seen.record is None:
        record = msgspec.structs.replace(SessionRecord.fresh(key, now, str(uuid.uuid4())), folder=asked.folder)
        name = asked.parent_session_key
        parent = await here.reader.load(here.reader.key(name, agent)) if name else None
        if parent is not None and parent.record is not None:
            inherited = {n: v for n in lifecycle.INHERITED if (v := getattr(parent.record, n)) is not None}
            inherited |= {"folder": asked.folder, "parentSessionKey": str(parent.key)}
            record = msgspec.structs.replace(record, **inherited)
        if await here.program.store.save_session(record.row(key), expect=None):  # else somebody has begun it meanwhile
            here.broadcaster.announce_change(str(key), "create")
            told = {"sessionId": record.sessionId, "sessionKey": str(key), "agentId": key.agent}
            here.program.hooks.observe("session_start", told)
    elif asked.folder and seen.record.folder is None:
        data = msgspec.json.encode({"folder": asked.folder})
        await here.program.store.touch(SessionRow(str(key), key.agent, seen.record.sessionId, now, data=data))
    await _begin(call, str(key), asked)
    row = await here.reader.find_row(str(key)) or {}
    return {"ok": True, "key": str(key), "sessionId": row.get("sessionId"), "entry": row, "runStarted": asked.begins}


async def _fork_whole(call: MethodCall, asked: SessionCreateParams) -> dict[str, Any]:
    """A new session with what was said in another so far."""
    if asked.parent_session_key is None:
        raise MethodError("invalid sessions.create params: fork needs parentSessionKey")
    _check_chosen(call, asked, new=True)
    parent = SessionBranchParams(key=asked.parent_session_key, agent_id=asked.agent_id)
    made = await branch_session(call, parent)
    await _begin(call, made["key"], asked)
    row = await call.context.reader.find_row(made["key"]) or {}
    return {"ok": True, "key": made["key"], "sessionId": made["sessionId"], "entry": row, "runStarted": asked.begins}


async def _begin(call: MethodCall, key: str, asked: SessionCreateParams) -> None:
    """What is chosen for a new session, and its first message."""
    if asked.chosen:
        await patch_session(call, SessionPatchParams(key=key, **asked.chosen))
    if asked.begins:
        ident, text = asked.idempotency_key or str(uuid.uuid4()), asked.message or asked.task or ""
        sent = chat.ChatSendParams(session_key=key, message=text, idempotency_key=ident, attachments=asked.attachments)
        await chat.send_chat(call, sent)


def _check_chosen(call: MethodCall, asked: SessionCreateParams, *, new: bool) -> None:
    """Raises MethodError where it would be a patch, which takes more rights: of a session that is there, or of how much
    a run asks about."""
    if (asked.permission_mode or (asked.chosen and not new)) and (refused := call.client.caller.explain_refusal(ADMIN)):
        raise MethodError(refused)


async def _check_folder(call: MethodCall, seen: SessionSnapshot, folder: str | None) -> None:
    """Raises MethodError if the session may not work there. Whether it still may is asked again before every run."""
    if folder is None:
        return
    if refused := call.client.caller.explain_refusal(ADMIN):
        raise MethodError(refused)
    said = await call.context.reader.transcript(seen)  # a row alone is no beginning
    has = seen.record.folder if seen.record else None
    why = explain_mismatch(has, folder, seen.key, begun=said is not None and bool(said.entries))
    if why := why or explain_barred(folder, call.program.settings, call.program.environ):
        raise MethodError(why)


async def reset_session(call: MethodCall, asked: SessionResetParams) -> dict[str, Any]:
    """The next session of this key begins, as /new and /reset do it."""
    key = str(found := asked.resolve(call))
    asked.check((await call.context.reader.load(found)).record)
    await _command(call, key, "/new" if asked.reason == "new" else "/reset")
    call.context.broadcaster.announce_change(key, "reset")
    return {"ok": True, "key": key, "entry": await call.context.reader.find_row(key) or {}}


async def _command(call: MethodCall, key: str, text: str) -> str:
    """Have a command done and wait for its answer. Raises MethodError."""
    sender, now = call.sender, call.program.clock.now()
    target = Target(chat.CHANNEL, to=key)
    inbound = Inbound(target, sender, f"rpc:{uuid.uuid4()}", text, at=now, session=key, push=False)
    return (await call.gateway.host.wait((await chat.submit_inbound(call, inbound)).id)).note


async def compact_session(call: MethodCall, asked: SessionKeyParams) -> dict[str, Any]:
    """Summarise the older part now, as /compact does it."""
    key = str(asked.resolve(call))
    said = await _command(call, key, "/compact")
    call.context.broadcaster.announce_change(key, "compact")
    return {"ok": True, "key": key, "compacted": said.startswith(("✅", "🧹", "⚙️")), "message": said}


async def delete_session(call: MethodCall, asked: SessionDeleteParams) -> dict[str, Any]:
    """Forget a session; its transcript is kept as an archive."""
    here = call.context
    key = asked.resolve(call)
    if key.kind == "main":
        raise MethodError(f"Cannot delete the main session ({key}).")
    seen = await here.reader.load(key)
    asked.check(seen.record)
    if asked.archived_only and seen.record is not None and not seen.record.archived:
        raise MethodError("nothing was deleted: the session is not put away (archived) any more")
    kept = await forget_session(here, key)
    return {"ok": True, "key": str(key), "deleted": seen.record is not None, "archived": [kept] if kept else []}


async def forget_session(here: MethodContext, key: SessionKey) -> str:
    """Stop what runs in it and forget it; where its transcript is kept."""
    program, inbox = here.program, here.program.inbox
    if here.reader.is_running(str(key)):
        await inbox.stop(str(key), "rpc")
    async with inbox.waiting.reserve(str(key)) as free:  # a run that began now would go on with what is put away
        if not free or here.reader.is_running(str(key)) or await program.store.list_waiting(str(key)):
            await inbox.stop(str(key), "user", children=False)  # what waits, too
            await _wait_idle(here, str(key))
        if (record := (await here.reader.load(key)).record) is None:
            return ""
        now, home = program.clock.now(), program.settings.home
        try:
            kept = await lifecycle.delete_session(home, program.store, key, record, now=now)
        finally:
            program.transcripts.forget(record.path(key.agent))  # if its row is still there, it begins anew
    here.broadcaster.announce_change(str(key), "delete")
    told = {"sessionId": record.sessionId, "sessionKey": str(key), "agentId": key.agent, "reason": "deleted"}
    program.hooks.observe("session_end", told)
    return kept


async def _wait_idle(here: MethodContext, key: str) -> None:
    """Until what was stopped is over, on disk, too. Raises MethodError if that takes too long."""
    for _ in range(ENDING):
        running = here.reader.is_running(key) or key in [row.session for row in await here.program.store.list_running()]
        if not running:
            return
        await here.program.clock.sleep(0.05)
    raise MethodError(BUSY, code="UNAVAILABLE", retryable=True)


async def branch_session(call: MethodCall, asked: SessionBranchParams) -> dict[str, Any]:
    """A new session with what was said up to an entry (its own message left out, unless `before` is false)."""
    seen, transcript = await call.context.reader.open(asked.resolve(call))
    if transcript is None:
        raise MethodError("session not found")
    entry = transcript.entry(asked.entry_id) if asked.entry_id else None
    if asked.entry_id and entry is None:
        raise MethodError(f"no entry {asked.entry_id}")
    target: str | None = transcript.leaf if entry is None else entry.id
    if entry is not None and asked.before:
        target = entry.parentId if isinstance(entry.parentId, str) else None
    key, record = await create_branch(call, seen, transcript, target, label=asked.label)
    return {"ok": True, "key": str(key), "sessionId": record.sessionId, "from": str(seen.key), "entryId": target}


async def create_branch(
    call: MethodCall,
    seen: SessionSnapshot,
    transcript: Transcript,
    target: str | None,
    *,
    label: str | None = None,
    key: SessionKey | None = None,
) -> tuple[SessionKey, SessionRecord]:
    """A new session with what was said in `seen` up to the entry `target`."""
    assert seen.record is not None
    here, program, now = call.context, call.program, call.program.clock.now()
    key = key or here.reader.key(f"dashboard:{uuid.uuid4()}", seen.key.agent)
    record = lifecycle.make_branch_record(seen.record, seen.key, key, now, ident=str(uuid.uuid4()))
    record = msgspec.structs.replace(record, label=label)
    await lifecycle.create_branch(
        program.settings.home, program.store, transcript, record, key=key, entry=target, now=now
    )
    here.broadcaster.announce_change(str(key), "create")
    return key, record


async def send_to_session(call: MethodCall, asked: SessionSendParams) -> dict[str, Any]:
    """As chat.send, by key."""
    ident = asked.idempotency_key or str(uuid.uuid4())
    given = chat.ChatSendParams(
        session_key=asked.key,
        agent_id=asked.agent_id,
        message=asked.message,
        idempotency_key=ident,
        thinking=asked.thinking,
        attachments=asked.attachments,
    )
    return await chat.send_chat(call, given)


async def steer_session(call: MethodCall, asked: SessionSendParams) -> dict[str, Any]:
    """As sessions.send; a run that is going takes the message in."""
    going = call.context.reader.is_running(str(asked.resolve(call)))
    return {**await send_to_session(call, asked), "interruptedActiveRun": going}


async def stop_session(call: MethodCall, asked: SessionStopParams) -> dict[str, Any]:
    """Stop a session's run, by key or by run."""
    here = call.context
    run = here.broadcaster.run(asked.run_id) if asked.run_id else None
    if run is None and asked.key is None:
        return {"ok": True, "abortedRunId": None, "status": "no-active-run"}
    key = run.session if run is not None else asked.key
    assert key is not None
    done = await chat.abort_chat(call, chat.ChatAbortParams(key, asked.agent_id, asked.run_id))
    stopped = done["runIds"][0] if done["runIds"] else None
    return {"ok": True, "abortedRunId": stopped, "status": "aborted" if stopped else "no-active-run"}


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("sessions.create", WRITE, SessionCreateParams, create_session),
    GatewayMethod("sessions.send", WRITE, SessionSendParams, send_to_session),
    GatewayMethod("sessions.steer", WRITE, SessionSendParams, steer_session, listed=False),
    GatewayMethod("sessions.abort", WRITE, SessionStopParams, stop_session),
    GatewayMethod("sessions.branch", WRITE, SessionBranchParams, branch_session),
    GatewayMethod("sessions.patch", ADMIN, SessionPatchParams, patch_session),
    GatewayMethod("sessions.reset", ADMIN, SessionResetParams, reset_session),
    GatewayMethod("sessions.delete", ADMIN, SessionDeleteParams, delete_session),
    GatewayMethod("sessions.compact", ADMIN, SessionKeyParams, compact_session),
)
