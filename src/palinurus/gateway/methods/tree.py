"""sessions.rewind, label, fork, import and cleanup (ours): what `pal sessions` changes in the tree of a
conversation and among the sessions. Entries are named as people write them: an id, its beginning, a label, `root`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from palinurus.core.types.messages import UserMessage
from palinurus.errors import BadRequest, NotFound
from palinurus.gateway import views
from palinurus.gateway.context import SessionKeyParams, refuse_busy, write_idle
from palinurus.gateway.methods.change import create_branch
from palinurus.gateway.rpc import ADMIN, WRITE, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty, NoParams
from palinurus.gateway.views import SessionSnapshot
from palinurus.services.facts import change_record
from palinurus.sessions import tree
from palinurus.sessions.entries import LabelEntry, MessageEntry
from palinurus.sessions.imports import import_transcript
from palinurus.sessions.lifecycle import choose_branch_key
from palinurus.sessions.transcript import Transcript
from palinurus.sessions.upkeep import run_upkeep, sum_freed_bytes
from palinurus.store.port import SessionRow, TranscriptLine


class SessionEntryParams(SessionKeyParams, frozen=True, kw_only=True):
    entry: NonEmpty


class TreePlaceParams(MethodParams, frozen=True, kw_only=True):
    """A place in a conversation: `key` and `entry`; or, as OpenClaw's page says it, `sessionKey` and the id of what a
    person said (`entryId`), which is then written anew: what stands before it is meant."""

    key: NonEmpty | None = None
    session_key: NonEmpty | None = None
    agent_id: NonEmpty | None = None
    entry: NonEmpty | None = None
    entry_id: NonEmpty | None = None

    def name(self) -> SessionKeyParams:
        """Raises MethodError if it names no session."""
        if (named := self.key or self.session_key) is None:
            raise MethodError("must have required property 'key'")
        return SessionKeyParams(named, self.agent_id)

    def find(self, transcript: Transcript) -> str | None:
        """The entry; None for the root. Raises NotFound, BadRequest, MethodError."""
        if self.entry is not None:
            return tree.find_entry(transcript, self.entry)
        if self.entry_id is None:
            raise MethodError("must have required property 'entry'")
        said = transcript.entry(self.entry_id)
        if not isinstance(said, MessageEntry) or not isinstance(said.message, UserMessage):
            raise MethodError("only what a person said can be written anew: choose a message of yours")
        return tree.find_before(transcript, said.id)

    def show_written(self, transcript: Transcript) -> dict[str, Any]:
        """What was said there, for the page to put before its writer again."""
        said = transcript.entry(self.entry_id) if self.entry_id is not None else None
        if said is None:
            return {}
        shown = views.project_entry(said, 0)
        blocks = shown["content"] if isinstance(shown["content"], list) else []
        pictures = [{"mimeType": one["mimeType"], "data": one["data"]} for one in blocks if one["type"] == "image"]
        return {"editorText": views.extract_text(shown), **({"editorAttachments": pictures} if pictures else {})}


class SessionRewindParams(TreePlaceParams, frozen=True, kw_only=True):
    before: bool = False  # to what stands before the entry, so that it can be said anew
    newest: bool = False  # to the end of what was said after it


class SessionLabelParams(SessionEntryParams, frozen=True, kw_only=True):
    label: str | None = None  # None takes it away


class SessionForkParams(TreePlaceParams, frozen=True, kw_only=True):
    new_key: str | None = msgspec.field(default=None, name="name")  # of the new session


class SessionImportParams(SessionKeyParams, frozen=True, kw_only=True):
    data: bytes  # the file, in base64


async def append_lines(
    call: MethodCall,
    seen: SessionSnapshot,
    transcript: Transcript,
    make: Callable[[int], tuple[TranscriptLine, ...]],
    reason: str,
) -> None:
    """Add what `make` makes at this moment to a session in which nothing runs. Raises MethodError if something does."""
    program, record, key = call.program, seen.record, str(seen.key)
    assert record is not None
    await write_idle(call, key, transcript, make)
    now = program.clock.now()
    data = msgspec.json.encode({"totalTokensFresh": False, "updatedAt": now})
    await program.store.touch(SessionRow(key, seen.key.agent, record.sessionId, now, data=data))
    program.changed(key, change_record(record, {"totalTokensFresh": False}, now))
    call.context.broadcaster.announce_change(key, reason)


async def _open(call: MethodCall, asked: SessionKeyParams) -> tuple[SessionSnapshot, Transcript]:
    seen, transcript = await call.context.reader.open(asked.resolve(call))
    if seen.record is None or transcript is None:
        raise NotFound(f"no session {seen.key}", fix="`pal sessions` lists them")
    return seen, transcript


async def rewind_session(call: MethodCall, asked: SessionRewindParams) -> dict[str, Any]:
    """Go on from an earlier entry, or from another branch; what came after it stays in the tree."""
    seen, transcript = await _open(call, asked.name())
    target = asked.find(transcript)
    if target is not None and asked.before:
        target = tree.find_before(transcript, target)
    elif target is not None and asked.newest:
        target = tree.find_tip(transcript, target)
    await append_lines(call, seen, transcript, lambda now: transcript.branch_line(target, now), reason="rewind")
    made = {"ok": True, "key": str(seen.key), "entryId": target, "messages": len(transcript.messages())}
    return made | asked.show_written(transcript)


async def label_entry(call: MethodCall, asked: SessionLabelParams) -> dict[str, Any]:
    """Name an entry, or take its name away."""
    seen, transcript = await _open(call, asked)
    target = tree.find_entry(transcript, asked.entry)
    if target is None:
        raise BadRequest("the root cannot have a label")
    entry = LabelEntry(targetId=target, label=asked.label or None)
    await append_lines(call, seen, transcript, lambda now: transcript.add_entry(entry, now), reason="label")
    return {"ok": True, "key": str(seen.key), "entryId": target}


async def fork_session(call: MethodCall, asked: SessionForkParams) -> dict[str, Any]:
    """A new session with what was said up to an entry, under a key that can be chosen."""
    seen, transcript = await _open(call, asked.name())
    target = asked.find(transcript)
    taken = {row.key for row in await call.program.store.sessions()}
    chosen = choose_branch_key(seen.key.agent, asked.new_key, target, taken) if asked.entry is not None else None
    key, made = await create_branch(call, seen, transcript, target, key=chosen)
    told = {"ok": True, "key": str(key), "sessionId": made.sessionId, "from": str(seen.key), "entryId": target}
    return {**told, "sessionKey": str(key), **asked.show_written(transcript)}


async def import_session(call: MethodCall, asked: SessionImportParams) -> dict[str, Any]:
    """A transcript file becomes this session; the one that was there is over."""
    program, key = call.program, asked.resolve(call)
    refuse_busy(call, str(key))
    record = await import_transcript(program.settings.home, program.store, key, asked.data, now=program.clock.now())
    program.changed(str(key), record)
    call.context.broadcaster.announce_change(str(key), "reset")
    return {"ok": True, "key": str(key), "sessionId": record.sessionId, "path": record.path(key.agent)}


async def clean_up_sessions(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """Drop what session.maintenance says is too old or too much, also where it is only to warn: a person asks."""
    program = call.program
    store, inbox = program.store, program.inbox
    waiting = {row.key for row in await store.sessions() if await store.list_waiting(row.key)}
    rules = msgspec.structs.replace(program.settings.session.upkeep, enforce=True)
    home, now = program.settings.home, program.clock.now()
    done = (await run_upkeep(home, store, rules, now, busy=lambda: waiting | set(inbox.busy))).done
    for action in done:
        if action.key:
            call.context.broadcaster.announce_change(action.key, "delete")
    return {"ok": True, "actions": [msgspec.structs.asdict(action) for action in done], "bytes": sum_freed_bytes(done)}


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("sessions.rewind", WRITE, SessionRewindParams, rewind_session),
    GatewayMethod("sessions.label", WRITE, SessionLabelParams, label_entry),
    GatewayMethod("sessions.fork", WRITE, SessionForkParams, fork_session),
    GatewayMethod("sessions.import", ADMIN, SessionImportParams, import_session),
    GatewayMethod("sessions.cleanup", ADMIN, NoParams, clean_up_sessions),
)
