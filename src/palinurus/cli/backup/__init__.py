"""`pal backup`: the whole home in one file, taken while the gateway works; verified; restored into a new home."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import getpass
import glob
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

import palinurus
from palinurus.beneath import resolve_beneath
from palinurus.cli.args import JSON, Verb, load_settings, make_arg, parse_verb, to_json
from palinurus.cli.backup.box import LIST, BackupContents, BoxWriter, is_sealed, read_box, refuse_damage
from palinurus.cli.reach.elsewhere import refuse_elsewhere
from palinurus.clock import SystemClock
from palinurus.config.paths import RESTORED, find_home
from palinurus.core.text import format_count
from palinurus.crashpoints import pass_crashpoint
from palinurus.errors import BadRequest, NotFound, StateUnwritable
from palinurus.store.factory import open_reader
from palinurus.store.sqlite.backup import STAGE, copy_database, end_unfinished, hold_moment
from palinurus.store.sqlite.database import NAME
from palinurus.store.sqlite.lock import take_lock

FOLDER = "backups"
ASIDE = ".before-"  # after the home's name: what a restore has put aside, and its date
VARIABLE = "PALINURUS_BACKUP_PASSPHRASE"
# Top-level names that are made anew, belong to a process, or are large and can be fetched again.
_LEFT = frozenset(
    {
        FOLDER,
        STAGE,
        "logs",
        "cache",
        "models",
        "tmp",
        "gateway.lock",
        "gateway.json",
        NAME,
        f"{NAME}-wal",
        f"{NAME}-shm",
    }
)

_PASSED = (".lock", ".tmp", "-wal", "-shm")  # ends of names


def run_backup(argv: list[str]) -> int:
    """Exit code 0. Raises PalinurusError for what a person has to know."""
    asked = parse_verb("backup", "The whole home in one file.", VERBS, argv)
    try:
        asked.run(asked)
    except OSError as error:
        raise StateUnwritable(
            f"{error.filename or 'the backup'}: {error.strerror or error}", fix="check space and rights"
        ) from None
    return 0


# --- create ----------------------------------------------------------------------------------------------------


def _create(asked: argparse.Namespace) -> None:
    home = find_home(os.environ)
    settings = load_settings(dict(os.environ)).settings
    if settings.gateway.mode == "remote":
        raise refuse_elsewhere(
            settings, "backup create", "verify, list and restore, which look at files of this machine"
        )
    if settings.store.url:
        raise BadRequest("the state of this home is in PostgreSQL", fix="pg_dump the database; docs/fleet.md")
    with open_reader(home):
        pass  # raises NotFound for a home without state
    name = time.strftime("palinurus-%Y%m%d-%H%M%S.backup", time.gmtime())
    target = os.path.abspath(asked.file or os.path.join(home, FOLDER, name))
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    if os.path.exists(target):
        raise BadRequest(f"{target} is there already", fix="name another file")
    phrase = _ask_phrase(twice=True) if asked.encrypt else ""
    places = list(_list_places(home))
    outside = {agent.workspace for agent in settings.agents.values() if resolve_beneath(home, agent.workspace) is None}
    started = SystemClock().now()
    half = f"{target}.part"
    try:
        with open(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            box = BoxWriter(out, phrase)
            with hold_moment(home, [place for place in places if _only_grows(place)]) as held:
                for file in held:
                    box.add(file.place, file.path, file.size)
            for place in places:
                if not _only_grows(place):
                    _add(box, home, place)
            about = BackupContents(version=palinurus.__version__, at=started, home=home, left=tuple(sorted(outside)))
            contents = box.finish(about)
            out.flush()
            os.fsync(out.fileno())
        os.rename(half, target)
    finally:
        if os.path.exists(half):
            os.unlink(half)
    print(
        f"{target}: {format_count(len(contents.entries), 'file')}, {os.path.getsize(target):,} bytes"
        + (", encrypted" if phrase else "")
    )
    for folder in contents.left:
        print(f"not in it: the workspace {folder}, which is outside this home")


def _add(box: BoxWriter, home: str, place: str) -> None:
    path = os.path.join(home, place)
    with tempfile.TemporaryDirectory() as folder:
        if place.endswith((".db", ".sqlite")):
            copy_database(path, path := os.path.join(folder, "copy"))
        if os.path.isfile(path):
            box.add(place, path, os.path.getsize(path))


def _list_places(home: str) -> Iterator[str]:
    for around, folders, names in os.walk(home):
        if around == home:
            folders[:] = [name for name in folders if name not in _LEFT]
            names = [name for name in names if name not in _LEFT]
        folders[:] = sorted(name for name in folders if not os.path.islink(os.path.join(around, name)))
        for name in sorted(names):
            path = os.path.join(around, name)
            if os.path.isfile(path) and not os.path.islink(path) and not name.endswith(_PASSED):
                yield os.path.relpath(path, home)


def _only_grows(place: str) -> bool:
    """A transcript."""
    parts = place.split("/")
    return len(parts) == 4 and parts[0] == "agents" and parts[2] == "sessions" and ".jsonl" in parts[3]


# --- verify, restore, list -------------------------------------------------------------------------------------


def _verify(asked: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        contents = _unpack(asked.file, folder)
        with open_reader(folder) as reader:
            wrong, sessions = reader.integrity(), len(reader.sessions())
    if wrong:
        raise BadRequest(f"the database in it is damaged: {wrong[0]}", fix="restore an earlier backup")
    if asked.json:
        print(to_json(msgspec.to_builtins(contents), pretty=True))
        return
    made = f"made by {contents.version} of {contents.home}, {_date(contents.at)}"
    print(f"sound: {format_count(len(contents.entries), 'file')}, {format_count(sessions, 'session')}, {made}")


def _restore(asked: argparse.Namespace) -> None:
    home = find_home(os.environ)
    if not os.path.exists(asked.file):
        raise NotFound(f"there is no file {asked.file}", fix="`pal backup list` shows those in the home")
    if os.path.isdir(home) and os.listdir(home):
        if not asked.replace:
            raise BadRequest(
                f"{home} is not empty",
                fix="--replace puts what is there aside; `pal --home DIR backup restore FILE` restores elsewhere",
            )
        take_lock(home).release()  # raises StateLocked while a gateway runs
    half, whole = f"{home}.restoring", f"{home}{RESTORED}"
    for folder in (half, whole):
        shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(half, mode=0o700)
    contents = _unpack(asked.file, half)
    messages, replies = (0, 0) if asked.resume else end_unfinished(os.path.join(half, NAME))
    os.sync()  # a power cut finds all of it under its new name
    held = _hold(half)  # from here on `finish_restore` of others waits for us
    try:
        os.rename(half, whole)
        pass_crashpoint("restore.whole")
        if os.path.isdir(home):
            aside = f"{home}{ASIDE}{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"
            while os.path.exists(aside):  # the second one in a second
                aside += "+"
            os.rename(home, aside)
            pass_crashpoint("restore.aside")
            if os.listdir(aside):
                print(f"what was here is in {aside}")
            else:
                os.rmdir(aside)
        os.rename(whole, home)
    finally:
        os.close(held)
    print(f"{home} is as it was on {_date(contents.at)}: {format_count(len(contents.entries), 'file')}")
    if messages or replies:
        print(f"ended (else: --resume): messages that waited or ran then, {messages}; replies not sent, {replies}")
    for folder in contents.left:
        print(f"not in it: the workspace {folder}")
    print("next: pal doctor")


def finish_restore(home: str) -> None:
    """A restore was killed after it had unpacked everything: with no home in its place it is finished, else it changed
    nothing. Either is told. One that still works is waited for."""
    whole = f"{home}{RESTORED}"
    try:
        held = _hold(whole)
    except FileNotFoundError:
        return
    try:
        if not os.path.isdir(whole):
            return
        if os.path.exists(home):
            said = f"a restore was cut short before it changed anything: do it again, or delete {whole}"
        else:
            os.rename(whole, home)
            old = max(glob.glob(f"{glob.escape(home)}{ASIDE}*"), default="")
            said = f"a restore was cut short; it is finished now: {home} is what the backup held"
            said += f", what was there is in {old}" if old else ""
    finally:
        os.close(held)
    print(f"pal: {said}", file=sys.stderr)


def _hold(folder: str) -> int:
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    with contextlib.suppress(OSError):  # a network disk that locks files only
        fcntl.flock(held, fcntl.LOCK_EX)
    return held


def _unpack(file: str, folder: str) -> BackupContents:
    """All of it, each file as its digest says. Raises BadRequest."""
    if not os.path.isfile(file):
        raise NotFound(f"there is no {file}", fix="pal backup list")
    phrase = _ask_phrase() if is_sealed(file) else ""
    seen: dict[str, str] = {}
    contents: BackupContents | None = None
    with refuse_damage():
        for place, data in read_box(file, phrase):
            if place == LIST:
                contents = msgspec.json.decode(data.read(), type=BackupContents)
            else:
                seen[place] = _write(os.path.join(folder, place), data)
    if contents is None:
        raise BadRequest(
            "the backup is cut off: its list is missing",
            fix="copy it again from where it was made, or restore an earlier one",
        )
    wrong = [entry.place for entry in contents.entries if seen.pop(entry.place, "") != entry.sha256]
    if wrong or seen:
        raise BadRequest(
            f"the backup is damaged: {[*wrong, *seen][0]} is not what was put in",
            fix="copy it again from where it was made, or restore an earlier one",
        )
    for entry in contents.entries:
        os.chmod(os.path.join(folder, entry.place), entry.mode)
    return contents


def _write(path: str, data: BinaryIO) -> str:
    """Its digest."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    digest = hashlib.sha256()
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        while chunk := data.read(1 << 20):
            digest.update(chunk)
            out.write(chunk)
    return digest.hexdigest()


def _list(asked: argparse.Namespace) -> None:
    folder = os.path.join(find_home(os.environ), FOLDER)
    names = sorted(name for name in (os.listdir(folder) if os.path.isdir(folder) else ()) if name.endswith(".backup"))
    rows = [(os.path.join(folder, name), os.path.getsize(os.path.join(folder, name))) for name in names]
    if asked.json:
        print(
            to_json([{"file": path, "bytes": size, "encrypted": is_sealed(path)} for path, size in rows], pretty=True)
        )
        return
    for path, size in rows:
        print(f"{path}  {size:,} bytes" + ("  encrypted" if is_sealed(path) else ""))
    if not rows:
        print("no backups yet: pal backup create")


def _ask_phrase(*, twice: bool = False) -> str:
    given = os.environ.get(VARIABLE, "")
    if given:
        return given
    if not sys.stdin.isatty():
        raise BadRequest("a passphrase is needed", fix=f"set {VARIABLE}, or run this in a terminal")
    given = getpass.getpass("passphrase: ")
    if not given or (twice and getpass.getpass("again: ") != given):
        raise BadRequest("that was empty, or not the same twice", fix="run it again; nothing was written")
    return given


def _date(at: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at / 1000))


_FILE = make_arg("file", metavar="FILE", help="the backup")
VERBS = {
    "create": Verb(_create, "make a backup, also while the gateway works", (
        make_arg("file", nargs="?", metavar="FILE", help=f"where to (default: {FOLDER}/ in the home)"),
        make_arg("--encrypt", action="store_true", help=f"seal it with a passphrase (asked for, or {VARIABLE})"),
    )),
    "verify": Verb(_verify, "read a whole backup and check it", (_FILE, JSON)),
    "restore": Verb(_restore, "restore the home from a backup", (
        _FILE,
        make_arg("--replace", action="store_true", help="put what is in the home aside first"),
        make_arg("--resume", action="store_true", help="take up what waited then; it may happen twice"),
    )),
    "list": Verb(_list, "list the backups in the home", (JSON,)),
}  # fmt: skip
