"""Branching off and forgetting sessions, for whoever may write the store: the command line and the gateway.

Each is two steps in an order that a kill between them leaves sound, and a second call completes.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.errors import BadRequest, StateBroken
from palinurus.sessions import files, search, tree
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import SessionRow, Store

# What a branch takes over from the session it comes from: what a person chose, not where its replies went.
INHERITED = (
    "thinkingLevel", "verboseLevel", "reasoningLevel", "fastMode", "providerOverride", "modelOverride",
    "modelOverrideSource", "authProfileOverride", "authProfileOverrideSource", "modelProvider", "model",
)  # fmt: skip


def choose_branch_key(agent: str, name: str | None, target: str | None, taken: Collection[str]) -> SessionKey:
    """The key asked for, or one made from the entry's id. Raises BadRequest if it is taken or another agent's."""
    if name is None:
        base = SessionKey(agent, f"explicit:branch-{target or tree.ROOT}")
        made, number = base, 1
        while str(made) in taken:
            number += 1
            made = base._replace(rest=f"{base.rest}-{number}")
        return made
    key = parse_session_key(name if name.lower().startswith("agent:") else f"agent:{agent}:{name}")
    if key is None:
        raise BadRequest(f"not a session key: {name[:80]!r}")
    if key.agent != agent:
        raise BadRequest(f"a branch stays with its agent {agent!r}")
    if str(key) in taken:
        raise BadRequest(f"there is a session {key} already", fix="choose another key")
    return key


def make_branch_record(
    parent: SessionRecord, origin: SessionKey, key: SessionKey, now: int, ident: str
) -> SessionRecord:
    """The record of a session that comes out of another."""
    return msgspec.structs.replace(
        SessionRecord.fresh(key, now, ident),
        parentSessionKey=str(origin),
        forkedFromParent=True,
        **{n: value for n in INHERITED if (value := getattr(parent, n)) is not None},
    )


async def create_branch(
    home: str, store: Store, transcript: Transcript, record: SessionRecord, key: SessionKey, entry: str | None, now: int
) -> None:
    """The session `record` at `key` begins with what `transcript` says up to `entry`. The file first, then the row:
    if the second fails, an unused file is all that is left. Raises DiskFull, StateUnwritable."""
    files.place_file(home, record.path(key.agent), tree.fork_transcript(transcript, entry, record.sessionId, now))
    await store.save_session(record.row(key))


async def delete_session(home: str, store: Store, key: SessionKey, record: SessionRecord, now: int) -> str:
    """Forget a session; returns where its transcript is kept, "" if another session uses it or there is none.
    The file first: killed after it, a second call finds the row and ends what was begun. Raises BadRequest."""
    if key.kind == "main":
        raise BadRequest(f"Cannot delete the main session ({key}).", fix="`pal sessions reset` starts it anew")
    path = record.path(key.agent)
    others = [row for row in await store.sessions(key.agent) if row.key != str(key)]
    used = any(_path(row) == path for row in others)
    kept = "" if used else files.archive_file(home, path, "deleted", now)
    search.forget_files(home, () if used else (path,))
    await store.drop_session(str(key))
    return kept


def _path(row: SessionRow) -> str:
    try:
        return SessionRecord.decode(row.data).path(row.agent)
    except StateBroken:
        return f"agents/{row.agent}/sessions/{row.session_id}.jsonl"
