"""Checks of the state directory (who may read it, who holds it, is it sound, is there room) and of the parts of the
program: port, model, containment, workspace, plugins, approvals, jobs, page and screen.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import socket
import stat
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from palinurus.cli.gateway.running import find_serving_chat
from palinurus.cli.look.status import AGENTS_FOLDERS, find_model_in_use, measure_free_space
from palinurus.cli.plugins import examine_plugins
from palinurus.clock import SystemClock
from palinurus.config import paths
from palinurus.config.load import LoadedConfig
from palinurus.config.sections import approvals as rules
from palinurus.config.sections.browser import BrowserSettings
from palinurus.config.sections.weakening import list_weaknesses
from palinurus.core.schedule.job import CronJob, CronJobState
from palinurus.core.text import format_bytes, format_count
from palinurus.core.types.keys import SessionKey
from palinurus.errors import NotFound, PalinurusError, StateLocked
from palinurus.gateway import token
from palinurus.gateway.auth import GatewayAuth
from palinurus.services.approvals import KIND, ApprovalRow
from palinurus.services.containment import describe_containment
from palinurus.sessions.scan import scan_transcript
from palinurus.store.factory import open_reader
from palinurus.store.sqlite import lock as locks
from palinurus.tools.browser.offer import explain_absence, find_chromium
from palinurus.tools.canvas.offer import explain_canvas_absence
from palinurus.tools.commands.environ import build_search_path
from palinurus.triggers.jobs import JOB, STATE
from palinurus.workspace import bootstrap
from palinurus.workspace.sources import PromptSources

LOW_DISK = 200_000_000
TRANSCRIPTS = 500  # newest files that are read


def check_modes(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Everything of ours must be readable by its owner only; the workspace's files are the owner's business."""
    home = case.home
    if not os.path.exists(home):
        above = next(str(folder) for folder in Path(home).parents if folder.exists())
        if os.access(above, os.W_OK | os.X_OK):
            yield DoctorFinding("warn", f"home: {home} does not exist yet", "`pal setup`")
        else:
            yield DoctorFinding(
                "fail", f"home: {home} cannot be made in {above}", "set PALINURUS_HOME to a place of yours"
            )
        return
    uid = os.stat(home).st_uid
    wrong = (
        (not os.path.isdir(home), "is not a directory", "move it away, or set PALINURUS_HOME"),
        (uid != os.geteuid(), f"belongs to user {uid}, you are {os.geteuid()}", "run as its owner"),
        (not os.access(home, os.R_OK | os.W_OK | os.X_OK), "cannot be written", f"chmod 700 {home}"),
    )
    if why := next((why for why in wrong if why[0]), None):
        yield DoctorFinding("fail", f"home: {home} {why[1]}", why[2])
        return
    loose = [path for path in (home, *_ours(home)) if _mode(path) & 0o077]
    if not loose:
        yield DoctorFinding("ok", f"home: {home}, modes are right")
    for path in loose:
        mode = 0o700 if os.path.isdir(path) else 0o600
        what = f"home: {path} can be read by others (mode {_mode(path):o})"
        yield DoctorFinding("fail", what, f"chmod {mode:o} {path}", partial(os.chmod, path, mode))


def _ours(home: str) -> Iterator[str]:
    for folder, folders, names in os.walk(home):
        if folder == home:
            folders[:] = [name for name in folders if name not in AGENTS_FOLDERS]
        for name in (*folders, *names):
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                yield path


def _mode(path: str) -> int:
    try:
        return stat.S_IMODE(os.lstat(path).st_mode)
    except OSError:
        return 0  # gone meanwhile


def _changed(path: str) -> float:
    try:
        return os.lstat(path).st_mtime
    except OSError:
        return 0.0  # gone meanwhile


def check_lock(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Who holds the state."""
    if not os.path.isdir(case.home):
        return
    try:
        locks.take_lock(case.home).release()
    except StateLocked as exc:
        if case.running:
            who = f"not running; process {chat} serves" if (chat := find_serving_chat(case.home)) else "running"
            yield DoctorFinding("ok", f"gateway: {who}")
        else:
            yield DoctorFinding("fail", f"lock: {exc.message}, but no gateway answers", exc.fix)
    except PalinurusError as exc:
        yield DoctorFinding("fail", f"lock: {exc.message}", exc.fix)
    else:
        yield DoctorFinding("ok", "gateway: not running, the state is free")


def check_database(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Is it sound?"""
    try:
        with open_reader(case.home) as reader:
            found = reader.integrity()
            waiting = len(reader.items(10_000, state="queued"))
    except NotFound:
        yield DoctorFinding("ok", "database: none yet")
        return
    except PalinurusError as exc:
        yield DoctorFinding("fail", f"database: {exc.message}", exc.fix)
        return
    for line in found:
        yield DoctorFinding("fail", f"database: {line}", "stop the gateway, keep a copy of state.db, restore a backup")
    if not found:
        rest = f", {format_count(waiting, 'message')} waiting" if waiting else ""
        yield DoctorFinding("ok", f"database: sound{rest}")


def check_transcripts(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Can they be read?"""
    paths_ = [p for p in _ours(case.home) if p.endswith(".jsonl") and "/sessions/" in p]
    paths_.sort(key=lambda p: -_changed(p))
    broken = 0
    for path in paths_[:TRANSCRIPTS]:
        try:
            with open(path, "rb") as file:
                bad = scan_transcript(file.read()).bad
        except OSError as exc:
            yield DoctorFinding("fail", f"transcript: {path}: {exc.strerror}", "check its owner and mode")
            continue
        if bad:
            broken += 1
            yield DoctorFinding(
                "warn",
                f"transcript: {path}: {len(bad)} broken lines, the first at byte {bad[0].offset} ({bad[0].reason})",
                "nothing to do: they are left out when the session is read",
            )
    if not broken:
        yield DoctorFinding("ok", f"transcripts: {min(len(paths_), TRANSCRIPTS)} read, all sound")


def check_disk(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Is there room?"""
    free = measure_free_space(case.home)
    if free < LOW_DISK:
        yield DoctorFinding("fail", f"disk: {format_bytes(free)} free", "make room: nothing is accepted on a full disk")
    else:
        yield DoctorFinding("ok", f"disk: {format_bytes(free)} free")


# What a check looks at, and what it says.


class DoctorFinding(msgspec.Struct, frozen=True):
    """One line of the report. `repair` does what `fix` says, when that is safe."""

    level: Literal["ok", "warn", "fail"]
    what: str
    fix: str = ""
    repair: Callable[[], object] | None = None


class DoctorCase(msgspec.Struct, frozen=True):
    """What the checks look at. `loaded` is None when the config cannot be used."""

    home: str
    environ: Mapping[str, str]
    loaded: LoadedConfig | None
    running: bool


T = TypeVar("T")

ERRORS = 3  # failures in a row of a job that are worth a word


def check_port(case: DoctorCase) -> Iterator[DoctorFinding]:
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
            yield DoctorFinding("fail", f"port: {gateway.bind}:{gateway.port}: {exc.strerror}", "set gateway.port")
        else:
            yield DoctorFinding("ok", f"port: {gateway.port} is free")


def check_auth(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Does it protect anything?"""
    if case.loaded is None:
        return
    settings = case.loaded.settings
    try:
        GatewayAuth(
            settings.gateway, settings.gateway.token.reveal() or token.read_token(settings.home) or "x", lambda: 0.0
        )
    except PalinurusError as exc:
        path = paths.locate_token_file(settings.home)
        loose = exc.message.startswith(path)
        yield DoctorFinding("fail", f"auth: {exc.message}", exc.fix, (lambda: os.chmod(path, 0o600)) if loose else None)
        return
    if settings.gateway.auth_mode != "none":  # which check_settings tells
        yield DoctorFinding("ok", f"auth: {settings.gateway.auth_mode}")


def check_settings(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Is a setting weaker than it needs to be? A warning each: the owner may mean it (`pal security audit`)."""
    found = list_weaknesses(case.loaded.settings) if case.loaded else ()
    for one in found:
        yield DoctorFinding("warn", f"security: {one.key}: {one.what}", one.fix)
    if case.loaded and not found:
        yield DoctorFinding("ok", "security: no setting is weaker than it needs to be")


def check_containment(case: DoctorCase) -> Iterator[DoctorFinding]:
    """What holds the commands of agents (`pal sandbox test` proves it)."""
    for agent in case.loaded.settings.agents.values() if case.loaded else ():
        held = describe_containment(agent)
        yield DoctorFinding("ok" if held.contained else "warn", f"commands of {agent.id}: {held.what}")
        for gap in held.gaps:
            yield DoctorFinding("warn", f"commands of {agent.id}: {gap.what}", gap.fix)


def check_model(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Who answers."""
    if case.loaded is None:
        return
    name, key, missing = asyncio.run(find_model_in_use(case.loaded.settings, case.environ))
    if name.startswith("builtin/"):
        fix = "`pal setup` connects a real one; so does a provider's API key in the environment"
        yield DoctorFinding("warn", f"model: {name}, the built-in demo", fix)
    elif "/" not in name:
        yield DoctorFinding("fail", f"model: {name} is not known", "`pal models` lists what can be used")
    elif missing:
        yield DoctorFinding("fail", f"model: {name}: {missing}", f"`pal models add {name.partition('/')[0]}`")
    else:
        yield DoctorFinding("ok", f"model: {name}, " + (f"key from {key}" if key else "needs no key"))


def check_workspace(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Where the agent works."""
    if case.loaded is None:
        return
    for agent in case.loaded.settings.agents.values():
        path = agent.workspace
        if not os.path.isdir(path):
            yield DoctorFinding(
                "warn",
                f"workspace: {path} does not exist yet",
                "`pal setup`",
                lambda path=path, one=agent: bootstrap.ensure_workspace(path, one.skip_bootstrap, one.skip_files),  # type: ignore[misc]
            )
        elif not os.access(path, os.W_OK | os.X_OK):
            yield DoctorFinding("fail", f"workspace: {path} cannot be written", "check its owner and mode")
        else:
            yield DoctorFinding("ok", f"workspace: {path}")


def check_prompt_files(case: DoctorCase) -> Iterator[DoctorFinding]:
    """What the workspace's files weigh in the prompt: characters on disk and sent."""
    if case.loaded is None:
        return
    settings = case.loaded.settings
    sources = PromptSources(settings, case.environ, case.loaded.raw, path=build_search_path())
    for agent in settings.agents.values():
        if not os.path.isdir(agent.workspace):
            continue
        report = sources.report(agent, SessionKey(agent.id, settings.session.main_key))
        cut = [file for file in report.files if file.cut]
        for file in cut:
            what = f"prompt of {agent.id}: {file.name} has {file.raw} characters, {file.injected} are sent"
            yield DoctorFinding("warn", what, "shorten it, or raise agents.defaults.bootstrapMaxChars")
        if report.broken:
            broken = format_count(report.broken, "skill")
            yield DoctorFinding("warn", f"prompt of {agent.id}: {broken} with faults", "`pal skills check`")
        if not cut:
            sizes = ", ".join(f"{file.name} {file.injected}" for file in report.files if file.injected)
            yield DoctorFinding("ok", f"prompt of {agent.id}: {sizes or 'no files'} characters")


def check_plugins(case: DoctorCase) -> Iterator[DoctorFinding]:
    """What is enabled, and does it load?"""
    good, told = examine_plugins(case.loaded.settings) if case.loaded else ({}, [])
    for ident in good:
        yield DoctorFinding("ok", f"plugin {ident}")
    for ident, problem in told:
        yield DoctorFinding("warn", f"plugin {ident}: {problem}", "`pal plugins doctor`")


def check_approvals(case: DoctorCase) -> Iterator[DoctorFinding]:
    """The host's rules for commands, and questions that nobody has answered."""
    if case.loaded is None:
        return
    file = os.path.join(case.home, rules.APPROVALS_FILE)
    host = rules.read_approvals(file)
    if host.problem:
        fix = f"correct {file}, or delete it: without it the config alone decides"
        yield DoctorFinding("fail", f"approvals: {host.problem}; until then every command is denied", fix)
    for agent in case.loaded.settings.agents:
        for entry in host.entries(agent):
            if entry.problem:
                what = f"approvals: the rule {entry.rule.pattern!r} for {agent} is never used: {entry.problem}"
                yield DoctorFinding("warn", what, "`pal approvals allowlist` shows and removes rules")
    now = SystemClock().now()
    waiting = [row for row in _kept(case, KIND, ApprovalRow).values() if row.state == "pending" and row.expires > now]
    if waiting:
        many = format_count(len(waiting), "question")
        yield DoctorFinding("warn", f"approvals: {many} waiting for an answer", "`pal approvals list`")
    elif not host.problem:
        yield DoctorFinding("ok", "approvals: nothing waits")


def check_jobs(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Do the jobs run, and do they end well?"""
    found, states = _kept(case, JOB, CronJob), _kept(case, STATE, CronJobState)
    failing = {
        ident: states[ident] for ident in found if ident in states and states[ident].consecutive_errors >= ERRORS
    }
    for ident, state in failing.items():
        what = f"jobs: {found[ident].name} failed {state.consecutive_errors} times in a row: {state.last_error}"
        yield DoctorFinding("warn", what, f"`pal cron why {ident}`")
    enabled = sum(job.enabled for job in found.values())
    if enabled and not case.running:
        what = f"jobs: {enabled} wait, but they run only while the gateway does"
        yield DoctorFinding("warn", what, "`pal gateway install` keeps it running")
    elif not failing:
        yield DoctorFinding("ok", f"jobs: {enabled} enabled" if found else "jobs: none")


def _kept(case: DoctorCase, kind: str, shape: type[T]) -> dict[str, T]:
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


def check_web_page(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Has the web page been built, and can agents show something on it?"""
    if os.path.isfile(os.path.join(paths.PAGE_FOLDER, "index.html")):
        why = explain_canvas_absence(case.loaded.settings) if case.loaded else ""
        yield DoctorFinding("ok", f"web page: built; canvas: {f'none ({why})' if why else 'beside the chat'}")
    else:
        yield DoctorFinding(
            "warn", "web page: not built; the gateway answers without it", "`make web` in the source folder"
        )


def check_screen(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Is the full screen of `pal chat` installed?"""
    if importlib.util.find_spec("textual") is not None:
        yield DoctorFinding("ok", "chat: full screen")
    else:
        yield DoctorFinding("warn", "chat: line by line; the full screen is not installed", "`pal extras add tui`")


def check_browser(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Is there a browser for agents?"""
    settings = case.loaded.settings.browser if case.loaded else BrowserSettings()
    program = find_chromium(settings, case.environ)
    why = explain_absence(settings, program)
    named = bool(why and settings.enabled and settings.executable)  # what somebody asked for is missing
    yield DoctorFinding("warn" if named else "ok", f"browser: {program if not why else f'none ({why})'}")
