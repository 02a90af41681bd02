"""OpenClaw's home (~/.openclaw), read without touching it: the files of versions up to 2026.6, the SQLite databases of
later ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from palinurus import late
from palinurus.app.migrate.found import (
    FoundFile,
    FoundHome,
    FoundPerson,
    FoundSession,
    ImportLine,
    Tables,
    decode_object,
    list_folder,
    list_rest,
    read_later,
    read_object,
    read_tables,
    read_variables,
    walk_files,
)
from palinurus.config.include import read_included
from palinurus.config.paths import expand_path
from palinurus.errors import BadRequest
from palinurus.patterns import compile_late

CONFIG = "openclaw.json"
_TABLES = {"cron_jobs", "exec_approvals_config", "channel_pairing_allow_entries", "channel_pairing_requests"}
# Tables with something of the person's in them that cannot come over: why, and what to do.
_LOST_TABLES = {
    "device_pairing_paired": "pair each device again: pal devices",
    "device_auth_tokens": "pair each device again: pal devices",
    "node_pairing_paired": "pair each node again: pal nodes pair",
    "mcp_oauth_stores": "sign in to each tool server again",
    "secret_store_entries": "sealed with the other program's own key: set them anew (pal config explain secrets)",
    "plugin_state_entries": "of plugins in JavaScript; a channel's sign-in is made again: pal channels login",
    "plugin_blob_entries": "of plugins in JavaScript, which do not run here",
    "delivery_queue_entries": "replies the other program had not sent",
    "commitments": "promises the agent had made: ask it to make them again",
    "web_push_subscriptions": "open the page here and allow notifications",
    "apns_registrations": "pair the phone again: pal qr --phone",
    "voicewake_triggers": "set it anew: pal config explain talk",
    "worktrees": "work trees stay where they are",
    "projects": "folders of projects stay where they are",
    "user_profiles": "people are let in by channel: pal pairing",
    "session_groups": "groups of conversations are not kept here",
    "meeting_transcript_sessions": "notes of meetings stay in the other program",
    "acp_sessions": "sessions of editors begin anew: pal acp",
}
_LOST_OWN_TABLES = {
    "session_transcript_archives": "an archive in the database; put it back there, then import again",
    "session_transcript_cold_archives": "an archive in the database; put it back there, then import again",
    "standing_intents": "what the agent watched for: ask it again (pal cron add)",
    "board_widgets": "pages the agent drew stay where they are",
    "session_pending_inputs": "messages the other program had not answered: write them again",
}
_OWN_TABLES = {"session_nodes", "transcript_events", "auth_profile_store"}
_ARCHIVE = compile_late(r"(?<!\.trajectory)\.jsonl(\.|$)")
_WAITED = "was waiting to be let in; a new code comes when they write"

# Top-level names that are no data of the person's, and why they stay behind.
_LEFT = {
    "logs": "logs of the other program",
    "update-check.json": "state of the other program's updates",
    "plugin-skills": "comes with the other program's plugins",
    "workspace-attestations": "the other program's own notes about its templates",
    "identity": "the other program's own device key",
    "devices": "pair each device again: pal devices",
    "node.json": "pair the node again: pal node run",
    "extensions": "plugins in JavaScript do not run here; docs/plugins.md says how to write one",
    "npm": "plugins in JavaScript do not run here; docs/plugins.md says how to write one",
    "plugins": "plugins in JavaScript do not run here; docs/plugins.md says how to write one",
    "hooks": "hooks in JavaScript do not run here; docs/plugins.md says how to write one",
    "memory": "the search index is built anew from the memory files",
    "media": "files of past messages stay where they are",
    "canvas": "pages the agent drew stay where they are",
    "browser": "browser profiles stay where they are; sign in again",
    "sandboxes": "copies of workspaces for containers",
    "subagents": "what ran in the background of the other program",
    "tasks": "what ran in the background of the other program",
    "flows": "what ran in the background of the other program",
    "delivery-queue": "replies the other program had not sent",
    "tmp": "temporary files",
    "cache": "temporary files",
}
_KNOWN = {"state", "agents", "credentials", "cron", "skills", "exec-approvals.json", CONFIG, ".env"}


def read_openclaw(root: str, environ: Mapping[str, str]) -> FoundHome:
    """Raises BadRequest if this is no home of OpenClaw's or something of it cannot be read."""
    if not os.path.isfile(os.path.join(root, CONFIG)) and not os.path.isdir(os.path.join(root, "agents")):
        raise BadRequest(
            f"{root} is no home of OpenClaw's: neither {CONFIG} nor agents/ is there",
            fix="name the folder that OpenClaw calls its state directory, usually ~/.openclaw",
        )
    if os.path.basename(root) == ".openclaw":  # "~" in its config is its own user's
        environ = {**environ, "HOME": os.path.dirname(root)}
    config, changed, spaces = _config(root, environ)
    agents = list_folder(os.path.join(root, "agents"))
    state = read_tables(os.path.join(root, "state", "openclaw.sqlite"), _TABLES | _LOST_TABLES.keys())
    files: list[FoundFile] = []
    sessions: list[FoundSession] = []
    lines = _list_lost(state, _LOST_TABLES, "")
    for place, folder in spaces.items():
        files += walk_files(folder, place, "workspace", lines)
    files += walk_files(os.path.join(root, "skills"), "skills", "skills", lines)
    for agent in agents:
        file = os.path.join(root, "agents", agent, "agent", "openclaw-agent.sqlite")
        tables = read_tables(file, _OWN_TABLES | _LOST_OWN_TABLES.keys())
        lines += _list_lost(tables, _LOST_OWN_TABLES, f"agents/{agent}/")
        as_files, archives = _sessions(root, agent, lines)
        sessions += (*as_files, *_kept_sessions(agent, tables))
        files += (*_keys(root, agent, tables), *archives)
    return FoundHome(
        program="OpenClaw",
        root=root,
        config=config,
        changed_keys=changed,
        files=tuple(files),
        sessions=tuple(sessions),
        jobs=tuple(_jobs(root, state, lines)),
        people=tuple(dict.fromkeys(_people(root, state, lines))),
        approvals=_approvals(root, state),
        lines=(*lines, *list_rest(_list_left(root, spaces), _LEFT)),
    )


def _config(root: str, environ: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
    """The config with its workspaces inside our home, what was changed in it, and the workspaces: place -> folder."""
    file = os.path.join(root, CONFIG)
    raw, parts = read_included(file, environ)
    if not parts and os.path.exists(file):
        raise BadRequest(f"{file} cannot be read", fix="repair it: it is no JSON5, or not yours to read")
    config = raw if isinstance(raw, dict) else {}
    config.pop("meta", None)
    config.pop("wizard", None)
    for name, value in read_variables(os.path.join(root, ".env")):
        config.setdefault("env", {}).setdefault("vars", {}).setdefault(name, value)
    agents = config.setdefault("agents", {})
    changed: dict[str, str] = {}
    spaces: dict[str, str] = {}

    def move(owner: dict[str, Any], key: str, otherwise: str) -> None:
        named = owner.get("workspace")
        folder = expand_path(named, environ, root) if isinstance(named, str) and named else otherwise
        inside = os.path.relpath(folder, root)
        if inside.startswith(".."):
            changed[key] = f"the folder {folder} is used as it is, by both programs"
            return
        place = "workspace" if folder == os.path.join(root, "workspace") else inside.replace(os.sep, "-")
        spaces[place] = folder
        if named:
            owner["workspace"] = place
            changed[key] = f"copied to {place} in this home"

    move(agents.setdefault("defaults", {}), "agents.defaults.workspace", os.path.join(root, "workspace"))
    listed = [each for each in agents.get("list") or () if isinstance(each, dict)]
    for name, each in [(str(each.get("id")), each) for each in listed] + [*(agents.get("entries") or {}).items()]:
        if isinstance(each, dict) and "workspace" in each:
            move(each, f"{name}.workspace", "")
    if not agents["defaults"]:
        agents.pop("defaults")
    return config, changed, spaces


def _keys(root: str, agent: str, tables: Tables) -> Iterator[FoundFile]:
    """Where our provider keys are looked for: the same file, or what later versions keep in a table."""
    inner = f"agents/{agent}/agent/auth-profiles.json"
    kept = next((str(row["store_json"]).encode() for row in tables.get("auth_profile_store", ())), None)
    if kept is not None:
        yield FoundFile("keys", inner, lambda: kept)
    elif os.path.isfile(path := os.path.join(root, inner)):
        yield FoundFile("keys", inner, read_later(path))


def _sessions(root: str, agent: str, lines: list[ImportLine]) -> tuple[list[FoundSession], list[FoundFile]]:
    """Of versions that keep them as files."""
    folder = os.path.join(root, "agents", agent, "sessions")
    found: list[FoundSession] = []
    used = set()
    for key, entry in (read_object(os.path.join(folder, "sessions.json")) or {}).items():
        if not isinstance(entry, dict) or not isinstance(entry.get("sessionId"), str):
            lines.append(ImportLine("sessions", key, "lost", "its entry has no session id"))
            continue
        name = os.path.basename(str(entry.get("sessionFile") or f"{entry['sessionId']}.jsonl"))
        used.add(name)
        found.append(FoundSession(_full_key(key, agent), entry, read_later(os.path.join(folder, name))))
    archives = [
        FoundFile("archives", f"agents/{agent}/sessions/{name}", read_later(os.path.join(folder, name)))
        for name in list_folder(folder)
        if _ARCHIVE.search(name) and name not in used
    ]
    return found, archives


def _kept_sessions(agent: str, tables: Tables) -> Iterator[FoundSession]:
    """Of versions that keep them in a database. What is not the current transcript of a session is one of its own."""
    events: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(tables.get("transcript_events", ()), key=lambda row: row["seq"]):
        events.setdefault(row["session_id"], []).append(row)
    for row in tables.get("session_nodes", ()):
        entry = {**decode_object(row["entry_json"]), "sessionId": row["current_session_id"]}
        entry.setdefault("updatedAt", row["updated_at"])
        yield FoundSession(_full_key(row["session_key"], agent), entry, _joined(events.pop(entry["sessionId"], [])))
    for ident, rows in events.items():
        record = {"sessionId": ident, "updatedAt": rows[-1]["created_at"]}
        yield FoundSession(f"agent:{agent}:explicit:{ident.lower()}", record, _joined(rows), "an earlier conversation")


def _joined(rows: list[dict[str, Any]]) -> Callable[[], bytes]:
    def read() -> bytes:
        if all(row["event_json"] is not None for row in rows):
            return "".join(f"{row['event_json']}\n" for row in rows).encode()
        try:
            unpack = late.load_part("zstandard").ZstdDecompressor().decompress
        except ModuleNotFoundError:
            raise BadRequest("part of it is compressed: `pal extras add migrate`, then import again") from None
        return b"".join((row["event_json"] or unpack(row["event_zstd"]).decode()).encode() + b"\n" for row in rows)

    return read


def _full_key(key: str, agent: str) -> str:
    return key if key.startswith("agent:") else f"agent:{agent}:{key}"


def _jobs(root: str, state: Tables, lines: list[ImportLine]) -> Iterator[dict[str, Any]]:
    kept = (read_object(os.path.join(root, "cron", "jobs.json")) or {}).get("jobs") or ()
    for job in (*kept, *(decode_object(row["job_json"]) for row in state.get("cron_jobs", ()))):
        if isinstance(job, dict) and "declarationKey" in job:
            lines.append(ImportLine("jobs", str(job.get("name")), "lost", "the other program's own upkeep"))
        elif isinstance(job, dict):
            yield job


def _approvals(root: str, state: Tables) -> dict[str, Any]:
    for row in state.get("exec_approvals_config", ()):
        return decode_object(row["raw_json"])
    return read_object(os.path.join(root, "exec-approvals.json")) or {}


def _people(root: str, state: Tables, lines: list[ImportLine]) -> Iterator[FoundPerson]:
    for row in state.get("channel_pairing_allow_entries", ()):
        yield FoundPerson(row["channel_key"], row["account_id"] or "default", row["entry"])
    for row in state.get("channel_pairing_requests", ()):
        lines.append(ImportLine("people", f"{row['channel_key']}:{row['request_id']}", "lost", _WAITED))
    folder = os.path.join(root, "credentials")
    for name in list_folder(folder):
        path = os.path.join(folder, name)
        if name.endswith("-allowFrom.json"):
            channel, _, account = name.removesuffix("-allowFrom.json").partition("-")
            for ident in (read_object(path) or {}).get("allowFrom") or ():
                yield FoundPerson(channel, account or "default", str(ident))
        elif name.endswith("-pairing.json"):
            for asked in (read_object(path) or {}).get("requests") or ():
                who = f"{name.removesuffix('-pairing.json')}:{asked.get('id')}" if isinstance(asked, dict) else name
                lines.append(ImportLine("people", who, "lost", _WAITED))
        else:
            lines.append(ImportLine("keys", f"credentials/{name}", "lost", "sign in again: pal channels login"))


def _list_lost(tables: Tables, reasons: Mapping[str, str], place: str) -> list[ImportLine]:
    """Rows of a database that stay behind, a line for each kind."""
    there = [(name, len(tables.get(name, ()))) for name in reasons]
    return [ImportLine("rest", f"{place}{name} ({many})", "lost", reasons[name]) for name, many in there if many]


def _list_left(root: str, spaces: Collection[str]) -> list[str]:
    """Every other name at the top, but for locks and copies of the config."""
    names = [name for name in list_folder(root) if name not in _KNOWN and name not in spaces]
    return [name for name in names if not name.startswith(f"{CONFIG}.") and not name.endswith((".bak", ".lock"))]
