"""`pal fleet`: gateways that share one PostgreSQL. docs/fleet.md."""

from __future__ import annotations

import argparse
import os

import msgspec

from palinurus import late
from palinurus.cli.args import JSON, Verb, load_settings, make_arg, parse_verb, to_json
from palinurus.clock import SystemClock
from palinurus.config.paths import STORE_VARIABLE
from palinurus.errors import BadRequest, NotFound


def run_fleet(argv: list[str]) -> int:
    """Exit code 0. Raises PalinurusError for what a person has to know."""
    asked = parse_verb("fleet", "Gateways that share one PostgreSQL.", VERBS, argv, default="status")
    asked.run(asked)
    return 0


def _find_url(given: str | None) -> str:
    """The address that is meant: the one that is given, the variable's, the config's."""
    found = given or os.environ.get(STORE_VARIABLE) or load_settings(dict(os.environ)).settings.store.url.reveal()
    if not found:
        raise BadRequest("no fleet is known here", fix="name its PostgreSQL: --store postgresql://…, or set store.url")
    return found


def _init(asked: argparse.Namespace) -> None:
    with late.load_part("fleet-reader")(_find_url(asked.url)) as reader:
        reader.install()
    print("the fleet's tables are there")
    print("each gateway joins with `pal gateway --store URL`, or store.url in its config")


def _status(asked: argparse.Namespace) -> None:
    with late.load_part("fleet-reader")(_find_url(asked.store)) as reader:
        report = reader.report()
    if asked.json:
        print(to_json(msgspec.to_builtins(report), pretty=True))
        return
    for node in report.nodes:
        lease = f"lease {node.left:.0f} s" if node.left > 0 else f"lost {-node.left:.0f} s ago"
        print(f"{node.id:<28} {lease:<14} {node.runs} running  {', '.join(node.holds)}")
    if not report.nodes:
        print("no gateway has joined")
    age = (SystemClock().now() - report.oldest) / 1000
    print(f"{report.waiting} waiting" + (f", the oldest for {age:.0f} s" if report.waiting else ""))


def _evict(asked: argparse.Namespace) -> None:
    with late.load_part("fleet-reader")(_find_url(asked.store)) as reader:
        if not reader.evict(asked.node):
            raise NotFound(f"no node {asked.node!r}", fix="pal fleet status")
    print(f"{asked.node} is out: what it does is refused, and others take over within a third of a lease")


_STORE = make_arg("--store", metavar="URL", help="the fleet's PostgreSQL (default: PALINURUS_STORE, store.url)")
_URL = make_arg("url", nargs="?", metavar="URL", help="postgresql://user@host/database (default: as --store elsewhere)")
_NODE = make_arg("node", metavar="NODE", help="as `pal fleet status` names it")
VERBS = {
    "init": Verb(_init, "make the tables in a database", (_URL,)),
    "status": Verb(_status, "the nodes, what they do, what waits (the default)", (_STORE, JSON)),
    "evict": Verb(_evict, "take a node's work from it", (_NODE, _STORE)),
}
