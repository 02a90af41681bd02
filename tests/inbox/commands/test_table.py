"""The table: complete, consistent, and the source of every list."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import pytest

from palinurus.core.levels.spellings import DIRECTIVES
from palinurus.core.types.inbound import Sender
from palinurus.inbox.commands.table import NAMES, TABLE, build_menu, find_similar, parse_command
from palinurus.late import load_part

BUILT = {
    "help", "commands", "status", "context", "usage", "why", "whoami", "new", "reset", "stop", "steer", "export",
    "changes", "undo", "redo", "record", "learn", "restart",
    "config", "skill", "model", "models", "agents", "approve", "tools", "queue", "think", "fast", "verbose",
    "reasoning", "trace", "elevated", "exec", "btw", "compact", "subagents", "tasks", "pairing", "activation", "send",
    "tts", "bash", "mcp", "plugins", "mode",
}  # fmt: skip


def test_it_lists_what_is_built() -> None:
    assert set(TABLE) == BUILT
    for form in DIRECTIVES:
        assert all(NAMES[name].name == form.name for name in form.names), form
    assert len(NAMES) == sum(1 + len(c.aliases) for c in TABLE.values())  # no name twice


def test_what_is_loaded_when_it_is_typed_is_there() -> None:
    late = [row.run.args for row in TABLE.values() if isinstance(row.run, partial)]
    assert len(late) > 20
    for part, name in late:
        assert inspect.iscoroutinefunction(getattr(load_part(part), name)), (part, name)


def test_the_menu_is_the_table() -> None:
    assert [row["name"] for row in build_menu()] == list(TABLE)
    assert {row["name"] for row in build_menu()} - {row["name"] for row in build_menu(owner=False)} == {
        "config", "export", "elevated", "exec", "pairing", "activation", "send", "why", "bash",
        "mcp", "plugins", "changes", "undo", "redo", "record", "learn", "restart", "mode",
    }  # fmt: skip
    assert all(row["description"] for row in build_menu())


@pytest.mark.parametrize(
    ("text", "name", "args"),
    [
        ("/help", "help", ""),
        ("/HELP status", "help", "status"),
        ("/context:json", "context", "json"),
        ("/id", "whoami", ""),
        ("/abort", "stop", ""),
        ("/new two\nlines", "new", "two\nlines"),
        ("/new@my_bot hi", "new", "hi"),
    ],
)
def test_typed(text: str, name: str, args: str) -> None:
    found = parse_command(text)
    assert found is not None and (found.name, found.args) == (name, args) and found.command is TABLE[name]


def test_near() -> None:
    assert find_similar("hepl") == "help" and find_similar("stats") == "status" and find_similar("tmp") == ""


async def test_help(office: Any) -> None:
    said = await office.say("/help")
    assert "/think [LEVEL|default] - thinking level" in said and "/commands lists all" in said
    assert (await office.say("/help v")).startswith("/verbose [on|full|off|default]\nshow tool calls\nAlso: /v")
    assert "There is no command /zzz" in await office.say("/help zzz")


async def test_commands_shows_what_one_may_use(office: Any) -> None:
    every = await office.say("/commands")
    assert all(f"  /{name}" in every for name in TABLE)
    friends = await office.say("/commands", sender=Sender("friend", allowed=True))
    assert "/config" not in friends and "/status" in friends
