"""Every command and directive there is: the one table behind execution, /help, completion and native menus.

A command whose subsystem does not exist is not here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from palinurus.core.levels.spellings import DIRECTIVE_BY_NAME
from palinurus.inbox.commands import reset, runs
from palinurus.inbox.commands.command import ChatCommand, CommandAnswer, CommandCall
from palinurus.late import load_part
from palinurus.patterns import compile_late


class _LateCommands:
    """The commands of a module of this folder, which is loaded when one of them is typed: most messages are none."""

    def __init__(self, part: str) -> None:
        self._part = part

    def __getattr__(self, name: str) -> Callable[[CommandCall], Awaitable[CommandAnswer]]:
        return partial(_run_late, self._part, name)


async def _run_late(part: str, name: str, call: CommandCall) -> CommandAnswer:
    answer: CommandAnswer = await getattr(load_part(part), name)(call)
    return answer


background, compact, config, export = map(
    _LateCommands, ("command-background", "command-compact", "command-config", "command-export")
)
info, learn, owner, speech = map(_LateCommands, ("command-info", "command-learn", "command-owner", "command-speech"))
_ROWS: tuple[ChatCommand, ...] = (
    ChatCommand("help", "what you can type here", info.run_help, "[NAME]", group="info"),
    ChatCommand("commands", "all commands", info.run_commands, group="info"),
    ChatCommand("status", "model, levels, context, session", info.run_status, group="info"),
    ChatCommand("context", "what the next model call is made of", info.run_context, "[list|detail|json]", group="info"),
    ChatCommand("usage", "tokens and cost of this session and the last day", info.run_usage, group="info"),
    ChatCommand(
        "why",
        "why the last answer was as it was",
        info.run_why,
        "[run|reply|model|level|tool NAME|memory|cost|silence]",
        (),
        "owner",
        "info",
    ),
    ChatCommand(
        "record", "whether runs here are put on tape", owner.run_record, "[on|off|default|status]", (), "owner", "info"
    ),
    ChatCommand(
        "changes", "what the last run changed in the workspace", export.run_changes, "[RUN]", (), "owner", "info"
    ),
    ChatCommand(
        "undo", "put back what a run changed in the workspace", export.run_undo, "[RUN] [--force]", (), "owner"
    ),
    ChatCommand("redo", "do again what was undone", export.run_redo, "[RUN] [--force]", (), "owner"),
    ChatCommand(
        "learn",
        "what the agent would like to remember, for you to decide",
        learn.run_learn,
        "[list|show|accept|edit|refuse|undo] [ID] [TEXT]",
        (),
        "owner",
    ),
    ChatCommand("whoami", "who you are to the agent", info.run_whoami, aliases=("id",), group="info"),
    ChatCommand("new", "begin a new session", reset.run_reset, "[MODEL] [TEXT]"),
    ChatCommand("reset", "begin a new session", reset.run_reset, "[MODEL] [TEXT]"),
    ChatCommand("stop", "stop what is running", runs.run_stop, aliases=("abort",)),
    ChatCommand("steer", "tell the running agent something now", runs.run_steer, "TEXT"),
    ChatCommand("btw", "ask something beside the conversation", runs.run_btw, "QUESTION"),
    ChatCommand(
        "approve",
        "decide about what the agent asks leave for",
        owner.run_approve,
        "[ID allow-once|allow-always|deny]",
    ),
    ChatCommand("pairing", "who asks to be let in", owner.run_pairing, "[approve|reject CODE|revoke WHO]", (), "owner"),
    ChatCommand(
        "activation",
        "in a group: hear all, or only when named",
        owner.run_activation,
        "[mention|always]",
        (),
        "owner",
    ),
    ChatCommand("send", "whether replies are sent here", owner.run_send, "[on|off|inherit]", (), "owner"),
    ChatCommand("restart", "let runs end, start again, and say so here", owner.run_restart, scope="owner"),
    ChatCommand("compact", "make the conversation shorter", compact.run_compact, "[WISHES|show|list|undo|branch N]"),
    ChatCommand(
        "tts",
        "read replies aloud",
        speech.run_tts,
        "[on|off|inbound|tagged|status|latest|chat …|provider …|limit …|summary …|audio TEXT]",
    ),
    ChatCommand("export", "write the conversation to a file in the workspace", export.run_export, scope="owner"),
    ChatCommand("think", "thinking level", None, "[LEVEL|default]", ("thinking", "t"), group="levels"),
    ChatCommand("fast", "fast mode", None, "[auto|on|off|default]", group="levels"),
    ChatCommand("verbose", "show tool calls", None, "[on|full|off|default]", ("v",), group="levels"),
    ChatCommand("reasoning", "show reasoning", None, "[on|off|stream|default]", ("reason",), group="levels"),
    ChatCommand("trace", "show plugins' trace lines", None, "[on|off|default]", group="levels"),
    ChatCommand(
        "elevated", "commands outside the sandbox", None, "[off|on|ask|full|default]", ("elev",), "owner", "levels"
    ),
    ChatCommand(
        "mode",
        "permission mode: how much is asked about",
        owner.run_mode,
        "[plan|ask|default|acceptEdits|full|reset]",
        (),
        "owner",
        "levels",
    ),
    ChatCommand("exec", "where and how commands run", None, "[host=… security=… ask=… node=…]", (), "owner", "levels"),
    ChatCommand("queue", "what happens to messages while the agent works", None, "[MODE] [debounce:… cap:… drop:…]"),
    ChatCommand("model", "show or choose the model", None, "[NAME|N|list|default]", group="models"),
    ChatCommand("models", "which models there are", info.run_models, "[TEXT]", group="models"),
    ChatCommand(
        "subagents",
        "the agent's helpers",
        background.run_subagents,
        "[list|info|log|kill|steer|send|spawn] [WHICH] [TEXT]",
    ),
    ChatCommand(
        "tasks", "what goes on in the background, and open promises", background.run_tasks, "[accept N|dismiss N]"
    ),
    ChatCommand("agents", "which agents there are", info.run_agents, group="models"),
    ChatCommand("tools", "which tools the agent has, and why", info.run_tools, "[why NAME]", group="tools"),
    ChatCommand("skill", "have the agent follow a skill", runs.run_skill, "[NAME [TEXT]]", group="tools"),
    ChatCommand(
        "config",
        "read or change the configuration",
        config.run_config,
        "show|get|set|unset KEY …",
        (),
        "owner",
        "tools",
    ),
    ChatCommand("bash", "run a command of this machine", runs.run_bash, "COMMAND", (), "owner", "tools"),
    ChatCommand("mcp", "the tool servers", config.run_mcp, "show|set|unset NAME …", (), "owner", "tools"),
    ChatCommand("plugins", "the plugins", config.run_plugins, "show|enable|disable NAME", (), "owner", "tools"),
)
TABLE: dict[str, ChatCommand] = {row.name: row for row in _ROWS}
NAMES: dict[str, ChatCommand] = {name: row for row in _ROWS for name in (row.name, *row.aliases)}

_TYPED = compile_late(r"\s*/([A-Za-z][A-Za-z0-9_-]{0,31})(?:@[A-Za-z0-9_]{1,64})?(?=\s|:|\Z):?[ \t]*", re.ASCII)


class TypedCommand(msgspec.Struct, frozen=True):
    """A message that begins like a command. `command` None: there is none of that name."""

    name: str
    args: str
    command: ChatCommand | None


def parse_command(text: str, more: Mapping[str, ChatCommand] = {}) -> TypedCommand | None:
    """The command at the start of a message. A path (`/etc/hosts is wrong`) is none; neither is a word nobody
    would mistake for a command when more text follows it (`/tmp is full`). `more` are plugins' commands."""
    found = _TYPED.match(text)
    if found is None:
        return None
    name, args = found[1].lower(), text[found.end() :]
    command = NAMES.get(name) or more.get(name)
    if command is None and args.strip() and not find_similar(name, more):
        return None
    return TypedCommand(command.name if command else name, args, command)


def find_similar(name: str, more: Mapping[str, ChatCommand] = {}) -> str:
    """The known name this one looks like, or ""."""
    return next(iter(difflib.get_close_matches(name, (*NAMES, *more), 1, 0.75)), "")


def describe_unknown(name: str, more: Mapping[str, ChatCommand] = {}) -> str:
    """What somebody is told who typed a command that does not exist."""
    hint = find_similar(name, more)
    meant = f" Did you mean /{hint}?" if hint else ""
    return f"Unknown command /{name}.{meant} /commands lists all."


def build_menu(*, owner: bool = True, more: Mapping[str, ChatCommand] = {}) -> list[dict[str, Any]]:
    """The table for completion and for channels' native menus."""
    return [
        {
            "name": row.name,
            "description": row.help,
            "usage": row.usage,
            "aliases": list(row.aliases),
            "scope": row.scope,
            "group": row.group,
            "directive": row.name in DIRECTIVE_BY_NAME and row.run is None,
        }
        for row in (*_ROWS, *more.values())
        if owner or row.scope == "any"
    ]
