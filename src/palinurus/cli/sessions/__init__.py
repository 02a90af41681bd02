"""`pal sessions`: look at conversations, search and export them, and change their tree.

The table below is the command line. What only looks reads the state itself; what changes something
asks the gateway, if one runs.
"""

from __future__ import annotations

import os
from typing import Any

from palinurus.cli.args import Verb, load_settings, make_arg, parse_verb
from palinurus.cli.main import PARTS, load_part
from palinurus.cli.sessions import edit, view
from palinurus.config.paths import find_home
from palinurus.errors import ConfigError

_KEY = make_arg("key", metavar="KEY", help="session key, or its last part")
_ENTRY = make_arg("entry", metavar="ENTRY", help="its id, the beginning of it, or a label; `root` is before the first")
_JSON = make_arg("--json", action="store_true", help="one JSON array")
_AGENT = make_arg("--agent", metavar="ID", help="only this agent's")

VERBS = {
    "list": Verb(view.list_sessions, "all sessions, newest first (the default)", (_JSON, _AGENT)),
    "show": Verb(
        view.show_session,
        "what was said",
        (_KEY, _JSON, make_arg("--limit", type=int, default=20, metavar="N", help="the last N (20; 0 = all)")),
    ),
    "path": Verb(view.show_session_path, "where its transcript file is", (_KEY,)),
    "tree": Verb(view.show_session_tree, "its entries with ids, branches and labels", (_KEY, _JSON)),
    "search": Verb(
        view.search_sessions,
        "find words in all conversations",
        (
            make_arg("text", nargs="+", metavar="TEXT", help='words; "in quotes" as they stand; end* for a stem'),
            _AGENT,
            make_arg("--since", metavar="WHEN", help="7d, 12h or a date such as 2026-06-01"),
            make_arg("--limit", type=int, default=20, metavar="N", help="at most N (20)"),
            _JSON,
        ),
    ),
    "export": Verb(
        view.export_session,
        "write it as a file for people or programs",
        (
            _KEY,
            make_arg("--format", choices=view.FORMATS, help="jsonl, the file as it is, unless -o says otherwise"),
            make_arg("-o", "--output", metavar="FILE", help="instead of standard output"),
        ),
    ),
    "import": Verb(
        edit.import_session,
        "take over a transcript file (JSONL)",
        (
            make_arg("file", metavar="FILE"),
            make_arg("--session", required=True, metavar="KEY", help="the session it becomes"),
        ),
    ),
    "branch": Verb(
        edit.branch_session,
        "copy what was said up to an entry into a new session",
        (_KEY, _ENTRY, make_arg("--as", dest="name", metavar="NEWKEY", help="key of the new session")),
    ),
    "rewind": Verb(edit.rewind_session, "go on from an earlier entry; later ones stay in the tree", (_KEY, _ENTRY)),
    "label": Verb(
        edit.label_entry,
        "name an entry; without TEXT its label is removed",
        (_KEY, _ENTRY, make_arg("text", nargs="?", metavar="TEXT")),
    ),
    "reset": Verb(edit.reset_session, "start it anew, as /new does", (_KEY,)),
    "delete": Verb(edit.delete_session, "forget it; its file is kept for a while as .deleted", (_KEY,)),
    "cleanup": Verb(
        edit.clean_sessions,
        "drop what session.maintenance says is too old or too much",
        (make_arg("--dry-run", action="store_true", help="only say what would go"), _JSON),
    ),
}


def run_sessions(argv: list[str]) -> int:
    """The command. Raises PalinurusError for what a person has to know."""
    asked = parse_verb("sessions", "The conversations on this machine.", VERBS, argv, default="list")
    try:
        settings = load_settings(os.environ).settings
    except ConfigError:  # conversations can be looked at without it, and a home that is of no use says so itself
        asked.run(find_home(os.environ), asked)
        return 0
    if settings.gateway.mode == "remote":
        run: Any = load_part(PARTS["sessions-elsewhere"])
        run(settings, asked)
    else:
        asked.run(settings.home, asked)
    return 0
