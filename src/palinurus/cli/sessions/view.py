"""`pal sessions` list, show, path, tree, export, search: reads the state from outside, beside a gateway or without."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import msgspec

from palinurus.cli.args import parse_since, read_session_key, to_json
from palinurus.cli.render import strip_controls
from palinurus.cli.sessions.access import SessionOnDisk, find_session, warn_unreadable
from palinurus.clock import SystemClock
from palinurus.core.text import format_count
from palinurus.core.types.keys import parse_agent_id
from palinurus.core.types.messages import AssistantMessage, Message, ToolResult
from palinurus.errors import BadRequest, NotFound, StateBroken, StateUnwritable
from palinurus.sessions import export as exports
from palinurus.sessions import rows
from palinurus.sessions import search as searches
from palinurus.sessions import tree as trees
from palinurus.sessions.entries import to_iso, to_millis
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.titles import read_title
from palinurus.sessions.transcript import read_transcript
from palinurus.store.factory import open_reader
from palinurus.store.port import SessionRow

FORMATS = ("jsonl", *exports.FORMATS)


def search_sessions(home: str, asked: argparse.Namespace) -> None:
    """Print what is found, newest first. Raises BadRequest for a time or an agent that cannot be."""
    agent = parse_agent_id(asked.agent) if asked.agent else None
    if asked.agent and agent is None:
        raise BadRequest(f"{asked.agent!r} is no agent id", fix="`pal agents` lists them")
    text = " ".join(f'"{word}"' if " " in word else word for word in asked.text)
    since = parse_since(asked.since, SystemClock().now()) if asked.since else 0
    query = searches.parse_query(text, agent, since, asked.limit)
    if not query.terms:
        raise BadRequest("there is no word to look for", fix="pal sessions search WORDS")
    found = searches.search_transcripts(home, query)
    keys = _keys(home)
    if found.note:
        print(f"note: {strip_controls(found.note)}; the files were read instead", file=sys.stderr)
    if asked.json:
        rows = [{**msgspec.structs.asdict(hit), "key": keys.get(hit.path.partition(".jsonl")[0])} for hit in found.hits]
        print(to_json(rows))
        return
    if not found.hits:
        print("nothing found")
    for hit in found.hits:
        where = keys.get(hit.path.partition(".jsonl")[0]) or hit.path
        print(strip_controls(f"{searches.format_hit_time(hit)}  {where}  {hit.entry}  {hit.who}\n    {hit.text}"))


def _keys(home: str) -> dict[str, str]:
    try:
        with open_reader(home) as reader:
            return searches.map_transcript_keys(reader.sessions())
    except NotFound:
        return {}


def list_sessions(home: str, asked: argparse.Namespace) -> None:
    """All sessions, newest first."""
    try:
        with open_reader(home) as reader:
            found_rows = reader.sessions(asked.agent)
    except NotFound:  # nothing ran here yet: that is an empty list, not a fault
        found_rows = []
    entries = [_entry(home, row) for row in found_rows]
    if asked.json:
        print(to_json(entries))
        return
    if not entries:
        print("no sessions yet")
    for entry in entries:
        model = "/".join(str(entry[k]) for k in ("modelProvider", "model") if entry.get(k)) or "-"
        tokens = entry.get("totalTokens") or 0
        at = to_iso(entry["updatedAt"] or 0)[:16]
        title = next((entry[k] for k in ("label", "error", "displayName", "derivedTitle") if entry.get(k)), "")
        shown = f"{at}  {entry['key']}  {model}  {tokens} tokens  {title}"
        print(strip_controls(shown).rstrip())


def _entry(home: str, row: SessionRow) -> dict[str, Any]:
    key = read_session_key(row.key)
    try:
        record = SessionRecord.decode(row.data)
    except StateBroken as exc:  # one broken row must not hide the others
        return {
            "key": row.key,
            "kind": rows.name_session_kind(key),
            "updatedAt": row.updated,
            "sessionId": row.session_id,
            "error": exc.message,
        }
    file = os.path.join(home, record.path(key.agent))
    shown = rows.make_session_row(record, key, path=file)
    title = "" if record.label else read_title(file)
    shown |= {"derivedTitle": title} if title else {}
    return {**shown, "kind": rows.name_session_kind(key), "updatedAt": row.updated}


def show_session(home: str, asked: argparse.Namespace) -> None:
    """What the model would see of it."""
    place = find_session(home, asked.key)
    transcript = read_transcript(place.file)
    messages = transcript.messages()
    shown = messages[-asked.limit :] if asked.limit > 0 else messages
    if asked.json:
        print(to_json(shown))
    else:
        print(
            strip_controls(
                f"{place.key}: {format_count(len(messages), 'message')}"
                + (f", the last {len(shown)}:" if shown else "")
            )
        )
        for message in shown:
            print(_said(message))
    warn_unreadable(transcript)


def _said(message: Message) -> str:
    at = to_iso(message.timestamp)[:16] if 0 < message.timestamp < 2**47 else "-"
    if isinstance(message, ToolResult):
        who = f"{message.toolName}{' (error)' if message.isError else ''}"
    else:
        who = "assistant" if isinstance(message, AssistantMessage) else "user"
    lines = [f"\n[{at}] {who}"]
    if message.text:
        lines.append(message.text)
    if isinstance(message, AssistantMessage):
        lines += [f"-> {c.name} {to_json(c.arguments)}" for c in message.calls]
        lines += [f"! {message.errorMessage}"] if message.errorMessage else []
    return strip_controls("\n".join(lines))


def show_session_path(home: str, asked: argparse.Namespace) -> None:
    """Where the file is."""
    print(find_session(home, asked.key).file)


def show_session_tree(home: str, asked: argparse.Namespace) -> None:
    """One line an entry: `*` is on the current path, `>` is where the conversation stands."""
    place = find_session(home, asked.key)
    transcript = read_transcript(place.file)
    nodes = trees.list_nodes(transcript)
    if asked.json:
        print(to_json([_node(node) for node in nodes]))
    elif not nodes:
        print(f"{place.key}: nothing was said yet")
    for node in nodes if not asked.json else ():
        sign = ">" if node.here else "*" if node.active else " "
        at = node.entry.timestamp[:16].replace("T", " ") if to_millis(node.entry.timestamp) else ""
        label = f"  [{node.label}]" if node.label else ""
        words = f"{trees.name_speaker(node.entry)}: {trees.summarize_entry(node.entry)}".removesuffix(": ")
        print(strip_controls(f"{sign} {'  ' * node.depth}{node.entry.id}  {at:<16}  {words}{label}"))
    warn_unreadable(transcript)


def _node(node: trees.TreeNode) -> dict[str, Any]:
    entry = node.entry
    return {
        "id": entry.id,
        "timestamp": entry.timestamp,
        "who": trees.name_speaker(entry),
        "text": trees.summarize_entry(entry, 200),
        "depth": node.depth,
        "active": node.active,
        "leaf": node.here,
        "label": node.label,
    }


def export_session(home: str, asked: argparse.Namespace) -> None:
    """The session as a file."""
    place = find_session(home, asked.key)
    suffix = os.path.splitext(asked.output or "")[1].lower()
    kind = asked.format or exports.SUFFIXES.get(suffix, "jsonl")
    data = _raw(place)
    if kind != "jsonl":
        transcript = read_transcript(place.file, place.path)
        data = exports.FORMATS[kind](transcript, str(place.key)).encode()
        warn_unreadable(transcript)
    if asked.output in (None, "-"):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    try:
        fd = os.open(asked.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(fd, "wb") as handle:
            handle.write(data)
    except OSError as exc:
        raise StateUnwritable(
            f"{asked.output} cannot be written: {exc.strerror}", fix="name another place with --output"
        ) from exc
    print(f"wrote {asked.output} ({len(data)} bytes)")


def _raw(place: SessionOnDisk) -> bytes:
    try:
        with open(place.file, "rb") as handle:
            return handle.read()
    except FileNotFoundError:
        raise NotFound(
            f"{place.key} has no transcript yet: {place.file}",
            fix="nothing was said in it; `pal sessions` lists the others",
        ) from None
    except OSError as exc:
        raise StateUnwritable(f"{place.file}: {exc.strerror}") from exc
