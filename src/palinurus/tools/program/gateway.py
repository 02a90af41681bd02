"""gateway: the agent looks at the configuration, changes the harmless part of it, and restarts the program. Owner only.

What may be changed is a short list; all that protects the owner (tools, sandbox, approvals, credentials, channels,
who may log in) is not on it, under whatever spelling.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec

from palinurus.config import explain, paths, rewrite
from palinurus.config.load import read_config
from palinurus.config.rewrite import digest_config
from palinurus.config.secrets import redact_config
from palinurus.core.signature import pick_one
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_json_output, make_output
from palinurus.errors import PalinurusError
from palinurus.patterns import compile_late
from palinurus.plugins.checkout import update_checkout
from palinurus.tools.define import bind_tools, define_tool

ACTIONS = ("restart", "config.get", "config.schema.lookup", "config.patch", "config.apply", "update.run")
# Keys the agent may write, with all below them.
WRITABLE = (
    "agents.defaults.model", "agents.defaults.models", "agents.defaults.thinkingDefault",
    "agents.defaults.fastModeDefault", "agents.defaults.verboseDefault", "agents.defaults.reasoningDefault",
    "agents.defaults.userTimezone", "agents.defaults.timeFormat", "agents.defaults.heartbeat.every",
    "agents.defaults.compaction", "agents.defaults.contextPruning", "agents.defaults.timeoutSeconds",
    "messages", "session.reset", "session.resetByType", "session.resetByChannel",
    "logging.level", "ui", "cron.maxConcurrentRuns",
)  # fmt: skip

# Among them, what is said to a model later, where and with what rights words are sent, and which program does runs: the
# owner's. So are files that are included: an agent can write some, and nobody would ask about what they say.
_KEPT = compile_late(
    r"(?:prompt|instructions|sections|url|host|endpoint|key|token|secret|headers|proxy|path|command|include|runtime)$"
)


class GatewayControl(msgspec.Struct, frozen=True):
    """The configuration's place, and how to have the program begin again; `restart` None: this program cannot."""

    home: str
    environ: Mapping[str, str]
    restart: Callable[[float], None] | None = None
    checkout: str = ""  # the clone it runs from; "": there is none, and nothing to pull
    allowed: bool = True  # commands.restart


class GatewayArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of a call; the last three are taken as OpenClaw's are, and say nothing to us."""

    action: Annotated[str, pick_one("", *ACTIONS)]
    path: Annotated[str, "a key path, for config.get and config.schema.lookup"] = ""
    raw: Annotated[str, "JSON5: a merge patch (config.patch) or the whole (config.apply)"] = ""
    baseHash: Annotated[str | None, "the hash that config.get gave"] = None
    delayMs: int = 0
    restartDelayMs: int = 0
    note: str = ""
    sessionKey: str = ""
    timeoutMs: int = 0


@define_tool("gateway", owner=True, sequential=True, summary=("action",))
async def _gateway(control: GatewayControl, /, ctx: ToolContext, args: GatewayArguments) -> ToolOutput:
    """Look at or change the configuration, or restart the gateway. Change only what the owner asked for: read with
    config.get first, then config.patch with the baseHash it gave. What protects the owner (tools, sandbox, approvals,
    credentials, channels) cannot be changed here."""
    match args.action:
        case "restart":
            if not control.allowed:
                raise ToolFailure("restarting is switched off (commands.restart)")
            if control.restart is None:
                raise ToolFailure("this program runs without a gateway and cannot restart itself")
            control.restart(min(max((args.delayMs or args.restartDelayMs or 2000) / 1000, 0.5), 60.0))
            return make_output("The gateway restarts in a moment; turns that run are finished or go on after it.")
        case "config.get":
            return await _get(control, args.path)
        case "config.schema.lookup":
            found = explain.lookup_key(args.path)
            if found is None:
                raise ToolFailure(f"there is no config key {args.path[:80]!r}")
            return make_json_output(found)
        case "config.patch" | "config.apply":
            return await _write(control, args)
        case _:
            return await _update(control)


async def _update(control: GatewayControl) -> ToolOutput:
    if not control.checkout:
        raise ToolFailure(
            "this installation has no clone to update: the owner installs the new wheel, then `pal gateway restart`"
        )
    try:
        news = await update_checkout(control.checkout)
    except PalinurusError as exc:
        raise ToolFailure(f"nothing was updated: {exc.message}") from None
    return make_output(f"Updated: {news} It counts from the next restart on." if news else "Nothing newer is there.")


async def _get(control: GatewayControl, path: str) -> ToolOutput:
    file = paths.locate_config_file(control.home)
    found = await asyncio.to_thread(read_config, file, control.home, control.environ)
    shown: Any = redact_config(found.raw)
    for part in filter(None, path.split(".")):
        shown = shown.get(part) if isinstance(shown, dict) else None
    text, base = msgspec.json.format(msgspec.json.encode(shown), indent=2).decode(), digest_config(found.data)
    return make_output(f"{text}\nbaseHash: {base}", {"config": shown, "hash": base})


async def _write(control: GatewayControl, args: GatewayArguments) -> ToolOutput:
    if not args.raw.strip():
        raise ToolFailure("raw is missing: the JSON5 text of the change")
    write = rewrite.merge_config if args.action == "config.patch" else rewrite.replace_config
    try:
        done = await asyncio.to_thread(write, control.home, control.environ, args.baseHash, args.raw, veto=_veto)
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
    if any(map(_KEPT.search, key.lower().split("."))):
        return False
    return any(key == one or key.startswith(f"{one}.") for one in WRITABLE)


def make_gateway_tool(control: GatewayControl) -> dict[str, Tool]:
    """The tool, by its name."""
    return bind_tools((_gateway,), control)
