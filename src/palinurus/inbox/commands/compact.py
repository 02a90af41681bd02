"""/compact: make the conversation shorter now, see what compactions wrote, take one back, go on from before one.

The lines it writes carry the command's id: run again after a crash it sees what it has done already.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from palinurus.agent.compaction.compactor import CompactionRequest, compact_by_hand
from palinurus.agent.compaction.coordinator import CompactionCoordinator
from palinurus.core.text import format_count
from palinurus.core.types.model import ModelSpec, Prompt
from palinurus.core.types.tool import list_specs
from palinurus.errors import StateError
from palinurus.inbox.commands.command import CommandAnswer, CommandCall
from palinurus.services.facts import change_record, find_session_model, format_tokens
from palinurus.sessions.compactions import CompactionCheckpoint, list_checkpoints, make_undo_entry
from palinurus.sessions.entries import LEAF_TYPE, CompactionEntry, CustomEntry, KnownEntry
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import TranscriptLine

SHOWN = 6_000  # characters of a summary in an answer
DONE = (
    "🧹 Compacted: {before} → {after} tokens; a summary stands for {gone} messages. /compact show prints it, "
    "/compact undo takes it back."
)
BUSY = "The agent is at work: the conversation is compacted before its next model call."
WAIT = "The agent is at work: /stop it first, or wait until it is done."
NONE = "Nothing was compacted in this conversation."


async def run_compact(call: CommandCall) -> CommandAnswer:
    """A verb of the table below, or wishes for a summary that is made now."""
    words = call.args.strip()
    verb, _, rest = words.partition(" ")
    found = VERBS.get(verb.lower())
    if found is not None and len(rest.split()) <= 1:
        transcript = await _transcript(call)
        return await found(call, transcript, rest.strip())
    shared = call.program.compactions
    if shared is None:
        return CommandAnswer("Conversations cannot be compacted here.")
    return await _compact(call, shared, words)


async def _compact(call: CommandCall, shared: CompactionCoordinator, wishes: str) -> CommandAnswer:
    program, key = call.program, str(call.key)
    transcript = await _transcript(call)
    if any(isinstance(e, CompactionEntry) for e in transcript.entries_of(call.claim.id)):
        return CommandAnswer(_done(transcript))  # a crash came after the line and before this answer
    if program.inbox.running(key):
        shared.ask(key, wishes)
        return CommandAnswer(BUSY)
    if shared.lock(key).locked():
        return CommandAnswer("The conversation is being compacted already.")
    prompt = await program.prompt_report(call.key, call.inbound) if program.prompt_report is not None else Prompt("")
    specs = list_specs(program.tools.values())
    wish = CompactionRequest(
        call.key, call.record, transcript, _models(call), prompt=prompt, specs=specs, instructions=wishes,
        busy=lambda: program.inbox.running(key), shared=call.shared,
    )  # fmt: skip
    made = await compact_by_hand(shared, wish, program.store, call.claim)
    left = {"totalTokens": made.done.after} if made.done is not None else {}  # about: the next call counts
    record = await _record(call, {**made.fields, **left}) if made.fields else None
    if made.done is None:
        return CommandAnswer(f"Not compacted: {made.why}. The conversation is as it was.", record, spent=made.spent)
    text = DONE.format(before=format_tokens(made.before), after=format_tokens(made.done.after), gone=made.done.gone)
    return CommandAnswer(text, record, spent=made.spent)


async def _show(call: CommandCall, transcript: Transcript, which: str) -> CommandAnswer:
    found = _point(transcript, which)
    if found is None:
        return CommandAnswer(_no(which))
    text = found.entry.summary
    return CommandAnswer(f"{_line(found)}\n\n{text if len(text) <= SHOWN else text[:SHOWN] + '…'}")


async def _list(call: CommandCall, transcript: Transcript, which: str) -> CommandAnswer:
    points = list_checkpoints(transcript.path_to_leaf())
    if not points:
        return CommandAnswer(NONE)
    return CommandAnswer("\n".join(f"{n}. {_line(point)}" for n, point in enumerate(points, 1)))


async def _undo(call: CommandCall, transcript: Transcript, which: str) -> CommandAnswer:
    if transcript.entries_of(call.claim.id):
        return CommandAnswer(_restored(transcript))
    if call.program.inbox.running(str(call.key)):
        return CommandAnswer(WAIT)
    found = _point(transcript, which)
    if found is None or found.undone:
        return CommandAnswer(_no(which) if found is None else "It was taken back already.")
    await _append(
        call, transcript, lambda now: transcript.add_entry(_owned(make_undo_entry(found.entry.id), call), now)
    )
    return CommandAnswer(_restored(transcript), await _record(call, {"totalTokensFresh": False}))


async def _branch(call: CommandCall, transcript: Transcript, which: str) -> CommandAnswer:
    """Go on from where the conversation stood before a compaction; what came after stays in the file."""
    if transcript.entries_of(call.claim.id):
        return CommandAnswer(_restored(transcript))
    if call.program.inbox.running(str(call.key)):
        return CommandAnswer(WAIT)
    found = _point(transcript, which)
    if found is None:
        return CommandAnswer(_no(which))

    def line(now: int) -> tuple[TranscriptLine, ...]:
        transcript.branch(found.before)
        return transcript.add_entry(
            _owned(CustomEntry(customType=LEAF_TYPE, data={"targetId": found.before}), call), now
        )

    await _append(call, transcript, line)
    return CommandAnswer(_restored(transcript), await _record(call, {"totalTokensFresh": False}))


VERBS: dict[str, Callable[[CommandCall, Transcript, str], Awaitable[CommandAnswer]]] = {
    "show": _show,
    "list": _list,
    "undo": _undo,
    "branch": _branch,
}


async def _append(call: CommandCall, transcript: Transcript, make: Callable[[int], tuple[TranscriptLine, ...]]) -> None:
    mark = transcript.mark()
    lines = make(call.program.clock.now())
    try:
        await call.program.store.append(call.claim, lines)
    except StateError:  # not when cancelled: what is on its way to the disk arrives there
        transcript.rollback(mark, lines)
        raise


def _owned(entry: KnownEntry, call: CommandCall) -> KnownEntry:
    return msgspec.structs.replace(entry, item=call.claim.id)


async def _transcript(call: CommandCall) -> Transcript:
    return await call.program.transcripts.load(call.record.path(call.key.agent), call.agent.workspace)


async def _record(call: CommandCall, fields: dict[str, object]) -> SessionRecord:
    """The session's record with `fields`: read again, a run may have ended meanwhile."""
    row = await call.program.store.session(str(call.key))
    return change_record(SessionRecord.decode(row.data) if row else call.record, fields, call.program.clock.now())


def _models(call: CommandCall) -> tuple[ModelSpec, ...]:
    """The session's model, then its stand-ins."""
    program, own = call.program, find_session_model(call.program.catalog, call.agent, call.record)
    others = (program.catalog.find(text, call.agent) for text in call.agent.fallbacks)
    return (own, *(m for m in others if isinstance(m, ModelSpec) and m.ref != own.ref))


def _point(transcript: Transcript, which: str) -> CompactionCheckpoint | None:
    """By its number; without one, the compaction that counts."""
    points = list_checkpoints(transcript.path_to_leaf())
    if which:
        number = int(which) if which.isdecimal() and len(which) < 6 else 0
        return points[number - 1] if 0 < number <= len(points) else None
    return next((p for p in points if p.counts), None)


def _no(which: str) -> str:
    return f"There is no compaction {which[:20]}. /compact list shows them." if which else NONE


def _line(point: CompactionCheckpoint) -> str:
    entry, told = point.entry, point.details
    state = "taken back" if point.undone else "in use" if point.counts else "part of a later one"
    size = f"{format_tokens(entry.tokensBefore)} tokens before"
    many = format_count(told.get("messages", 0), "message")
    replaced = f", {many}, entries {told['from']} to {told['to']}" if "from" in told else ""
    return f"{entry.timestamp} {told.get('reason', '')} ({state}): {size}{replaced}"


def _done(transcript: Transcript) -> str:
    last = _point(transcript, "")
    if last is None:
        return NONE
    after = last.details.get("tokensAfter")
    gone = last.details.get("messages", "?")
    return DONE.format(before=format_tokens(last.entry.tokensBefore), after=format_tokens(after), gone=gone)


def _restored(transcript: Transcript) -> str:
    count = format_count(len(transcript.messages()), "message")
    return f"The model sees {count} again. What fills its window is compacted with the next message."
