"""`pal changes`, `pal undo`, `pal redo`: what runs changed in their workspaces, and putting it back. Through the
gateway that runs, or on the state as it is.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from palinurus.cli.args import CommandParser, load_settings, to_json
from palinurus.cli.reach.gateway import reach_program
from palinurus.cli.render import strip_controls
from palinurus.clock import SystemClock
from palinurus.services.changes import format_changes, format_outcome


def run_changes(argv: list[str]) -> int:
    """Print them. Returns 0; raises NotFound, BadRequest."""
    parser = CommandParser("changes", "What a run changed in the workspace: files, and what in them.")
    parser.add_argument(
        "run", nargs="?", default="", help="the id of its message, or the beginning (default: the last)"
    )
    parser.add_argument("--list", action="store_true", help="the runs that changed something")
    parser.add_argument("--stat", action="store_true", help="names and sizes only")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args(argv)
    if asked.list:
        told = _call("changes.list", {})["runs"]
        text = to_json(told, pretty=True) if asked.json else "\n".join(_line(run) for run in told)
        _print(text or "No run has changed a file yet, as far as is known.")
        return 0
    told = _call("changes.get", {"run": asked.run, "diffs": not asked.stat or asked.json})
    _print(to_json(told, pretty=True) if asked.json else format_changes(told, diffs=not asked.stat))
    return 0


def run_undo(argv: list[str]) -> int:
    """Returns 0; raises NotFound, BadRequest with the reason why not."""
    return _restore(argv, "undo", "Put back what a run changed in the workspace.")


def run_redo(argv: list[str]) -> int:
    """Returns 0; raises NotFound, BadRequest with the reason why not."""
    return _restore(argv, "redo", "Do again what was undone.")


def _restore(argv: list[str], verb: str, about: str) -> int:
    parser = CommandParser(verb, about)
    last = "the last one that changed something" if verb == "undo" else "the one that was undone last"
    parser.add_argument("run", nargs="?", default="", help=f"the id of its message, or the beginning (default: {last})")
    parser.add_argument("--force", action="store_true", help="also files that somebody else changed since")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args(argv)
    told = _call(f"changes.{verb}", {"run": asked.run, "force": asked.force})
    _print(to_json(told, pretty=True) if asked.json else format_outcome(told))
    return 0


def _line(run: dict[str, Any]) -> str:
    files = len(run["files"])
    return f"{run['run']}  {files:>4} file{' ' if files == 1 else 's'}  {run['sessionKey']}" + (
        "  (undone)" if run["undone"] else ""
    )


def _call(method: str, params: dict[str, Any]) -> dict[str, Any]:
    loaded = load_settings(dict(os.environ))

    async def call() -> dict[str, Any]:
        async with reach_program(loaded, dict(os.environ), SystemClock()) as program:
            told: dict[str, Any] = await program.call(method, params)
            return told

    return asyncio.run(call())


def _print(text: str) -> None:
    sys.stdout.write(strip_controls(text) + "\n")
