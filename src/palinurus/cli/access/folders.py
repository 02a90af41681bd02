"""`pal folders`: where sessions may work besides the home workspace, and taking that back."""

from __future__ import annotations

import argparse
import os
from typing import Any

from palinurus.cli.args import JSON, Verb, load_settings, make_arg, parse_verb, to_json
from palinurus.cli.render import strip_controls
from palinurus.clock import SystemClock
from palinurus.config.load import LoadedConfig
from palinurus.errors import BadRequest, NotFound
from palinurus.sessions.entries import to_iso
from palinurus.workspace.folders import explain_barred, explain_unfit, keep_leave, list_leaves, revoke_leave


def run_folders(argv: list[str]) -> int:
    """The command. Raises PalinurusError for what a person has to know."""
    asked = parse_verb("folders", "Folders in which sessions may work.", VERBS, argv, default="list")
    asked.run(load_settings(os.environ), asked)
    return 0


def list_folders(loaded: LoadedConfig, asked: argparse.Namespace) -> None:
    """What was said, and whether it still holds."""
    rows: list[dict[str, Any]] = []
    for one in list_leaves(loaded.settings.home):
        why = explain_barred(one.path, loaded.settings, os.environ) if one.allowed else ""
        rows.append({"path": one.path, "allowed": one.allowed, "since": one.since, "problem": why})
    if asked.json:
        print(to_json(rows))
        return
    if not rows:
        print("none yet: `pal` in a git repository asks, `pal --here` and `pal folders allow DIR` allow one")
    for row in rows:
        state = row["problem"] or ("allowed" if row["allowed"] else "no")
        print(strip_controls(f"{to_iso(row['since'])[:16]}  {row['path']}  {state}"))


def allow_folder(loaded: LoadedConfig, asked: argparse.Namespace) -> None:
    """Sessions may work there from now on."""
    path = os.path.realpath(os.path.expanduser(asked.folder))
    if why := explain_unfit(path, loaded.settings, os.environ):
        raise BadRequest(why)
    keep_leave(loaded.settings.home, path, SystemClock().now())
    print(strip_controls(f"sessions may work in {path}"))


def revoke_folder(loaded: LoadedConfig, asked: argparse.Namespace) -> None:
    """No session works there any more, those that did included."""
    path = os.path.abspath(os.path.expanduser(asked.folder))
    if not any(revoke_leave(loaded.settings.home, one) for one in dict.fromkeys((path, os.path.realpath(path)))):
        raise NotFound(f"{path} was neither allowed nor refused", fix="`pal folders` lists them")
    print(strip_controls(f"no session works in {path} any more"))


_FOLDER = make_arg("folder", metavar="DIR", nargs="?", default=".", help="the folder (default: this one)")
VERBS = {
    "list": Verb(list_folders, "list folders that were allowed or refused (the default)", (JSON,)),
    "allow": Verb(allow_folder, "let sessions work in a folder", (_FOLDER,)),
    "revoke": Verb(revoke_folder, "forget the answer, and ask again next time", (_FOLDER,)),
}
