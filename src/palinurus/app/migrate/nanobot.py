"""nanobot's home (~/.nanobot), read without touching it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from palinurus.app.migrate.chats import REWRITTEN, ChatMessage, read_time, write_transcript
from palinurus.app.migrate.found import (
    FoundFile,
    FoundHome,
    FoundPerson,
    FoundSession,
    ImportLine,
    decode_object,
    list_folder,
    list_rest,
    read_later,
    read_object,
    walk_files,
)
from palinurus.config.paths import expand_path
from palinurus.core.types.keys import escape_key_part
from palinurus.errors import BadRequest
from palinurus.patterns import compile_late

_SAFE = compile_late(r"[^A-Za-z0-9_.-]+")
_GROUP = compile_late(r":(-\d|#)|@(g\.us|chatroom)$")  # ids of chats of many
_SNAKE = compile_late(r"_([a-z])")
_JOBS = ("workspace/cron/", "workspace/cron.lock")  # read as jobs, not copied
_MEMORY = ("workspace/memory/MEMORY.md", "workspace/MEMORY.md")
# Its name of a vendor -> ours, where they differ.
_VENDORS = {
    "gemini": "google",
    "zhipu": "zai",
    "lm_studio": "lmstudio",
    "xiaomi_mimo": "xiaomi",
    "bedrock": "amazon-bedrock",
}
# A channel's key there -> here. A channel that is not named here keeps nothing but `allowFrom`.
_CHANNELS = {
    "telegram": {"token": "botToken", "proxy": "proxy"},
    "discord": {"token": "token"},
    "slack": {"botToken": "botToken", "appToken": "appToken"},
    "matrix": {"homeserver": "homeserver", "userId": "userId", "accessToken": "accessToken"},
    "signal": {"phoneNumber": "account"},
}
_LEFT = {
    "logs": "logs of the other program",
    "media": "files of past messages stay where they are",
    "webui": "what its page remembered",
    "history": "lines typed in its terminal",
    "bridge": "WhatsApp is paired again: pal channels login whatsapp",
}
_KNOWN = {"config.json", "workspace", "cron", "sessions", "pairing.json"}


def read_nanobot(root: str, environ: Mapping[str, str]) -> FoundHome:
    """Raises BadRequest if this is no home of nanobot's or something of it cannot be read."""
    told = read_object(os.path.join(root, "config.json"))
    if told is None:
        raise BadRequest(
            f"{root} is no home of nanobot's: there is no config.json",
            fix="name the folder that nanobot calls its home, usually ~/.nanobot",
        )
    defaults = (told.get("agents") or {}).get("defaults") or {}
    folder = expand_path(str(defaults.get("workspace") or os.path.join(root, "workspace")), environ, root)
    lines: list[ImportLine] = []
    config = _config(told, defaults, lines)
    folders = [folder for folder, _, _ in os.walk(os.path.join(root, "sessions"))]
    paired = (read_object(os.path.join(root, "pairing.json")) or {}).get("approved") or {}
    people = [FoundPerson(channel, "default", str(who)) for channel, all_ in paired.items() for who in all_ or ()]
    left = [name for name in list_folder(root) if name not in _KNOWN]
    lines += list_rest(left, _LEFT)
    return FoundHome(
        program="nanobot",
        root=root,
        config=config,
        changed_keys=dict.fromkeys(("agents", "models", "channels", "mcp"), "the same under our key"),
        files=tuple(
            _move_memory(file)
            for file in walk_files(folder, "workspace", "workspace", lines)
            if not file.place.startswith(_JOBS)
        ),
        sessions=tuple(one for each in (os.path.join(folder, "sessions"), *folders) for one in _sessions(each)),
        jobs=tuple(_jobs((os.path.join(root, "cron"), os.path.join(folder, "cron")), lines)),
        people=tuple(people),
        lines=tuple(lines),
    )


def _move_memory(file: FoundFile) -> FoundFile:
    """What it always knows stands at the top of a workspace here."""
    return msgspec.structs.replace(file, place=_MEMORY[1]) if file.place == _MEMORY[0] else file


def _config(told: dict[str, Any], defaults: dict[str, Any], lines: list[ImportLine]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if model := defaults.get("model"):
        made["agents"] = {
            "defaults": {"model": {"primary": _model(str(model), str(defaults.get("provider") or "auto"))}}
        }
    if zone := defaults.get("timezone"):
        made.setdefault("agents", {}).setdefault("defaults", {})["userTimezone"] = zone
    for name, about in (told.get("providers") or {}).items():
        if isinstance(about, dict) and (about.get("apiKey") or about.get("apiBase")):
            fields = {
                "apiKey": about.get("apiKey"),
                "baseUrl": about.get("apiBase"),
                "headers": about.get("extraHeaders"),
            }
            own = {key: value for key, value in fields.items() if value}
            made.setdefault("models", {}).setdefault("providers", {})[_VENDORS.get(name, name).replace("_", "-")] = own
    for name, about in (told.get("channels") or {}).items():
        if isinstance(about, dict):
            made.setdefault("channels", {})[name] = _channel(name, about, lines)
    for name, server in ((told.get("tools") or {}).get("mcpServers") or {}).items():
        kept = {key: server[key] for key in ("command", "args", "env", "url", "headers", "cwd") if server.get(key)}
        made.setdefault("mcp", {}).setdefault("servers", {})[name] = kept
    for name in sorted(set(told) - {"agents", "providers", "channels", "tools"}):
        lines.append(ImportLine("config", name, "lost", "set it anew: pal config explain"))
    for name in sorted(set(defaults) - {"model", "provider", "workspace", "timezone"}):
        lines.append(
            ImportLine("config", f"agents.defaults.{name}", "lost", "set it anew: pal config explain agents.defaults")
        )
    return made


def _model(model: str, provider: str) -> str:
    if provider in ("auto", "") or model.startswith(f"{provider}/"):
        return model
    return f"{_VENDORS.get(provider, provider).replace('_', '-')}/{model}"


def _channel(name: str, about: dict[str, Any], lines: list[ImportLine]) -> dict[str, Any]:
    names = {"enabled": "enabled", "allowFrom": "allowFrom", **_CHANNELS.get(name, {})}
    for key in sorted(set(about) - set(names)):
        lines.append(ImportLine("config", f"channels.{name}.{key}", "lost", f"set it anew: docs/channels/{name}.md"))
    return {names[key]: value for key, value in about.items() if key in names}


def _sessions(folder: str) -> Iterator[FoundSession]:
    for name in list_folder(folder):
        if name.endswith(".jsonl") and not name.startswith("."):
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                head = decode_object(file.readline())
            key = str(head.get("key") or name.removesuffix(".jsonl"))
            ident = f"nanobot-{_SAFE.sub('-', key)[:120]}"
            ours = _key(key, ident)
            record = {"sessionId": ident, "updatedAt": read_time(head.get("updated_at")), "label": key}
            if _GROUP.search(key):
                record["chatType"] = "group"
            yield FoundSession(ours, record, _reader(path, ours, ident), REWRITTEN)


def _key(key: str, ident: str) -> str:
    """A chat's own session where the channel is one of ours, else one by its name."""
    channel, _, chat = key.partition(":")
    if channel in _CHANNELS and chat:
        return f"agent:main:{channel}:direct:{escape_key_part(chat)}"
    return f"agent:main:explicit:{ident.lower()}"


def _reader(path: str, key: str, ident: str) -> Callable[[], bytes]:
    def read() -> bytes:
        rows = [decode_object(line) for line in read_later(path)().splitlines()]
        return write_transcript(key, ident, (_message(row) for row in rows if row.get("role")))

    return read


def _message(row: dict[str, Any]) -> ChatMessage:
    return ChatMessage(
        role=str(row["role"]),
        content=row.get("content"),
        at=read_time(row.get("timestamp")),
        calls=row.get("tool_calls"),
        call_id=str(row.get("tool_call_id") or ""),
        name=str(row.get("name") or ""),
        thinking=str(row.get("reasoning_content") or ""),
    )


def _jobs(folders: tuple[str, ...], lines: list[ImportLine]) -> Iterator[dict[str, Any]]:
    jobs: dict[str, dict[str, Any]] = {}
    for folder in folders:
        kept = (read_object(os.path.join(folder, "jobs.json")) or {}).get("jobs") or ()
        jobs |= {str(job.get("id")): _camel(job) for job in kept if isinstance(job, dict)}
        _apply_actions(os.path.join(folder, "action.jsonl"), jobs)
    for job in jobs.values():
        told, when = job.get("payload") or {}, job.get("schedule") or {}
        if told.get("kind") == "system_event":
            lines.append(ImportLine("jobs", str(job.get("name")), "lost", "the other program's own upkeep"))
            continue
        to = {"mode": "announce", "channel": told.get("channel") or told.get("originChannel") or "",
              "to": told.get("to") or told.get("originChatId") or ""}  # fmt: skip
        times = {"kind": when.get("kind"), "at": when.get("atMs"), "everyMs": when.get("everyMs"),
                 "expr": when.get("expr"), "tz": when.get("tz")}  # fmt: skip
        yield {
            "id": job.get("id"),
            "name": job.get("name"),
            "enabled": job.get("enabled", True),
            "schedule": {key: value for key, value in times.items() if value is not None},
            "payload": {"kind": "agentTurn", "message": told.get("message") or ""},
            "delivery": to if to["to"] else {"mode": "none"},
            "deleteAfterRun": bool(job.get("deleteAfterRun")),
        }


def _apply_actions(path: str, jobs: dict[str, dict[str, Any]]) -> None:
    """What was changed while its gateway did not run, and is not in the list of jobs yet."""
    try:
        data = read_later(path)()
    except OSError:
        return
    for row in map(decode_object, data.splitlines()):
        about = _camel(row.get("params") or {})
        ident = str(about.get("id") or about.get("jobId") or "")
        if row.get("action") == "del":
            jobs.pop(ident, None)
        elif ident:
            jobs[ident] = {**jobs.get(ident, {}), **about}


def _camel(value: Any) -> Any:
    """With keys as its newer files have them: one of its writers says at_ms for atMs."""
    if not isinstance(value, dict):
        return value
    return {_SNAKE.sub(lambda found: found[1].upper(), str(key)): _camel(one) for key, one in value.items()}
