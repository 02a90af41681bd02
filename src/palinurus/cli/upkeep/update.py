"""`pal update`: another version beside the present one, tried on a copy, put in force in one step, taken back if it
does not come up.

The order, and what a kill leaves: a copy of the database; the version unpacked beside (half of it has no name); tried
on the copy, up and back (the home untouched so far); the pointer moved; the gateway stopped, the schema fitted, the
gateway started and asked; done. `update.json` says how far it came; the next `pal update` ends what was begun.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Literal

import msgspec

from palinurus.cli.args import CommandParser, ask_person, load_settings, to_json
from palinurus.cli.gateway.daemon import (
    ServiceSite,
    call_manager,
    start_service,
    stop_service,
)
from palinurus.cli.gateway.running import find_running_gateway
from palinurus.cli.reach.gateway import call_gateway
from palinurus.cli.upkeep import versions
from palinurus.cli.upkeep.probe import VersionFault, copy_state, fit_schema, prove_way_back, run_version, try_version
from palinurus.cli.upkeep.sources import UpdateSource, ask_git, find_present, find_source
from palinurus.cli.upkeep.versions import Installation, KeptVersion
from palinurus.clock import SystemClock
from palinurus.config.paths import find_home
from palinurus.crashpoints import pass_crashpoint
from palinurus.errors import BadRequest, NotFound, PalinurusError, StateLocked
from palinurus.files import read_plain_file, write_whole_file
from palinurus.providers.local.fetch import install_wheels
from palinurus.store.sqlite.database import NAME
from palinurus.store.sqlite.lock import LOCK_NAME, take_lock

JOURNAL = "update.json"
COPIES = "backups"
_EPILOG = """examples:
  pal update --check                     is there something newer where this came from?
  pal update                             take it: tried on a copy first, taken back if it does not come up
  pal update --to palinurus-0.2.0-py3-none-any.whl
  pal update --to 0.1.0                  back to a version that is still here (pal update --list)
  pal update --to v0.2.0                 a tag or branch, where this runs from a git checkout
"""


class UpdateJournal(msgspec.Struct, frozen=True):
    """How far an update came."""

    step: Literal["begun", "tried", "switched", "done", "undone", "failed"]
    before: KeptVersion
    after: KeptVersion
    at: int
    ran: bool = False  # a gateway ran when it began
    copy: str = ""  # of the database, from before
    commit: str = ""  # where a checkout's tree is to go when all is well
    note: str = ""


def run_update(argv: list[str]) -> int:
    """0 when what was asked for is in force, 1 when it was taken back. Raises PalinurusError."""
    parser = CommandParser(
        "update",
        "Put another version of Palinurus in force, and take it back if it does not come up.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--to", metavar="WHAT", default="", help="a wheel, a folder of wheels, a version, a git ref")
    parser.add_argument("--check", action="store_true", help="only say what there is")
    parser.add_argument("--list", action="store_true", help="the versions that are here")
    parser.add_argument("--schema", action="store_true", help="only fit the database to this version, up or down")
    parser.add_argument("--one-way", action="store_true", help="also if its schema cannot be taken back")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="print JSON (--check, --list)")
    asked = parser.parse_args(argv)
    home = find_home(os.environ)
    if asked.schema:
        return _fit(home)
    here = versions.find_installation()
    if asked.list:
        return _list(here, asked.json)
    with _alone(here):
        ended = end_interrupted(here, home)
        if ended and not asked.to and not asked.check:
            return 0
        source = find_source(here, asked.to)
        if asked.check:
            return _check(here, source, asked.json)
        if source is None:
            print(f"{_name(here)} is the newest there is")
            return 0
        if not asked.yes and not ask_person(f"update {_name(here)} to {source.shown}? [y/N] "):
            raise BadRequest("nothing was changed", fix="--yes does not ask")
        return update_to(here, home, source, one_way=asked.one_way)


def _fit(home: str) -> int:
    copy = copy_state(home, _name_copy(home, "schema"))
    before, now, gone = fit_schema(home)
    print(f"schema {before} -> {now}" + (f"; the database as it was is {copy}" if gone and copy else ""))
    for step in gone:
        print(f"  {step}")
    if copy and not gone:
        os.unlink(copy)
    return 0


def _list(here: Installation, as_json: bool) -> int:
    force = versions.read_pointer(here)
    rows = [{"name": r.name, "version": r.version, "inForce": r.path == force} for r in versions.list_versions(here)]
    if as_json:
        print(to_json(rows, pretty=True))
        return 0
    for row in rows:
        print(f"{'*' if row['inForce'] else ' '} {row['version']:<12} {row['name']}")
    print("* is in force; `pal update --to NAME` puts another there")
    return 0


def _check(here: Installation, source: UpdateSource | None, as_json: bool) -> int:
    if as_json:
        print(to_json({"version": find_present(here).version, "available": source.shown if source else None}))
    elif source is None:
        print(f"{_name(here)} is the newest there is")
    else:
        print(f"{_name(here)} -> {source.shown}: `pal update`")
    return 0


@contextlib.contextmanager
def _alone(here: Installation) -> Iterator[None]:
    """One update of an installation at a time; the lock ends with the process."""
    if not os.access(here.site, os.W_OK):
        raise PalinurusError(f"{here.site} cannot be written", fix="run it as its owner")
    os.makedirs(here.folder, mode=0o755, exist_ok=True)
    handle = os.open(here.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateLocked("another `pal update` is at work on this installation", fix="wait for it") from None
        yield
    finally:
        os.close(handle)


def _name(here: Installation) -> str:
    return f"Palinurus {find_present(here).version}"


# --- doing it --------------------------------------------------------------------------------------------------


def update_to(here: Installation, home: str, source: UpdateSource, *, one_way: bool = False) -> int:
    """All steps. 0: it is in force; 1: it was not sound, and what was before is in force."""
    present, clock = find_present(here), SystemClock()
    if source.commit and ask_git(here, "status", "--porcelain", "--untracked-files=no"):
        raise BadRequest(f"{here.checkout} has changes that are not committed", fix="commit or stash them first")
    versions.prune_versions(here)
    copy = "" if load_settings(dict(os.environ)).settings.store.url else copy_state(home, _name_copy(home, "update"))
    if not copy:
        print("no database here (a new home, or PostgreSQL, where `pg_dump` makes the copy): none is kept")
    after = _unpack(here, source)
    if after.path == present.path:
        print(f"{after.version} ({after.name}) is in force already")
        return 0
    if source.commit:  # "installed" is another one afterwards
        present = msgspec.structs.replace(present, name=ask_git(here, "rev-parse", "HEAD")[:12])
    note = UpdateJournal("begun", present, after, clock.now(), copy=copy, commit=source.commit)
    _write(home, note)
    try:
        print(f"trying {after.version} on a copy …", flush=True)
        try_version(after.path, copy, clock)
        if not one_way:
            prove_way_back(present.path, after.path, copy)
    except PalinurusError as fault:
        _write(home, msgspec.structs.replace(note, step="failed", note=fault.message))
        raise VersionFault(
            f"{after.version} is not put in force: {fault.message}",
            fix="nothing was changed" + ("" if one_way or "back" not in fault.message else "; or --one-way"),
        ) from None
    note = msgspec.structs.replace(note, step="tried", ran=find_running_gateway(home) is not None)
    _write(home, note)
    pass_crashpoint("update.tried")
    return _switch(here, home, note)


def _unpack(here: Installation, source: UpdateSource) -> KeptVersion:
    if source.kept is not None:
        return source.kept
    if source.wheel:
        made = versions.unpack_wheel(here, source.wheel)
    else:
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "commit.tar")
            ask_git(here, "archive", "-o", file, source.commit, "--", *versions.PACKED)
            page = os.path.join(here.base, "palinurus", "gateway", "static")
            made = versions.unpack_archive(here, source.commit[:12], file, page)
    if unmet := versions.list_unmet(made.path):
        if here.checkout:
            raise BadRequest(f"{made.version} needs {', '.join(unmet)}", fix="`git pull` and `make run` install that")
        print(f"installing {', '.join(unmet)} beside it", flush=True)
        with open(os.path.join(made.path, "palinurus", "constraints.txt"), encoding="utf-8") as tested:
            install_wheels(unmet, tested.read(), lambda line: print(f"  {line}", flush=True), into=made.path)
    return made


def _switch(here: Installation, home: str, note: UpdateJournal) -> int:
    versions.point_to(here, note.after.path)
    pass_crashpoint("update.pointed")
    note = msgspec.structs.replace(note, step="switched")
    _write(home, note)
    pass_crashpoint("update.switched")
    try:
        _bring_up(home, note.after, note.ran)
    except PalinurusError as fault:
        return _take_back(here, home, msgspec.structs.replace(note, note=fault.message))
    return _confirm(here, home, note)


def _bring_up(home: str, version: KeptVersion, ran: bool) -> None:
    """The database fitted to it, and if there was a gateway one of this version that answers. Raises PalinurusError."""
    site = ServiceSite(dict(os.environ), sys.platform, call_manager, SystemClock())
    if find_running_gateway(home) is not None:
        stop_service(site)
        pass_crashpoint("update.stopped")
    if os.path.isfile(os.path.join(home, NAME)):
        run_version(version.path, home, "update", "--schema")
    pass_crashpoint("update.fitted")
    if not ran:
        return
    start_service(site)
    settings = load_settings(dict(os.environ)).settings
    health = call_gateway(settings, "health", {})
    if not health.get("ok"):
        raise VersionFault(f"its gateway is not well: {to_json(health)[:300]}")
    found = next((row.get("version") for row in call_gateway(settings, "system-presence", {})), None)
    if found != version.version:
        raise VersionFault(f"the gateway that came up is {found}")


def _confirm(here: Installation, home: str, note: UpdateJournal) -> int:
    if note.commit:
        _move_tree(here, note.commit)
    _write(home, msgspec.structs.replace(note, step="done"))
    print(f"Palinurus {note.after.version} is in force; `pal update --to {note.before.name}` goes back")
    return 0


def _move_tree(here: Installation, commit: str) -> None:
    """The version folder is in force while git changes the files; then the checkout is again."""
    ahead = ask_git(here, "merge-base", "HEAD", commit) == ask_git(here, "rev-parse", "HEAD")
    try:
        ask_git(
            here, *(("merge", "--ff-only", "--quiet", commit) if ahead else ("checkout", "--quiet", "--detach", commit))
        )
    except NotFound as exc:
        print(f"the checkout stays where it is, the new version runs beside it: {exc.message}")
        return
    pass_crashpoint("update.moved")
    versions.point_to(here, here.ground)


def _take_back(here: Installation, home: str, note: UpdateJournal) -> int:
    """What was before, with every message that came in meanwhile. Raises PalinurusError if there is no way back."""
    print(f"{note.after.version} does not come up: {note.note}\ntaking it back …", file=sys.stderr, flush=True)
    _free_state(home)
    try:
        if os.path.isfile(os.path.join(home, NAME)):
            run_version(note.before.path, home, "update", "--schema")
    except VersionFault as fault:
        _write(home, msgspec.structs.replace(note, step="failed"))
        raise PalinurusError(
            f"{note.before.version} cannot use the database any more: {fault.message}",
            fix=f"`pal gateway` says what is wrong; the database from before is {note.copy}",
        ) from None
    pass_crashpoint("update.lowered")
    versions.point_to(here, note.before.path)
    _bring_up(home, note.before, note.ran)
    _write(home, msgspec.structs.replace(note, step="undone"))
    print(f"Palinurus {note.before.version} is in force again; nothing that came in was lost", file=sys.stderr)
    return 1


def _free_state(home: str) -> None:
    """End the gateway that is not well: in order if it says where it is, else by its lock (which loses nothing)."""
    if find_running_gateway(home) is not None:
        stop_service(ServiceSite(dict(os.environ), sys.platform, call_manager, SystemClock()))
    try:
        take_lock(home).release()
    except StateLocked:
        holder = read_plain_file(os.path.join(home, LOCK_NAME), 32).strip()
        if holder.isdigit():
            os.kill(int(holder), signal.SIGKILL)


# --- what was begun --------------------------------------------------------------------------------------------


def end_interrupted(here: Installation, home: str) -> bool:
    """Say what became of an update that was cut off, and end it. Was there one that is in force now?"""
    note = _read(home)
    if note is None or note.step not in ("begun", "tried", "switched"):
        return False
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(note.at / 1000))
    what = f"the update of {when} from {note.before.version} to {note.after.version}"
    moved = bool(note.commit) and ask_git(here, "rev-parse", "HEAD") == note.commit
    if versions.read_pointer(here) == note.before.path and not moved:
        done = "while it was taken back" if note.step == "switched" else "before anything of it was put in force"
        print(f"{what} was cut off {done}", flush=True)
        if note.step == "switched" or (note.ran and find_running_gateway(home) is None):
            _bring_up(home, note.before, note.ran)
        _write(home, msgspec.structs.replace(note, step="failed", note="cut off"))
        return False
    print(f"{what} was cut off after it was put in force; it is checked now", flush=True)
    if moved:
        versions.point_to(here, here.ground)
        return _confirm(here, home, msgspec.structs.replace(note, commit="")) == 0
    return _switch(here, home, note) == 0


def _read(home: str) -> UpdateJournal | None:
    try:
        with open(os.path.join(home, JOURNAL), "rb") as file:
            return msgspec.json.decode(file.read(65536), type=UpdateJournal)
    except (OSError, msgspec.MsgspecError):
        return None


def _write(home: str, note: UpdateJournal) -> None:
    os.makedirs(home, mode=0o700, exist_ok=True)
    write_whole_file(os.path.join(home, JOURNAL), msgspec.json.encode(note))


def _name_copy(home: str, why: str) -> str:
    folder = os.path.join(home, COPIES)
    old = sorted(n for n in (os.listdir(folder) if os.path.isdir(folder) else ()) if n.startswith(f"{why}-"))
    for name in old[: -versions.KEPT + 1]:
        os.unlink(os.path.join(folder, name))
    return os.path.join(folder, f"{why}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.getpid()}.db")
