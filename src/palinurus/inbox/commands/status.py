"""/status: one card about the session."""

from __future__ import annotations

from palinurus import __version__
from palinurus.inbox.commands.desk import CommandAnswer, CommandCall
from palinurus.inbox.commands.facts import format_tokens, gather_facts
from palinurus.inbox.commands.levels import get_effective_level
from palinurus.inbox.commands.places import format_queue


async def run_status(call: CommandCall) -> CommandAnswer:
    """The card; changes nothing."""
    return CommandAnswer(format_status_card(call))


def format_status_card(call: CommandCall) -> str:
    """Model, levels with their reason, context in use, session, queue, version."""
    record = call.record
    now = gather_facts(call.desk, call.key, record)
    model = now.model
    chosen = " (chosen for this session)" if record.modelOverride else ""
    words = [f"Think: {now.level.level} ({now.level.reason})", now.fast.status]
    words += [f"{name.capitalize()}: {level}" for name in _LEVELS if (level := get_effective_level(name, now)) != "off"]
    window = call.agent.context_tokens or model.context_window
    used = record.totalTokens
    part = f" ({used * 100 // window}%)" if used and window else ""
    state = "running" if call.desk.running(str(call.key)) else "idle"
    queue = format_queue(record, call.desk.settings.queue, call.inbound.target.channel)
    lines = [
        f"Palinurus {__version__}",
        f"Model: {model.ref}{chosen}",
        " · ".join(word for word in words if word),
        f"Context: {format_tokens(used or 0)}/{format_tokens(window)} tokens{part}",
        f"Tokens: {format_tokens(record.inputTokens or 0)} in / {format_tokens(record.outputTokens or 0)} out",
        f"Session: {call.key} · {record.sessionId if call.stored else 'not begun'} · {state}",
        f"Queue: {queue}",
    ]
    if get_effective_level("trace", now) == "on":
        lines += [f"Trace: {line}" for line in call.desk.hooks.list_trace(str(call.key))]
    return "\n".join(lines)


_LEVELS = ("verbose", "reasoning", "trace", "elevated")
