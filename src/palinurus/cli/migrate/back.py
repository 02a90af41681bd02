"""`pal export --to openclaw`: what is here as a home that the real OpenClaw reads: conversations in its (and our)
transcript format byte for byte, workspaces, skills, keys, rules, jobs, the config without keys that only we know.

While files are being written a marker says that the home is not whole, and its config is missing: killed in the middle,
it is run again. Nothing is written to a home that has something in it, unless told to.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from palinurus.app.migrate.found import LARGEST, ImportLine, count_fates, list_folder, read_object, walk_files
from palinurus.cli.args import CommandParser, load_settings, to_json
from palinurus.clock import SystemClock
from palinurus.config.include import read_included
from palinurus.config.keypath import Path, show_path
from palinurus.config.paths import expand_path, find_home, locate_config_file
from palinurus.config.sections.approvals import APPROVALS_FILE
from palinurus.config.settings import Settings
from palinurus.core.schedule.job import CronJob
from palinurus.crashpoints import pass_crashpoint
from palinurus.errors import BadRequest, StateBroken
from palinurus.files import read_plain_file
from palinurus.gateway.token import read_token
from palinurus.inbox.pairing import LET_IN, PairedPerson
from palinurus.sessions.files import place_file
from palinurus.sessions.record import SessionRecord
from palinurus.store.factory import open_reader, open_store
from palinurus.triggers.jobs import JOB

MARKER = ".palinurus-export"  # there: not all has been written
CONFIG = "openclaw.json"
SHOWN = 12
# Keys that only we know; OpenClaw refuses a config with a key it does not know. `*`: any name, `[]`: any item.
OURS = """
agents.*.fastModeDefault agents.*.skillsLimits agents.*.evidence agents.*.thinking agents.*.heartbeat.watch
agents.*.sandbox.perSession agents.*.sandbox.contain agents.*.sandbox.read agents.*.sandbox.write
agents.*.sandbox.connect agents.*.sandbox.unixSockets agents.*.sandbox.limits agents.defaults.tts
agents.defaults.runtime agents.defaults.agentRuntime agents.defaults.contextPruning.maxCharsPerToolResult
agents.defaults.contextPruning.toolResultHeadRatio agents.defaults.contextPruning.pruneAfterTurns
agents.list.[].identity.creature agents.list.[].identity.vibe agents.list.[].startupContext agents.list.[].evidence
agents.list.[].thinking agents.list.[].typingMode agents.list.[].typingIntervalSeconds agents.list.[].heartbeat.watch
agents.list.[].subagents.maxChildrenPerAgent agents.list.[].subagents.runTimeoutSeconds
agents.list.[].subagents.archiveAfterMinutes agents.list.[].subagents.maxConcurrent
agents.list.[].subagents.maxSpawnDepth agents.list.[].sandbox.perSession agents.list.[].sandbox.contain
agents.list.[].sandbox.read agents.list.[].sandbox.write agents.list.[].sandbox.connect
agents.list.[].sandbox.unixSockets agents.list.[].sandbox.limits agents.list.[].tts.maxLength
agents.list.[].tts.summarize agents.list.[].tts.openai agents.list.[].tts.elevenlabs agents.list.[].tts.microsoft
agents.list.[].tts.edge agents.list.[].imageGenerationModel agents.list.[].agentRuntime agents.list.[].tools.exec.env
agents.list.[].tools.exec.timeoutSeconds tools.exec.env tools.exec.timeoutSeconds tools.web.fetch.allowPrivate
tools.web.fetch.allowedHosts tools.web.search.brave tools.web.search.tavily tools.web.search.perplexity
tools.web.search.exa tools.web.search.searxng tools.web.search.duckduckgo tools.trustFrom tools.taint tools.changes
messages.tts.maxLength messages.tts.summarize messages.tts.openai messages.tts.elevenlabs messages.tts.microsoft
messages.tts.edge channels.*.messagesPerMinute channels.*.accounts.*.messagesPerMinute nodeHost.devices
nodeHost.notify canvasHost hooks.mappings.[].token hooks.mappings.[].secret hooks.mappings.[].signature
hooks.mappings.[].deliveryId hooks.mappings.[].ratePerMinute record auth.profiles.*.key budgets memory.allowFrom
mcp.servers.*.sandbox store tts talk.agentId
"""


def run_export(argv: list[str]) -> int:
    """Exit code 0. Raises BadRequest, ConfigError, StateError (StateLocked: a gateway runs here)."""
    parser = CommandParser("export", "Write what is here as a home of another agent program: the way back.")
    parser.add_argument("--to", choices=("openclaw",), required=True, help="which one")
    parser.add_argument("path", nargs="?", default="~/.openclaw", help="its home (default: ~/.openclaw)")
    parser.add_argument("--overwrite", action="store_true", help="also into a home that has something in it")
    parser.add_argument("--json", action="store_true", help="the whole report as JSON")
    asked = parser.parse_args(argv)
    environ = dict(os.environ)
    settings = load_settings(environ).settings
    if settings.store.url:
        raise BadRequest("the state of this home is in PostgreSQL", fix="copy it to a directory: pal store copy")
    root = expand_path(asked.path, environ, os.getcwd())
    home = find_home(environ)
    _begin(root, home, overwrite=asked.overwrite)
    asyncio.run(_finish_journal(home))
    lines = list(HomeExporter(home, root, environ, settings).run())
    if asked.json:
        print(to_json({"program": "OpenClaw", "home": root, "lines": msgspec.to_builtins(lines)}, pretty=True))
    else:
        _print(root, lines)
    return 0


def _begin(root: str, home: str, *, overwrite: bool) -> None:
    """The marker is there, or it is refused. Raises BadRequest."""
    if os.path.realpath(root) == os.path.realpath(home):
        raise BadRequest("that is this home itself", fix="name another folder")
    begun = read_object(os.path.join(root, MARKER))
    if list_folder(root) and not overwrite and (begun or {}).get("from") != home:
        raise BadRequest(
            f"{root} is not empty", fix="name another folder, or write into it all the same: --overwrite (files of the "
            "same name are replaced)"
        )  # fmt: skip
    os.makedirs(root, mode=0o700, exist_ok=True)
    place_file(root, MARKER, msgspec.json.encode({"from": home, "about": "not whole: run `pal export` again"}))


async def _finish_journal(home: str) -> None:
    """What was said last is in the transcript files. Raises StateLocked while a gateway runs."""
    store = await open_store(home, SystemClock())
    try:
        for row in await store.sessions():
            await store.complete_file(SessionRecord.decode(row.data).path(row.agent))
    finally:
        await store.close()


class HomeExporter:
    """From `home` to `root`; every step gives the lines of the report."""

    def __init__(self, home: str, root: str, environ: Mapping[str, str], settings: Settings) -> None:
        self._home = home
        self._root = root
        self._environ = environ
        self._settings = settings

    def run(self) -> Iterator[ImportLine]:
        """Everything; the config is last, then the marker goes. Raises StateError."""
        spaces: dict[str, str] = {}
        for agent in self._settings.agents.values():
            yield from self._workspace(agent.id, agent.workspace, spaces)
        yield from self._folder(os.path.join(self._home, "skills"), "skills", "skills")
        with open_reader(self._home) as reader:
            yield from self._sessions([(row.key, row.agent, row.data) for row in reader.sessions()])
            yield from self._records([row.data for row in reader.list_records(JOB)],
                                     [row.data for row in reader.list_records(LET_IN)])  # fmt: skip
        for name in list_folder(os.path.join(self._home, "agents")):
            yield from self._copy("keys", f"agents/{name}/agent/auth-profiles.json")
        yield from self._copy("approvals", APPROVALS_FILE)
        yield from self._config(spaces)
        os.unlink(os.path.join(self._root, MARKER))

    def _place(self, place: str, data: bytes) -> None:
        place_file(self._root, place, data)
        pass_crashpoint("export.placed")

    def _copy(self, part: str, place: str) -> Iterator[ImportLine]:
        try:
            data = read_plain_file(os.path.join(self._home, place), LARGEST)
        except FileNotFoundError:
            return
        self._place(place, data)
        yield ImportLine(part, place, "kept")

    def _folder(self, folder: str, place: str, part: str) -> Iterator[ImportLine]:
        lines: list[ImportLine] = []
        for file in walk_files(folder, place, part, lines):
            try:
                self._place(file.place, file.read())
                os.chmod(os.path.join(self._root, file.place), file.mode)
                yield ImportLine(file.part, file.place, "kept")
            except OSError as error:
                yield ImportLine(file.part, file.place, "lost", f"cannot be read: {error.strerror or error}")
        yield from lines

    def _workspace(self, agent: str, folder: str, spaces: dict[str, str]) -> Iterator[ImportLine]:
        """One inside our home is copied, one elsewhere is used by both. `spaces`: folder -> where it is there."""
        if folder in spaces:
            return
        inside = os.path.relpath(folder, self._home)
        if inside.startswith(".."):
            spaces[folder] = folder
            yield ImportLine("workspace", folder, "kept", "used as it is, by both programs")
            return
        place = inside.replace(os.sep, "-")
        spaces[folder] = os.path.join(self._root, place)
        yield from self._folder(folder, place, "workspace")

    def _sessions(self, rows: list[tuple[str, str, bytes]]) -> Iterator[ImportLine]:
        index: dict[str, dict[str, Any]] = {}
        used: set[str] = set()
        for key, agent, data in rows:
            try:
                record = SessionRecord.decode(data)
                path = record.path(agent)
                self._place(path, read_plain_file(os.path.join(self._home, path), LARGEST))
            except (OSError, StateBroken) as error:
                yield ImportLine("sessions", key, "lost", f"there is no transcript: {error}")
                continue
            used.add(path)
            entry = msgspec.json.decode(msgspec.structs.replace(record, sessionFile=None, status=None).encode())
            index.setdefault(agent, {})[key] = {**entry, "sessionFile": os.path.join(self._root, path)}
            yield ImportLine("sessions", key, "kept")
        for agent in list_folder(os.path.join(self._home, "agents")):
            folder = f"agents/{agent}/sessions"
            for name in list_folder(os.path.join(self._home, folder)):
                if ".jsonl" in name and ".result-" not in name and f"{folder}/{name}" not in used:
                    yield from self._copy("archives", f"{folder}/{name}")
        for agent, entries in index.items():
            self._place(f"agents/{agent}/sessions/sessions.json", msgspec.json.encode(entries))

    def _records(self, jobs: list[bytes], people: list[bytes]) -> Iterator[ImportLine]:
        made = [msgspec.json.decode(data, type=CronJob) for data in jobs]
        if made:
            theirs = [{**msgspec.to_builtins(job), "state": {}} for job in made]
            for job in theirs:
                for name in ("misfire", "misfireWindowMs", "source"):
                    job.pop(name, None)
            self._place("cron/jobs.json", msgspec.json.encode({"version": 1, "jobs": theirs}))
        yield from (ImportLine("jobs", job.name, "changed", "`openclaw doctor --fix` takes it in") for job in made)
        by: dict[str, list[str]] = {}
        for data in people:
            person = msgspec.json.decode(data, type=PairedPerson)
            by.setdefault(f"{person.channel}-{person.account}", []).append(person.id)
            yield ImportLine("people", person.who, "kept")
        for owner, ids in by.items():
            name = f"credentials/{owner.removesuffix('-default')}-allowFrom.json"
            self._place(name, msgspec.json.encode({"version": 1, "allowFrom": sorted(ids)}))

    def _config(self, spaces: dict[str, str]) -> Iterator[ImportLine]:
        raw, _ = read_included(locate_config_file(self._home), self._environ)
        config = raw if isinstance(raw, dict) else {}
        agents = config.setdefault("agents", {})
        listed = [one for one in agents.get("list") or () if isinstance(one, dict)]
        listed += [{**one, "id": name} for name, one in (agents.pop("entries", None) or {}).items()]
        if listed:
            agents["list"] = listed
        lines: list[ImportLine] = []
        made = _without(config, (), [tuple(row.split(".")) for row in OURS.split()], lines)
        for owner in (made.setdefault("agents", {}).setdefault("defaults", {}), *made["agents"].get("list", ())):
            agent = self._settings.agents.get(str(owner.get("id") or self._settings.default_agent))
            if agent is not None and ("workspace" in owner or "id" not in owner):
                owner["workspace"] = spaces[agent.workspace]
        gate = made.setdefault("gateway", {})
        gate.setdefault("mode", "local")  # it does not start without
        secret = read_token(self._home)
        if secret and "auth" not in gate:
            gate["auth"] = {"mode": "token", "token": secret}
        self._place(CONFIG, msgspec.json.format(msgspec.json.encode(made), indent=2))
        yield from lines


def _without(value: Any, path: Path, ours: list[tuple[str, ...]], lines: list[ImportLine]) -> Any:
    """Without the keys of ours; every key that stays or goes is in `lines`."""
    if any(len(row) == len(path) and all(map(_fits, row, path)) for row in ours):
        lines.append(ImportLine("config", show_path(path), "lost", "only known here"))
        return None
    if isinstance(value, dict) and value:
        below = {key: _without(one, (*path, key), ours, lines) for key, one in value.items()}
        return {key: one for key, one in below.items() if one is not None}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [_without(one, (*path, n), ours, lines) for n, one in enumerate(value)]
    if value is not None and path:
        lines.append(ImportLine("config", show_path(path), "kept"))
    return value


def _fits(pattern: str, part: str | int) -> bool:
    return pattern == part or pattern == ("[]" if isinstance(part, int) else "*")


def _print(root: str, lines: list[ImportLine]) -> None:
    print(f"a home of OpenClaw in {root}\n\n  {'':<11}{'found':>7}{'kept':>7}{'changed':>9}{'lost':>6}")
    for part, many, kept, changed, lost in count_fates(lines):
        print(f"  {part:<11}{many:>7}{kept:>7}{changed:>9}{lost:>6}")
    gone = [line for line in lines if line.fate != "kept"]
    print("\nchanged and lost" if gone else "")
    for line in gone[:SHOWN]:
        print(f"  {line.part}: {line.name}: {line.why}")
    if len(gone) > SHOWN:
        print(f"  and {len(gone) - SHOWN} more: --json")
    print("\nnothing here was changed. next: openclaw doctor --fix, then openclaw gateway")
