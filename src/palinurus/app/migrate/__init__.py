"""Homes of other agent programs: which there are on this machine, what is in them, and bringing one over."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from palinurus.app.migrate.found import PARTS, FoundHome, ImportLine, count_fates
from palinurus.app.migrate.hermes import read_hermes
from palinurus.app.migrate.nanobot import read_nanobot
from palinurus.app.migrate.openclaw import read_openclaw
from palinurus.app.migrate.place import KIND, HomeImporter
from palinurus.clock import Clock
from palinurus.config.paths import expand_path
from palinurus.errors import BadRequest, NotFound, PalinurusError
from palinurus.store.port import Store

Reader: TypeAlias = Callable[[str, Mapping[str, str]], FoundHome]

# program -> (where its home is, the variable that says otherwise, who reads it)
PROGRAMS: dict[str, tuple[str, str, Reader]] = {
    "hermes": ("~/.hermes", "HERMES_HOME", read_hermes),
    "nanobot": ("~/.nanobot", "", read_nanobot),
    "openclaw": ("~/.openclaw", "OPENCLAW_STATE_DIR", read_openclaw),
}
REPORT = "import-report"  # kind of the record with what the last import from a program said


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


def count_found(found: FoundHome) -> dict[str, int]:
    """How many things of each part are there that could come over."""
    counts = {"sessions": len(found.sessions), "jobs": len(found.jobs), "people": len(found.people)}
    for file in found.files:
        counts[file.part] = counts.get(file.part, 0) + 1
    return {part: counts[part] for part in PARTS if counts.get(part)}


class ForeignHomes:
    """For a running gateway: look, and bring one over. Killed in the middle, it is offered again, and goes on."""

    def __init__(self, home: str, environ: Mapping[str, str], clock: Clock, store: Store) -> None:
        self._home = home
        self._environ = environ
        self._clock = clock
        self._store = store

    async def look(self) -> list[dict[str, Any]]:
        """Every home with its counts, how much of it has come over already, and the last report."""
        done = [row.key.partition("/")[0] for row in await self._store.list_records(KIND)]
        told = []
        for program, root in list_foreign_homes(self._environ):
            row: dict[str, Any] = {"program": program, "home": root, "done": done.count(program)}
            try:
                row["counts"] = count_found(await asyncio.to_thread(PROGRAMS[program][2], root, self._environ))
            except PalinurusError as error:
                row["problem"] = error.message
            report = await self._store.get_record(REPORT, program)
            if report is not None:
                row["report"] = msgspec.json.decode(report.data)
            told.append(row)
        return told

    async def bring(self, program: str) -> dict[str, Any]:
        """All of it. The config is last: who reads it anew finds everything else. Raises PalinurusError."""
        if program not in PROGRAMS:
            raise BadRequest(f"nothing is known of {program[:80]!r}", fix=f"one of {', '.join(PROGRAMS)}")
        root = find_foreign_home(program, None, self._environ)
        found = await asyncio.to_thread(PROGRAMS[program][2], root, self._environ)
        lines = await HomeImporter(self._home, self._environ, self._clock, self._store).run(found, PARTS)
        report = summarize_import(lines, self._clock.now())
        await self._store.put_record(REPORT, program, msgspec.json.encode(report))
        return report


def summarize_import(lines: list[ImportLine], now: int) -> dict[str, Any]:
    """What people are shown: counts by part, and what is not as it was, with the reason."""
    parts = [
        {"part": part, "found": many, "kept": kept, "changed": changed, "lost": lost}
        for part, many, kept, changed, lost in count_fates(lines)
    ]
    return {
        "at": now,
        "parts": parts,
        "new": sum(1 for line in lines if line.fate != "lost" and not line.done),
        "other": [msgspec.to_builtins(line) for line in lines if line.fate != "kept"],
    }
