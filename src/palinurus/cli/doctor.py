"""`pal doctor`: a table of checks, each saying ok, warn or fail and the way out. `--fix` does only what cannot hurt."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

from palinurus.cli import http
from palinurus.cli.args import Parser
from palinurus.cli.client import where
from palinurus.cli.plugins import examined
from palinurus.cli.render import View, plain
from palinurus.cli.sandbox import standing
from palinurus.cli.status import model_in_use
from palinurus.config import paths
from palinurus.config.load import Loaded, load
from palinurus.errors import ConfigError, NotFound, PalinurusError, StateLocked
from palinurus.gateway import token
from palinurus.gateway.auth import Gate
from palinurus.sessions.scan import scan
from palinurus.store.sqlite import lock
from palinurus.store.sqlite.reader import open_reader
from palinurus.workspace import files

LOW_DISK = 200_000_000
TRANSCRIPTS = 500  # newest files that are read
AGENTS = ("workspace", "cells", "sandboxes")  # folders of the state directory whose content is the agents' business


class Finding(NamedTuple):
    """One line of the report. `repair` does what `fix` says, when that is safe."""

    level: Literal["ok", "warn", "fail"]
    what: str
    fix: str = ""
    repair: Callable[[], object] | None = None


class Case(NamedTuple):
    """What the checks look at. `loaded` is None when the config cannot be used."""

    home: str
    environ: Mapping[str, str]
    loaded: Loaded | None
    running: bool


def run(argv: list[str]) -> int:
    """Check everything; 1 if something failed."""
    parser = Parser("doctor", "Check the installation.")
    parser.add_argument("--fix", action="store_true", help="repair what is safe to repair (file modes, missing files)")
    args = parser.parse_args(argv)
    environ = dict(os.environ)
    os.umask(0o077)
    view = View(sys.stdout, environ)
    home = paths.home(environ)
    findings = [*_config(home, environ)]
    loaded = _loaded(home, environ)
    running = loaded is not None and asyncio.run(_alive(loaded))
    case = Case(home, environ, loaded, running)
    for check in CHECKS:
        findings += check(case)
    return _report(findings, view, args.fix)


def _report(findings: list[Finding], view: View, fix: bool) -> int:
    failed = False
    colors = {"ok": "green", "warn": "cyan", "fail": "red"}
    for finding in findings:
        print(f"{view.style(f'{finding.level:<5}', colors[finding.level])} {plain(finding.what)}")
        if finding.repair is not None and fix:
            finding.repair()
            print("      repaired")
            continue
        failed = failed or finding.level == "fail"
        if finding.fix:
            print(f"      fix: {plain(finding.fix)}")
    return 1 if failed else 0


async def _alive(loaded: Loaded) -> bool:
    try:
        return await http.alive(where(loaded.settings))
    except PalinurusError:
        return False


def _loaded(home: str, environ: Mapping[str, str]) -> Loaded | None:
    try:
        return load(home, environ)
    except ConfigError:
        return None


# --- checks ---------------------------------------------------------------------------------------------------


def _config(home: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    file = paths.config_file(home)
    try:
        loaded = load(home, environ)
    except ConfigError as exc:
        for problem in exc.problems:
            yield Finding("fail", f"config: {problem}", exc.fix)
        return
    if loaded.fallback:
        yield Finding("fail", f"config: {loaded.fallback}", "correct the file; `pal config validate` checks it")
    for problem in loaded.problems:
        yield Finding("warn", f"config: {problem}", "`pal config validate` lists every problem")
    if not loaded.fallback and not loaded.problems:
        yield Finding("ok", f"config: {file}" if os.path.exists(file) else "config: none, defaults apply")


def _modes(case: Case) -> Iterator[Finding]:
    """Everything of ours must be readable by its owner only; the workspace's files are the owner's business."""
    home = case.home
    if not os.path.isdir(home):
        yield Finding("warn", f"home: {home} does not exist yet", "`pal setup`")
        return
    loose = [path for path in (home, *_ours(home)) if _mode(path) & 0o077]
    if not loose:
        yield Finding("ok", f"home: {home}, modes are right")
    for path in loose:
        mode = 0o700 if os.path.isdir(path) else 0o600
        yield Finding(
            "fail",
            f"home: {path} can be read by others (mode {_mode(path):o})",
            f"chmod {mode:o} {path}",
            lambda path=path, mode=mode: os.chmod(path, mode),  # type: ignore[misc]
        )
    uid = os.stat(home).st_uid
    if uid != os.geteuid():
        yield Finding("fail", f"home: {home} belongs to user {uid}, you are {os.geteuid()}", "run as its owner")


def _ours(home: str) -> Iterator[str]:
    for folder, folders, names in os.walk(home):
        if folder == home:
            folders[:] = [name for name in folders if name not in AGENTS]
        for name in (*folders, *names):
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                yield path


def _mode(path: str) -> int:
    try:
        return stat.S_IMODE(os.lstat(path).st_mode)
    except OSError:
        return 0  # gone meanwhile


def _lock(case: Case) -> Iterator[Finding]:
    if not os.path.isdir(case.home):
        return
    try:
        lock.take(case.home).release()
    except StateLocked as exc:
        if case.running:
            yield Finding("ok", "gateway: running")
        else:
            yield Finding("fail", f"lock: {exc.message}, but no gateway answers", exc.fix)
    except PalinurusError as exc:
        yield Finding("fail", f"lock: {exc.message}", exc.fix)
    else:
        yield Finding("ok", "gateway: not running, the state is free")


def _database(case: Case) -> Iterator[Finding]:
    try:
        with open_reader(case.home) as reader:
            found = reader.integrity()
            waiting = len(reader.items(10_000, state="queued"))
    except NotFound:
        yield Finding("ok", "database: none yet")
        return
    except PalinurusError as exc:
        yield Finding("fail", f"database: {exc.message}", exc.fix)
        return
    for line in found:
        yield Finding("fail", f"database: {line}", "stop the gateway, keep a copy of state.db, restore a backup")
    if not found:
        rest = f", {waiting} messages wait" if waiting else ""
        yield Finding("ok", f"database: sound{rest}")


def _transcripts(case: Case) -> Iterator[Finding]:
    paths_ = [p for p in _ours(case.home) if p.endswith(".jsonl")]
    paths_.sort(key=lambda p: -os.stat(p).st_mtime)
    broken = 0
    for path in paths_[:TRANSCRIPTS]:
        try:
            with open(path, "rb") as file:
                bad = scan(file.read()).bad
        except OSError as exc:
            yield Finding("fail", f"transcript: {path}: {exc.strerror}", "check its owner and mode")
            continue
        if bad:
            broken += 1
            yield Finding(
                "warn",
                f"transcript: {path}: {len(bad)} broken lines, the first at byte {bad[0].offset} ({bad[0].reason})",
                "nothing to do: they are left out when the session is read",
            )
    if not broken:
        yield Finding("ok", f"transcripts: {min(len(paths_), TRANSCRIPTS)} read, all sound")


def _port(case: Case) -> Iterator[Finding]:
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


def _auth(case: Case) -> Iterator[Finding]:
    if case.loaded is None:
        return
    settings = case.loaded.settings
    try:
        Gate(settings.gateway, settings.gateway.token.reveal() or token.read(settings.home) or "x", lambda: 0.0)
    except PalinurusError as exc:
        path = paths.token_file(settings.home)
        loose = exc.message.startswith(path)
        yield Finding("fail", f"auth: {exc.message}", exc.fix, (lambda: os.chmod(path, 0o600)) if loose else None)
        return
    if settings.gateway.auth_mode == "none":
        yield Finding(
            "warn", "auth: none; every program on this machine can use the agent", "gateway.auth.mode = token"
        )
    else:
        yield Finding("ok", f"auth: {settings.gateway.auth_mode}")


def _contained(case: Case) -> Iterator[Finding]:
    """What holds the commands of agents (`pal sandbox test` proves it)."""
    for agent in case.loaded.settings.agents.values() if case.loaded else ():
        held = standing(agent)
        yield Finding("ok" if held.contained else "warn", f"commands of {agent.id}: {held.what}")
        for gap in held.gaps:
            yield Finding("warn", f"commands of {agent.id}: {gap.what}", gap.fix)


def _model(case: Case) -> Iterator[Finding]:
    if case.loaded is None:
        return
    name, key = asyncio.run(model_in_use(case.loaded.settings, case.environ))
    if name.startswith("builtin/"):
        yield Finding(
            "warn",
            f"model: {name}, the built-in demo",
            "put a provider's API key in the environment, or set agents.defaults.model (`pal models` lists them)",
        )
    elif "/" not in name:
        yield Finding("fail", f"model: {name} is not known", "`pal models` lists what can be used")
    else:
        yield Finding("ok", f"model: {name}" + (f", key from {key}" if key else ", no key"))


def _workspace(case: Case) -> Iterator[Finding]:
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


def _plugins(case: Case) -> Iterator[Finding]:
    good, told = examined(case.loaded.settings) if case.loaded else ({}, [])
    for ident in good:
        yield Finding("ok", f"plugin {ident}")
    for ident, problem in told:
        yield Finding("warn", f"plugin {ident}: {problem}", "`pal plugins doctor`")


def _disk(case: Case) -> Iterator[Finding]:
    place = case.home
    while not os.path.exists(place):
        place = os.path.dirname(place)
    free = shutil.disk_usage(place).free
    if free < LOW_DISK:
        yield Finding("fail", f"disk: {free // 1_000_000} MB free", "make room: nothing is accepted on a full disk")
    else:
        yield Finding("ok", f"disk: {free // 1_000_000_000} GB free")


CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    _modes,
    _lock,
    _database,
    _transcripts,
    _port,
    _auth,
    _contained,
    _model,
    _workspace,
    _plugins,
    _disk,
)
