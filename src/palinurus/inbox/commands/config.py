"""/config show|get|set|unset|explain: the configuration file from a chat. For the owner; secrets stay hidden."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from palinurus.config import relaxed
from palinurus.config.check import describe_key
from palinurus.config.explain import explain_key, find_effective, resolve_key
from palinurus.config.keypath import Path, get_at, has_at, parse_path, show_path
from palinurus.config.load import load_config
from palinurus.config.rewrite import KeyChange, set_config_key, unset_config_key
from palinurus.config.secrets import mask_secrets
from palinurus.errors import BadRequest
from palinurus.inbox.commands.command import CommandAnswer, CommandCall

USAGE = "Use /config show [KEY], get KEY, set KEY VALUE, unset KEY or explain KEY."
LONG = 6000  # characters shown


async def run_config(call: CommandCall) -> CommandAnswer:
    """Reads and writes in a thread. Raises PalinurusError with what is wrong; then nothing was written."""
    word, _, rest = call.args.strip().partition(" ")
    settings, target = call.program.settings, call.inbound.target
    if not settings.commands.config:
        return CommandAnswer("/config is switched off (commands.config).")
    if word.lower() in ("set", "unset") and not settings.account(target.channel, target.account).writes:
        return CommandAnswer(f"Nothing is changed from here (channels.{target.channel}.configWrites).")
    action = {"": _show, "show": _show, "get": _show, "set": _set, "unset": _unset, "explain": _explain}.get(
        word.lower()
    )
    if action is None:
        return CommandAnswer(f'"{word[:40]}" is not known. {USAGE}')
    return CommandAnswer(await asyncio.to_thread(action, call, rest.strip()))


async def run_mcp(call: CommandCall) -> CommandAnswer:
    """/mcp show|set|unset: the servers of the config."""
    return await _run_part(call, "mcp", "mcp.servers", "Use /mcp show [NAME], set NAME {…} or unset NAME.")


async def run_plugins(call: CommandCall) -> CommandAnswer:
    """/plugins show|enable|disable: which plugins are on."""
    word, _, name = call.args.strip().partition(" ")
    switch = {"enable": "true", "disable": "false"}.get(word.lower())
    if switch and name.strip():
        call = msgspec.structs.replace(call, args=f"set {name.strip()}.enabled {switch}")
    elif word.lower() in ("set", "unset"):
        call = msgspec.structs.replace(call, args="?")
    usage = "Use /plugins show [NAME], enable NAME or disable NAME."
    return await _run_part(call, "plugins", "plugins.entries", usage)


async def _run_part(call: CommandCall, name: str, place: str, usage: str) -> CommandAnswer:
    """/config for what stands below one place, where the config lets it."""
    if not getattr(call.program.settings.commands, name):
        return CommandAnswer(f"/{name} is switched off (commands.{name}).")
    word, _, rest = call.args.strip().partition(" ")
    key, rest = f"{place}.{rest.strip()}".rstrip("."), rest.strip()
    if word.lower() not in ("", "show", "list", "get", "set", "unset") or (
        word.lower() in ("set", "unset") and not rest
    ):
        return CommandAnswer(usage)
    word = "show" if word.lower() == "list" else word
    return await run_config(msgspec.structs.replace(call, args=f"{word} {key}"))


def _show(call: CommandCall, key: str) -> str:
    loaded = load_config(call.program.settings.home, call.program.environ)
    if not key:
        return _cut(_json(mask_secrets(loaded.raw)))
    path = resolve_key(loaded, key)
    value = mask_secrets(get_at(loaded.raw, path), path) if has_at(loaded.raw, path) else find_effective(loaded, path)
    return f"{show_path(path)} is not set." if value is None else _cut(f"{show_path(path)} = {_json(value)}")


def _set(call: CommandCall, rest: str) -> str:
    key, _, text = rest.partition(" ")
    if not key or not text.strip():
        return USAGE
    try:
        path = parse_path(key)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    value = _value(text.strip(), path)
    done = set_config_key(call.program.settings.home, call.program.environ, key, value)
    return _told(done, f"{done.key} = {_json(mask_secrets(value, path))}")


def _unset(call: CommandCall, key: str) -> str:
    if not key:
        return USAGE
    done = unset_config_key(call.program.settings.home, call.program.environ, key)
    return _told(done, f"{done.key} removed")


def _explain(call: CommandCall, key: str) -> str:
    if not key:
        return USAGE
    found = explain_key(load_config(call.program.settings.home, call.program.environ), key)
    value = ("" if found.keys else "(none)") if found.value is None else _json(found.value)
    keys = "\n".join(f"{line.name}: {line.about}".rstrip(": ") for line in found.keys)
    said = (found.key, value, f"from: {found.source}; a change {found.when}")
    return "\n".join(line for line in (*said, found.about, keys) if line)


def _told(done: KeyChange, what: str) -> str:
    if not done.changed:
        return f"{what}: unchanged."
    return f"{what}. It is in the file, and {done.when}."


def _value(text: str, path: Path) -> Any:
    """JSON5 if it is and the schema takes it, else the text itself."""
    try:
        value = relaxed.decode_json5(text)
    except ValueError:
        return text
    kind = describe_key(path)
    return text if kind is not None and not kind.accepts(value) and kind.accepts(text) else value


def _json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _cut(text: str) -> str:
    return text if len(text) <= LONG else f"{text[:LONG]}\n… ({len(text)} characters; name a KEY)"
