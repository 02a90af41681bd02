"""Checks of what the program reaches to outside: chat channels and MCP servers. A gateway that runs says how they are;
without one only what can be known beforehand is: a library, a setting or a program that is missing.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

from palinurus.app.channels import make_signin_kit
from palinurus.channels import CHANNELS, make_channel
from palinurus.cli.doctor.checks import DoctorCase, DoctorFinding
from palinurus.cli.reach.gateway import call_gateway
from palinurus.clock import SystemClock
from palinurus.config.settings import Settings
from palinurus.errors import ConfigError, PalinurusError
from palinurus.tools.commands.environ import build_child_env
from palinurus.tools.web.egress import EgressGuard

_WELL = ("ready", "stopped")


def check_channels(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Can each channel that is set up be opened, and is it connected?"""
    if case.loaded is None:
        return
    settings = case.loaded.settings
    for name, accounts in settings.accounts.items():
        for account in accounts if name in CHANNELS else ():
            if problem := _explain_closed(settings, name, account):
                yield DoctorFinding("warn", f"channel {name}/{account}: {problem[0]}", problem[1])
                continue
            told = _ask(case, "channels.status").get("channelAccounts", {}).get(name, ())
            row: dict[str, Any] = next((one for one in told if one["accountId"] == account), {})
            state = row.get("healthState", "set up" if case.running else "set up; no gateway runs")
            bad = bool(row) and state not in _WELL
            why = f": {row['lastError']}" if bad and row.get("lastError") else ""
            fix = "`pal logs`, `pal channels status`" if bad else ""
            yield DoctorFinding("warn" if bad else "ok", f"channel {name}/{account}: {state}{why}", fix)
    for name in sorted(set(case.loaded.raw.get("channels") or {}) & set(CHANNELS) - set(settings.accounts)):
        yield DoctorFinding("ok", f"channel {name}: switched off")


def _explain_closed(settings: Settings, name: str, account: str) -> tuple[str, str] | None:
    """What is wrong, and the fix; None where it can be opened. Connects to nothing."""
    door = EgressGuard(settings.web.fetch.rules)
    try:
        make_channel(name, make_signin_kit(settings, name, account, SystemClock(), door=door))
    except ConfigError as exc:
        hints = [problem.hint for problem in exc.problems if problem.hint]
        return "; ".join(f"{problem.path} {problem.message}" for problem in exc.problems), hints[
            0
        ] if hints else f"`pal channels add {name}`"
    except (ValueError, TypeError, LookupError) as exc:  # what a platform's library finds wrong with a value
        return f"cannot be opened: {exc}", f"`pal config explain channels.{name}`"
    return None


def check_mcp_servers(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Is each server's program there, and is it connected?"""
    if case.loaded is None:
        return
    settings = case.loaded.settings
    path = build_child_env(case.environ, {})["PATH"]
    for one in settings.mcp.servers.values():
        what, fix = f"MCP server {one.name}", f"`pal mcp test {one.name}`"
        if not one.enabled:
            yield DoctorFinding("ok", f"{what}: switched off")
        elif one.command and shutil.which(one.command, path=path) is None:
            yield DoctorFinding("warn", f"{what}: {one.command} is not there", "install it, or write its whole path")
        else:
            rows = _ask(case, "mcp.list").get("servers", ())
            row: dict[str, Any] = next((row for row in rows if row["name"] == one.name), {})
            late = f" ({row['problem']})" if row.get("problem") else ""
            state = row.get("state", "set up")
            bad = bool(late) or state == "starting"
            yield DoctorFinding("warn" if bad else "ok", f"{what}: {state}{late}", fix if bad else "")


def _ask(case: DoctorCase, method: str) -> dict[str, Any]:
    """What a gateway that runs says; nothing where none does, or it cannot be asked."""
    if not case.running or case.loaded is None:
        return {}
    try:
        return dict(call_gateway(case.loaded.settings, method, {}))
    except PalinurusError:
        return {}
