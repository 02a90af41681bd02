"""`pal sessions`: list, show, path, export and import. Looks at the state from outside; only `import` writes."""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import re
import sys
import uuid
from typing import Any

import msgspec

from palinurus.clock import Clock, SystemClock
from palinurus.config import paths
from palinurus.core.types.keys import SessionKey, session_key
from palinurus.core.types.messages import Assistant, Message, ToolResult
from palinurus.errors import BadRequest, DiskFull, NotFound, StateBroken, StateLocked, StateUnwritable
from palinurus.sessions.entries import DECODER, VERSION, Header, encode, iso
from palinurus.sessions.record import Record, safe
from palinurus.sessions.reset import rollover
from palinurus.sessions.transcript import Transcript, read
from palinurus.store.port import SessionRow
from palinurus.store.sqlite import open_store
from palinurus.store.sqlite.reader import open_reader

# Columns of `list`, with what is shown when nothing is known.
_LISTED = (
    "label", "displayName", "channel", "chatType", "model", "modelProvider", "contextTokens", "totalTokens",
    "thinkingLevel", "fastMode", "verboseLevel", "reasoningLevel", "sendPolicy", "lastChannel", "lastTo",
)  # fmt: skip
# Transcripts hold what strangers wrote: nothing of it may steer the terminal.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def run(argv: list[str]) -> int:
    """The command. Raises PalinurusError for what a person has to know."""
    asked = _parser().parse_args(argv if argv and argv[0] != "--json" else ["list", *argv])
    home = paths.home(os.environ)
    command: dict[str, Any] = {
        "list": _list,
        "show": _show,
        "path": _path,
        "export": _export,
        "import": _import,
    }
    command[asked.command](home, asked)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pal sessions", description="the conversations on this machine")
    commands = parser.add_subparsers(dest="command", required=True)
    listed = commands.add_parser("list", help="all sessions, newest first (the default)")
    listed.add_argument("--json", action="store_true", help="one JSON array")
    show = commands.add_parser("show", help="what was said")
    show.add_argument("key")
    show.add_argument("--limit", type=int, default=20, metavar="N", help="the last N messages (20; 0 = all)")
    show.add_argument("--json", action="store_true", help="one JSON array")
    for name, text in (("path", "where its transcript file is"), ("export", "print its transcript file")):
        commands.add_parser(name, help=text).add_argument("key")
    brought = commands.add_parser("import", help="take over a transcript file (JSONL)")
    brought.add_argument("file")
    brought.add_argument("--session", required=True, metavar="KEY", help="the session it becomes")
    return parser


def _key(text: str) -> SessionKey:
    key = session_key(text)
    if key is None:
        raise BadRequest(f"{text!r} is not a session key", fix="write it as agent:<agent>:<name>, or just <name>")
    return key


def _found(home: str, text: str) -> tuple[SessionKey, Record, str]:
    """The session, its record, and the absolute path of its transcript. Raises NotFound."""
    key = _key(text)
    with open_reader(home) as reader:
        row = reader.session(str(key))
    if row is None:
        raise NotFound(f"no session {key}", fix="`pal sessions` lists them")
    record = Record.decode(row.data)
    return key, record, os.path.join(home, record.path(key.agent))


def _list(home: str, asked: argparse.Namespace) -> None:
    try:
        with open_reader(home) as reader:
            rows = reader.sessions()
    except NotFound:  # nothing ran here yet: that is an empty list, not a fault
        rows = []
    entries = [_entry(home, row) for row in rows]
    if asked.json:
        print(msgspec.json.encode(entries).decode())
        return
    if not entries:
        print("no sessions yet")
    for entry in entries:
        model = "/".join(str(entry[k]) for k in ("modelProvider", "model") if entry.get(k)) or "-"
        tokens = entry.get("totalTokens") or 0
        shown = f"{iso(entry['updatedAt'])[:16]}  {entry['key']}  {model}  {tokens} tokens  {entry.get('label') or ''}"
        print(_plain(shown).rstrip())


def _entry(home: str, row: SessionRow) -> dict[str, Any]:
    key = _key(row.key)
    entry: dict[str, Any] = {
        "key": row.key,
        "kind": key.kind,
        "updatedAt": row.updated,
        "sessionId": row.session_id,
    }
    try:
        record = Record.decode(row.data)
    except StateBroken as exc:  # one broken row must not hide the others
        return {**entry, "error": exc.message}
    known = {name: value for name in _LISTED if (value := getattr(record, name)) is not None}
    return {**entry, **known, "transcriptPath": os.path.join(home, record.path(key.agent))}


def _show(home: str, asked: argparse.Namespace) -> None:
    key, _, file = _found(home, asked.key)
    transcript = read(file)
    messages = transcript.messages()
    shown = messages[-asked.limit :] if asked.limit > 0 else messages
    if asked.json:
        print(msgspec.json.encode(shown).decode())
    else:
        print(_plain(f"{key}: {len(messages)} messages" + (f", the last {len(shown)}:" if shown else "")))
        for message in shown:
            print(_said(message))
    _note(transcript)


def _said(message: Message) -> str:
    at = iso(message.timestamp)[:16] if 0 < message.timestamp < 2**47 else "-"
    if isinstance(message, ToolResult):
        who = f"{message.toolName}{' (error)' if message.isError else ''}"
    else:
        who = "assistant" if isinstance(message, Assistant) else "user"
    lines = [f"\n[{at}] {who}"]
    if message.text:
        lines.append(message.text)
    if isinstance(message, Assistant):
        lines += [f"-> {c.name} {msgspec.json.encode(c.arguments).decode()}" for c in message.calls]
        lines += [f"! {message.errorMessage}"] if message.errorMessage else []
    return _plain("\n".join(lines))


def _path(home: str, asked: argparse.Namespace) -> None:
    print(_found(home, asked.key)[2])


def _export(home: str, asked: argparse.Namespace) -> None:
    key, _, file = _found(home, asked.key)
    try:
        with open(file, "rb") as handle:
            data = handle.read()
    except FileNotFoundError:
        raise NotFound(f"{key} has no transcript yet: {file}") from None
    except OSError as exc:
        raise StateUnwritable(f"{file}: {exc.strerror}") from exc
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _import(home: str, asked: argparse.Namespace) -> None:
    key = _key(asked.session)
    if not os.path.isfile(asked.file):
        raise NotFound(f"{asked.file}: no such file")
    transcript = read(asked.file)
    if not transcript.entries:
        raise BadRequest(
            f"{asked.file} holds no transcript ({len(transcript.bad)} unreadable pieces)",
            fix="give a session's JSONL file: a header line, then one JSON object a line",
        )
    record = asyncio.run(_take_over(home, key, transcript, SystemClock()))
    print(f"imported {len(transcript.messages())} messages into {key} ({record.path(key.agent)})")
    _note(transcript)


async def _take_over(home: str, key: SessionKey, transcript: Transcript, clock: Clock) -> Record:
    """Put the file in its place, then the row; if the second fails, an unused file is all that is left."""
    try:
        store = await open_store(home, clock)
    except StateLocked as exc:
        raise StateLocked(
            f"cannot import while a gateway runs: {exc.message}", fix="stop the gateway, import, start it again"
        ) from exc
    try:
        now = clock.now()
        row = await store.session(str(key))
        ident = _ident(home, key.agent, transcript)
        record = Record.fresh(key, now, ident)
        if row is not None:
            record = rollover(Record.decode(row.data), key, now, ident, asked=True)
        provider, model = transcript.model() or (None, None)
        record = msgspec.structs.replace(record, modelProvider=provider, model=model)
        await asyncio.to_thread(_place, home, record.path(key.agent), _content(transcript, ident, now))
        await store.save_session(record.row(key))
        return record
    finally:
        await store.close()


def _ident(home: str, agent: str, transcript: Transcript) -> str:
    """The file's own session id if it can be used and is free here, else a new one."""
    own = transcript.header.id if transcript.header else ""
    try:
        taken = os.path.exists(os.path.join(home, Record(sessionId=safe(own)).path(agent)))
    except BadRequest:
        taken = True
    return str(uuid.uuid4()) if taken else own


def _content(transcript: Transcript, ident: str, now: int) -> bytes:
    """The file as it is with its last line ended; a header that is missing or has another id is replaced."""
    with open(transcript.path, "rb") as handle:
        lines = handle.read().split(b"\n")
    header = transcript.header or Header(version=VERSION, timestamp=iso(now), cwd=os.getcwd())
    own = next((i for i, line in enumerate(lines) if _is_header(line)), None)
    while not lines[-1].strip():
        lines.pop()
    if own is None or header.id != ident:
        rest = lines if own is None else lines[:own] + lines[own + 1 :]
        lines = [encode(msgspec.structs.replace(header, id=ident)), *rest]
    return b"\n".join([*lines, b""])


def _is_header(line: bytes) -> bool:
    try:
        return isinstance(DECODER.decode(line.removeprefix(b"\xef\xbb\xbf")), Header)
    except (ValueError, RecursionError):
        return False


def _place(home: str, path: str, data: bytes) -> None:
    """Write `path` whole or not at all, 0600, on disk when this returns. Raises DiskFull, StateUnwritable."""
    file = os.path.join(home, path)
    part = f"{file}.import-{os.getpid()}"
    try:
        directory = home
        for name in path.split("/")[:-1]:
            directory = os.path.join(directory, name)
            if not os.path.isdir(directory):
                os.mkdir(directory, 0o700)
        fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(fd, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        os.rename(part, file)
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as exc:
        if os.path.exists(part):
            os.unlink(part)
        kind = DiskFull if exc.errno in (errno.ENOSPC, errno.EDQUOT) else StateUnwritable
        raise kind(f"{file} cannot be written: {exc.strerror}", fix="nothing was imported") from exc


def _note(transcript: Transcript) -> None:
    if transcript.bad:
        first = transcript.bad[0]
        count = len(transcript.bad)
        print(
            f"note: {count} piece{'s' if count > 1 else ''} of the file could not be read"
            f" (the first at byte {first.offset}: {_plain(first.reason)})",
            file=sys.stderr,
        )


def _plain(text: str) -> str:
    return _CONTROL.sub("", text)
