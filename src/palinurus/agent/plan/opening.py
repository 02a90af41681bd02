"""How a run begins: what is new in it and what came before; and for turns that nobody wrote for (jobs, heartbeats,
wakes) what their messages' options ask. These come from the program only; no face hands them on from outside.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Protocol, TypeAlias

import msgspec

from palinurus.agent.plan.runplan import RunLimits
from palinurus.beneath import open_file_beneath
from palinurus.config.sections.context import StartupSettings
from palinurus.core.history.fit import HistoryLimits, fit_history
from palinurus.core.history.repair import UNKNOWN_OUTCOME, repair_history
from palinurus.core.policy.taint import write_sources
from palinurus.core.types.inbound import Inbound, TurnOptions
from palinurus.core.types.messages import AssistantMessage, Message, TextBlock, ToolResult, UserMessage
from palinurus.sessions.entries import MessageEntry, TranscriptEntry
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.startup import DEFAULT_PRELUDE, choose_daily_notes, render_prelude
from palinurus.sessions.transcript import Transcript
from palinurus.workspace.images import ImageLimits, find_images, resize_images

# The first turn after a bare /new or /reset may begin with the notes of the last days. Reads memory/, once.

STARTUP_FLAG = "startupMemory"  # in the session's record, set by the command, cleared by the turn that used it


def is_continuation(history: Sequence[Message], inbound: Inbound) -> bool:
    """Does a message of somebody follow a finished answer? Turns that nobody wrote for never do."""
    last = history[-1] if history else None
    return isinstance(last, AssistantMessage) and not last.failed and not last.calls and not inbound.options.trigger


def needs_startup_notes(session: SessionRecord) -> bool:
    """Does the session still wait for its first turn after such a command?"""
    return session.extra.get(STARTUP_FLAG) is True


def read_startup_notes(workspace: str, now: int, zone: tzinfo | None, limit: StartupSettings = DEFAULT_PRELUDE) -> str:
    """What stands before the first message; "" if there are no notes of the last days."""
    today = datetime.fromtimestamp(now / 1000, zone or UTC).date()
    texts: dict[str, str] = {}
    try:
        for name in choose_daily_notes(os.listdir(os.path.join(workspace, "memory")), today, limit.days):
            with contextlib.suppress(OSError), open_file_beneath(workspace, f"memory/{name}") as file:
                texts[name] = file.read(limit.file_bytes).decode("utf-8", "replace")
    except OSError:
        return ""
    return render_prelude(texts, limit)


class MessagePreface(Protocol):
    """What a session is told before the message itself. `source`: whose words they are (taint)."""

    @property
    def text(self) -> str: ...

    @property
    def source(self) -> str: ...


Opening: TypeAlias = tuple[UserMessage | ToolResult, ...]
# (session key, inbox id) -> what is to be told with that message.
Tell: TypeAlias = Callable[[str, str], Awaitable[MessagePreface]]


def limit_timeout(limits: RunLimits, options: TurnOptions) -> RunLimits:
    """With limits of its own, where those are less."""
    if 0 < (most := options.bounds.max_turns) < limits.max_turns:
        limits = msgspec.structs.replace(limits, max_turns=most)
    wanted = options.timeout_seconds if options.trigger else None
    if wanted is None or not 0 < wanted < limits.timeout:
        return limits
    return msgspec.structs.replace(limits, timeout=wanted)


def prepend_preface(opening: Opening, text: str, source: str = "") -> Opening:
    """The opening message with `text` before it; `source`: whose words that is (taint)."""
    last = opening[-1] if opening else None
    if not text or not isinstance(last, UserMessage):
        return opening
    source = write_sources((source, last.source))
    return (*opening[:-1], UserMessage((TextBlock(text + "\n\n"), *last.blocks), last.timestamp, source))


async def add_pictures(inbound: Inbound, workspace: str, limits: ImageLimits) -> Inbound:
    """With the images it came with and those its text names, as models that see take them."""
    came = await resize_images(inbound.images, limits)
    seen = await find_images(inbound.text, workspace, limits)
    text = "\n".join([seen.text, *came.notes, *seen.notes])
    source = inbound.source or (f"web {seen.fetched[0]}" if seen.fetched else "")
    images = (*came.images, *seen.images)
    return msgspec.structs.replace(inbound, text=text, images=images, source=source)


def collect_context(inbound: Inbound) -> tuple[Message, ...]:
    """Earlier messages that a stateless client sends along: its own words, as its message is."""
    said = (one.as_message() for one in inbound.options.context if one.content or one.role != "user")
    whose = "" if inbound.sender.owner else inbound.origin
    return tuple(
        msgspec.structs.replace(one, source=one.source or whose) if isinstance(one, UserMessage) else one
        for one in said
    )


def view_history(inbound: Inbound, transcript: Transcript, rules: HistoryLimits) -> tuple[Message, ...]:
    """What the model sees of the conversation as it stands."""
    seen = repair_history(collect_context(inbound) + transcript.messages())
    return fit_history(seen, rules, count_pinned(inbound, transcript))


def count_pinned(inbound: Inbound, transcript: Transcript) -> int:
    """How many messages at the beginning no limit drops: the summary of what came before, if there is one."""
    return len(collect_context(inbound)) + 1 if transcript.older_count else 0


def split_opening(
    inbound: Inbound, transcript: Transcript, *, resumed: bool, now: int
) -> tuple[tuple[UserMessage | ToolResult, ...], tuple[Message, ...], AssistantMessage | None]:
    """What is new in this run, the history before it, and the answer if the turn had one already.

    A turn that was cut off goes on where it was: its user message is in the history. Calls at the end whose results
    are missing, of this turn or of one that never came back, get "outcome unknown" results, which are written down
    like any other.
    """
    history = collect_context(inbound) + transcript.messages()
    mended = repair_history(history)
    if not resumed and (answered := match_client_results(inbound, mended, now)):
        return answered, mended[: len(mended) - len(answered)], None
    last = history[-1] if history else None
    if resumed and isinstance(last, AssistantMessage) and not last.calls and not last.failed:
        return (), mended, last
    unknown = find_unknown_results(history, mended)
    mended = mended[: len(mended) - len(unknown)]
    return (unknown if resumed else (*unknown, inbound.message(now))), mended, None


def match_client_results(inbound: Inbound, mended: Sequence[Message], now: int) -> tuple[ToolResult, ...]:
    """What the message brings as results of the calls that the conversation ends with; () unless it has one for each
    and only their places were held. Else they are told in words: no call is left without a result, or has two."""
    given = {one.call: one for one in inbound.options.results}
    held = [m for m in mended[len(mended) - len(given) :] if isinstance(m, ToolResult)]
    last = mended[-1 - len(given)] if len(held) == len(given) < len(mended) else None
    if not given or not isinstance(last, AssistantMessage) or given.keys() != {call.id for call in last.calls}:
        return ()
    if not all(m.handed or m.text == UNKNOWN_OUTCOME for m in held):
        return ()
    made = (msgspec.structs.replace(given[m.toolCallId], name=m.toolName).as_message(now) for m in held)
    return tuple(m for m in made if isinstance(m, ToolResult))


def find_unknown_results(history: Sequence[Message], mended: Sequence[Message]) -> tuple[ToolResult, ...]:
    """The results at the end of a repaired history that nobody has written down."""
    tail = len(mended)
    known = {id(m) for m in history}
    while tail and id(mended[tail - 1]) not in known:
        tail -= 1
    return tuple(m for m in mended[tail:] if isinstance(m, ToolResult))


def find_open_calls(transcript: Transcript, item: str) -> tuple[ToolResult, ...]:
    """The results of tool calls at the end of a conversation that have none, if the message had a part in it."""
    said = transcript.messages()
    return find_unknown_results(said, repair_history(said)) if transcript.entries_of(item) else ()


def list_own_entries(transcript: Transcript, item: str) -> list[TranscriptEntry]:
    """What the conversation holds of a message already; nothing of it where a person went back behind it meanwhile."""
    own = transcript.entries_of(item)
    on_path = {entry.id for entry in transcript.path_to_leaf()} if own else set()
    return [entry for entry in own if entry.id in on_path]


def list_earlier_answers(entries: list[TranscriptEntry]) -> tuple[AssistantMessage, ...]:
    """What a turn said before a crash, of its lines of the transcript."""
    said = (entry.message for entry in entries if isinstance(entry, MessageEntry))
    return tuple(m for m in said if isinstance(m, AssistantMessage) and not m.failed)
