"""`pal sessions`: look at conversations, search and export them, and change their tree.

The table below is the command line. What only looks works beside a running gateway; what changes something refuses.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from palinurus.cli.sessions import edit, view
from palinurus.config import paths
from palinurus.errors import BadRequest


class SessionsCommandRow(NamedTuple):
    """`args`: flags or names, with what argparse is told about each."""

    run: Callable[[str, argparse.Namespace], None]
    help: str
    args: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = ()


_KEY: tuple[tuple[str, ...], dict[str, Any]] = (("key",), {"metavar": "KEY", "help": "session key, or its last part"})
_ENTRY: tuple[tuple[str, ...], dict[str, Any]] = (
    ("entry",),
    {"metavar": "ENTRY", "help": "its id, the beginning of it, or a label; `root` is before the first"},
)
_JSON: tuple[tuple[str, ...], dict[str, Any]] = (("--json",), {"action": "store_true", "help": "one JSON array"})
_AGENT: tuple[tuple[str, ...], dict[str, Any]] = (("--agent",), {"metavar": "ID", "help": "only this agent's"})
_LIMIT: tuple[str, ...] = ("--limit",)

COMMANDS: dict[str, SessionsCommandRow] = {
    "list": SessionsCommandRow(view.list_sessions, "all sessions, newest first (the default)", (_JSON, _AGENT)),
    "show": SessionsCommandRow(
        view.show_session,
        "what was said",
        (_KEY, _JSON, (_LIMIT, {"type": int, "default": 20, "metavar": "N", "help": "the last N (20; 0 = all)"})),
    ),
    "path": SessionsCommandRow(view.show_session_path, "where its transcript file is", (_KEY,)),
    "tree": SessionsCommandRow(view.show_session_tree, "its entries with ids, branches and labels", (_KEY, _JSON)),
    "search": SessionsCommandRow(
        view.search_sessions,
        "find words in all conversations",
        (
            (("text",), {"nargs": "+", "metavar": "TEXT", "help": 'words; "in quotes" as they stand; end* for a stem'}),
            _AGENT,
            (("--since",), {"metavar": "WHEN", "help": "7d, 12h or a date such as 2026-06-01"}),
            (_LIMIT, {"type": int, "default": 20, "metavar": "N", "help": "at most N (20)"}),
            _JSON,
        ),
    ),
    "export": SessionsCommandRow(
        view.export_session,
        "write it as a file for people or programs",
        (
            _KEY,
            (("--format",), {"choices": view.FORMATS, "help": "jsonl, the file as it is, unless -o says otherwise"}),
            (("-o", "--output"), {"metavar": "FILE", "help": "instead of standard output"}),
        ),
    ),
    "import": SessionsCommandRow(
        edit.import_session,
        "take over a transcript file (JSONL)",
        (
            (("file",), {"metavar": "FILE"}),
            (("--session",), {"required": True, "metavar": "KEY", "help": "the session it becomes"}),
        ),
    ),
    "branch": SessionsCommandRow(
        edit.branch_session,
        "copy what was said up to an entry into a new session",
        (_KEY, _ENTRY, (("--as",), {"dest": "name", "metavar": "NEWKEY", "help": "key of the new session"})),
    ),
    "rewind": SessionsCommandRow(
        edit.rewind_session, "go on from an earlier entry; later ones stay in the tree", (_KEY, _ENTRY)
    ),
    "label": SessionsCommandRow(
        edit.label_entry,
        "name an entry; without TEXT its label is removed",
        (_KEY, _ENTRY, (("text",), {"nargs": "?", "metavar": "TEXT"})),
    ),
    "reset": SessionsCommandRow(edit.reset_session, "start it anew, as /new does", (_KEY,)),
    "delete": SessionsCommandRow(edit.delete_session, "forget it; its file is kept for a while as .deleted", (_KEY,)),
    "cleanup": SessionsCommandRow(
        edit.clean_sessions,
        "drop what session.maintenance says is too old or too much",
        ((("--dry-run",), {"action": "store_true", "help": "only say what would go"}), _JSON),
    ),
}


class _Parser(argparse.ArgumentParser):
    """argparse, but a wrong line raises instead of exiting with 2."""

    def error(self, message: str) -> NoReturn:
        raise BadRequest(message, fix=f"`{self.prog} --help`")


def run_sessions(argv: list[str]) -> int:
    """The command. Raises PalinurusError for what a person has to know."""
    plain = not argv or (argv[0].startswith("-") and argv[0] not in ("-h", "--help"))
    asked = _parser().parse_args(["list", *argv] if plain else argv)
    COMMANDS[asked.command].run(paths.find_home(os.environ), asked)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="pal sessions", description="The conversations on this machine.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        sub = commands.add_parser(name, help=command.help, description=command.help, allow_abbrev=False)
        for flags, about in command.args:
            sub.add_argument(*flags, **about)
    return parser
