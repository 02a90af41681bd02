"""Checks of the parts of the program: door, model, containment, workspace, plugins, approvals, jobs, the two faces."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import socket
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from palinurus.cli.doctor.finding import Case, Finding
from palinurus.cli.plugins import examined
from palinurus.cli.sandbox import standing
from palinurus.cli.status import model_in_use
from palinurus.clock import SystemClock
from palinurus.config import approvals as rules
from palinurus.config import paths
from palinurus.core.schedule.job import CronJob, CronJobState
from palinurus.core.types.keys import SessionKey
from palinurus.errors import PalinurusError
from palinurus.gateway import token
from palinurus.gateway.auth import Gate
from palinurus.gateway.web import FOLDER
from palinurus.inbox.approvals import KIND, ApprovalRow
from palinurus.store.sqlite.reader import open_reader
from palinurus.tools.environ import search_path
from palinurus.triggers.jobs import JOB, STATE
from palinurus.workspace import files
from palinurus.workspace.shelf import Shelf

T = TypeVar("T")

ERRORS = 3  # failures in a row of a job that are worth a word


def port(case: Case) -> Iterator[Finding]:
    """Can the gateway have it?"""
    if case.loaded is None or case.running:
        return
    gateway = case.loaded.settings.gateway
    family = socket.AF_INET6 if ":" in gateway.bind else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((gateway.bind, gateway.port))
        except OSError as exc:
            yield Finding("fail", f"port: {gateway.bind}:{gateway.port}: {exc.strerror}", "set gateway.port")
        else:
            yield Finding("ok", f"port: {gateway.port} is free")


def auth(case: Case) -> Iterator[Finding]:
    """Does it protect anything?"""
    if case.loaded is None:
        return
    settings = case.loaded.settings
    try:
        Gate(settings.gateway, settings.gateway.token.reveal() or token.read(settings.home) or "x", lambda: 0.0)
    except PalinurusError as exc:
        path = paths.locate_token_file(settings.home)
        loose = exc.message.startswith(path)
        yield Finding("fail", f"auth: {exc.message}", exc.fix, (lambda: os.chmod(path, 0o600)) if loose else None)
        return
    if settings.gateway.auth_mode == "none":
        yield Finding(
            "warn", "auth: none; every program on this machine can use the agent", "gateway.auth.mode = token"
        )
    else:
        yield Finding("ok", f"auth: {settings.gateway.auth_mode}")


def contained(case: Case) -> Iterator[Finding]:
    """What holds the commands of agents (`pal sandbox test` proves it)."""
    for agent in case.loaded.settings.agents.values() if case.loaded else ():
        held = standing(agent)
        yield Finding("ok" if held.contained else "warn", f"commands of {agent.id}: {held.what}")
        for gap in held.gaps:
            yield Finding("warn", f"commands of {agent.id}: {gap.what}", gap.fix)


def model(case: Case) -> Iterator[Finding]:
    """Who answers."""
    if case.loaded is None:
        return
    name, key = asyncio.run(model_in_use(case.loaded.settings, case.environ))
    if name.startswith("builtin/"):
        yield Finding(
            "warn",
            f"model: {name}, the built-in demo",
            "`pal setup` connects a real one; so does a provider's API key in the environment",
        )
    elif "/" not in name:
        yield Finding("fail", f"model: {name} is not known", "`pal models` lists what can be used")
    else:
        yield Finding("ok", f"model: {name}" + (f", key from {key}" if key else ", no key"))


def workspace(case: Case) -> Iterator[Finding]:
    """Where the agent works."""
    if case.loaded is None:
        return
    for agent in case.loaded.settings.agents.values():
        path = agent.workspace
        if not os.path.isdir(path):
            yield Finding(
                "warn",
                f"workspace: {path} does not exist yet",
                "`pal setup`",
                lambda path=path, skip=agent.skip_bootstrap: files.ensure(path, skip),  # type: ignore[misc]
            )
        elif not os.access(path, os.W_OK | os.X_OK):
            yield Finding("fail", f"workspace: {path} cannot be written", "check its owner and mode")
        else:
            yield Finding("ok", f"workspace: {path}")


def prompt(case: Case) -> Iterator[Finding]:
    """What the workspace's files weigh in the prompt: characters on disk and sent."""
    if case.loaded is None:
        return
    settings = case.loaded.settings
    shelf = Shelf(settings, case.environ, case.loaded.raw, path=search_path())
    for agent in settings.agents.values():
        if not os.path.isdir(agent.workspace):
            continue
        report = shelf.report(agent, SessionKey(agent.id, settings.session.main_key))
        cut = [file for file in report.files if file.state in ("shortened", "left out", "refused")]
        for file in cut:
            what = f"prompt of {agent.id}: {file.name} has {file.raw} characters, {file.injected} are sent"
            yield Finding("warn", what, "shorten it, or raise agents.defaults.bootstrapMaxChars")
        if report.broken:
            yield Finding("warn", f"prompt of {agent.id}: {report.broken} skills cannot be read", "`pal skills check`")
        if not cut:
            sizes = ", ".join(f"{file.name} {file.injected}" for file in report.files if file.injected)
            yield Finding("ok", f"prompt of {agent.id}: {sizes or 'no files'} characters")


def plugins(case: Case) -> Iterator[Finding]:
    """What is enabled, and does it load?"""
    good, told = examined(case.loaded.settings) if case.loaded else ({}, [])
    for ident in good:
        yield Finding("ok", f"plugin {ident}")
    for ident, problem in told:
        yield Finding("warn", f"plugin {ident}: {problem}", "`pal plugins doctor`")


def approvals(case: Case) -> Iterator[Finding]:
    """The host's rules for commands, and questions that nobody has answered."""
    if case.loaded is None:
        return
    file = os.path.join(case.home, rules.APPROVALS_FILE)
    host = rules.read_approvals(file)
    if host.problem:
        fix = f"correct {file}, or delete it: without it the config alone decides"
        yield Finding("fail", f"approvals: {host.problem}; until then every command is denied", fix)
    for agent in case.loaded.settings.agents:
        for entry in host.entries(agent):
            if entry.problem:
                what = f"approvals: the rule {entry.rule.pattern!r} for {agent} is never used: {entry.problem}"
                yield Finding("warn", what, "`pal approvals allowlist` shows and removes rules")
    now = SystemClock().now()
    waiting = [row for row in _kept(case, KIND, ApprovalRow).values() if row.state == "pending" and row.expires > now]
    if waiting:
        yield Finding("warn", f"approvals: {len(waiting)} questions wait for an answer", "`pal approvals list`")
    elif not host.problem:
        yield Finding("ok", "approvals: nothing waits")


def jobs(case: Case) -> Iterator[Finding]:
    """Do the jobs run, and do they end well?"""
    found, states = _kept(case, JOB, CronJob), _kept(case, STATE, CronJobState)
    failing = {
        ident: states[ident] for ident in found if ident in states and states[ident].consecutive_errors >= ERRORS
    }
    for ident, state in failing.items():
        what = f"jobs: {found[ident].name} failed {state.consecutive_errors} times in a row: {state.last_error}"
        yield Finding("warn", what, f"`pal cron why {ident}`")
    enabled = sum(job.enabled for job in found.values())
    if enabled and not case.running:
        what = f"jobs: {enabled} wait, but they run only while the gateway does"
        yield Finding("warn", what, "`pal gateway install` keeps it running")
    elif not failing:
        yield Finding("ok", f"jobs: {enabled} enabled" if found else "jobs: none")


def _kept(case: Case, kind: str, shape: type[T]) -> dict[str, T]:
    """Small records of one kind, by key. One that cannot be read says so in the gateway's log and is left out here."""
    try:
        with open_reader(case.home) as reader:
            rows = reader.list_records(kind)
    except PalinurusError:  # no database yet, or a broken one: another check's business
        return {}
    found: dict[str, T] = {}
    for row in rows:
        try:
            found[row.key] = msgspec.json.decode(row.data, type=shape)
        except (msgspec.DecodeError, ValueError):
            continue
    return found


def page(case: Case) -> Iterator[Finding]:
    """Has the web page been built?"""
    if os.path.isfile(os.path.join(FOLDER, "index.html")):
        yield Finding("ok", "web page: built")
    else:
        yield Finding("warn", "web page: not built; the gateway answers without it", "`make web` in the source folder")


def screen(case: Case) -> Iterator[Finding]:
    """Is the full screen of `pal chat` installed?"""
    if importlib.util.find_spec("textual") is not None:
        yield Finding("ok", "chat: full screen")
    else:
        yield Finding("warn", "chat: line by line; the full screen is not installed", "pip install 'palinurus[tui]'")
