"""`pal uninstall` and `pal reset`: every path is named before anything goes, a backup comes first, and what was cut off
is ended by the same command run again.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import os
import shutil
import sqlite3
import sys
import time

import msgspec

from palinurus.cli.args import CommandParser, ask_person, load_settings
from palinurus.cli.backup import FOLDER, run_backup
from palinurus.cli.gateway.daemon import (
    NODE,
    ServiceSite,
    call_manager,
    stop_service,
    uninstall_service,
)
from palinurus.cli.gateway.running import find_running_gateway
from palinurus.cli.upkeep import versions
from palinurus.cli.upkeep.completion import WRITERS, locate_completion
from palinurus.clock import SystemClock
from palinurus.config import paths
from palinurus.core.text import format_count
from palinurus.errors import BadRequest, PalinurusError
from palinurus.store.sqlite.database import NAME, to_state_error
from palinurus.store.sqlite.lock import take_lock

_OURS = "# what `pal completion"
_MADE = ".core"  # in an environment that `make` of a checkout made
_ASIDE = ".reset"  # behind the name of a home that is being emptied
_CONVERSATIONS = ("sessions", "journal", "inbox", "outbox", "steps")  # tables; jobs, people and figures are in others


class RemovalPlan(msgspec.Struct, frozen=True):
    """What goes (path, what it is), and what stays though somebody may look for it."""

    goes: list[tuple[str, str]]
    stays: list[tuple[str, str]]


def _make_site() -> ServiceSite:
    return ServiceSite(dict(os.environ), sys.platform, call_manager, SystemClock())


# --- uninstall -------------------------------------------------------------------------------------------------


def run_uninstall(argv: list[str]) -> int:
    """Exit code 0. Raises PalinurusError."""
    parser = CommandParser(
        "uninstall",
        "Take Palinurus off this machine: service, completion, versions, and an environment that `make` made.",
        epilog="examples:\n  pal uninstall                        the home with conversations and config stays\n"
        "  pal uninstall --purge --backup ~/last.backup   the home goes too, one file is kept",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--keep-data", action="store_true", help="the home stays (the default)")
    what.add_argument("--purge", action="store_true", help="the home goes too: config, conversations, memory")
    parser.add_argument("--backup", metavar="FILE", default="", help="put the home into one file first")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    asked = parser.parse_args(argv)
    site, home = _make_site(), paths.find_home(os.environ)
    plan = plan_uninstall(site, home, purge=asked.purge)
    _show(plan)
    if not asked.yes and not ask_person("take these away? [y/N] "):
        raise BadRequest("nothing was changed", fix="--yes does not ask")
    backup = asked.backup
    if asked.purge and not backup and not asked.yes and os.path.isfile(os.path.join(home, NAME)):
        offered = os.path.join(paths.find_user_home(os.environ), time.strftime("palinurus-%Y%m%d-%H%M%S.backup"))
        backup = offered if ask_person(f"put all of it into {offered} first? [y/N] ") else ""
    if backup:
        if os.path.abspath(backup).startswith(os.path.join(home, "")) and asked.purge:
            raise BadRequest(f"{backup} is in the home that goes", fix="name a file elsewhere")
        run_backup(["create", os.path.abspath(backup)])
    if find_running_gateway(home) is not None:
        stop_service(site)
    for one in (site, msgspec.structs.replace(site, kind=NODE)):
        if os.path.exists(one.unit) or os.path.exists(one.plist):
            uninstall_service(one)
    for path, _ in plan.goes:
        _remove(path)
    print("done" + ("" if asked.purge else f"; {home} is still there: `pal uninstall --purge`, or delete it"))
    return 0


def plan_uninstall(site: ServiceSite, home: str, *, purge: bool) -> RemovalPlan:
    """In the order in which it is done; the environment that runs this is last."""
    goes: list[tuple[str, str]] = []
    stays: list[tuple[str, str]] = []
    for one in (site, msgspec.structs.replace(site, kind=NODE)):
        row = stays if one.others else goes
        row += [(path, "service" + (" of another home" if one.others else "")) for path in (one.unit, one.plist)]
    goes += [(path, f"completion for {shell}") for shell in WRITERS if _is_ours(path := _locate(shell))]
    if purge:
        goes.append((home, "config, conversations, memory, keys"))
        stays += [(path, "a workspace outside the home") for path in _list_outside()]
    else:
        stays.append((home, "config, conversations, memory, keys"))
    with contextlib.suppress(PalinurusError):
        here = versions.find_installation()
        goes += [(here.pointer, "which version is in force"), (here.folder, "versions beside the installed one")]
    if sys.prefix != sys.base_prefix and os.path.isfile(os.path.join(sys.prefix, _MADE)):
        goes.append((sys.prefix, "the environment that `make` made"))
    else:
        stays.append((sys.prefix, "the environment, not made by us: delete it, `pipx uninstall`, `uv tool uninstall`"))
    return RemovalPlan([row for row in goes if os.path.lexists(row[0])], [r for r in stays if os.path.lexists(r[0])])


def _locate(shell: str) -> str:
    return locate_completion(shell, os.environ.get)


def _is_ours(path: str) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return _OURS in file.read(200)
    except OSError:
        return False


def _list_outside() -> list[str]:
    settings = load_settings(dict(os.environ)).settings
    home = os.path.join(settings.home, "")
    return sorted({a.workspace for a in settings.agents.values() if not a.workspace.startswith(home)})


def _show(plan: RemovalPlan) -> None:
    for title, rows in (("goes", plan.goes), ("stays", plan.stays)):
        for path, what in rows:
            print(f"  {title:<6} {path}  ({what})")
    sys.stdout.flush()


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


# --- reset -----------------------------------------------------------------------------------------------------


def run_reset(argv: list[str]) -> int:
    """Exit code 0. Raises PalinurusError."""
    parser = CommandParser(
        "reset",
        "Begin again: the settings, the conversations, or everything. A backup comes first, the gateway is stopped.",
        epilog="examples:\n  pal reset --config      the settings are the usual ones again\n"
        "  pal reset --sessions    no conversations; jobs, people, memory and settings stay\n"
        "  pal reset --all         as on the first day; only backups/ stays",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_mutually_exclusive_group(required=True)
    for name, about in (("config", "the settings"), ("sessions", "the conversations"), ("all", "the whole home")):
        what.add_argument(f"--{name}", action="store_true", help=about)
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    asked = parser.parse_args(argv)
    home = paths.find_home(os.environ)
    _end_cut_off(home)
    plan = plan_reset(home, config=asked.config, everything=asked.all)
    if not plan.goes:
        print(f"nothing of that is in {home}")
        return 0
    _show(plan)
    if not asked.yes and not ask_person("take these away? a backup is made first [y/N] "):
        raise BadRequest("nothing was changed", fix="--yes does not ask")
    if find_running_gateway(home) is not None:
        stop_service(_make_site())
    lock = take_lock(home)  # nobody writes between the backup and the end
    try:
        if os.path.isfile(os.path.join(home, NAME)):
            run_backup(["create"])
        elif os.path.isfile(file := paths.locate_config_file(home)):  # never used: there is nothing else to keep
            os.makedirs(os.path.join(home, FOLDER), mode=0o700, exist_ok=True)
            kept = os.path.join(home, FOLDER, time.strftime("palinurus-%Y%m%d-%H%M%S.json"))
            shutil.copy2(file, kept)
            print(f"the settings are kept in {kept}")
        if asked.all:
            _empty(home)
        else:
            if asked.sessions:
                print(f"gone with them: {format_count(_forget_conversations(home), 'message')} that waited or ran")
            for path, _ in plan.goes:
                if os.path.basename(path) != NAME:
                    _remove(path)
    finally:
        lock.release()
    print("done; `pal backup restore` brings it back, `pal setup` or `pal gateway start` goes on")
    return 0


def plan_reset(home: str, *, config: bool, everything: bool) -> RemovalPlan:
    """What a reset takes away."""
    file = paths.locate_config_file(home)
    if config:
        copies = (paths.locate_backup(file), paths.locate_last_good(file), paths.locate_proven_config(file))
        rows = [(path, "settings") for path in (file, *copies)]
    elif everything:
        names = sorted(os.listdir(home)) if os.path.isdir(home) else []
        kept = {FOLDER, "gateway.lock"}
        rows = [(os.path.join(home, name), "all that is in the home") for name in names if name not in kept]
    else:
        if load_settings(dict(os.environ)).settings.store.url:
            raise BadRequest("the conversations of this home are in PostgreSQL", fix="docs/fleet.md")
        folders = glob.glob(os.path.join(glob.escape(home), "agents", "*", "sessions"))
        rows = [(path, "transcripts") for path in sorted(folders)]
        rows.append((os.path.join(home, NAME), "what it holds of conversations; jobs and people stay"))
    stays = [(os.path.join(home, FOLDER), "backups")]
    return RemovalPlan([r for r in rows if os.path.lexists(r[0])], [r for r in stays if os.path.lexists(r[0])])


def _forget_conversations(home: str) -> int:
    """In one transaction. How many messages were not done. Raises StateError."""
    file = os.path.join(home, NAME)
    try:
        with contextlib.closing(sqlite3.connect(file)) as base, base:
            (open_,) = base.execute("SELECT count(*) FROM inbox WHERE state IN ('queued', 'running')").fetchone()
            for table in _CONVERSATIONS:
                base.execute(f"DELETE FROM {table}")
        return int(open_)
    except sqlite3.Error as error:
        raise to_state_error(error, file) from None


def _empty(home: str) -> None:
    """By its name: a home that is half empty never stands where a gateway looks."""
    os.rename(home, home + _ASIDE)
    _end_cut_off(home)


def _end_cut_off(home: str) -> None:
    aside = home + _ASIDE
    if not os.path.isdir(aside):
        return
    os.makedirs(home, mode=0o700, exist_ok=True)
    for name in os.listdir(old) if os.path.isdir(old := os.path.join(aside, FOLDER)) else ():
        os.makedirs(os.path.join(home, FOLDER), mode=0o700, exist_ok=True)
        os.rename(os.path.join(old, name), os.path.join(home, FOLDER, name))
    shutil.rmtree(aside)
