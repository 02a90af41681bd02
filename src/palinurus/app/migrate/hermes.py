"""hermes-agent's home (~/.hermes), read without touching it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from palinurus.app.migrate.chats import REWRITTEN, ChatMessage, read_time, write_transcript
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
from palinurus.core.skills.frontmatter import BadFrontMatter, parse_yaml
from palinurus.core.types.keys import escape_key_part
from palinurus.errors import BadRequest

_CHATS = frozenset({"telegram", "discord", "slack", "signal", "whatsapp", "matrix", "email", "irc"})
# Its files of the persona and of memory -> ours.
_FILES = {
    "SOUL.md": "SOUL.md",
    "memories/MEMORY.md": "MEMORY.md",
    "memories/USER.md": "USER.md",
    "AGENTS.md": "AGENTS.md",
}
# Its variables for channels -> our keys. Every other variable keeps its name, in env.vars.
_TOKENS = {
    "TELEGRAM_BOT_TOKEN": ("telegram", "botToken"),
    "DISCORD_BOT_TOKEN": ("discord", "token"),
    "SLACK_BOT_TOKEN": ("slack", "botToken"),
    "SLACK_APP_TOKEN": ("slack", "appToken"),
}
_LEFT = {
    "logs": "logs of the other program",
    "sandboxes": "copies of workspaces for containers",
    "image_cache": "files of past messages stay where they are",
    "audio_cache": "files of past messages stay where they are",
    "sessions": "the same conversations are in its database",
    "auth.json": "sign in again: pal models login",
    "plugins": "its plugins do not run here; docs/plugins.md says how to write one",
    "hooks": "its hooks do not run here; docs/plugins.md says how to write one",
    "profiles": "import each by its path: pal import hermes ~/.hermes/profiles/NAME",
}
_KNOWN = {
    "config.yaml",
    ".env",
    "state.db",
    "cron",
    "skills",
    "memories",
    "SOUL.md",
    "AGENTS.md",
    "pairing",
    "platforms",
}


def read_hermes(root: str, environ: Mapping[str, str]) -> FoundHome:
    """Raises BadRequest if this is no home of hermes' or something of it cannot be read."""
    if not any(os.path.exists(os.path.join(root, name)) for name in ("config.yaml", "state.db")):
        raise BadRequest(
            f"{root} is no home of hermes': neither config.yaml nor state.db is there",
            fix="name the folder that hermes calls its home, usually ~/.hermes",
        )
    lines: list[ImportLine] = []
    files = [
        FoundFile("memory" if "/" in name else "workspace", f"workspace/{ours}", read_later(os.path.join(root, name)))
        for name, ours in _FILES.items()
        if os.path.isfile(os.path.join(root, name))
    ]
    files += walk_files(os.path.join(root, "skills"), "skills", "skills", lines)
    tables = read_tables(os.path.join(root, "state.db"), {"sessions", "messages"})
    left = [name for name in list_folder(root) if name not in _KNOWN and not name.startswith("state.db-")]
    config = _config(root, lines)
    lines += list_rest(left, _LEFT)
    return FoundHome(
        program="hermes",
        root=root,
        config=config,
        changed_keys=dict.fromkeys(("agents", "models", "channels", "mcp", "env"), "the same under our key"),
        files=tuple(files),
        sessions=tuple(_sessions(tables)),
        jobs=tuple(_jobs(root, lines)),
        people=tuple(_people(root)),
        lines=tuple(lines),
    )


def _config(root: str, lines: list[ImportLine]) -> dict[str, Any]:
    told = _yaml(os.path.join(root, "config.yaml"))
    made: dict[str, Any] = {}
    model = told.get("model")
    about = model if isinstance(model, dict) else {"default": model}
    name, vendor = about.get("default") or about.get("model"), about.get("provider")
    if name:
        ref = name if not vendor or vendor in ("auto", "custom") or "/" in str(name) else f"{vendor}/{name}"
        made["agents"] = {"defaults": {"model": {"primary": str(ref)}}}
    if about.get("base_url"):
        made["models"] = {
            "providers": {str(vendor or "custom"): {"baseUrl": about["base_url"], "models": [{"id": str(name)}]}}
        }
        made["agents"] = {"defaults": {"model": {"primary": f"{vendor or 'custom'}/{name}"}}}
    for server, each in (told.get("mcp_servers") or {}).items():
        kept = {key: each[key] for key in ("command", "args", "env", "url", "headers") if each.get(key)}
        made.setdefault("mcp", {}).setdefault("servers", {})[server] = kept
    for key in sorted(set(told) - {"model", "mcp_servers", "_config_version"}):
        lines.append(ImportLine("config", key, "lost", "set it anew: pal config explain"))
    for variable, value in read_variables(os.path.join(root, ".env")):
        channel = _TOKENS.get(variable)
        if channel:
            made.setdefault("channels", {}).setdefault(channel[0], {})[channel[1]] = value
        elif variable.endswith("_ALLOWED_USERS"):
            who = [one.strip() for one in value.split(",") if one.strip()]
            made.setdefault("channels", {}).setdefault(variable.removesuffix("_ALLOWED_USERS").lower(), {})[
                "allowFrom"
            ] = who
        else:
            made.setdefault("env", {}).setdefault("vars", {})[variable] = value
    return made


def _yaml(path: str) -> dict[str, Any]:
    try:
        read = parse_yaml(read_later(path)().decode(errors="replace"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error}") from None
    if isinstance(read, BadFrontMatter):
        raise BadRequest(f"{path} cannot be read: {read.message}", fix="repair it, or leave it out: --only")
    return read.fields if isinstance(read.fields, dict) else {}


def _sessions(tables: Tables) -> Iterator[FoundSession]:
    said: dict[str, list[dict[str, Any]]] = {}
    for row in tables.get("messages", ()):
        if row.get("active", 1):
            said.setdefault(row["session_id"], []).append(row)
    newest: dict[str, str] = {}
    for row in sorted(tables.get("sessions", ()), key=lambda row: row["started_at"]):
        newest[_key(row)] = row["id"]
    for row in tables.get("sessions", ()):
        rows = sorted(said.get(row["id"], []), key=lambda each: (each["timestamp"], each["id"]))
        key, ident = _key(row), f"hermes-{row['id']}"
        if newest[key] != row["id"]:
            key = f"agent:main:explicit:{ident.lower()}"
        at = read_time(row["ended_at"] or (rows[-1]["timestamp"] if rows else row["started_at"]))
        record = {"sessionId": ident, "updatedAt": at, "sessionStartedAt": read_time(row["started_at"])}
        if ":group:" in _key(row):
            record["chatType"] = "group"
        if row.get("title") or row.get("display_name"):
            record["label"] = row.get("title") or row.get("display_name")
        yield FoundSession(key, record, _reader(rows, key, ident, str(row.get("model") or "")), REWRITTEN)


def _key(row: dict[str, Any]) -> str:
    channel, chat = str(row.get("source") or ""), str(row.get("chat_id") or row.get("user_id") or "")
    if channel in _CHATS and chat:
        kind = "group" if row.get("chat_type") in ("group", "channel", "supergroup") else "direct"
        return f"agent:main:{channel}:{kind}:{escape_key_part(chat)}"
    return f"agent:main:explicit:hermes-{row['id']}".lower()


def _reader(rows: list[dict[str, Any]], key: str, ident: str, model: str) -> Callable[[], bytes]:
    return lambda: write_transcript(key, ident, (_message(row, model) for row in rows))


def _message(row: dict[str, Any], model: str) -> ChatMessage:
    calls = decode_object(f'{{"calls": {row["tool_calls"] or "null"}}}').get("calls")
    return ChatMessage(
        role=row["role"],
        content=row["content"],
        at=read_time(row["timestamp"]),
        calls=calls,
        call_id=row["tool_call_id"] or "",
        name=row["tool_name"] or "",
        thinking=row.get("reasoning_content") or row.get("reasoning") or "",
        model=model if row["role"] == "assistant" else "",
    )


def _jobs(root: str, lines: list[ImportLine]) -> Iterator[dict[str, Any]]:
    for job in (read_object(os.path.join(root, "cron", "jobs.json")) or {}).get("jobs") or ():
        when = job.get("schedule") or {}
        every = when.get("minutes")
        schedule = {
            "cron": {"kind": "cron", "expr": when.get("expr")},
            "interval": {"kind": "every", "everyMs": int(every * 60_000) if isinstance(every, int | float) else None},
            "once": {"kind": "at", "at": when.get("run_at")},
        }.get(str(when.get("kind")))
        if schedule is None:
            lines.append(ImportLine("jobs", str(job.get("name")), "lost", f"a schedule of kind {when.get('kind')!r}"))
            continue
        channel, _, to = str(job.get("deliver") or "").partition(":")
        known = {"mode": "announce", "channel": channel, "to": to} if to and channel in _CHATS else {"mode": "none"}
        yield {
            "id": job.get("id"),
            "name": job.get("name"),
            "enabled": job.get("enabled", True) and job.get("state") != "paused",
            "schedule": schedule,
            "payload": {"kind": "agentTurn", "message": job.get("prompt") or ""},
            "delivery": known,
        }


def _people(root: str) -> Iterator[FoundPerson]:
    for folder in (os.path.join(root, "pairing"), os.path.join(root, "platforms", "pairing")):
        for name in list_folder(folder):
            if name.endswith("-approved.json"):
                channel = name.removesuffix("-approved.json")
                yield from (
                    FoundPerson(channel, "default", who) for who in read_object(os.path.join(folder, name)) or {}
                )
