"""Where a chat started on this line works, and in which session: `--here`, `-C DIR`, `--home-workspace`, `--continue`,
`--resume`. In a git repository that is the repository, once the owner has said yes; else the home workspace.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.cli.args import CommandParser, ask_person, resolve_session_key
from palinurus.cli.main import PARTS, load_part
from palinurus.cli.render import strip_controls
from palinurus.clock import SystemClock
from palinurus.config.load import LoadedConfig
from palinurus.core.types.keys import SessionKey
from palinurus.errors import BadRequest
from palinurus.workspace.folders import explain_unfit, find_leave, find_repository, keep_leave

PICK = "?"  # --resume without a name
_ASK = (
    "Work in {folder}? The agent reads and changes files there, and runs commands in its sandbox.\n"
    "No: it works in its own workspace. `pal folders` shows and changes your answers. [y/N] "
)


class StartPlace(msgspec.Struct, frozen=True):
    """The session a line means. `folder`: where it works if it begins now; "": as the session has it."""

    key: SessionKey
    folder: str = ""


def add_folder_args(parser: CommandParser) -> None:
    """The options that say where."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--here", action="store_true", help="work in this folder (its repository), not the workspace")
    where.add_argument("-C", dest="folder", default="", metavar="DIR", help="work in that folder")
    where.add_argument("--home-workspace", action="store_true", help="work in the agent's own workspace, also here")


def add_place_args(parser: CommandParser) -> None:
    """The options that say where, and which session."""
    add_folder_args(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--session", default="", help="session key, or a word (default: this folder's, else the main one)"
    )
    which.add_argument(
        "-c", "--continue", dest="newest", action="store_true", help="go on with the newest of this folder"
    )
    which.add_argument(
        "-r", "--resume", nargs="?", const=PICK, default="", metavar="ID",
        help="go on with this session: key, id, label, or words from it; alone: choose one",
    )  # fmt: skip


def find_place(
    args: argparse.Namespace, loaded: LoadedConfig, environ: Mapping[str, str], *, person: bool
) -> StartPlace:
    """What the line means. `person`: somebody is there to be asked. Raises BadRequest, NotFound, StateError kinds."""
    if args.resume:
        resume: Any = load_part(PARTS["resume"])
        return StartPlace(resume("" if args.resume == PICK else args.resume, loaded.settings.home, person=person))
    named = bool(args.here or args.folder)
    if named and loaded.settings.gateway.mode == "remote":
        raise BadRequest("the gateway runs on another machine: it cannot work here", fix="leave out --here and -C")
    folder = choose_folder(args, loaded, environ, person=person and not args.session)
    if args.newest:
        newest: Any = load_part(PARTS["newest"])
        return StartPlace(newest(loaded.settings.home, folder, args.agent))
    key = resolve_session_key(loaded.settings, args.session, args.agent)
    if args.session:
        return StartPlace(key, folder if named else "")
    return StartPlace(make_folder_key(key.agent, folder), folder) if folder else StartPlace(key)


def choose_folder(args: argparse.Namespace, loaded: LoadedConfig, environ: Mapping[str, str], *, person: bool) -> str:
    """The folder to work in; "" for the home workspace. A folder that is named has the owner's leave by that; one that
    we happen to be in is asked about once, where somebody can answer. Raises BadRequest, StateError."""
    settings = loaded.settings
    if args.home_workspace or settings.gateway.mode == "remote":
        return ""
    try:
        here = os.getcwd()
    except OSError:
        here = ""
    if args.here or args.folder:
        meant = os.path.expanduser(args.folder) or find_repository(here) or here
        folder = os.path.realpath(meant)
        if why := explain_unfit(folder, settings, environ):
            raise BadRequest(why, fix="go to a project's folder, or name one with -C")
        if (leave := find_leave(settings.home, folder)) is None or not leave.allowed:
            keep_leave(settings.home, folder, SystemClock().now())
        return folder
    folder = os.path.realpath(find_repository(here)) if here and find_repository(here) else ""
    if not folder or explain_unfit(folder, settings, environ):
        return ""
    leave = find_leave(settings.home, folder)
    if leave is None and person:
        yes = ask_person(_ASK.format(folder=strip_controls(folder)))
        leave = keep_leave(settings.home, folder, SystemClock().now(), allowed=yes)
    return folder if leave is not None and leave.allowed else ""


def make_folder_key(agent: str, folder: str) -> SessionKey:
    """The session that a folder has by default."""
    name = re.sub(r"[^a-z0-9]+", "-", os.path.basename(folder).lower()).strip("-")[:40]
    return SessionKey(agent, f"here:{name}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]}".replace(":-", ":"))
