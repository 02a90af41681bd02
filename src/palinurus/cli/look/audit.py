"""`pal security audit`: what makes the program less safe than it is by itself (`services/audit.py`).

Exit code 0: nothing found; 1: something.
"""

from __future__ import annotations

import argparse
import os
import sys

import msgspec

from palinurus.cli.args import JSON, Verb, load_settings, parse_verb, to_json
from palinurus.cli.render import TerminalView, strip_controls
from palinurus.services.audit import LOOKED_AT, list_findings


def run_security(argv: list[str]) -> int:
    """The one verb, `audit`. Raises BadRequest, ConfigError."""
    asked = parse_verb("security", "How safe the settings are.", VERBS, argv, default="audit")
    return int(asked.run(asked))


def _audit(asked: argparse.Namespace) -> int:
    environ = dict(os.environ)
    found = list_findings(load_settings(environ).settings)
    if asked.json:
        body = {"ok": not found, "rows": LOOKED_AT, "findings": [msgspec.to_builtins(one) for one in found]}
        print(to_json(body))
        return 1 if found else 0
    view = TerminalView(sys.stdout, environ)
    for one in found:
        word = view.style("grave", "red") if one.grave else view.style("weak ", "cyan")
        print(f"{word} {strip_controls(one.key)}: {strip_controls(one.what)}\n      fix: {strip_controls(one.fix)}")
    print(f"{len(found)} found, {LOOKED_AT} settings looked at; what no setting says: docs/security.md")
    return 1 if found else 0


VERBS = {"audit": Verb(_audit, "list settings that are weaker than they need to be, with the way out", (JSON,))}
