"""A state directory to run against (config with a provider that is a `ModelServer`, workspace, files, spool), and a
checker over what it holds after the gateway has stopped: was anything lost, doubled or broken?

Knows the config keys, nothing of the program that reads them. The checker uses nothing but sqlite3 and JSON, so that a
mistake in our own readers cannot hide one in our writers; `check_snapshot` is pure, `check_home` reads and judges.
"""

from __future__ import annotations

import glob
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any

import msgspec

EXPLAINED = ("failed", "refused", "aborted", "dead")
LEAF = "palinurus.leaf"
OUTCOMES = ("answered", "silent", *EXPLAINED)


class HomeSnapshot(msgspec.Struct, frozen=True):
    """What is on disk. Rows are dicts with the names of `store.port`; `files` are transcript lines by path."""

    inbox: tuple[dict[str, Any], ...]
    outbox: tuple[dict[str, Any], ...]
    files: dict[str, tuple[bytes, ...]]
    shown: tuple[dict[str, Any], ...] = ()  # what the spool channel wrote
    sick: str = ""  # what SQLite's own check says, "" when it is content


def check_home(home: str) -> list[str]:
    """What is wrong with a stopped home, one sentence each; [] when all is well."""
    return check_snapshot(read_snapshot(home))


def read_snapshot(home: str) -> HomeSnapshot:
    """Everything the checker looks at. Raises sqlite3.Error when there is no database."""
    with closing(sqlite3.connect(f"file:{os.path.join(home, 'state.db')}?mode=ro", uri=True)) as conn:
        conn.row_factory = sqlite3.Row
        sick = str(conn.execute("PRAGMA integrity_check").fetchone()[0])
        inbox = tuple(dict(row) for row in conn.execute("SELECT * FROM inbox ORDER BY seq"))
        outbox = tuple(dict(row) for row in conn.execute("SELECT * FROM outbox ORDER BY seq"))
        waiting = conn.execute("SELECT path, data FROM journal ORDER BY seq").fetchall()
    files = {}
    for path in sorted(glob.glob(os.path.join(home, "agents", "*", "sessions", "*.jsonl*"))):
        if not path.endswith(".jsonl") and ".jsonl.deleted." not in path:  # of a session that is no more
            continue
        with open(path, "rb") as handle:
            files[os.path.relpath(path, home)] = tuple(handle.read().split(b"\n"))
    for path, data in waiting:  # a transcript is its file and what waits for it
        there = files.get(path, (b"",))
        files[path] = there if data in there else (*there[:-1], data, b"")
    return HomeSnapshot(inbox, outbox, files, tuple(read_delivered(home)), sick="" if sick == "ok" else sick)


def check_snapshot(story: HomeSnapshot) -> list[str]:
    """What is wrong, one sentence each."""
    out = [f"state.db is damaged: {story.sick}"] if story.sick else []
    out += [*_messages(story), *_replies(story)]
    entries: list[dict[str, Any]] = []
    for path, lines in story.files.items():
        found, wrong = _transcript(path, lines)
        entries += found
        out += wrong
    return [*out, *_answers(story, entries), *_paths(story)]


def _messages(story: HomeSnapshot) -> Iterable[str]:
    """Every accepted message ended once."""
    rows = {row["id"]: row for row in story.inbox}
    for row in story.inbox:
        name = f"message {row['id']} ({row['dedupe']})"
        if row["state"] == "absorbed":
            host = rows.get(row["absorbed_by"], {})
            if host.get("state") != "done":
                yield f"{name} became part of a run that did not end"
            elif _where(row) != _where(host) and not _tells_of_command(row, host):
                yield f"{name} became part of a run whose answer goes elsewhere"
        elif row["state"] != "done":
            yield f"{name} is still {row['state']}"
        elif row["outcome"] not in OUTCOMES:
            yield f"{name} is done without an outcome"
        elif row["outcome"] in EXPLAINED and not row["note"]:
            yield f"{name} {row['outcome']} without a reason"
    for dedupe, count in Counter(row["dedupe"] for row in story.inbox).items():
        if count > 1:
            yield f"{dedupe} was accepted {count} times"


def _where(row: dict[str, Any]) -> Any:
    """Where the sender reads the answer: a chat, the page that shows the session, or the connection that waits."""
    body = msgspec.json.decode(row["body"], type=dict[str, Any])
    target = body.get("target")
    watched = isinstance(target, dict) and target.get("channel") == "webchat"
    return target if body.get("push", True) or watched else row["id"]


def _tells_of_command(row: dict[str, Any], host: dict[str, Any]) -> bool:
    """Is it a command's end, of which nobody asks, told to a run that answers where the command was asked for?"""
    where = [msgspec.json.decode(each["body"], type=dict[str, Any]).get("target") for each in (row, host)]
    return "/exec:" in row["dedupe"] and where[0] == where[1]


def _replies(story: HomeSnapshot) -> Iterable[str]:
    """Every reply was delivered once, or failed with a reason; every pushed answer has one."""
    for row in story.outbox:
        if row["state"] not in ("sent", "failed", "cancelled"):
            yield f"reply {row['id']} is still {row['state']}"
        elif row["state"] == "failed" and not row["error"]:
            yield f"reply {row['id']} failed without a reason"
    for ident, count in Counter(row["id"] for row in story.outbox).items():
        if count > 1:
            yield f"reply {ident} is in the outbox {count} times"
    screen = Counter(str(line["client_id"]) for line in story.shown)
    for ident, count in screen.items():
        if count > 1:
            yield f"reply {ident} was delivered {count} times"
    ours = {row["id"]: row for row in story.outbox if row["channel"] == "spool"}
    yield from (f"reply {ident} was delivered but is in no outbox" for ident in screen if ident not in ours)
    for ident, row in ours.items():
        if row["state"] == "sent" and ident not in screen:
            yield f"reply {ident} counts as sent but nobody saw it"
    replied = {row["item"] for row in story.outbox}
    stops = {
        row["session"].partition(":")[2] for row in story.inbox if row.get("lane") == "control"
    }  # answered themselves
    for row in story.inbox:
        pushed = msgspec.json.decode(row["body"], type=dict[str, Any]).get("push", True)
        if pushed and row["state"] == "done" and row["outcome"] != "silent" and row["id"] not in replied:
            if row["outcome"] == "aborted" and row["session"] in stops:
                continue
            yield f"message {row['id']} was {row['outcome']} but nobody was told"


def _transcript(path: str, lines: tuple[bytes, ...], *, every: bool = False) -> tuple[list[dict[str, Any]], list[str]]:
    """The message entries of a file (`every`: the others too), and what is wrong with it as a file."""
    out: list[str] = []
    entries: list[dict[str, Any]] = []
    seen: set[str] = set()
    if lines and lines[-1]:
        out.append(f"{path}: the last line has no end")
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            entry = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError):
            out.append(f"{path}:{number}: not JSON")
            continue
        if (number == 1) != (entry.get("type") == "session"):
            out.append(f"{path}:{number}: the header must be the first line, and only that")
            continue
        if number == 1:
            continue
        if entry["id"] in seen:
            out.append(f"{path}:{number}: entry {entry['id']} is there twice")
        if entry.get("parentId") is not None and entry["parentId"] not in seen:
            out.append(f"{path}:{number}: parent {entry['parentId']} is missing")
        seen.add(entry["id"])
        if every or entry.get("type") == "message":
            entries.append(entry)
    said = [e["message"] for e in entries if e.get("type") == "message"]
    return entries, out + [f"{path}: {text}" for text in find_unpaired_calls(said)]


def _paths(story: HomeSnapshot) -> Iterable[str]:
    """What was answered is what the model sees again: it lies on the path to the leaf, unless a person went back."""
    answered = {row["id"] for row in story.inbox if row["outcome"] in ("answered", "silent")}
    for path, lines in story.files.items():
        entries, _ = _transcript(path, lines, every=True)
        parents = {entry.get("id"): entry.get("parentId") for entry in entries}
        seen, at = set(), entries[-1].get("id") if entries else None
        while at is not None and at not in seen:
            seen.add(at)
            at = parents.get(at)
        moved = [n for n, entry in enumerate(entries) if entry.get("customType") == LEAF]
        for entry in entries[moved[-1] if moved else 0 :]:
            if entry.get("type") == "message" and entry.get("item") in answered and entry["id"] not in seen:
                yield f"{path}: entry {entry['id']} of message {entry['item']} is not on the path to the leaf"


def find_unpaired_calls(messages: list[dict[str, Any]]) -> list[str]:
    """Tool calls without exactly one result before the next user or assistant message, and results without a call."""
    out: list[str] = []
    waiting: dict[str, str] = {}
    for message in [*messages, {"role": "end"}]:
        role = message["role"]
        if role == "toolResult":
            if waiting.pop(message["toolCallId"], None) is None:
                out.append(f"result {message['toolCallId']} answers no call")
            continue
        out += [f"call {ident} of {name} has no result" for ident, name in waiting.items()]
        waiting = {}
        if role == "assistant" and message.get("stopReason") not in ("error", "aborted"):
            waiting = {b["id"]: b["name"] for b in message["content"] if b["type"] == "toolCall"}
    return out


def _answers(story: HomeSnapshot, entries: list[dict[str, Any]]) -> Iterable[str]:
    """The question of an answered message is in the transcript once, and so is its final answer."""
    mine: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        mine.setdefault(entry.get("item", ""), []).append(entry["message"])
    guests = Counter(row["absorbed_by"] for row in story.inbox if row["state"] == "absorbed")
    for row in story.inbox:
        if row["state"] != "done" or row["outcome"] not in ("answered", "silent") or row.get("lane") == "control":
            continue
        said = mine.get(row["id"], [])
        asked = sum(message["role"] == "user" for message in said)
        final = sum(_final(message) for message in said)
        if asked != 1 + guests[row["id"]]:
            yield f"message {row['id']}: its question is {asked} times in the transcript, not {1 + guests[row['id']]}"
        if not 1 <= final <= 1 + guests[row["id"]]:
            yield f"message {row['id']}: its answer is {final} times in the transcript"
        elif said and not _final(said[-1]):
            yield f"message {row['id']}: something follows its answer"


def _final(message: dict[str, Any]) -> bool:
    if message["role"] != "assistant" or message.get("stopReason", "stop") not in ("stop", "length"):
        return False
    return not any(block["type"] == "toolCall" for block in message["content"])


TOKEN = "test-token"


def make_home(
    root: str | os.PathLike[str],
    config: Mapping[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
    *,
    url: str = "",
    api: str = "openai-completions",
    spool: bool = False,
) -> str:
    """Write `<root>/home/palinurus.json` and the workspace `<root>/work` holding `files`. Returns the home.

    `url` is a ModelServer's: it becomes provider `fake` with model `fake/model`. `config` is laid over the rest,
    key by key; a value None removes a key. With `spool` the channel of that name is on, in `<root>/spool`.
    """
    top = os.path.abspath(os.fspath(root))
    home, work = os.path.join(top, "home"), os.path.join(top, "work")
    os.makedirs(home, mode=0o700, exist_ok=True)
    os.makedirs(work, exist_ok=True)
    for name, text in (files or {}).items():
        path = os.path.join(work, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(text)
    base: dict[str, Any] = {
        "agents": {"defaults": {"workspace": work, "heartbeat": {"every": "0m"}}},
        "gateway": {"mode": "local", "bind": "loopback", "auth": {"mode": "token", "token": TOKEN}},
    }
    if url:
        base["models"] = {"providers": {"fake": make_provider_entry(url, api)}}
        base["agents"]["defaults"]["model"] = {"primary": "fake/model"}
    if spool:
        inbox = os.path.join(get_spool_dir(home), "in")
        os.makedirs(inbox, exist_ok=True)
        base["channels"] = {"spool": {"enabled": True, "dir": get_spool_dir(home)}}
    write_config(home, overlay_config(base, config or {}))
    return home


# What a copy does not take along: it would reach the world, or start things by itself.
OUTWARD = (
    "channels",
    "mcp",
    "plugins",
    "hooks",
    "cron",
    "bindings",
    "auth",
    "secrets",
    "env",
    "browser",
    "diagnostics",
)
_MODELS = frozenset(
    {"model", "imageModel", "imageGenerationModel", "pdfModel", "models", "heartbeat", "memorySearch", "tts"}
)


def copy_config(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The owner's configuration without what reaches the world or names a model."""
    kept = {name: value for name, value in raw.items() if name not in (*OUTWARD, "models", "gateway")}
    agents = kept.get("agents")
    if isinstance(agents, dict):
        kept["agents"] = {
            **agents,
            "defaults": _without_models(agents.get("defaults")),
            "list": [_without_models(one) for one in agents.get("list") or () if isinstance(one, dict)],
        }
    return kept


def _without_models(agent: Any) -> dict[str, Any]:
    found = agent if isinstance(agent, dict) else {}
    return {name: value for name, value in found.items() if name not in (*_MODELS, "workspace", "agentDir")}


def make_provider_entry(url: str, api: str = "openai-completions", model: str = "model") -> dict[str, Any]:
    """A `models.providers.<id>` entry for a ModelServer. Anthropic's base URL has no /v1 of its own."""
    base = url.removesuffix("/v1") if api == "anthropic-messages" else url
    known = {"id": model, "name": model, "input": ["text"], "contextWindow": 1_000_000, "maxTokens": 8192}
    return {"baseUrl": base, "apiKey": "fake-key", "api": api, "models": [known]}


def get_work_dir(home: str) -> str:
    """The workspace of a home made here."""
    return os.path.join(os.path.dirname(home), "work")


def get_spool_dir(home: str) -> str:
    """The spool channel's directory of a home made here."""
    return os.path.join(os.path.dirname(home), "spool")


def write_config(home: str, config: Mapping[str, Any]) -> None:
    """Replace the config file."""
    with open(os.path.join(home, "palinurus.json"), "wb") as handle:
        handle.write(msgspec.json.format(msgspec.json.encode(config), indent=2) + b"\n")


def overlay_config(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` laid on `base`, mappings merged, None removes."""
    out = dict(base)
    for key, value in over.items():
        old = out.get(key)
        if value is None:
            out.pop(key, None)
        elif isinstance(old, Mapping) and isinstance(value, Mapping):
            out[key] = overlay_config(old, value)
        else:
            out[key] = value
    return out


def drop_message(home: str, ident: str, text: str, *, sender: str = "human", to: str = "chat") -> str:
    """Put a message into the spool channel, as its writers must: whole, then renamed. Returns the file."""
    inbox = os.path.join(get_spool_dir(home), "in")
    path, temp = os.path.join(inbox, f"{ident}.json"), os.path.join(get_spool_dir(home), f".{ident}.tmp")
    with open(temp, "wb") as handle:
        handle.write(msgspec.json.encode({"id": ident, "from": sender, "to": to, "text": text}))
    os.rename(temp, path)
    return path


def read_delivered(home: str) -> list[dict[str, Any]]:
    """What the spool channel has delivered, oldest first; a torn last line is left out."""
    try:
        with open(os.path.join(get_spool_dir(home), "out.jsonl"), "rb") as handle:
            data = handle.read()
    except FileNotFoundError:
        return []
    return [msgspec.json.decode(line, type=dict[str, Any]) for line in data.split(b"\n")[:-1] if line.strip()]
