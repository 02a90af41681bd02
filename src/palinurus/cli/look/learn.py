"""`pal learn`: what the agent would like to remember, and the decision about it. Through the gateway that runs, or on
the state as it is.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import subprocess
import sys
import tempfile
from typing import Any

from palinurus.cli.args import JSON, Verb, load_settings, make_arg, parse_verb, resolve_session_key, to_json
from palinurus.cli.reach.gateway import reach_program
from palinurus.cli.render import strip_controls
from palinurus.clock import SystemClock
from palinurus.errors import BadRequest, NotFound
from palinurus.services.learning import format_proposal

_DONE = {"accepted": "written", "refused": "refused: nothing was changed", "undone": "put back as it was"}


def run_learn(argv: list[str]) -> int:
    """Exit code 0. Raises NotFound, BadRequest."""
    about = "What the agent would like to remember. Nothing is written before you accept it, and undo puts it back."
    asked = parse_verb("learn", about, VERBS, argv, default="list")
    asked.run(asked)
    return 0


def _call(method: str, params: dict[str, Any]) -> dict[str, Any]:
    loaded = load_settings(dict(os.environ))

    async def call() -> dict[str, Any]:
        async with reach_program(loaded, dict(os.environ), SystemClock()) as program:
            told: dict[str, Any] = await program.call(method, params, final=True)
            return told

    return asyncio.run(call())


def _now(asked: argparse.Namespace) -> None:
    loaded = load_settings(dict(os.environ))
    key = resolve_session_key(loaded.settings, asked.session, asked.agent)
    found = _call("learn.look", {"key": str(key)})["proposals"]
    _show(found, asked.json, "nothing new to learn there (no model is asked about what it has seen)")


def _list(asked: argparse.Namespace) -> None:
    found = _call("learn.list", {"every": asked.all})["proposals"]
    _show(found, asked.json, "no proposals wait for you; `pal learn now` looks at the main session")


def _show(found: list[dict[str, Any]], as_json: bool, empty: str) -> None:
    text = to_json(found, pretty=True) if as_json else "\n".join(format_proposal(one, whole=False) for one in found)
    print(strip_controls(text) if found or as_json else empty)
    if any(one["taint"] for one in found) and not as_json:
        print("(!) had read words from outside; `pal learn show ID` says which")


def _find(name: str) -> dict[str, Any]:
    rows = [one for one in _call("learn.list", {"every": True})["proposals"] if one["id"].startswith(name)]
    if len(rows) > 1:
        raise NotFound(f"{len(rows)} proposals begin with {name!r}", fix="type more of it; `pal learn list --all`")
    if not rows:
        raise NotFound(f"there is no proposal {name!r}", fix="`pal learn list --all`")
    return dict(rows[0])


def _print(asked: argparse.Namespace) -> None:
    one = _find(asked.id)
    print(to_json(one, pretty=True) if asked.json else strip_controls(format_proposal(one)))


def _decide(asked: argparse.Namespace) -> None:
    made = _call(f"learn.{asked.what}", {"id": asked.id})
    print(f"{made['path']} ({made['id']}): {_DONE.get(made['state'], made['state'])}")


def _edit(asked: argparse.Namespace) -> None:
    """In the person's own editor, or from a file."""
    one = _find(asked.id)
    if asked.file:
        text = sys.stdin.read() if asked.file == "-" else _read(asked.file)
    else:
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
        if not editor or not sys.stdin.isatty():
            raise BadRequest("there is no editor to open", fix="set EDITOR, or name a file: pal learn edit ID FILE")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, os.path.basename(one["path"]))
            with open(path, "w", encoding="utf-8") as file:
                file.write(one["content"])
            if subprocess.call([*shlex.split(editor), path]):
                raise BadRequest(
                    "the editor ended with an error; nothing was written",
                    fix="set VISUAL or EDITOR to an editor that works, and run it again",
                )
            text = _read(path)
    made = _call("learn.accept", {"id": one["id"], "text": text})
    print(f"{made['path']} ({made['id']}): written as you edited it")


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


_ID = make_arg("id", metavar="ID", help="as `pal learn list` shows it, or the beginning")
VERBS = {
    "list": Verb(_list, "list proposals that wait for you (the default)", (
        make_arg("--all", action="store_true", help="what was decided, too"), JSON,
    )),
    "now": Verb(_now, "let the agent look at a session now (one model call, none if nothing is new)", (
        make_arg("--session", default="", help="session key, or a word (default: the main session)"),
        make_arg("--agent", default="", help="which agent (default: the default one)"), JSON,
    )),
    "show": Verb(_print, "show the diff, where it comes from, and whose words had been read there", (_ID, JSON)),
    "accept": Verb(_decide, "accept a proposal: it is written", (_ID,)),
    "edit": Verb(_edit, "change a proposal in your editor (or take FILE, - for stdin), then write it", (
        _ID, make_arg("file", nargs="?", default="", metavar="FILE", help="the new content"),
    )),
    "refuse": Verb(_decide, "refuse a proposal", (_ID,)),
    "undo": Verb(_decide, "put the file back as it was before, to the byte", (_ID,)),
}  # fmt: skip
