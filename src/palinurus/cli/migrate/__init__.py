"""`pal import`: everything of another agent program comes over: OpenClaw, hermes, nanobot. docs/migration.md."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

import msgspec

from palinurus.app.migrate import PROGRAMS, find_foreign_home
from palinurus.app.migrate.found import PARTS, FoundHome, ImportLine, count_fates
from palinurus.app.migrate.place import HomeImporter
from palinurus.cli.args import CommandParser, to_json
from palinurus.clock import SystemClock
from palinurus.config.paths import find_home
from palinurus.errors import BadRequest
from palinurus.store.factory import open_store

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
    only = tuple(part.strip() for part in asked.only.split(",")) if asked.only else PARTS
    if unknown := sorted(set(only) - set(PARTS)):
        raise BadRequest(f"no part is called {unknown[0]!r}", fix=f"one of {', '.join(PARTS)}")
    return bring_home(asked.program, asked.path, only, dry=asked.dry_run, json=asked.json)


def bring_home(
    program: str, path: str | None, only: tuple[str, ...] = PARTS, *, dry: bool = False, json: bool = False
) -> int:
    """Bring a home over and print the report. Exit code 0. Raises what `run_import` does."""
    environ = dict(os.environ)
    root = find_foreign_home(program, path, environ)
    found = PROGRAMS[program][2](root, environ)
    lines = asyncio.run(_bring(found, only, environ, dry=dry))
    if json:
        print(to_json({"program": found.program, "home": root, "lines": msgspec.to_builtins(lines)}, pretty=True))
    else:
        _print(found, lines, dry=dry)
    return 0


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
