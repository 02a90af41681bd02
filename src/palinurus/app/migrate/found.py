"""What was found in the home of another program, and what becomes of each thing; and ways to
read such a home without writing to it.

A reader (`openclaw.py`, `nanobot.py`, …) fills a `FoundHome` without writing anywhere; `place.py` puts it into ours.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from palinurus.errors import BadRequest
from palinurus.files import read_plain_file

LARGEST = 2_000_000_000  # bytes of one file

Tables: TypeAlias = dict[str, list[dict[str, Any]]]
ImportFate: TypeAlias = Literal["kept", "changed", "lost"]

PARTS = (
    "config",
    "keys",
    "workspace",
    "memory",
    "skills",
    "sessions",
    "archives",
    "jobs",
    "people",
    "approvals",
    "rest",
)


class ImportLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing of the other program: kept as it was, changed (how), or lost (why). `done`: an earlier run did it."""

    part: str
    name: str
    fate: ImportFate
    why: str = ""
    done: bool = False


class FoundFile(msgspec.Struct, frozen=True):
    """A file that comes to `place`, a path inside our home. `read` raises OSError."""

    part: str
    place: str
    read: Callable[[], bytes]
    mode: int = 0o600


class FoundSession(msgspec.Struct, frozen=True):
    """A conversation. `record` has the fields of OpenClaw's session entry; `read` gives the transcript's lines in our
    format (b"": there is none) and raises OSError, BadRequest."""

    key: str
    record: dict[str, Any]
    read: Callable[[], bytes]
    why: str = ""  # what had to be changed to write it in our format


class FoundPerson(msgspec.Struct, frozen=True):
    """Somebody who was let in on a chat channel."""

    channel: str
    account: str
    id: str


class FoundHome(msgspec.Struct, frozen=True, kw_only=True):
    """Everything. `config` has OpenClaw's keys; `lines` are fates that are settled already."""

    program: str
    root: str
    config: dict[str, Any] = {}
    changed_keys: dict[str, str] = {}  # a key of `config` that is not as it was: how
    files: tuple[FoundFile, ...] = ()
    sessions: tuple[FoundSession, ...] = ()
    jobs: tuple[dict[str, Any], ...] = ()
    people: tuple[FoundPerson, ...] = ()
    approvals: dict[str, Any] = {}  # the content of exec-approvals.json
    lines: tuple[ImportLine, ...] = ()


def count_fates(lines: list[ImportLine]) -> Iterator[tuple[str, int, int, int, int]]:
    """(part, found, kept, changed, lost) for every part there is something of."""
    for part in PARTS:
        of = [line.fate for line in lines if line.part == part]
        if of:
            yield part, len(of), of.count("kept"), of.count("changed"), of.count("lost")


def read_later(path: str) -> Callable[[], bytes]:
    """Reads that file when it is called; raises OSError then."""
    return lambda: read_plain_file(path, LARGEST)


def list_folder(folder: str) -> list[str]:
    """The names in it, in order; none if it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def read_object(path: str) -> dict[str, Any] | None:
    """A JSON object, or None if there is no such file. Raises BadRequest if the file holds something else."""
    try:
        data = msgspec.json.decode(read_plain_file(path, LARGEST))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise BadRequest(f"{path} cannot be read: {error}") from None
    if not isinstance(data, dict):
        raise BadRequest(f"{path} is not what was expected there", fix="name the home itself, not a folder in it")
    return data


def walk_files(folder: str, place: str, part: str, lines: list[ImportLine]) -> Iterator[FoundFile]:
    """The files of a folder. What is no plain file goes to `lines` as lost; links are not followed."""
    for around, folders, names in os.walk(folder):
        linked = [name for name in folders if os.path.islink(os.path.join(around, name))]
        folders[:] = sorted(set(folders) - set(linked))
        for name in sorted((*names, *linked)):
            path = os.path.join(around, name)
            inner = os.path.relpath(path, folder)
            kind = "memory" if part == "workspace" and (inner == "MEMORY.md" or inner.startswith("memory/")) else part
            if os.path.islink(path):
                lines.append(ImportLine(kind, f"{place}/{inner}", "lost", f"a link to {os.readlink(path)}"))
            elif not os.path.isfile(path):
                lines.append(ImportLine(kind, f"{place}/{inner}", "lost", "not a regular file"))
            else:
                yield FoundFile(kind, f"{place}/{inner}", read_later(path), os.stat(path).st_mode & 0o700)


def read_variables(path: str) -> Iterator[tuple[str, str]]:
    """The variables of an .env file; none if it cannot be read."""
    try:
        text = read_later(path)().decode(errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#") and value.strip():
            yield name.strip(), value.strip().strip("'\"")


def list_rest(names: Collection[str], reasons: Mapping[str, str]) -> Iterator[ImportLine]:
    """What nobody brings over, each with the reason, so that nothing is passed over in silence."""
    for name in names:
        yield ImportLine("rest", name, "lost", reasons.get(name, "not known to this importer"))


def read_tables(file: str, wanted: Collection[str]) -> Tables:
    """Some tables of a SQLite database, by name. Read from a copy: opening the original would write beside it.
    Raises BadRequest."""
    if not os.path.isfile(file):
        return {}
    try:
        with tempfile.TemporaryDirectory() as folder:
            for end in ("", "-wal"):
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(f"{file}{end}", os.path.join(folder, f"copy{end}"))
            with contextlib.closing(sqlite3.connect(os.path.join(folder, "copy"))) as base:
                base.row_factory = sqlite3.Row
                there = {name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
                return {
                    name: [dict(row) for row in base.execute(f"SELECT * FROM {name}")] for name in there & {*wanted}
                }
    except (OSError, sqlite3.Error) as error:
        raise BadRequest(f"{file} cannot be read: {error}") from None


def decode_object(text: object) -> dict[str, Any]:
    """A JSON object, {} if it is none."""
    try:
        found = msgspec.json.decode(text) if isinstance(text, str | bytes) else None
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}
