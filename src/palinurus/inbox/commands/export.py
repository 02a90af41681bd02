"""Commands about files of the workspace, for the owner. /export: the conversation as a Markdown file there. /changes,
/undo and /redo: what the runs of this session changed in it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable

from palinurus.beneath import write_file_beneath
from palinurus.core.text import format_count
from palinurus.core.types.messages import AssistantMessage, Message, ToolResult
from palinurus.errors import BadRequest, NotFound, StateUnwritable
from palinurus.inbox.commands.command import CommandAnswer, CommandCall
from palinurus.late import load_part

FOLDER = "exports"
RESULT = 2000  # characters of a tool result
FORCE = ("--force", "force")


async def run_export(call: CommandCall) -> CommandAnswer:
    """Writes one file, the same one if it is run again. Raises StateUnwritable."""
    if not call.stored:
        return CommandAnswer("There is nothing to export yet.")
    transcript = await call.program.transcripts.load(call.record.path(call.key.agent), call.agent.workspace)
    messages = transcript.messages()
    if not messages:
        return CommandAnswer("There is nothing to export yet.")
    text = render_markdown(f"{call.key} ({call.record.sessionId})", messages)
    name = f"session-{call.record.sessionId[:8]}-{call.claim.id[-6:]}.md"
    file = await asyncio.to_thread(write_export, call.agent.workspace, name, text)
    return CommandAnswer(f"Exported {format_count(len(messages), 'message')} to {file}")


def render_markdown(title: str, messages: Iterable[Message]) -> str:
    """The conversation for people: who said what, tool calls and the beginning of their results."""
    parts = [f"# {title}"]
    for message in messages:
        if isinstance(message, ToolResult):
            shown = message.text if len(message.text) <= RESULT else message.text[:RESULT] + "\n…"
            ticks = "`" * max(3, _longest(shown) + 1)
            parts.append(f"**{message.toolName}**{' (error)' if message.isError else ''}\n\n{ticks}\n{shown}\n{ticks}")
        elif isinstance(message, AssistantMessage):
            calls = "".join(f"\n\n*calls {c.name}*" for c in message.calls)
            parts.append(f"## Assistant\n\n{message.text}{calls}")
        else:
            parts.append(f"## User\n\n{message.text}")
    return "\n\n".join(parts) + "\n"


def _longest(text: str) -> int:
    longest = run = 0
    for char in text:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    return longest


def write_export(workspace: str, name: str, text: str) -> str:
    """Puts the file into the workspace and returns its path. Raises StateUnwritable."""
    folder = os.path.join(workspace, FOLDER)
    try:
        if os.path.islink(folder):  # refused below as well; this says what to do
            raise StateUnwritable(f"{folder} is a link", fix="remove it")
        os.makedirs(workspace, mode=0o700, exist_ok=True)
        write_file_beneath(workspace, os.path.join(FOLDER, name), text.encode("utf-8", "replace"))
    except OSError as exc:
        raise StateUnwritable(f"{folder}/{name} cannot be written: {exc.strerror}") from exc
    return os.path.join(folder, name)


async def run_changes(call: CommandCall) -> CommandAnswer:
    """Names and sizes only: what is in files is no matter for a chat."""
    services = load_part("change-keeper")
    keeper = services.ChangeKeeper(call.program.settings, call.program.store)
    try:
        run = await keeper.find(call.args.strip(), str(call.key))
    except NotFound as exc:
        return CommandAnswer(f"{exc.message[:1].upper()}{exc.message[1:]}.")
    told = await keeper.describe(run)
    return CommandAnswer(services.format_changes(told, diffs=False))


async def run_undo(call: CommandCall) -> CommandAnswer:
    return await _restore(call, redo=False)


async def run_redo(call: CommandCall) -> CommandAnswer:
    return await _restore(call, redo=True)


async def _restore(call: CommandCall, *, redo: bool) -> CommandAnswer:
    """The last run of this session, or the one that is named. Cut off by a crash it is run again: what it was undoing
    is finished by the start, and found by its id."""
    services = load_part("change-keeper")
    keeper = services.ChangeKeeper(call.program.settings, call.program.store, call.program.schedules)
    words = call.args.split()
    force = any(word in FORCE for word in words)
    named = next((word for word in words if word not in FORCE), "")
    try:
        told = await keeper.undo(named, str(call.key), redo=redo, force=force, ident=call.claim.id)
    except (BadRequest, NotFound) as exc:
        return CommandAnswer(f"{exc.message[:1].upper()}{exc.message[1:]}.")
    other = "" if redo else " /redo brings it back."
    return CommandAnswer(services.format_outcome(told) + other)
