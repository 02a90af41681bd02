"""gateway: the agent looks at the configuration, changes the harmless part of it, and restarts the program. Owner only.

What may be changed is a short list; all that protects the owner (tools, sandbox, approvals, credentials, channels,
who may log in) is not on it, under whatever spelling.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from palinurus.config import outline, paths, rewrite
from palinurus.config.load import read_config
from palinurus.config.rewrite import ConfigChange, digest_config
from palinurus.config.secrets import redact_config
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.errors import PalinurusError

# Keys the agent may write, with all below them.
WRITABLE = (
    "agents.defaults.model", "agents.defaults.models", "agents.defaults.thinkingDefault",
    "agents.defaults.fastModeDefault", "agents.defaults.verboseDefault", "agents.defaults.reasoningDefault",
    "agents.defaults.userTimezone", "agents.defaults.timeFormat", "agents.defaults.heartbeat",
    "agents.defaults.compaction", "agents.defaults.contextPruning", "agents.defaults.timeoutSeconds",
    "messages", "session.reset", "session.resetByType", "session.resetByChannel",
    "logging.level", "ui", "cron.maxConcurrentRuns",
)  # fmt: skip


class GatewayControl(NamedTuple):
    """The configuration's place, and how to have the program begin again; `restart` None: this program cannot."""

    home: str
    environ: Mapping[str, str]
    restart: Callable[[float], None] | None = None


def make_gateway_tool(keeper: GatewayControl) -> dict[str, Tool]:
    """The tool, by its name."""
    return {_TOOL.name: msgspec.structs.replace(_TOOL, run=partial(_run, keeper))}


async def _run(keeper: GatewayControl, ctx: ToolContext, action: str, **given: Any) -> ToolOutput:
    """Raises ToolFailure."""
    return await _ACTIONS[action](keeper, given)


async def _get(keeper: GatewayControl, given: dict[str, Any]) -> ToolOutput:
    file = paths.locate_config_file(keeper.home)
    found = await asyncio.to_thread(read_config, file, keeper.home, keeper.environ)
    shown: Any = redact_config(found.raw)
    for part in str(given.get("path") or "").split("."):
        if part:
            shown = shown.get(part) if isinstance(shown, dict) else None
    text = msgspec.json.format(msgspec.json.encode(shown), indent=2).decode()
    return make_output(
        f"{text}\nbaseHash: {digest_config(found.data)}", {"config": shown, "hash": digest_config(found.data)}
    )


async def _lookup(keeper: GatewayControl, given: dict[str, Any]) -> ToolOutput:
    found = outline.lookup_key(str(given.get("path") or ""))
    if found is None:
        raise ToolFailure(f"there is no config key {str(given.get('path'))[:80]!r}")
    return make_output(msgspec.json.encode(found).decode(), found)


async def _patch(keeper: GatewayControl, given: dict[str, Any]) -> ToolOutput:
    raw, base = _raw(given), given.get("baseHash")
    return await _written(partial(rewrite.merge_config, keeper.home, keeper.environ, base, raw, veto=_veto))


async def _apply(keeper: GatewayControl, given: dict[str, Any]) -> ToolOutput:
    raw, base = _raw(given), given.get("baseHash")
    return await _written(partial(rewrite.replace_config, keeper.home, keeper.environ, base, raw, veto=_veto))


def _raw(given: dict[str, Any]) -> str:
    raw = given.get("raw")
    if not isinstance(raw, str) or not raw.strip():
        raise ToolFailure("raw is missing: the JSON5 text of the change")
    return raw


async def _written(write: Callable[[], ConfigChange]) -> ToolOutput:
    try:
        done = await asyncio.to_thread(write)
    except PalinurusError as exc:
        raise ToolFailure(exc.message + (f"; {exc.fix}" if exc.fix else "")) from None
    if not done.changed:
        return make_output("Nothing is different.", {"changed": []})
    later = f" After a restart: {', '.join(done.restart)}." if done.restart else ""
    return make_output(f"Changed: {', '.join(done.changed)}.{later}", {"changed": done.changed, "hash": done.hash})


def _veto(changed: tuple[str, ...]) -> None:
    """Raises ToolFailure for the first key the agent may not write; then nothing is written."""
    for key in changed:
        if not is_writable_key(key):
            raise ToolFailure(f"{key} may be changed by the owner only (`pal config set`, or /config set in a chat)")


def is_writable_key(key: str) -> bool:
    """May the agent write this key path?"""
    return any(key == one or key.startswith(f"{one}.") for one in WRITABLE)


async def _restart(keeper: GatewayControl, given: dict[str, Any]) -> ToolOutput:
    if keeper.restart is None:
        raise ToolFailure("this program runs without a gateway and cannot restart itself")
    wait = given.get("delayMs") or given.get("restartDelayMs") or 2000
    keeper.restart(min(max(float(wait) / 1000, 0.5), 60.0))
    return make_output("The gateway restarts in a moment; turns that run are finished or go on after it.")


async def _update(keeper: GatewayControl, given: dict[str, Any]) -> ToolOutput:
    raise ToolFailure("updates are installed by the owner: pip install --upgrade palinurus, then `pal gateway restart`")


_ACTIONS = {
    "restart": _restart,
    "config.get": _get,
    "config.schema.lookup": _lookup,
    "config.patch": _patch,
    "config.apply": _apply,
    "update.run": _update,
}

_TOOL = Tool(
    "gateway",
    "Look at or change the configuration, or restart the gateway. Change only what the owner asked for: read with "
    "config.get first, then config.patch with the baseHash it gave. What protects the owner (tools, sandbox, "
    "approvals, credentials, channels) cannot be changed here.",
    {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": list(_ACTIONS)},
            "path": {"type": "string", "description": "a key path, for config.get and config.schema.lookup"},
            "raw": {"type": "string", "description": "JSON5: a merge patch (config.patch) or the whole (config.apply)"},
            "baseHash": {"type": "string", "description": "the hash that config.get gave"},
            "delayMs": {"type": "integer"},
            "restartDelayMs": {"type": "integer"},
            "note": {"type": "string"},
            "sessionKey": {"type": "string"},
            "timeoutMs": {"type": "integer"},
        },
        "required": ["action"],
        "additionalProperties": False,
    },
    partial(_run, GatewayControl("", {})),
    owner=True,
    sequential=True,
    summary=lambda args: str(args.get("action") or ""),
)
