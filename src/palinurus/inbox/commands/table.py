"""Every command and directive there is: the one table behind execution, /help, completion and native menus.

A command whose subsystem does not exist is not here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from palinurus.core.levels.forms import DIRECTIVE_BY_NAME
from palinurus.inbox.commands import (
    activation,
    agents,
    approve,
    btw,
    compact,
    config,
    context,
    export,
    help,
    models,
    pairing,
    reset,
    skill,
    status,
    steer,
    stop,
    subagents,
    tasks,
    tools,
    usage,
    whoami,
)
from palinurus.inbox.commands.desk import Command

_ROWS: tuple[Command, ...] = (
    Command("help", "what you can type here", help.run, "[NAME]", group="info"),
    Command("commands", "all commands", help.every, group="info"),
    Command("status", "model, levels, context, session", status.run, group="info"),
    Command("context", "what the next model call is made of", context.run, "[list|detail|json]", group="info"),
    Command("usage", "tokens and cost of this session and the last day", usage.run, group="info"),
    Command("whoami", "who you are to the agent", whoami.run, aliases=("id",), group="info"),
    Command("new", "begin a new session", reset.run, "[MODEL] [TEXT]"),
    Command("reset", "begin a new session", reset.run, "[MODEL] [TEXT]"),
    Command("stop", "stop what is running", stop.run, aliases=("abort",)),
    Command("steer", "tell the running agent something now", steer.run, "TEXT"),
    Command("btw", "ask something beside the conversation", btw.run, "QUESTION"),
    Command("approve", "decide about what the agent asks leave for", approve.run, "[ID allow-once|allow-always|deny]"),
    Command("pairing", "who asks to be let in", pairing.run, "[approve|reject CODE|revoke WHO]", (), "owner"),
    Command("activation", "in a group: hear all, or only when named", activation.run, "[mention|always]", (), "owner"),
    Command("compact", "make the conversation shorter", compact.run, "[WISHES|show|list|undo|branch N]"),
    Command("export", "write the conversation to a file in the workspace", export.run, scope="owner"),
    Command("think", "thinking level", None, "[LEVEL|default]", ("thinking", "t"), group="levels"),
    Command("fast", "fast mode", None, "[auto|on|off|default]", group="levels"),
    Command("verbose", "show tool calls", None, "[on|full|off|default]", ("v",), group="levels"),
    Command("reasoning", "show reasoning", None, "[on|off|stream|default]", ("reason",), group="levels"),
    Command("trace", "show plugins' trace lines", None, "[on|off|default]", group="levels"),
    Command(
        "elevated", "commands outside the sandbox", None, "[off|on|ask|full|default]", ("elev",), "owner", "levels"
    ),
    Command("exec", "where and how commands run", None, "[host=… security=… ask=… node=…]", (), "owner", "levels"),
    Command("queue", "what happens to messages while the agent works", None, "[MODE] [debounce:… cap:… drop:…]"),
    Command("model", "show or choose the model", None, "[NAME|N|list|default]", group="models"),
    Command("models", "which models there are", models.run, "[TEXT]", group="models"),
    Command("subagents", "the agent's helpers", subagents.run, "[list|info|log|kill|steer|send|spawn] [WHICH] [TEXT]"),
    Command("tasks", "what goes on in the background, and open promises", tasks.run, "[accept N|dismiss N]"),
    Command("agents", "which agents there are", agents.run, group="models"),
    Command("tools", "which tools the agent has, and why", tools.run, "[why NAME]", group="tools"),
    Command("skill", "have the agent follow a skill", skill.run, "[NAME [TEXT]]", group="tools"),
    Command("config", "read or change the configuration", config.run, "show|get|set|unset KEY …", (), "owner", "tools"),
)
TABLE: dict[str, Command] = {row.name: row for row in _ROWS}
NAMES: dict[str, Command] = {name: row for row in _ROWS for name in (row.name, *row.aliases)}

_TYPED = re.compile(r"\s*/([A-Za-z][A-Za-z0-9_-]{0,31})(?:@[A-Za-z0-9_]{1,64})?(?=\s|:|\Z):?[ \t]*", re.ASCII)


class Typed(NamedTuple):
    """A message that begins like a command. `command` None: there is none of that name."""

    name: str
    args: str
    command: Command | None


def typed(text: str, more: Mapping[str, Command] = {}) -> Typed | None:
    """The command at the start of a message. A path (`/etc/hosts is wrong`) is none; neither is a word nobody
    would mistake for a command when more text follows it (`/tmp is full`). `more` are plugins' commands."""
    found = _TYPED.match(text)
    if found is None:
        return None
    name, args = found[1].lower(), text[found.end() :]
    command = NAMES.get(name) or more.get(name)
    if command is None and args.strip() and not near(name, more):
        return None
    return Typed(command.name if command else name, args, command)


def near(name: str, more: Mapping[str, Command] = {}) -> str:
    """The known name this one looks like, or ""."""
    return next(iter(difflib.get_close_matches(name, (*NAMES, *more), 1, 0.75)), "")


def unknown(name: str, more: Mapping[str, Command] = {}) -> str:
    """What somebody is told who typed a command that does not exist."""
    hint = near(name, more)
    meant = f" Did you mean /{hint}?" if hint else ""
    return f"Unknown command /{name}.{meant} /commands lists all."


def menu(*, owner: bool = True, more: Mapping[str, Command] = {}) -> list[dict[str, Any]]:
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
