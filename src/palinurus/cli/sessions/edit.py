"""`pal sessions` branch, rewind, label, reset, delete, cleanup: need the state directory for themselves.

Each is one durable step, or two in an order that a kill between them leaves sound and a second call completes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import uuid
from collections.abc import Callable

import msgspec

from palinurus.cli.args import load_settings
from palinurus.cli.sessions.access import (
    SessionOnDisk,
    find_session,
    hold_store,
    read_session_key,
    recover_journal,
    strip_terminal_codes,
    warn_unreadable,
)
from palinurus.clock import Clock, SystemClock
from palinurus.config.sections.schedule import UpkeepSettings
from palinurus.core.types.keys import SessionKey
from palinurus.errors import BadRequest, NotFound
from palinurus.sessions import files, lifecycle, tree
from palinurus.sessions.entries import (
    ENTRY_DECODER,
    TRANSCRIPT_VERSION,
    LabelEntry,
    TranscriptHeader,
    encode_header,
    to_iso,
)
from palinurus.sessions.lifecycle import roll_over
from palinurus.sessions.record import SessionRecord, check_session_id
from palinurus.sessions.transcript import Transcript, read_transcript
from palinurus.sessions.upkeep import UpkeepReport, plan_upkeep, run_upkeep, sum_freed_bytes
from palinurus.store.port import TranscriptLine
from palinurus.store.sqlite.reader import open_reader

# `pal sessions import`: a transcript file of another program or machine becomes a session here.


def import_session(home: str, asked: argparse.Namespace) -> None:
    """Raises NotFound, BadRequest, StateLocked, DiskFull, StateUnwritable."""
    key = read_session_key(asked.session)
    if not os.path.isfile(asked.file):
        raise NotFound(f"{asked.file}: no such file")
    transcript = read_transcript(asked.file)
    if not transcript.entries:
        raise BadRequest(
            f"{asked.file} holds no transcript ({len(transcript.bad)} unreadable pieces)",
            fix="give a session's JSONL file: a header line, then one JSON object a line",
        )
    record = asyncio.run(_take_over(home, key, transcript, SystemClock()))
    print(f"imported {len(transcript.messages())} messages into {key} ({record.path(key.agent)})")
    warn_unreadable(transcript)


async def _take_over(home: str, key: SessionKey, transcript: Transcript, clock: Clock) -> SessionRecord:
    """Put the file in its place, then the row; if the second fails, an unused file is all that is left."""
    async with hold_store(home, "import", clock) as store:
        await recover_journal(store, key)
        now = clock.now()
        row = await store.session(str(key))
        ident = _ident(home, key.agent, transcript)
        record = SessionRecord.fresh(key, now, ident)
        if row is not None:
            record = roll_over(SessionRecord.decode(row.data), key, now, ident, asked=True)
        provider, model = transcript.model() or (None, None)
        record = msgspec.structs.replace(record, modelProvider=provider, model=model)
        await asyncio.to_thread(files.place_file, home, record.path(key.agent), _content(transcript, ident, now))
        await store.save_session(record.row(key))
        return record


def _ident(home: str, agent: str, transcript: Transcript) -> str:
    """The file's own session id if it can be used and is free here, else a new one."""
    own = transcript.header.id if transcript.header else ""
    try:
        taken = os.path.exists(os.path.join(home, SessionRecord(sessionId=check_session_id(own)).path(agent)))
    except BadRequest:
        taken = True
    return str(uuid.uuid4()) if taken else own


def _content(transcript: Transcript, ident: str, now: int) -> bytes:
    """The file as it is with its last line ended; a header that is missing or has another id is replaced."""
    with open(transcript.path, "rb") as handle:
        lines = handle.read().split(b"\n")
    header = transcript.header or TranscriptHeader(version=TRANSCRIPT_VERSION, timestamp=to_iso(now), cwd=os.getcwd())
    own = next((i for i, line in enumerate(lines) if _is_header(line)), None)
    while not lines[-1].strip():
        lines.pop()
    if own is None or header.id != ident:
        rest = lines if own is None else lines[:own] + lines[own + 1 :]
        lines = [encode_header(msgspec.structs.replace(header, id=ident)), *rest]
    return b"\n".join([*lines, b""])


def _is_header(line: bytes) -> bool:
    try:
        return isinstance(ENTRY_DECODER.decode(line.removeprefix(b"\xef\xbb\xbf")), TranscriptHeader)
    except (ValueError, RecursionError):
        return False


def rewind_session(home: str, asked: argparse.Namespace) -> None:
    """Go back to an entry; what came after it stays in the tree."""
    place = find_session(home, asked.key)

    def go(transcript: Transcript, now: int) -> tuple[TranscriptLine, ...]:
        target = tree.find_entry(transcript, asked.entry)
        return transcript.branch_line(target, now)

    transcript = asyncio.run(_append(home, place, "rewind", go, SystemClock()))
    print(f"{place.key} goes on from {asked.entry} ({len(transcript.messages())} messages)")


def label_entry(home: str, asked: argparse.Namespace) -> None:
    """Name an entry, or take its name away."""
    place = find_session(home, asked.key)
    text = strip_terminal_codes(asked.text or "").strip() or None

    def name(transcript: Transcript, now: int) -> tuple[TranscriptLine, ...]:
        target = tree.find_entry(transcript, asked.entry)
        if target is None:
            raise BadRequest("the root cannot have a label")
        return transcript.add_entry(LabelEntry(targetId=target, label=text), now)

    asyncio.run(_append(home, place, "label", name, SystemClock()))
    print(f"{asked.entry} is labelled {text!r}" if text else f"{asked.entry} has no label")


async def _append(
    home: str,
    place: SessionOnDisk,
    doing: str,
    make: Callable[[Transcript, int], tuple[TranscriptLine, ...]],
    clock: Clock,
) -> Transcript:
    async with hold_store(home, doing, clock) as store:
        await recover_journal(store, place.key)
        place = find_session(home, str(place.key))  # as it is now that nobody else can change it
        transcript = read_transcript(place.file, place.path)
        files.append_lines(home, make(transcript, clock.now()))
        stale = msgspec.structs.replace(place.record, totalTokensFresh=False)
        if place.record.totalTokens is not None:
            await store.save_session(stale.row(place.key))
        return transcript


def branch_session(home: str, asked: argparse.Namespace) -> None:
    """A new session with what was said up to an entry."""
    place = find_session(home, asked.key)
    made, entry = asyncio.run(_branch(home, place, asked.entry, asked.name, SystemClock()))
    print(f"{made} holds {place.key} up to {entry or tree.ROOT}")


async def _branch(
    home: str, place: SessionOnDisk, entry: str, name: str | None, clock: Clock
) -> tuple[SessionKey, str | None]:
    """The file first, then the row; if the second fails, an unused file is all that is left."""
    async with hold_store(home, "branch", clock) as store:
        await store.recover()  # the files may lack lines that are in the journal
        place = find_session(home, str(place.key))
        transcript = read_transcript(place.file, place.path)
        target = tree.find_entry(transcript, entry)
        taken = {row.key for row in await store.sessions()}
        key = lifecycle.choose_branch_key(place.key.agent, name, target, taken)
        now, ident = clock.now(), str(uuid.uuid4())
        record = lifecycle.make_branch_record(place.record, place.key, key, now, ident)
        await lifecycle.create_branch(home, store, transcript, record, key, target, now)
        return key, target


def reset_session(home: str, asked: argparse.Namespace) -> None:
    """A new conversation under the same key."""
    place = find_session(home, asked.key)
    record = asyncio.run(_reset(home, place, SystemClock()))
    print(f"{place.key} starts anew ({record.path(place.key.agent)})")


async def _reset(home: str, place: SessionOnDisk, clock: Clock) -> SessionRecord:
    """The row first: killed after it, the old file stays where it is and maintenance takes care of it."""
    async with hold_store(home, "reset", clock) as store:
        await recover_journal(store, place.key)
        place = find_session(home, str(place.key))
        now = clock.now()
        record = roll_over(place.record, place.key, now, str(uuid.uuid4()), asked=True)
        await store.save_session(record.row(place.key))
        files.archive_file(home, place.path, "reset", now)
        return record


def delete_session(home: str, asked: argparse.Namespace) -> None:
    """Forget a session."""
    place = find_session(home, asked.key)
    kept = asyncio.run(_delete(home, place, SystemClock()))
    print(f"deleted {place.key}" + (f"; its file is kept as {kept}" if kept else ""))


async def _delete(home: str, place: SessionOnDisk, clock: Clock) -> str:
    async with hold_store(home, "delete", clock) as store:
        await recover_journal(store, place.key)
        place = find_session(home, str(place.key))
        return await lifecycle.delete_session(home, store, place.key, place.record, clock.now())


def clean_sessions(home: str, asked: argparse.Namespace) -> None:
    """What the gateway does each day, now."""
    rules = load_settings(os.environ).settings.session.upkeep
    if asked.dry_run:
        with open_reader(home) as reader:
            rows = reader.sessions()
            busy = {row.session for state in ("queued", "running") for row in reader.items(10_000, None, state)}
        actions = plan_upkeep(rows, files.list_session_files(home), rules, SystemClock().now(), busy).actions
    else:
        rules = msgspec.structs.replace(rules, enforce=True)  # asked for by a person: mode warn is for the gateway
        actions = asyncio.run(_cleanup(home, rules, SystemClock())).done
    if asked.json:
        print(msgspec.json.encode([action._asdict() for action in actions]).decode())
        return
    for action in actions:
        print(
            strip_terminal_codes(
                f"{action.reason:<9}  {action.key or action.path}{'  (kept as .deleted)' if action.keep else ''}"
            )
        )
    print(f"{len(actions)} to go" if asked.dry_run else f"{len(actions)} gone", f"({sum_freed_bytes(actions)} bytes)")


async def _cleanup(home: str, rules: UpkeepSettings, clock: Clock) -> UpkeepReport:
    async with hold_store(home, "clean up", clock) as store:
        busy = {row.session for row in await store.recover()}
        return await run_upkeep(home, store, rules, clock.now(), lambda: busy)
