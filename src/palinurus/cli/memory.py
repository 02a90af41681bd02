"""`pal memory`: search and read what an agent remembers, see where a line came from, take changes back.

Works beside a running gateway and without one. Changes files only in `undo`.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from palinurus.cli.args import Argument, Verb, find_agent, load_settings, make_arg, parse_verb, to_json
from palinurus.cli.models.pull import make_progress_drawer
from palinurus.cli.render import strip_controls
from palinurus.clock import SystemClock
from palinurus.core.memory.results import MemoryRefusal, cite_hit, write_excerpt_hint
from palinurus.core.text import format_count
from palinurus.core.types.inbound import decode_inbound
from palinurus.errors import BadRequest, NotFound, StateError, StateUnwritable
from palinurus.patterns import compile_late
from palinurus.providers.local.fetch import fetch_weights
from palinurus.providers.local.weights import EMBEDDING_WEIGHTS
from palinurus.store.factory import open_reader
from palinurus.store.port import InboxRow
from palinurus.workspace.memory.embedder import Embedder
from palinurus.workspace.memory.history import MemoryVersion
from palinurus.workspace.memory.memory import AgentMemory

_PLACE = compile_late(r"(.+?)(?:[:#]L?(\d{1,9})(?:-L?\d{1,9})?)?")
_ITEMS = 1000  # messages of a session looked through for the one that made a change


class MemoryCommand(msgspec.Struct, frozen=True):
    """A command with the memory it is about."""

    memory: AgentMemory
    home: str
    options: argparse.Namespace


def run_memory(argv: list[str]) -> int:
    """The command. Raises PalinurusError for what a person has to know."""
    options = parse_verb("memory", "What the agent remembers: MEMORY.md and memory/.", VERBS, argv, default="status")
    loaded = load_settings(os.environ).settings
    agent = find_agent(loaded, options.agent)
    embedder = Embedder(loaded.home)
    memory = AgentMemory(loaded.home, agent.id, agent.workspace, agent.memory, clock=SystemClock(), embedder=embedder)
    try:
        sys.stdout.write(strip_controls(options.run(MemoryCommand(memory, loaded.home, options))) + "\n")
    except sqlite3.Error as exc:
        fix = "free some space, or see `pal doctor`; what is remembered is in files, and safe"
        raise StateUnwritable(f"the index of memory cannot be used: {exc}", fix=fix) from None
    finally:
        embedder.close()
        memory.close()
    return 0


def search_memory(asked: MemoryCommand) -> str:
    """Search memory, the best hits first."""
    found = asked.memory.search(" ".join(asked.options.query), "", asked.options.limit, asked.options.min_score)
    if asked.options.json:
        return to_json(found, pretty=True)
    lines = [f"{cite_hit(hit)}  {hit.score:.2f}\n{_indented(hit.snippet)}\n" for hit in found.hits]
    told = [f"note: {text}" for text in (found.disabled, found.note) if text]
    return "\n".join([*(lines or ["Nothing was found."]), *told]).rstrip()


def read_memory(asked: MemoryCommand) -> str:
    """Print lines of a memory file."""
    path, line = split_place(asked.options.path)
    found = asked.memory.get(path, asked.options.start or line or 1, asked.options.lines)
    if isinstance(found, MemoryRefusal):
        raise BadRequest(f"{path}: {found.reason}")
    if asked.options.json:
        return to_json(found, pretty=True)
    return "\n".join(part for part in (found.text, write_excerpt_hint(found)) if part)


def explain_memory(asked: MemoryCommand) -> str:
    """Say where a file or one of its lines came from."""
    path, line = split_place(asked.options.path)
    if not line:
        versions = asked.memory.versions(path)
        told = [{**_facts(v), **_message(asked.home, v)} for v in versions]
        return to_json(told, pretty=True) if asked.options.json else "\n".join(_told(one) for one in told)
    lines = asked.memory.trace_lines(path)
    if line > len(lines):
        raise BadRequest(f"{path} has {format_count(len(lines), 'line')}", fix="name lines that it has")
    traced = lines[line - 1]
    one = {**_facts(traced.version), **_message(asked.home, traced.version)}
    if asked.options.json:
        return to_json({"line": line, "text": traced.text, **one}, pretty=True)
    return f"{traced.text}\n  {_told(one)}"


def undo_memory(asked: MemoryCommand) -> str:
    """Restore the previous version of a file."""
    path = split_place(asked.options.path)[0] if asked.options.path else ""
    done = asked.memory.undo(path, asked.options.to, dry=asked.options.dry_run)
    would = "would be " if asked.options.dry_run else "is "
    what = f"{would}as in version {done.to} again" if done.to else f"{would}removed: it did not exist before"
    return f"{done.diff}\n\n{done.path} {what}".lstrip()


def show_memory_status(asked: MemoryCommand) -> str:
    """Show what is in the index."""
    files, chunks, note = asked.memory.size()
    have, why = asked.memory.vectors()
    entries = list(asked.memory.roots.scan())
    if asked.options.json:
        found = [{"path": entry.path, "bytes": entry.size} for entry in entries]
        told = {"indexed": files, "chunks": chunks, "vectors": not why, "withVectors": have, "why": why, "note": note}
        return to_json({"files": found, **told}, pretty=True)
    lines = [f"{entry.size:>9,}  {entry.path}" for entry in entries]
    head = f"{format_count(files, 'file')}, {format_count(chunks, 'piece')}; {_way(chunks, have, why)}"
    return "\n".join([head, *lines, *([f"note: {note}"] if note else [])])


def _way(chunks: int, have: int, why: str) -> str:
    """How memory is searched, and why not otherwise."""
    if why:
        return f"full-text search, no vectors: {why}"
    later = "" if have >= chunks else "; the others get theirs while the gateway runs, or by `pal memory pull`"
    return f"full-text and vector search, {format_count(min(have, chunks), 'piece')} with vectors{later}"


def pull_vector_model(asked: MemoryCommand) -> str:
    """Fetch the model for search by meaning, and index everything."""
    os.umask(0o077)
    path = fetch_weights(
        asked.home,
        EMBEDDING_WEIGHTS,
        (sys.executable,),
        make_progress_drawer(sys.stderr, EMBEDDING_WEIGHTS, SystemClock().monotonic),
    )
    asked.memory.refresh()
    made = 0
    while count := asked.memory.fill():
        made += count
    have, why = asked.memory.vectors()
    if asked.options.json:
        return to_json({"path": path, "made": made, "withVectors": have, "why": why}, pretty=True)
    told = f"{EMBEDDING_WEIGHTS.title} ({EMBEDDING_WEIGHTS.licence}) is at {path}, size and SHA-256 are right"
    return f"{told}\nnot used: {why}" if why else f"{told}\nvectors made now: {made}; pieces that have one: {have}"


def split_place(text: str) -> tuple[str, int]:
    """PATH, PATH:LINE or a citation (PATH#L3-L9): the path and the line, 0 if none."""
    match = _PLACE.fullmatch(text)
    return (match[1], int(match[2] or 0)) if match else (text, 0)


def _facts(version: MemoryVersion) -> dict[str, Any]:
    return {
        "version": version.n,
        "at": version.at,
        "kind": version.kind if version.hash else f"{version.kind}, gone",
        "bytes": len(version.data) if version.data is not None else None,
        **{name: value for name, value in version.author._asdict().items() if value},
        **({"of": version.of} if version.of else {}),
    }


def _message(home: str, version: MemoryVersion) -> dict[str, Any]:
    """The message whose run made the version: one runs in a session at a time."""
    if not version.author.session:
        return {}
    try:
        with open_reader(home) as reader:
            rows = reader.items(_ITEMS, version.author.session)
    except (NotFound, StateError):
        return {}
    row = next((row for row in rows if _ran(row, version.at)), None)
    if row is None:
        return {}
    try:
        inbound = decode_inbound(row.body)
    except (msgspec.MsgspecError, ValueError):
        return {"message": row.id}
    sender = inbound.sender.name or inbound.sender.id
    return {"message": row.id, "sender": sender, "channel": inbound.target.channel, "text": inbound.text[:200]}


def _ran(row: InboxRow, at: int) -> bool:
    """A change is noted a little after it is made; the run may be over by then."""
    return bool(row.claimed) and row.claimed <= at and (not row.settled or at <= row.settled + 5000)


_KINDS = {
    "found": "was there before changes were watched",
    "written": "written by {tool} in {session}",
    "during": "changed while {tool} ran in {session}",
    "changed": "changed by nobody known: by hand, or while nothing was watching",
    "undone": "brought back from version {of} by `pal memory undo`",
}


def _told(one: dict[str, Any]) -> str:
    when = datetime.fromtimestamp(one["at"] / 1000).astimezone().isoformat(" ", "seconds")
    kind, _, gone = one["kind"].partition(", ")
    words = _KINDS.get(kind, kind).format_map({"tool": "a tool", "session": "?", "of": "none", **one})
    lines = [f"version {one['version']}  {when}  {words}{'; the file was gone' if gone else ''}"]
    if "message" in one:
        sender = f" from {one['sender']} on {one['channel']}" if "sender" in one else ""
        lines.append(
            f"    message {one['message']}{sender}{': ' + ' '.join(one['text'].split()) if one.get('text') else ''}"
        )
    return "\n".join(lines)


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


_AGENT = make_arg("--agent", metavar="ID", help="whose memory (default: the default agent's)")
_JSON = make_arg("--json", action="store_true", help="for programs")
_PATH = make_arg("path", metavar="PATH[:LINE]")


def _verb(run: Callable[[MemoryCommand], str], *args: Argument) -> Verb:
    return Verb(run, (run.__doc__ or "").rstrip(".").lower(), (_AGENT, _JSON, *args))


VERBS = {
    "search": _verb(
        search_memory,
        make_arg("query", nargs="+", metavar="WORD", help='words; "in quotes" as they stand'),
        make_arg("--limit", type=int, metavar="N", help="at most N results (6)"),
        make_arg("--min-score", type=float, metavar="S", help="leave out what scores lower (0 to 1)"),
    ),
    "get": _verb(
        read_memory,
        _PATH,
        make_arg("--from", dest="start", type=int, metavar="LINE", help="first line"),
        make_arg("--lines", type=int, metavar="N", help="how many lines (120)"),
    ),
    "why": _verb(explain_memory, _PATH),
    "undo": _verb(
        undo_memory,
        make_arg("path", nargs="?", default="", metavar="PATH", help="the file changed last if left out"),
        make_arg("--to", type=int, default=0, metavar="N", help="that version, as `why` lists them"),
        make_arg("--dry-run", action="store_true", help="only show what would change"),
    ),
    "status": _verb(show_memory_status),
    "pull": _verb(pull_vector_model),
}
