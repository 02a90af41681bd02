"""What every store does alike: the bytes of a transcript (its file, and the journal's lines that are not in it yet),
which paths may be one, and the trace of a message from its rows."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from palinurus.store.port import InboxRow, OutboxRow, TraceStep, TranscriptLine, UsageRow

_OWN = ("state.db", "gateway.lock")  # what the state directory has besides
_OPEN = {"pending": "waiting", "sending": "uncertain"}


def join_journal(data: bytes, journal: Sequence[TranscriptLine]) -> bytes:
    """What the file will hold once `journal` is in it, `data` being what it holds now and read after `journal`. A line
    stays in the journal until its file is synced, so most of them are in both."""
    if not journal:
        return data
    whole, newline, torn = data.rpartition(b"\n")
    if torn and any(line.data.startswith(torn) for line in journal):
        data = whole + newline  # our own half line: the whole of it follows
    missing = [line.data for line in journal if data.rfind(line.data) < 0]  # they are near the end, if anywhere
    if missing and data and not data.endswith(b"\n"):
        data += b"\n"
    return data + b"".join(line + b"\n" for line in missing)


def name_columns(kind: type[msgspec.Struct]) -> str:
    """The columns of a table, in the order of the fields that its rows become."""
    return ", ".join(kind.__struct_fields__)


def is_transcript_path(path: str) -> bool:
    """Is it relative, inside the state directory, and none of its own files?"""
    parts = path.split("/")
    return "" not in parts and ".." not in parts and "\0" not in path and not parts[0].startswith(_OWN)


def merge_trace(
    row: InboxRow, steps: Sequence[TraceStep], spent: Sequence[UsageRow], replies: Sequence[OutboxRow]
) -> list[TraceStep]:
    """Everything about one message, oldest first: its steps, its model calls, and where its replies stand."""
    calls = list(map(_describe_call, spent))
    made = [TraceStep(row.id, row.at, "accepted", row.session)]
    for step in steps:
        # the order of the steps is sure, their times are not (clocks are set back); calls come with the end of the turn
        while calls and (calls[0].at < step.at or step.what == "settled"):
            made.append(calls.pop(0))
        made.append(step)
    last = max(step.at for step in made)
    for part in replies:
        if part.state in _OPEN:
            made.append(TraceStep(row.id, max(last, part.at), _OPEN[part.state], _describe_part(part)))
    return made


def _describe_part(part: OutboxRow) -> str:
    tried = f", {part.attempts} tried" if part.attempts else ""
    error = f": {part.error}" if part.error else ""
    return f"{part.channel} {part.target} {part.id}{tried}{error}"


def _describe_call(call: UsageRow) -> TraceStep:
    cost = "" if call.cost is None else f", ${call.cost:.6f}"
    cached = f" ({call.cache_read} cached)" if call.cache_read else ""
    tokens = f"{call.input + call.cache_read + call.cache_write} in{cached}, {call.output} out"
    return TraceStep(call.item, call.at, "model", f"{call.provider}/{call.model}: {tokens}, {call.ms} ms{cost}")
