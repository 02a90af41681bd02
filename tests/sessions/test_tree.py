"""The tree: going back and losing nothing, forks, labels, what people see of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.core.types.messages import AssistantMessage, TextBlock, ToolCall, ToolResult, UserMessage
from palinurus.errors import BadRequest, NotFound
from palinurus.sessions.entries import CompactionEntry, CustomEntry, LabelEntry, SessionInfoEntry
from palinurus.sessions.transcript import Transcript
from palinurus.sessions.tree import (
    collect_labels,
    find_entry,
    fork_transcript,
    list_nodes,
    name_speaker,
    summarize_entry,
    to_plain_entry,
)
from palinurus.store.port import TranscriptLine

PATH = "agents/main/sessions/old.jsonl"
NOW = 1_781_082_001_000


class Book:
    """A transcript and the bytes its file has."""

    def __init__(self) -> None:
        self.transcript = Transcript(PATH, "/w")
        self.data = b""

    def write(self, lines: tuple[TranscriptLine, ...]) -> str:
        self.data += b"".join(line.data + b"\n" for line in lines)
        return lines[-1].id

    def say(self, text: str) -> str:
        return self.write(self.transcript.add(UserMessage(text), "item", NOW))

    def back(self, ident: str | None) -> str:
        return self.write(self.transcript.branch_line(ident, NOW))

    def label(self, ident: str, text: str | None) -> str:
        return self.write(self.transcript.add_entry(LabelEntry(targetId=ident, label=text), NOW))

    def again(self) -> Transcript:
        return loaded(self.data)


def loaded(data: bytes) -> Transcript:
    transcript = Transcript(PATH)
    transcript.fill(data)
    return transcript


def texts(transcript: Transcript) -> list[str]:
    return [m.text for m in transcript.messages()]


def shape(transcript: Transcript) -> list[tuple[str, int, bool, bool]]:
    return [(summarize_entry(n.entry), n.depth, n.active, n.here) for n in list_nodes(transcript)]


def test_going_back_lasts_and_loses_nothing() -> None:
    book = Book()
    one = book.say("one")
    book.say("two")
    book.back(one)
    for t in (book.transcript, book.again()):
        assert texts(t) == ["one"]
        assert shape(t) == [("one", 0, True, True), ("two", 0, False, False)]
    book.say("three")
    for t in (book.transcript, book.again()):
        assert texts(t) == ["one", "three"]
        assert shape(t) == [("one", 0, True, False), ("two", 1, False, False), ("three", 1, True, True)]


def test_other_readers_follow_it_without_knowing_it() -> None:
    """The last line is the leaf; walking up by parentId gives the path."""
    book = Book()
    one = book.say("one")
    book.say("two")
    book.back(one)
    lines = [json.loads(line) for line in book.data.splitlines()]
    assert lines[-1]["type"] == "custom"
    assert lines[-1]["parentId"] == one
    assert lines[-1]["data"] == {"targetId": one}


def test_before_the_first_entry() -> None:
    book = Book()
    book.say("one")
    book.back(None)
    assert texts(book.again()) == []
    book.say("another start")
    assert texts(book.again()) == ["another start"]
    assert shape(book.again()) == [("one", 1, False, False), ("another start", 1, True, True)]


def test_a_branch_line_can_be_taken_back() -> None:
    book = Book()
    one = book.say("one")
    book.say("two")
    mark = book.transcript.mark()
    book.transcript.rollback(mark, book.transcript.branch_line(one, NOW))
    assert texts(book.transcript) == ["one", "two"]
    with pytest.raises(NotFound, match="no entry 'nothing'"):
        book.transcript.branch_line("nothing", NOW)
    assert texts(book.transcript) == ["one", "two"]


def test_a_compaction_counts_on_its_own_branch_only() -> None:
    book = Book()
    one = book.say("one")
    two = book.say("two")
    book.write(book.transcript.add_entry(CompactionEntry(summary="QQ", firstKeptEntryId=two), NOW))
    assert [t.count("QQ") for t in texts(book.again())] == [1, 0]
    book.back(one)
    book.say("three")
    assert texts(book.again()) == ["one", "three"]


def test_find() -> None:
    book = Book()
    one, two = book.say("one"), book.say("two")
    book.label(one, "start here")
    t = book.again()
    assert find_entry(t, one) == find_entry(t, one[:7]) == find_entry(t, "start here") == one
    assert find_entry(t, "root") is None
    with pytest.raises(NotFound, match="no entry 'zz'"):
        find_entry(t, "zz")
    with pytest.raises(NotFound):
        find_entry(t, "")
    book.label(two, "start here")
    with pytest.raises(BadRequest, match="means 2 entries"):
        find_entry(book.again(), "start here")


def test_labels_are_set_changed_and_cleared() -> None:
    book = Book()
    one = book.say("one")
    book.label(one, "a")
    book.label(one, "b")
    assert collect_labels(book.again()) == {one: "b"}
    assert list_nodes(book.again())[0].label == "b"
    book.label(one, None)
    assert collect_labels(book.again()) == {}
    assert len(list_nodes(book.again())) == 1


def test_a_fork_has_the_path_and_its_labels_only() -> None:
    book = Book()
    one = book.say("one")
    two = book.say("two")
    book.write(book.transcript.add_entry(SessionInfoEntry(name="trip"), NOW))
    book.back(one)
    three = book.say("three")
    book.label(two, "left")
    book.label(one, "first")
    copy = loaded(fork_transcript(book.again(), two, "new", NOW))
    assert texts(copy) == ["one", "two"]
    assert collect_labels(copy) == {one: "first", two: "left"}
    assert copy.entries_of("item") == []
    assert copy.header is not None
    assert (copy.header.id, copy.header.parentSession, copy.header.cwd) == ("new", PATH, "/w")
    assert texts(loaded(fork_transcript(book.again(), three, "new", NOW))) == ["one", "three"]
    assert collect_labels(loaded(fork_transcript(book.again(), three, "new", NOW))) == {one: "first"}
    assert texts(loaded(fork_transcript(book.again(), None, "new", NOW))) == []
    with pytest.raises(NotFound):
        fork_transcript(book.again(), "nothing", "new", NOW)


def test_a_fork_keeps_what_it_does_not_know() -> None:
    odd = b'{"type":"future","id":"aaaaaaaa","parentId":null,"x":[1]}\n'
    said = b'{"type":"message","id":"bbbbbbbb","parentId":"aaaaaaaa","message":{"role":"user","content":"hi"}}\n'
    header, first, second = fork_transcript(loaded(odd + said), "bbbbbbbb", "new", NOW).splitlines()
    assert json.loads(header)["version"] == 3
    assert json.loads(first) == {"type": "future", "id": "aaaaaaaa", "parentId": None, "x": [1]}
    assert json.loads(second)["parentId"] == "aaaaaaaa"


def test_words() -> None:
    t = Transcript(PATH)
    t.add(AssistantMessage((TextBlock("look\nat  it"), ToolCall("c", "ls", {})), errorMessage=None), "", NOW)
    t.add(ToolResult("c", "ls", (TextBlock("x" * 200),)), "", NOW)
    t.add_entry(CustomEntry(customType="openclaw.cache-ttl"), NOW)
    assert [name_speaker(e) for e in t.entries] == ["assistant", "ls", "custom"]
    assert [summarize_entry(e, 20) for e in t.entries] == ["look at it -> ls", "x" * 19 + "…", "openclaw.cache-ttl"]
    assert to_plain_entry(t.entries[2])["customType"] == "openclaw.cache-ttl"


# --- any history ----------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(st.sampled_from(["say", "say", "back", "label", "unlabel", "compact"]), st.integers(0, 40)), max_size=40
)


def played(steps: list[tuple[str, int]]) -> tuple[Book, list[str]]:
    """The book, and the ids of everything ever said."""
    book, said = Book(), list[str]()
    for n, (what, pick) in enumerate(steps):
        target = said[pick % len(said)] if said else None
        if what == "say" or target is None:
            said.append(book.say(f"t{n}"))
        elif what == "back":
            book.back(None if pick == 40 else target)
        elif what == "compact":
            book.write(book.transcript.add_entry(CompactionEntry(summary=f"s{n}", firstKeptEntryId=target), NOW))
        else:
            book.label(target, f"l{n}" if what == "label" else None)
    return book, said


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_reading_again_gives_the_same_tree(steps: list[tuple[str, int]]) -> None:
    book, said = played(steps)
    now, later = book.transcript, book.again()
    assert (now.leaf, texts(now), collect_labels(now)) == (later.leaf, texts(later), collect_labels(later))
    assert shape(now) == shape(later)
    shown = [n.entry.id for n in list_nodes(later)]
    assert len(shown) == len(set(shown))
    assert set(said) <= set(shown)  # nothing that was said is ever lost
    assert sum(n.here for n in list_nodes(later)) <= 1


@settings(max_examples=150, deadline=None)
@given(STEPS, st.integers(0, 40))
def test_a_fork_says_what_going_back_would(steps: list[tuple[str, int]], pick: int) -> None:
    book, said = played(steps)
    target = said[pick % len(said)] if said else None
    copy = loaded(fork_transcript(book.again(), target, "new", NOW))
    before: Any = collect_labels(book.transcript)
    kept = {e.id for e in copy.entries}
    book.back(target)
    assert texts(copy) == texts(book.again())
    assert {k: v for k, v in collect_labels(copy).items() if k in kept} == {
        k: v for k, v in before.items() if k in kept
    }
    assert copy.bad == ()
