"""`pal fleet`: gateways that share one PostgreSQL. docs/fleet.md."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterator

import msgspec

from palinurus import late
from palinurus.cli.args import JSON, Verb, load_settings, make_arg, parse_verb, to_json
from palinurus.clock import SystemClock
from palinurus.config.paths import STORE_VARIABLE
from palinurus.core.text import format_count, format_span
from palinurus.errors import BadRequest, NotFound, StateError
from palinurus.store.fleet import FleetNode, FleetReport

WAIT = 120.0  # seconds
LOOK = 0.5
SKEW = 5000  # ms that a clock may be off


def run_fleet(argv: list[str]) -> int:
    """Exit code 0. Raises PalinurusError for what a person has to know."""
    asked = parse_verb("fleet", "Gateways that share one PostgreSQL.", VERBS, argv, default="status")
    asked.run(asked)
    return 0


def find_fleet_url(given: str | None) -> str:
    """The address that is meant: the one that is given, the variable's, the config's. Raises BadRequest."""
    found = given or os.environ.get(STORE_VARIABLE) or load_settings(dict(os.environ)).settings.store.url.reveal()
    if not found:
        raise BadRequest("no fleet is known here", fix="name its PostgreSQL: --store postgresql://…, or set store.url")
    return found


def _init(asked: argparse.Namespace) -> None:
    with late.load_part("fleet-reader")(find_fleet_url(asked.url)) as reader:
        reader.install()
    print("the fleet's tables are there")
    print("each gateway joins with `pal gateway --store URL`, or store.url in its config")


def _status(asked: argparse.Namespace) -> None:
    with late.load_part("fleet-reader")(find_fleet_url(asked.store)) as reader:
        report: FleetReport = reader.report()
    if asked.json:
        print(to_json(msgspec.to_builtins(report), pretty=True))
        return
    for line in describe_report(report):
        print(line)


def describe_report(report: FleetReport) -> Iterator[str]:
    """For a person: a line for each node, then what waits and what is wrong."""
    for node in report.nodes:
        yield _describe_node(node)
    if not report.nodes:
        yield "no gateway has joined"
    yield f"{report.waiting} waiting" + (f", the oldest for {format_span(report.oldest)}" if report.waiting else "")
    for one in report.unserved:
        yield f"! {one.waiting} for the agent {one.agent}, which no node serves: start its node, or set store.serves"
    if report.differs:
        yield "! the configs of these nodes differ; make them the same but for `store`, `gateway` and `logging`"
    for node in report.nodes:
        if abs(node.skew) > SKEW:
            yield f"! the clock of {node.id} is off by {format_span(abs(node.skew) / 1000)}: let NTP set it"


def _describe_node(node: FleetNode) -> str:
    if node.left <= 0:
        lease = f"lost {format_span(-node.left)} ago"
    else:
        lease = f"{'draining' if node.draining else 'lease'} {node.left:.0f} s"
    agents = node.list_agents()
    serves = "all agents" if agents is None else ", ".join(agents) or "no agent"
    stale = f"  {sum(node.stale.values())} refused as stale" if node.stale else ""
    return (
        f"{node.id:<24} {lease:<14} up {format_span(node.age):<8} {node.runs} running  {node.release}"
        f" (tables {node.version})  config {node.config or '?'}  serves {serves}  {', '.join(node.holds)}{stale}"
    )


def _drain(asked: argparse.Namespace) -> None:
    clock = SystemClock()
    with late.load_part("fleet-reader")(find_fleet_url(asked.store)) as reader:
        orphans = reader.report().find_orphans(asked.node)
        if not reader.drain(asked.node):
            raise NotFound(f"no node {asked.node!r}", fix="pal fleet status")
        if orphans:
            print(f"nobody else runs {', '.join(orphans)}: their messages wait until {asked.node} is back")
        print(f"{asked.node} takes nothing new, finishes what it runs, and goes", flush=True)
        until = clock.monotonic() + asked.wait
        while (runs := next((n.runs for n in reader.report().nodes if n.id == asked.node), None)) is not None:
            if clock.monotonic() > until:
                raise StateError(
                    f"{asked.node} still runs {format_count(runs, 'message')} after {asked.wait:g} s",
                    fix=f"wait for it: pal fleet status; or take its work from it: pal fleet evict {asked.node}",
                )
            asyncio.run(clock.sleep(LOOK))
    print(f"{asked.node} is gone")


def _evict(asked: argparse.Namespace) -> None:
    with late.load_part("fleet-reader")(find_fleet_url(asked.store)) as reader:
        if not reader.evict(asked.node):
            raise NotFound(f"no node {asked.node!r}", fix="pal fleet status")
    print(f"{asked.node} is out: what it does is refused, and others take over within a third of a lease")


_STORE = make_arg("--store", metavar="URL", help="the fleet's PostgreSQL (default: PALINURUS_STORE, store.url)")
_URL = make_arg("url", nargs="?", metavar="URL", help="postgresql://user@host/database (default: as --store elsewhere)")
_NODE = make_arg("node", metavar="NODE", help="as `pal fleet status` names it")
_WAIT = make_arg("--wait", type=float, default=WAIT, metavar="SECONDS", help="how long to wait until it is gone (120)")
VERBS = {
    "init": Verb(_init, "make the tables in a database, or bring them up to date", (_URL,)),
    "status": Verb(_status, "list the nodes, what they do, what waits (the default)", (_STORE, JSON)),
    "drain": Verb(_drain, "let a node finish what it runs, and leave", (_NODE, _WAIT, _STORE)),
    "evict": Verb(_evict, "take a node's work from it", (_NODE, _STORE)),
}
