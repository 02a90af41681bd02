"""`pal policy why CALL`: why a call was asked about or was not, and which of its values was judged how.

Questions are on file. A call that passed left none: it is found in its transcript and judged again, with what stood
before it and what its tool declares now.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from palinurus.app.plugins import load_contributions
from palinurus.cli.args import to_json
from palinurus.cli.render import strip_controls
from palinurus.config.settings import Settings
from palinurus.core.policy import deciding, taint
from palinurus.core.policy.card import explain_question, show_line
from palinurus.core.policy.modes import REFUSED
from palinurus.core.types.messages import AssistantMessage, Message, ToolCall, ToolResult
from palinurus.errors import NotFound
from palinurus.services.approvals import KIND, ApprovalRow
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import read_transcript
from palinurus.store.factory import StateReader, open_reader

SESSIONS = 20  # that are searched, the newest first


class MadeCall(NamedTuple):
    """A call of a transcript, with all that stood before it."""

    call: ToolCall
    before: tuple[Message, ...]
    ran: bool
    said: str = ""  # why it failed
    mode: str = ""  # the session's permission mode, as it is now


def explain_call(asked: argparse.Namespace, settings: Settings) -> int:
    """Print it. `asked.call`: the id of a call or of its question, or a tool: then its last call. Raises NotFound."""
    with open_reader(settings.home) as reader:
        rows = [msgspec.json.decode(one.data, type=ApprovalRow) for one in reader.list_records(KIND)]
        rows.sort(key=lambda row: row.created)
        found = [row for row in rows if row.ask.call == asked.call or row.id.startswith(asked.call.lower())]
        made = None if found else _find_call(reader, settings.home, asked.call)
    if made is not None:
        found = [row for row in rows if row.ask.call == made.call.id and row.ask.tool == made.call.name]
    for row in found:
        outcome = f"{row.decision or row.state}{f' by {row.by}' if row.by else ''}"
        lines = explain_question(row.ask, outcome)
        print(to_json(row.requested_payload()) if asked.json else strip_controls("\n".join(lines)))
    if found:
        return 0
    if made is None:
        fix = "the last day's questions and the newest conversations were searched"
        raise NotFound(f"no call and no question is called {asked.call[:60]!r}", fix=fix)
    lines = list(_explain_passed(made, settings))
    print(to_json({"call": made.call.id, "lines": lines}) if asked.json else strip_controls("\n".join(lines)))
    return 0


def _find_call(reader: StateReader, home: str, wanted: str) -> MadeCall | None:
    """The newest call with that id, or of that tool."""
    for row in sorted(reader.sessions(), key=lambda row: -row.updated)[:SESSIONS]:
        record = SessionRecord.decode(row.data)
        path = record.path(row.agent)
        messages = read_transcript(os.path.join(home, path)).messages() if path else ()
        told = {m.toolCallId: m for m in messages if isinstance(m, ToolResult)}
        for at in range(len(messages) - 1, -1, -1):
            message = messages[at]
            for call in message.calls if isinstance(message, AssistantMessage) else ():
                if wanted in (call.id, call.name):
                    found = told.get(call.id)
                    ran, said = found is not None and not found.isError, found.text if found else ""
                    return MadeCall(call, tuple(messages[:at]), ran, said=said, mode=record.permissionMode or "")
    return None


def _explain_passed(made: MadeCall, settings: Settings) -> Iterator[str]:
    call, before = made.call, made.before
    yield f"{call.name}: nobody was asked"
    if made.said.startswith(REFUSED):
        yield "why: the session was in plan mode, in which nothing is changed (/mode, docs/approvals.md)"
        yield "outcome: it was refused"
        return
    if made.mode:
        yield f"permission mode, as it is now: {made.mode}"
    came = taint.collect_taint(before)
    if not came:
        yield "why: nothing from outside had been read in this conversation"
        return
    yield f"untrusted content before it: {show_line(', '.join(came))}"
    tool = load_contributions(settings).tools.get(call.name)
    if tool is None:
        yield "why: it is no tool of a plugin; of the program's own, `docs/security.md` lists which ask after that"
        return
    judged = deciding.judge_values(tool, call.arguments, before)
    yield from (f"{name}: {show_line(value)}" for name, value in (value.fact for value in judged.values))
    if tool.effect == "pure" and (tool.reach is None or tool.reach.extent == "mine"):
        yield "why: it only reads, and tells nobody"
    elif judged.passes:
        yield "why: your words ask for it, and you gave all that decides"
    else:
        yield f"by what is known now it would ask ({judged.doubt}): a rule covered it, or settings or tools were others"
    yield f"outcome: {'done' if made.ran else 'it failed or was not run'}"
