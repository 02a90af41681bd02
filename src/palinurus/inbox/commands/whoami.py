"""/whoami: who the program takes the sender for."""

from __future__ import annotations

from palinurus.inbox.commands.desk import CommandAnswer, CommandCall


async def run_whoami(call: CommandCall) -> CommandAnswer:
    """Id, role, channel, session."""
    sender, target = call.inbound.sender, call.inbound.target
    role = "owner" if sender.owner else "allowed" if sender.allowed else "not authorised"
    name = f" ({sender.name})" if sender.name else ""
    where = "/".join(part for part in (target.channel, target.to, target.thread) if part)
    lines = [f"You are {sender.id or 'unknown'}{name}: {role}.", f"Channel: {where}", f"Session: {call.key}"]
    if sender.scopes:
        lines.append(f"Scopes: {', '.join(sender.scopes)}")
    return CommandAnswer("\n".join(lines))
