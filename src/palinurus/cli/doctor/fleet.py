"""Checks of the PostgreSQL that several gateways share: each finding one sentence, with the way out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from palinurus import late
from palinurus.cli.doctor.checks import DoctorCase, DoctorFinding
from palinurus.cli.fleet import SKEW
from palinurus.clock import SystemClock
from palinurus.core.text import format_count, format_span
from palinurus.errors import PalinurusError
from palinurus.store.fleet import OLDEST, FleetReport, ServerHealth


def check_fleet(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Nothing, where the state is this machine's own."""
    url = case.loaded.settings.store.find_url(case.environ) if case.loaded is not None else ""
    if not url:
        return
    try:
        health: ServerHealth = late.load_part("fleet-examiner")(url, SystemClock().now)
    except PalinurusError as error:
        yield DoctorFinding("fail", f"fleet: {error.message}", error.fix)
        return
    for rule in _RULES:
        if rule.wrong(health):
            yield DoctorFinding(rule.level, f"fleet: {rule.what}", rule.fix)
    report: FleetReport | None = health.report
    if report is None:
        if not health.pooled:
            yield DoctorFinding("warn", "fleet: that database has no tables yet", "`pal fleet init`")
        return
    bad = [*_judge_nodes(report, health.known)]
    yield from bad
    if not bad:
        nodes = format_count(len(report.nodes), "node")
        yield DoctorFinding("ok", f"fleet: {nodes}, tables of version {report.version}")


class _ServerRule(NamedTuple):
    """A sentence for each way in which a server is not fit."""

    wrong: Callable[[ServerHealth], bool]
    level: Literal["warn", "fail"]
    what: str
    fix: str


_RULES = (
    _ServerRule(
        lambda seen: seen.pooled,
        "fail",
        "a pooler in transaction mode stands before PostgreSQL",
        "name PostgreSQL itself in store.url, or set pool_mode = session for this database",
    ),
    _ServerRule(
        lambda seen: seen.standby,
        "fail",
        "that server is a standby, which takes no changes",
        "name the primary in store.url",
    ),
    _ServerRule(
        lambda seen: seen.release < OLDEST, "fail", "that PostgreSQL is too old", f"update it to {OLDEST} or newer"
    ),
    _ServerRule(
        lambda seen: seen.commits == "off",
        "fail",
        "synchronous_commit is off: a crash of the server loses what was acknowledged",
        "ALTER SYSTEM SET synchronous_commit = on; SELECT pg_reload_conf();",
    ),
    _ServerRule(
        lambda seen: seen.standbys > 0 and not seen.synchronous,
        "warn",
        "no standby is synchronous: a failover may lose what was acknowledged",
        "set synchronous_standby_names on the primary",
    ),
    _ServerRule(
        lambda seen: abs(seen.skew) > SKEW,
        "warn",
        "this machine's clock and the database's are more than 5 s apart",
        "let NTP set both",
    ),
)


def _judge_nodes(report: FleetReport, known: int) -> Iterator[DoctorFinding]:
    if report.version > known + 1:
        yield DoctorFinding("fail", f"fleet: its tables are of version {report.version}, this program knows {known}",
                            "update Palinurus here")  # fmt: skip
    elif report.version < known:
        yield DoctorFinding("warn", f"fleet: its tables are of version {report.version}, this program's of {known}",
                            "the next start brings them up to date; so does `pal fleet init`")  # fmt: skip
    if report.differs:
        told = ", ".join(f"{node.id} {node.config}" for node in report.nodes if node.left > 0)
        yield DoctorFinding("warn", f"fleet: the configs of its nodes differ: {told}",
                            "make them the same but for store, gateway, logging and diagnostics")  # fmt: skip
    for node in report.nodes:
        if abs(node.skew) > SKEW:
            what = f"fleet: the clock of {node.id} is {format_span(abs(node.skew) / 1000)} off the database's"
            yield DoctorFinding("warn", what, "let NTP set it")
    for one in report.unserved:
        what = f"fleet: {format_count(one.waiting, 'message')} waiting for the agent {one.agent}, which no node serves"
        yield DoctorFinding("warn", what, "start the node that has its workspace, or name it in store.serves elsewhere")
