"""A state directory to run against: config with a provider that is a `ModelServer`, workspace, files, spool.

Knows the config keys, nothing of the program that reads them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

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
