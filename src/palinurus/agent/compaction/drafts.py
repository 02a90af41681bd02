"""What a compaction would do to a session: what goes, what stays, what is carried over word for word. Pure.

The same draft serves a summary of a model and the mechanical cut that does without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from palinurus.config.sections.context import CompactionSettings
from palinurus.core.history import compaction, verbatim
from palinurus.core.history.compaction import find_cut
from palinurus.core.history.repair import repair_history
from palinurus.core.history.tokens import estimate_message_tokens, estimate_tokens
from palinurus.core.history.truncate import shorten_results
from palinurus.core.types.messages import AssistantMessage, Message, UserMessage
from palinurus.sessions.compactions import ShownMessage, list_shown_messages
from palinurus.sessions.entries import CompactionEntry, MessageEntry, TranscriptEntry, make_summary_message

TEXT_SHARE, KEPT_SHARE = 0.4, 0.25  # of the room for a history: the summary with all in it, the must-keep set
TEXT_LEAST, KEPT_LEAST, KEPT_MOST = 4_000, 2_000, 8_000  # characters
CHARS = 4  # to a token
RECENT = 600  # characters of a turn that is quoted because none stays
PARED = 1_500  # characters of a tool result when nothing else helps
MUST = "mustKeep"  # where a compaction's details hold the set


class CompactionRoom(msgspec.Struct, frozen=True):
    """How much fits, in tokens by our estimate."""

    window: int
    limit: int  # a compaction is due above this
    history: int  # what is left below it for messages
    text: int  # characters of a summary, all in it
    kept: int  # characters of the must-keep set


class CompactionDraft(msgspec.Struct, frozen=True):
    """A compaction that has no summary yet."""

    history: tuple[Message, ...]
    prefix: tuple[Message, ...]  # of a turn that is cut in two
    tail: tuple[Message, ...]  # what stays
    before: str  # the earlier summary's own words
    kept: verbatim.KeptLines
    first: str | None  # the first entry that stays
    span: tuple[str, str]  # the first and the last entry that go
    recent: tuple[str, ...] = ()  # the last turns, where none stays

    @property
    def gone(self) -> tuple[Message, ...]:
        return (*self.history, *self.prefix)


def measure_room(window: int, overhead: int, settings: CompactionSettings) -> CompactionRoom:
    """`overhead` is what prompt and tools take. A prompt that fills a small window does not make every turn due."""
    limit = max(settings.limit(window), min(overhead + window // 4, window * 9 // 10))
    left = max(0, limit - overhead)
    text = min(compaction.MAX_SUMMARY, max(TEXT_LEAST, int(left * TEXT_SHARE) * CHARS))
    kept = min(KEPT_MOST, max(KEPT_LEAST, int(left * KEPT_SHARE) * CHARS))
    return CompactionRoom(window, limit, left, text, kept=kept)


def choose_kept_tokens(where: CompactionRoom, settings: CompactionSettings, level: int = 0, size: int = 0) -> int:
    """Tokens of messages that stay. Each try after an overflow (`level`) keeps less of what there is (`size`)."""
    usual = min(settings.keep_recent, int(where.history * settings.share))
    return (usual if not size else min(usual, size // 2), size // 8, 0)[min(level, 2)]


def draft_compaction(
    path: Sequence[TranscriptEntry], keeping: int, where: CompactionRoom, *, turns: int = 3, least: bool = True
) -> CompactionDraft | None:
    """The compaction of a path that keeps about so many tokens; None if there is nothing to replace."""
    seen, _ = list_shown_messages(path)
    messages = tuple(said.message for said in seen)
    start = 1 if seen and isinstance(seen[0].entry, CompactionEntry) else 0
    found = find_cut(messages, keeping, start, least=least)
    if found is None or not any(isinstance(m, UserMessage | AssistantMessage) for m in messages[start : found.first]):
        return None
    gone = messages[start : found.first]
    # A question alone, whose answer stays, is no turn that needs a summary of its own.
    begun = any(isinstance(m, AssistantMessage) for m in messages[found.turn : found.first])
    turn = found.turn if begun else found.first
    return CompactionDraft(
        messages[start:turn],
        messages[turn : found.first],
        messages[found.first :],
        find_earlier_summary(seen),
        kept=collect_must_keep(path, seen, gone, where.kept),
        first=seen[found.first].entry.id if found.first < len(seen) else None,
        span=(seen[start].entry.id, seen[found.first - 1].entry.id),
        recent=() if found.first < len(seen) else _last(gone, turns),
    )


def collect_must_keep(
    path: Sequence[TranscriptEntry], seen: Sequence[ShownMessage], gone: Sequence[Message], chars: int
) -> verbatim.KeptLines:
    """The must-keep set of `gone` and of everything an earlier compaction stands for."""
    return verbatim.fit_kept_lines(
        verbatim.merge_kept_lines(
            verbatim.drop_settled_lines(_carried(path, seen), gone), verbatim.collect_kept_lines(gone)
        ),
        chars,
    )


def find_earlier_summary(seen: Sequence[ShownMessage]) -> str:
    """The words of the summary the history begins with; "" if it has none."""
    head = seen[0].entry if seen else None
    return compaction.extract_model_part(head.summary) if isinstance(head, CompactionEntry) else ""


def cut_mechanically(
    messages: Sequence[Message],
    path: Sequence[TranscriptEntry],
    keeping: int,
    where: CompactionRoom,
    plan: tuple[str, ...],
) -> tuple[Message, ...] | None:
    """The messages without the older ones, the must-keep set before the rest. Nothing of it is written down. None if
    that makes nothing smaller."""
    seen, _ = list_shown_messages(path)
    given = tuple(messages)
    head = seen[0].message if seen and isinstance(seen[0].entry, CompactionEntry) else None
    start = next((at + 1 for at, m in enumerate(given) if head is not None and m == head), 0)
    found = find_cut(given, keeping, start)
    if found is None:
        made = given
    else:
        kept = collect_must_keep(path, seen, given[start : found.first], where.kept)
        text = compaction.write_compaction(
            compaction.CompactionParts(find_earlier_summary(seen), verbatim.render_kept_lines(kept), standing=plan),
            where.text,
        )
        made = (make_summary_message(text, _stamp(given)), *given[found.first :])
    if estimate_tokens(made) > max(keeping, where.history // 2) or found is None:
        made = shorten_results(made, PARED)
    made = repair_history(made)
    return made if estimate_tokens(made) < estimate_tokens(given) else None


def find_plan_steps(path: Sequence[TranscriptEntry]) -> tuple[str, ...]:
    """The agent's plan, wherever on the path it last wrote it."""
    return compaction.find_plan_steps([entry.message for entry in path if isinstance(entry, MessageEntry)])


def describe_compaction(made: CompactionDraft, reason: str, size: int, instructions: str) -> dict[str, Any]:
    """What the entry on file says besides its summary: which lines it stands for, and what it carries."""
    return {
        "readFiles": list(made.kept.get("read", ())),
        "modifiedFiles": list(made.kept.get("modified", ())),
        "from": made.span[0],
        "to": made.span[1],
        "messages": len(made.gone),
        "reason": reason,
        "tokensAfter": size,
        MUST: {kind: list(lines) for kind, lines in made.kept.items()},
        **({"instructions": instructions} if instructions else {}),
    }


def _carried(path: Sequence[TranscriptEntry], seen: Sequence[ShownMessage]) -> verbatim.KeptLines:
    """What the last compaction carried. One of another program's carries nothing: then what it replaced is read."""
    head = seen[0].entry if seen else None
    if not isinstance(head, CompactionEntry):
        return {}
    if isinstance(head.details, dict) and MUST in head.details:
        return verbatim.parse_kept_lines(head.details[MUST])
    stays = head.firstKeptEntryId
    before: list[Message] = []
    for entry in path:
        if entry.id in (stays, head.id):
            break
        if isinstance(entry, MessageEntry):
            before.append(entry.message)
    return verbatim.collect_kept_lines(before)


def _last(messages: Sequence[Message], turns: int) -> tuple[str, ...]:
    """The last turns in few words."""
    said = [m for m in messages if isinstance(m, UserMessage | AssistantMessage) and m.text.strip()]
    chosen = said[-2 * turns :] if turns else []
    return tuple(f"{'user' if isinstance(m, UserMessage) else 'you'}: {_line(m.text)}" for m in chosen)


def _line(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= RECENT else words[: RECENT - 1] + "…"


def _stamp(messages: Sequence[Message]) -> int:
    return messages[0].timestamp if messages else 0


def weigh_messages(messages: Sequence[Message], scale: float) -> int:
    """Tokens by our estimate, set right by what is known of the model."""
    return round(sum(estimate_message_tokens(m) for m in messages) * scale)
