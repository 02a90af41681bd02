"""`pal sessions` import, branch, rewind, label, reset, delete, cleanup: through the gateway if one runs, else on the
state itself, by the same methods.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from typing import Any

import msgspec

from palinurus.cli.args import load_settings, read_session_key, to_json
from palinurus.cli.reach.gateway import reach_program
from palinurus.cli.render import strip_controls
from palinurus.cli.sessions.access import find_session, warn_unreadable
from palinurus.clock import SystemClock
from palinurus.core.text import format_count
from palinurus.errors import BadRequest, NotFound, StateLocked
from palinurus.sessions import files, tree
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import read_transcript
from palinurus.sessions.upkeep import UpkeepAction, plan_upkeep, sum_freed_bytes
from palinurus.store.factory import open_reader


def _change(doing: str, method: str, params: dict[str, Any], idle: str = "") -> dict[str, Any]:
    """Have it done. `idle`: a session in which no message may wait. Raises PalinurusError kinds."""

    async def change() -> dict[str, Any]:
        async with reach_program(load_settings(os.environ), os.environ, SystemClock(), idle) as program:
            done: dict[str, Any] = await program.call(method, params)
            return done

    try:
        return asyncio.run(change())
    except StateLocked as exc:
        raise StateLocked(f"cannot {doing}: {exc.message}", fix=exc.fix) from exc


def import_session(home: str, asked: argparse.Namespace) -> None:
    """A transcript file of another program or machine becomes a session here. Raises NotFound, BadRequest."""
    key = read_session_key(asked.session)
    if not os.path.isfile(asked.file):
        raise NotFound(
            f"{asked.file}: no such file",
            fix="name a file that `pal sessions export` wrote, or another program's JSONL",
        )
    transcript = read_transcript(asked.file)
    if not transcript.entries:
        raise BadRequest(
            f"{asked.file} holds no transcript ({len(transcript.bad)} unreadable pieces)",
            fix="give a session's JSONL file: a header line, then one JSON object a line",
        )
    with open(asked.file, "rb") as handle:
        params = {"key": str(key), "data": handle.read()}
    done = _change("import", "sessions.import", params, str(key))
    print(f"imported {format_count(len(transcript.messages()), 'message')} into {key} ({done['path']})")
    warn_unreadable(transcript)


def rewind_session(home: str, asked: argparse.Namespace) -> None:
    """Go back to an entry; what came after it stays in the tree."""
    key = str(find_session(home, asked.key).key)
    done = _change("rewind", "sessions.rewind", {"key": key, "entry": asked.entry}, key)
    print(f"{key} goes on from {asked.entry} ({format_count(done['messages'], 'message')})")


def label_entry(home: str, asked: argparse.Namespace) -> None:
    """Name an entry, or take its name away."""
    key = str(find_session(home, asked.key).key)
    text = strip_controls(asked.text or "").strip() or None
    _change("label", "sessions.label", {"key": key, "entry": asked.entry, "label": text}, key)
    print(f"{asked.entry} is labelled {text!r}" if text else f"{asked.entry} has no label")


def branch_session(home: str, asked: argparse.Namespace) -> None:
    """A new session with what was said up to an entry."""
    key = str(find_session(home, asked.key).key)
    done = _change("branch", "sessions.fork", {"key": key, "entry": asked.entry, "name": asked.name})
    print(f"{done['key']} holds {key} up to {done['entryId'] or tree.ROOT}")


def reset_session(home: str, asked: argparse.Namespace) -> None:
    """A new conversation under the same key."""
    place = find_session(home, asked.key)
    key = place.key
    done = _change("reset", "sessions.reset", {"key": str(key)}, str(key))
    # The row first: killed before this, the old file stays where it is and maintenance takes care of it.
    files.archive_file(home, place.path, "reset", SystemClock().now())
    print(f"{key} starts anew ({SessionRecord(sessionId=done['entry']['sessionId']).path(key.agent)})")


def delete_session(home: str, asked: argparse.Namespace) -> None:
    """Forget a session."""
    key = str(find_session(home, asked.key).key)
    done = _change("delete", "sessions.delete", {"key": key}, key)
    print(f"deleted {key}" + (f"; its file is kept as {done['archived'][0]}" if done["archived"] else ""))


def clean_sessions(home: str, asked: argparse.Namespace) -> None:
    """What the gateway does each day, now."""
    if asked.dry_run:
        rules = load_settings(os.environ).settings.session.upkeep
        with open_reader(home) as reader:
            rows = reader.sessions()
            busy = {row.session for state in ("queued", "running") for row in reader.items(10_000, None, state)}
        actions = plan_upkeep(rows, files.list_session_files(home), rules, SystemClock().now(), busy=busy).actions
    else:
        done = _change("clean up", "sessions.cleanup", {})["actions"]
        actions = tuple(UpkeepAction(**action) for action in done)
    if asked.json:
        print(to_json([msgspec.structs.asdict(action) for action in actions]))
        return
    for action in actions:
        kept = "  (kept as .deleted)" if action.keep else ""
        print(strip_controls(f"{action.reason:<9}  {action.key or action.path}{kept}"))
    print(f"{len(actions)} to go" if asked.dry_run else f"{len(actions)} gone", f"({sum_freed_bytes(actions)} bytes)")
