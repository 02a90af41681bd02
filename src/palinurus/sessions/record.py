"""The record of one session: what the row in the store says about it.

Field names are the file format's. None means: never set. Fields we do not know, and known ones with values we
cannot use, are kept in `extra` and written back.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from palinurus.core.types.keys import SessionKey
from palinurus.errors import BadRequest, StateBroken
from palinurus.patterns import compile_late
from palinurus.store.port import SessionRow

_SAFE = compile_late(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session. Change it with `msgspec.structs.replace`."""

    sessionId: str
    sessionFile: str | None = None
    updatedAt: int = 0
    sessionStartedAt: int | None = None
    lastInteractionAt: int | None = None
    # who and where
    label: str | None = None
    pinned: bool | None = None
    archivedAt: int | None = None  # put away; whatever happens in it afterwards brings it back
    tags: tuple[str, ...] | None = None
    displayName: str | None = None
    channel: str | None = None
    chatType: str | None = None
    groupId: str | None = None
    subject: str | None = None
    groupChannel: str | None = None
    space: str | None = None
    lastChannel: str | None = None
    lastTo: str | None = None
    lastAccountId: str | None = None
    lastThreadId: str | int | None = None
    # family
    spawnedBy: str | None = None
    spawnedCwd: str | None = None
    folder: str | None = None  # where its tools work, by the owner's leave; None: in the home workspace
    parentSessionKey: str | None = None
    forkedFromParent: bool | None = None
    spawnDepth: int | None = None
    subagentRole: str | None = None
    subagentControlScope: str | None = None
    usageFamilyKey: str | None = None
    usageFamilySessionIds: tuple[str, ...] | None = None
    # the last run
    systemSent: bool | None = None
    abortedLastRun: bool | None = None
    startedAt: int | None = None
    endedAt: int | None = None
    runtimeMs: int | None = None
    status: Literal["running", "done", "failed", "killed", "timeout"] | None = None
    # what people switched
    thinkingLevel: str | None = None
    fastMode: bool | Literal["auto"] | None = None
    verboseLevel: str | None = None
    traceLevel: str | None = None
    reasoningLevel: str | None = None
    elevatedLevel: str | None = None
    permissionMode: str | None = None
    ttsAuto: str | None = None
    responseUsage: str | None = None
    groupActivation: str | None = None
    sendPolicy: str | None = None
    queueMode: str | None = None
    queueDebounceMs: int | None = None
    queueCap: int | None = None
    queueDrop: str | None = None
    # model
    providerOverride: str | None = None
    modelOverride: str | None = None
    modelOverrideSource: str | None = None
    authProfileOverride: str | None = None
    authProfileOverrideSource: str | None = None
    modelProvider: str | None = None
    model: str | None = None
    contextTokens: int | None = None
    # usage
    inputTokens: int | None = None
    outputTokens: int | None = None
    totalTokens: int | None = None
    totalTokensFresh: bool | None = None
    cacheRead: int | None = None
    cacheWrite: int | None = None
    estimatedCostUsd: float | None = None
    # compaction and memory
    compactionCount: int | None = None
    memoryFlushAt: int | None = None
    memoryFlushCompactionCount: int | None = None
    lastHeartbeatText: str | None = None
    lastHeartbeatSentAt: int | None = None
    extra: dict[str, Any] = {}

    @staticmethod
    def fresh(key: SessionKey, now: int, session_id: str) -> SessionRecord:
        """A session that begins now. Raises BadRequest for an id that cannot be a file name."""
        return SessionRecord(
            sessionId=check_session_id(session_id),
            updatedAt=now,
            sessionStartedAt=now,
            lastInteractionAt=now,
            chatType="group" if key.kind == "group" else "direct",
        )

    @staticmethod
    def decode(data: bytes) -> SessionRecord:
        """From the stored form. Raises StateBroken when it is not an object with a usable session id."""
        try:
            raw = msgspec.json.decode(data)
        except (ValueError, RecursionError) as exc:
            raise StateBroken(f"a session record cannot be read: {exc}") from exc
        ident = raw.get("sessionId") if isinstance(raw, dict) else None
        if not isinstance(ident, str) or not _SAFE.fullmatch(ident):
            raise StateBroken(f"a session record has no usable sessionId ({ident!r})")
        return _record(raw)

    def encode(self) -> bytes:
        """The stored form. A known field that is set wins over what `extra` kept for it."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        extra = plain.pop("extra", {})
        return msgspec.json.encode({**extra, **plain})

    def path(self, agent: str) -> str:
        """The transcript file, relative to home. A stored `sessionFile` gives its name, never the directory."""
        name = (self.sessionFile or "").replace("\\", "/").rpartition("/")[2]
        if not name.endswith(".jsonl") or not _SAFE.fullmatch(name):
            name = f"{self.sessionId}.jsonl"
        return f"agents/{agent}/sessions/{name}"

    @property
    def archived(self) -> bool:
        """Is it put away?"""
        return self.archivedAt is not None and self.archivedAt >= self.updatedAt

    def row(self, key: SessionKey) -> SessionRow:
        """As the store takes it."""
        return SessionRow(str(key), key.agent, self.sessionId, self.updatedAt, data=self.encode())


def list_record_paths(row: SessionRow) -> list[str]:
    """The transcripts that a row knows: its own first, then those of the sessions before it. Its id's alone if the
    record cannot be read."""
    folder = f"agents/{row.agent}/sessions"
    try:
        record = SessionRecord.decode(row.data)
    except StateBroken:
        return [f"{folder}/{row.session_id}.jsonl"]
    return [record.path(row.agent), *(f"{folder}/{ident}.jsonl" for ident in record.usageFamilySessionIds or ())]


def check_session_id(session_id: str) -> str:
    """The id, if it can be a file name. Raises BadRequest."""
    if not _SAFE.fullmatch(session_id):
        raise BadRequest(
            f"{session_id[:80]!r} cannot be a session id",
            fix="use letters, digits, dots, dashes and underscores, starting with a letter or digit",
        )
    return session_id


_FIELDS = {field.name: field for field in msgspec.structs.fields(SessionRecord) if field.name != "extra"}


def _record(raw: dict[str, Any]) -> SessionRecord:
    known: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in raw.items():
        field = _FIELDS.get(name)
        if field is None:
            extra[name] = value
            continue
        try:
            known[name] = msgspec.convert(value, field.type)
        except msgspec.ValidationError:
            extra[name] = value
    return SessionRecord(**known, extra=extra)
