"""`pal security audit`: settings that make the program less safe than it is by itself, and files that others can read.

The table is `config/sections/weakening.py`. Exit code 0: nothing found; 1: something.
"""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Iterator

import msgspec

from palinurus.cli.args import JSON, Verb, load_settings, parse_verb, to_json
from palinurus.cli.render import TerminalView, strip_controls
from palinurus.config import paths
from palinurus.config.sections.weakening import WEAKENING, Weakness, list_weaknesses


def run_security(argv: list[str]) -> int:
    """The one verb, `audit`. Raises BadRequest, ConfigError."""
    asked = parse_verb("security", "How safe the settings are.", VERBS, argv, default="audit")
    return int(asked.run(asked))


def _audit(asked: argparse.Namespace) -> int:
    environ = dict(os.environ)
    settings = load_settings(environ).settings
    found = [*list_weaknesses(settings), *list_readable_secrets(settings.home)]
    if asked.json:
        body = {"ok": not found, "rows": len(WEAKENING), "findings": [msgspec.to_builtins(one) for one in found]}
        print(to_json(body))
        return 1 if found else 0
    view = TerminalView(sys.stdout, environ)
    for one in found:
        word = view.style("grave", "red") if one.grave else view.style("weak ", "cyan")
        print(f"{word} {strip_controls(one.key)}: {strip_controls(one.what)}\n      fix: {strip_controls(one.fix)}")
    print(f"{len(found)} found, {len(WEAKENING)} settings looked at; what no setting says: docs/security.md")
    return 1 if found else 0


def list_readable_secrets(home: str) -> Iterator[Weakness]:
    """Files of the state directory that hold secrets and that others may read."""
    file = paths.locate_config_file(home)
    for path in (home, file, paths.locate_last_good(file), paths.locate_token_file(home), f"{home}/state.db"):
        try:
            mode = stat.S_IMODE(os.stat(path).st_mode)
        except OSError:
            continue
        if mode & 0o077:
            right = "700" if os.path.isdir(path) else "600"
            yield Weakness(path, f"can be read by others (mode {mode:o})", f"chmod {right} {path}", True)


VERBS = {"audit": Verb(_audit, "list settings that are weaker than they need to be, with the way out", (JSON,))}
