"""/help and /commands: what can be typed, from the table."""

from __future__ import annotations

from collections.abc import Iterable

from palinurus.inbox.commands.desk import ChatCommand, CommandAnswer, CommandCall

FEW = ("status", "new", "stop", "think", "model", "models", "context", "usage", "tools", "whoami")


async def run_help(call: CommandCall) -> CommandAnswer:
    """/help [NAME]: the few people use most, or all about one. /commands is everything."""
    asked = call.args.strip().lstrip("/").lower()
    if asked:
        found = next((c for c in call.table.values() if asked in (c.name, *c.aliases)), None)
        return CommandAnswer(_about(found) if found else f"There is no command /{asked[:40]}. /commands lists all.")
    shown = [call.table[name] for name in FEW if name in call.table]
    return CommandAnswer("\n".join(["Commands:", *_lines(shown), "/commands lists all, /help NAME tells about one."]))


async def run_commands(call: CommandCall) -> CommandAnswer:
    """/commands: all this sender may use."""
    rows: list[str] = []
    for group in dict.fromkeys(c.group for c in call.table.values()):
        mine = [c for c in call.table.values() if c.group == group and (c.scope == "any" or call.admin)]
        if mine:
            rows += [f"{group.capitalize()}:", *_lines(mine)]
    return CommandAnswer("\n".join(rows))


def _lines(commands: Iterable[ChatCommand]) -> list[str]:
    return [f"  /{c.name}{' ' + c.usage if c.usage else ''} - {c.help}" for c in commands]


def _about(command: ChatCommand) -> str:
    also = f"\nAlso: {', '.join('/' + a for a in command.aliases)}" if command.aliases else ""
    owner = "\nFor the owner only." if command.scope == "owner" else ""
    return f"/{command.name}{' ' + command.usage if command.usage else ''}\n{command.help}{also}{owner}"
