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

from palinurus.cli.args import settings
from palinurus.cli.sessions.place import Place, found, held, plain, settled
from palinurus.clock import Clock, SystemClock
from palinurus.config.settings import UpkeepSettings
from palinurus.core.types.keys import SessionKey
from palinurus.errors import BadRequest
from palinurus.sessions import files, moves, tree
from palinurus.sessions.entries import Label
from palinurus.sessions.maintain import Report, maintain
from palinurus.sessions.record import Record
from palinurus.sessions.reset import rollover
from palinurus.sessions.transcript import Transcript, read
from palinurus.sessions.upkeep import plan, total
from palinurus.store.port import Line
from palinurus.store.sqlite.reader import open_reader


def rewind(home: str, asked: argparse.Namespace) -> None:
    """Go back to an entry; what came after it stays in the tree."""
    place = found(home, asked.key)

    def go(transcript: Transcript, now: int) -> tuple[Line, ...]:
        target = tree.find(transcript, asked.entry)
        return transcript.branch_line(target, now)

    transcript = asyncio.run(_append(home, place, "rewind", go, SystemClock()))
    print(f"{place.key} goes on from {asked.entry} ({len(transcript.messages())} messages)")


def label(home: str, asked: argparse.Namespace) -> None:
    """Name an entry, or take its name away."""
    place = found(home, asked.key)
    text = plain(asked.text or "").strip() or None

    def name(transcript: Transcript, now: int) -> tuple[Line, ...]:
        target = tree.find(transcript, asked.entry)
        if target is None:
            raise BadRequest("the root cannot have a label")
        return transcript.add_entry(Label(targetId=target, label=text), now)

    asyncio.run(_append(home, place, "label", name, SystemClock()))
    print(f"{asked.entry} is labelled {text!r}" if text else f"{asked.entry} has no label")


async def _append(
    home: str, place: Place, doing: str, make: Callable[[Transcript, int], tuple[Line, ...]], clock: Clock
) -> Transcript:
    async with held(home, doing, clock) as store:
        await settled(store, place.key)
        place = found(home, str(place.key))  # as it is now that nobody else can change it
        transcript = read(place.file, place.path)
        files.append(home, make(transcript, clock.now()))
        stale = msgspec.structs.replace(place.record, totalTokensFresh=False)
        if place.record.totalTokens is not None:
            await store.save_session(stale.row(place.key))
        return transcript


def branch(home: str, asked: argparse.Namespace) -> None:
    """A new session with what was said up to an entry."""
    place = found(home, asked.key)
    made, entry = asyncio.run(_branch(home, place, asked.entry, asked.name, SystemClock()))
    print(f"{made} holds {place.key} up to {entry or tree.ROOT}")


async def _branch(home: str, place: Place, entry: str, name: str | None, clock: Clock) -> tuple[SessionKey, str | None]:
    """The file first, then the row; if the second fails, an unused file is all that is left."""
    async with held(home, "branch", clock) as store:
        await store.recover()  # the files may lack lines that are in the journal
        place = found(home, str(place.key))
        transcript = read(place.file, place.path)
        target = tree.find(transcript, entry)
        taken = {row.key for row in await store.sessions()}
        key = moves.free(place.key.agent, name, target, taken)
        now, ident = clock.now(), str(uuid.uuid4())
        record = moves.heir(place.record, place.key, key, now, ident)
        await moves.branch(home, store, transcript, record, key, target, now)
        return key, target


def reset(home: str, asked: argparse.Namespace) -> None:
    """A new conversation under the same key."""
    place = found(home, asked.key)
    record = asyncio.run(_reset(home, place, SystemClock()))
    print(f"{place.key} starts anew ({record.path(place.key.agent)})")


async def _reset(home: str, place: Place, clock: Clock) -> Record:
    """The row first: killed after it, the old file stays where it is and maintenance takes care of it."""
    async with held(home, "reset", clock) as store:
        await settled(store, place.key)
        place = found(home, str(place.key))
        now = clock.now()
        record = rollover(place.record, place.key, now, str(uuid.uuid4()), asked=True)
        await store.save_session(record.row(place.key))
        files.archive(home, place.path, "reset", now)
        return record


def delete(home: str, asked: argparse.Namespace) -> None:
    """Forget a session."""
    place = found(home, asked.key)
    kept = asyncio.run(_delete(home, place, SystemClock()))
    print(f"deleted {place.key}" + (f"; its file is kept as {kept}" if kept else ""))


async def _delete(home: str, place: Place, clock: Clock) -> str:
    async with held(home, "delete", clock) as store:
        await settled(store, place.key)
        place = found(home, str(place.key))
        return await moves.delete(home, store, place.key, place.record, clock.now())


def cleanup(home: str, asked: argparse.Namespace) -> None:
    """What the gateway does each day, now."""
    rules = settings(os.environ).settings.session.upkeep
    if asked.dry_run:
        with open_reader(home) as reader:
            rows = reader.sessions()
            busy = {row.session for state in ("queued", "running") for row in reader.items(10_000, None, state)}
        actions = plan(rows, files.listing(home), rules, SystemClock().now(), busy).actions
    else:
        rules = msgspec.structs.replace(rules, enforce=True)  # asked for by a person: mode warn is for the gateway
        actions = asyncio.run(_cleanup(home, rules, SystemClock())).done
    if asked.json:
        print(msgspec.json.encode([action._asdict() for action in actions]).decode())
        return
    for action in actions:
        print(plain(f"{action.reason:<9}  {action.key or action.path}{'  (kept as .deleted)' if action.keep else ''}"))
    print(f"{len(actions)} to go" if asked.dry_run else f"{len(actions)} gone", f"({total(actions)} bytes)")


async def _cleanup(home: str, rules: UpkeepSettings, clock: Clock) -> Report:
    async with held(home, "clean up", clock) as store:
        busy = {row.session for row in await store.recover()}
        return await maintain(home, store, rules, clock.now(), lambda: busy)
