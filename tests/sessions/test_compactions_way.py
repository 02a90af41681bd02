"""The way to the leaf of a transcript, and what is gathered along it."""

from __future__ import annotations

import random
from collections.abc import Sequence

from palinurus.agent.marks import find_said_sources, find_session_taint
from palinurus.core.policy.taint import collect_taint
from palinurus.core.types.messages import TextBlock, ToolResult, UserMessage
from palinurus.sessions.compactions import count_compactions, list_checkpoints
from palinurus.sessions.entries import CompactionEntry, MessageEntry, TranscriptEntry
from palinurus.sessions.transcript import Transcript


def walk(transcript: Transcript) -> list[TranscriptEntry]:
    """By the parents that the lines themselves name."""
    path: list[TranscriptEntry] = []
    at = transcript.leaf
    while at is not None and (entry := transcript.entry(at)) is not None:
        path.append(entry)
        at = entry.parentId if isinstance(entry.parentId, str) else None
    return path[::-1]


def check(transcript: Transcript) -> None:
    """All that is remembered is as if it were made anew."""
    path = walk(transcript)
    assert transcript.path_to_leaf() == path
    said = [entry.message for entry in path if isinstance(entry, MessageEntry)]
    assert find_session_taint(transcript) == collect_taint(said)
    assert list(find_said_sources(transcript)) == list(
        dict.fromkeys(one.source for one in said if isinstance(one, UserMessage) and one.source)
    )
    assert transcript.gather(count_compactions, 0) == len(list_checkpoints(path))


def test_a_way_is_remembered_through_everything_that_moves_the_leaf() -> None:
    for seed in range(12):
        chance = random.Random(seed)
        transcript = Transcript("a.jsonl")
        for n in range(160):
            step = chance.random()
            if step < 0.15 and transcript.entries:
                transcript.branch(chance.choice([None, *(entry.id for entry in transcript.entries)]))
            elif step < 0.3:
                mark = transcript.mark()
                transcript.rollback(mark, transcript.add(UserMessage(content="gone", timestamp=n), "x", n))
            elif step < 0.4:
                transcript.add_entry(CompactionEntry(summary="short", firstKeptEntryId="", tokensBefore=1), n)
            elif step < 0.7:
                source = chance.choice(["", "telegram ann", "telegram bob", "web a.example, file b"])
                transcript.add(UserMessage(content="hi", timestamp=n, source=source), "x", n)
            else:
                where = f"{chance.choice(['web', 'file', 'mcp:x', 'plugin:y'])} {chance.randrange(40)}"
                result = ToolResult("c", "read", (TextBlock("x"),), timestamp=n, source=where)
                transcript.add(result, "x", n)
            if chance.random() < 0.5:
                check(transcript)
        check(transcript)


def test_what_was_seen_is_not_looked_at_again() -> None:
    transcript, seen = Transcript("a.jsonl"), list[int]()

    def count(before: int, path: Sequence[TranscriptEntry]) -> int:
        seen.append(len(path))
        return before + len(path)

    for n in range(3):
        transcript.add(UserMessage(content="hi", timestamp=n), "x", n)
        assert transcript.gather(count, 0) == transcript.gather(count, 0) == n + 1
    assert seen == [1, 1, 1]
    path = transcript.path_to_leaf()
    path.clear()  # whoever gets it may do so
    assert len(transcript.path_to_leaf()) == 3
