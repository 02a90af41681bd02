"""`pal store copy FROM TO`: a whole state from a directory to a fleet's PostgreSQL, or back. docs/fleet.md."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

import msgspec

from palinurus.cli.args import JSON, Verb, make_arg, parse_verb, to_json
from palinurus.clock import SystemClock
from palinurus.core.text import format_bytes, format_count
from palinurus.errors import BadRequest, NotFound
from palinurus.store.copy import CopyReport, StateSide, copy_state, describe_state, open_directory, open_fleet

SCHEMES = ("postgresql://", "postgres://")


def run_store(argv: list[str]) -> int:
    """Exit code 0. Raises PalinurusError for what a person has to know."""
    asked = parse_verb("store", "The state of this program as a whole.", VERBS, argv)
    asked.run(asked)
    return 0


def _copy(asked: argparse.Namespace) -> None:
    os.umask(0o077)
    if asked.source == asked.target:
        raise BadRequest("FROM and TO are the same", fix="name two: a home or an address postgresql://…")
    report = asyncio.run(_run(asked))
    if asked.json:
        print(to_json(msgspec.to_builtins(report), pretty=True))
        return
    for one in report.transcripts:
        print(f"{one.digest[:16]}  {one.path}")
    print(", ".join(f"{count} {table}" for table, count in report.rows.items()))
    size = format_bytes(sum(one.size for one in report.transcripts))
    print(
        f"{format_count(len(report.transcripts), 'transcript')}, {size}; "
        + ("nothing was changed" if asked.dry_run else "both sides are equal")
    )


async def _run(asked: argparse.Namespace) -> CopyReport:
    async with _open(asked.source, os.environ, change=not asked.dry_run) as source:
        if asked.dry_run:
            return await describe_state(source)
        async with _open(asked.target, os.environ) as target:
            return await copy_state(source, target)


def _open(name: str, environ: Mapping[str, str], *, change: bool = False) -> AbstractAsyncContextManager[StateSide]:
    if name.startswith(SCHEMES):
        return open_fleet(name)
    home = os.path.abspath(os.path.expanduser(name))
    if change and not os.path.isdir(home):
        raise NotFound(f"{home} is no directory", fix="name a state directory or postgresql://user@host/database")
    return open_directory(home, SystemClock(), change=change)


_FROM = make_arg(
    "source", metavar="FROM", help="a state directory (as PALINURUS_HOME), or postgresql://user@host/database"
)
_TO = make_arg(
    "target", metavar="TO", help="the other kind, or one more of the same; empty, or of a copy that was cut off"
)
_DRY = make_arg("--dry-run", action="store_true", help="say what there is to copy; change nothing")
VERBS = {"copy": Verb(_copy, "copy a whole state, and compare both afterwards", (_FROM, _TO, _DRY, JSON))}
