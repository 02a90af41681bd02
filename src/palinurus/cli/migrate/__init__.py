"""`pal import`: everything of another agent program comes over: OpenClaw, hermes, nanobot. docs/migration.md."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from palinurus.cli.args import CommandParser, to_json
from palinurus.cli.migrate.found import PARTS, FoundHome, ImportLine, count_fates
from palinurus.cli.migrate.hermes import read_hermes
from palinurus.cli.migrate.nanobot import read_nanobot
from palinurus.cli.migrate.openclaw import read_openclaw
from palinurus.cli.migrate.place import HomeImporter
from palinurus.clock import SystemClock
from palinurus.config.paths import expand_path, find_home
from palinurus.errors import BadRequest, NotFound
from palinurus.store.factory import open_store

Reader: TypeAlias = Callable[[str, Mapping[str, str]], FoundHome]

# program -> (where its home is, the variable that says otherwise, who reads it)
PROGRAMS: dict[str, tuple[str, str, Reader]] = {
    "hermes": ("~/.hermes", "HERMES_HOME", read_hermes),
    "nanobot": ("~/.nanobot", "", read_nanobot),
    "openclaw": ("~/.openclaw", "OPENCLAW_STATE_DIR", read_openclaw),
}
SHOWN = 12  # lines of a kind before "and n more"


def run_import(argv: list[str]) -> int:
    """Exit code 0. Raises BadRequest, NotFound, ConfigError, StateError (StateLocked: a gateway runs here)."""
    parser = CommandParser(
        "import", "Bring over what another agent program has: config, conversations, memory, skills, jobs."
    )
    parser.add_argument("program", choices=sorted(PROGRAMS), help="which one")
    parser.add_argument("path", nargs="?", help="its home, if it is not where it usually is")
    parser.add_argument("--dry-run", action="store_true", help="only say what would happen")
    parser.add_argument("--only", metavar="PARTS", help=f"some of {', '.join(PARTS)} (with commas)")
    parser.add_argument("--json", action="store_true", help="the whole report as JSON")
    asked = parser.parse_args(argv)
    environ = dict(os.environ)
    only = tuple(part.strip() for part in asked.only.split(",")) if asked.only else PARTS
    if unknown := sorted(set(only) - set(PARTS)):
        raise BadRequest(f"no part is called {unknown[0]!r}", fix=f"one of {', '.join(PARTS)}")
    root = find_foreign_home(asked.program, asked.path, environ)
    found = PROGRAMS[asked.program][2](root, environ)
    lines = asyncio.run(_bring(found, only, environ, dry=asked.dry_run))
    if asked.json:
        print(to_json({"program": found.program, "home": root, "lines": msgspec.to_builtins(lines)}, pretty=True))
    else:
        _print(found, lines, dry=asked.dry_run)
    return 0


def list_foreign_homes(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """(program, its home) for every one that is where it usually is."""
    there = ((name, expand_path(environ.get(row[1]) or row[0], environ, "/")) for name, row in PROGRAMS.items())
    return [(name, root) for name, root in there if os.path.isdir(root)]


def find_foreign_home(program: str, given: str | None, environ: Mapping[str, str]) -> str:
    """Where it is. Raises NotFound if nothing is there."""
    usual, variable, _ = PROGRAMS[program]
    root = expand_path(given or environ.get(variable) or usual, environ, os.getcwd())
    if not os.path.isdir(root):
        raise NotFound(f"there is no {root}", fix=f"name its home: pal import {program} PATH")
    return root


async def _bring(found: FoundHome, only: tuple[str, ...], environ: Mapping[str, str], *, dry: bool) -> list[ImportLine]:
    home, clock = find_home(environ), SystemClock()
    if dry:
        return await HomeImporter(home, environ, clock, None).run(found, only)
    os.makedirs(home, mode=0o700, exist_ok=True)
    store = await open_store(home, clock)
    try:
        await store.recover()
        return await HomeImporter(home, environ, clock, store).run(found, only)
    finally:
        await store.close()


def _print(found: FoundHome, lines: list[ImportLine], *, dry: bool) -> None:
    print(f"{found.program} in {found.root}" + (" (nothing is written: --dry-run)" if dry else ""))
    print(f"\n  {'':<11}{'found':>7}{'kept':>7}{'changed':>9}{'lost':>6}")
    for part, many, kept, changed, lost in count_fates(lines):
        print(f"  {part:<11}{many:>7}{kept:>7}{changed:>9}{lost:>6}")
    for fate in ("changed", "lost"):
        some = [line for line in lines if line.fate == fate]
        if some:
            print(f"\n{fate}")
        for line in some[:SHOWN]:
            print(f"  {line.part}: {line.name}: {line.why}")
        if len(some) > SHOWN:
            print(f"  and {len(some) - SHOWN} more: --json")
    new = sum(1 for line in lines if line.fate != "lost" and not line.done)
    if not dry:
        print(f"\n{new} came over" + ("" if new else ": everything was here already") + f". {found.root} is as it was.")
        print("next: pal doctor, then pal gateway")
