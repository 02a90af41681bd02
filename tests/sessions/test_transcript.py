"""The tree and its path: contexts, compactions, branches, what is taken back, what is read again."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.types.messages import AssistantMessage, Message, TextBlock, ToolCall, ToolResult, UserMessage
from palinurus.errors import NotFound, StateUnwritable
from palinurus.sessions.entries import (
    CompactionEntry,
    CustomEntry,
    CustomMessageEntry,
    LevelChangeEntry,
    MessageEntry,
    ModelChangeEntry,
)
from palinurus.sessions.transcript import Transcript, Transcripts, read_transcript, set_aside
from palinurus.store.port import TranscriptLine

PATH = "agents/main/sessions/2f1e.jsonl"
NOW = 1_781_082_001_000


def counted() -> Any:
    return (f"{n:08x}" for n in itertools.count(1)).__next__


def new() -> Transcript:
    return Transcript(PATH, "/w", ids=counted())


def again(lines: list[TranscriptLine] | tuple[TranscriptLine, ...], before: bytes = b"") -> Transcript:
    """The transcript a later reading of the file gives."""
    transcript = Transcript(PATH)
    transcript.fill(before + b"".join(line.data + b"\n" for line in lines))
    return transcript


def said(transcript: Transcript) -> list[str]:
    return [m.text for m in transcript.messages()]


def raw(ident: str, parent: str | None, text: str = "", **fields: Any) -> bytes:
    body = fields if fields else {"type": "message", "message": {"role": "user", "content": text or ident}}
    return json.dumps({**body, "id": ident, "parentId": parent, "timestamp": "2026-06-10T09:00:00.000Z"}).encode()


def filled(*lines: bytes) -> Transcript:
    transcript = Transcript(PATH)
    transcript.fill(b"\n".join(lines))
    return transcript


def test_the_first_line_brings_the_header() -> None:
    transcript = new()
    lines = transcript.add(UserMessage("hi", NOW), "item1", NOW)
    assert [line.path for line in lines] == [PATH, PATH]
    header, first = (json.loads(line.data) for line in lines)
    assert header == {
        "type": "session",
        "version": 3,
        "id": "2f1e",
        "timestamp": "2026-06-10T09:00:01.000Z",
        "cwd": "/w",
    }
    assert first == {
        "type": "message",
        "id": "00000001",
        "parentId": None,
        "timestamp": "2026-06-10T09:00:01.000Z",
        "item": "item1",
        "message": {"role": "user", "content": "hi", "timestamp": NOW},
    }
    (second,) = transcript.add(AssistantMessage((TextBlock("hello"),)), "item1", NOW)
    assert json.loads(second.data)["parentId"] == "00000001"
    assert transcript.leaf == second.id == "00000002"
    assert said(transcript) == ["hi", "hello"]
    assert said(again([*lines, second])) == ["hi", "hello"]


def test_ids_are_eight_hex_digits_and_unique_in_the_file() -> None:
    transcript = Transcript(PATH)
    made = [line.id for n in range(300) for line in transcript.add(UserMessage(str(n)), "", NOW)][1:]
    assert all(len(i) == 8 and int(i, 16) >= 0 for i in made)
    assert len(set(made)) == 300
    clash = iter(["aaaaaaaa", "aaaaaaaa", "bbbbbbbb"])
    twice = Transcript(PATH, ids=clash.__next__)
    twice.add(UserMessage("1"), "", NOW)
    assert twice.add(UserMessage("2"), "", NOW)[0].id == "bbbbbbbb"


def test_the_session_id_of_a_topic_file() -> None:
    assert Transcript("agents/main/sessions/2f1e-topic-42.jsonl").session_id == "2f1e"


def test_entries_of_an_item() -> None:
    transcript = new()
    lines = [*transcript.add(UserMessage("a"), "i1", NOW), *transcript.add(UserMessage("b"), "i2", NOW)]
    lines += transcript.add(AssistantMessage((TextBlock("c"),)), "i1", NOW)
    for t in (transcript, again(lines)):
        found = t.entries_of("i1")
        assert [e.message.text for e in found if isinstance(e, MessageEntry)] == ["a", "c"]
        assert t.entries_of("nobody") == []


def test_messages_are_kept_and_extended_not_rebuilt() -> None:
    transcript = new()
    transcript.add(UserMessage("a"), "", NOW)
    first = transcript.messages()
    assert transcript.messages() is first
    transcript.add_entry(CustomEntry(customType="openclaw.cache-ttl"), NOW)
    assert transcript.messages() is first
    transcript.add(UserMessage("b"), "", NOW)
    assert transcript.messages()[0] is first[0]
    assert len(transcript.messages()) == 2


# --- compaction ------------------------------------------------------------------------------------------------


def test_compaction_keeps_what_it_says() -> None:
    transcript = new()
    lines = [line for text in "abcd" for line in transcript.add(UserMessage(text), "", NOW)]
    lines += transcript.add_entry(CompactionEntry(summary="SUM", firstKeptEntryId="00000003", tokensBefore=9), NOW)
    lines += transcript.add(UserMessage("e"), "", NOW)
    for t in (transcript, again(lines)):
        summary, *rest = t.messages()
        assert "SUM" in summary.text
        assert isinstance(summary, UserMessage)
        assert [m.text for m in rest] == ["c", "d", "e"]
        assert t.older_count == 3
    assert new().older_count == 0


@pytest.mark.parametrize("kept", ["missing", None, "00000009"])
def test_compaction_without_a_first_kept_entry_keeps_only_what_follows(kept: str | None) -> None:
    transcript = new()
    transcript.add(UserMessage("a"), "", NOW)
    transcript.add_entry(CompactionEntry(summary="SUM", firstKeptEntryId=kept), NOW)
    transcript.add(UserMessage("b"), "", NOW)
    assert said(transcript)[1:] == ["b"]
    assert len(transcript.messages()) == 2


def test_only_the_last_compaction_counts() -> None:
    transcript = new()
    transcript.add(UserMessage("a"), "", NOW)
    transcript.add_entry(CompactionEntry(summary="FIRST", firstKeptEntryId="00000001"), NOW)
    transcript.add(UserMessage("b"), "", NOW)
    # kept from before the first compaction on: its summary is not repeated
    transcript.add_entry(CompactionEntry(summary="SECOND", firstKeptEntryId="00000001"), NOW)
    transcript.add(UserMessage("c"), "", NOW)
    summary, *rest = said(transcript)
    assert "SECOND" in summary
    assert rest == ["a", "b", "c"]
    assert not any("FIRST" in text for text in rest)


def test_a_kept_entry_on_another_branch_does_not_count() -> None:
    transcript = filled(
        raw("a", None),
        raw("b", "a"),
        raw("x", "a"),
        raw("c", "x", type="compaction", summary="SUM", firstKeptEntryId="b", tokensBefore=1),
        raw("d", "c"),
    )
    assert said(transcript)[1:] == ["d"]


def test_compaction_on_one_branch_only() -> None:
    transcript = new()
    for text in "abc":
        transcript.add(UserMessage(text), "", NOW)
    transcript.add_entry(CompactionEntry(summary="SUM", firstKeptEntryId="00000003"), NOW)
    transcript.branch("00000002")
    assert said(transcript) == ["a", "b"]
    assert transcript.older_count == 0
    transcript.add(UserMessage("d"), "", NOW)
    assert said(transcript) == ["a", "b", "d"]
    transcript.branch("00000004")
    assert said(transcript)[1:] == ["c"]


# --- tree ------------------------------------------------------------------------------------------------------


def test_branching_makes_a_sibling_and_deletes_nothing() -> None:
    transcript = new()
    lines = [line for text in "abc" for line in transcript.add(UserMessage(text), "", NOW)]
    transcript.branch("00000001")
    assert transcript.leaf == "00000001"
    lines += transcript.add(UserMessage("d"), "", NOW)
    assert said(transcript) == said(again(lines)) == ["a", "d"]
    transcript.branch(None)
    assert transcript.leaf is None
    lines += transcript.add(UserMessage("e"), "", NOW)
    assert said(transcript) == said(again(lines)) == ["e"]
    assert len(transcript.entries) == 5
    with pytest.raises(NotFound, match="nowhere"):
        transcript.branch("nowhere")


def test_mirrors_are_left_out_and_custom_messages_are_in() -> None:
    transcript = new()
    transcript.add(UserMessage("a"), "", NOW)
    transcript.add(AssistantMessage((TextBlock("shown"),), provider="openclaw", model="delivery-mirror"), "", NOW)
    transcript.add_entry(CustomMessageEntry(customType="c", content="note"), NOW)
    assert said(transcript) == ["a", "note"]


def test_model_and_level_are_the_last_ones_on_the_path() -> None:
    transcript = new()
    assert transcript.model() is None
    assert transcript.level() is None
    transcript.add_entry(ModelChangeEntry(provider="p", modelId="m"), NOW)
    transcript.add_entry(LevelChangeEntry(thinkingLevel="high"), NOW)
    assert (transcript.model(), transcript.level()) == (("p", "m"), "high")
    transcript.add(AssistantMessage((TextBlock("x"),), provider="q", model="n"), "", NOW)
    transcript.add(AssistantMessage((TextBlock("x"),), provider="openclaw", model="delivery-mirror"), "", NOW)
    assert transcript.model() == ("q", "n")


def test_a_lost_parent_is_the_line_before() -> None:
    assert said(filled(raw("a", None), raw("b", "lost"), raw("c", "b"))) == ["a", "b", "c"]
    # A broken line in the middle costs that line and no more.
    assert said(filled(raw("a", None), raw("b", "a")[:-5], raw("c", "b"), raw("d", "c"))) == ["a", "c", "d"]


def test_cycles_are_impossible() -> None:
    assert said(filled(raw("a", "b"), raw("b", "a"))) == ["a", "b"]
    assert said(filled(raw("a", "a"))) == ["a"]
    assert said(filled(raw("a", None), raw("b", "c"), raw("c", "b"))) == ["a", "b", "c"]


def test_an_id_used_twice() -> None:
    # The same line again (a journal replayed) changes nothing, even behind later lines.
    assert said(filled(raw("a", None), raw("b", "a"), raw("a", None))) == ["a", "b"]
    # Another line under the same id is kept; children mean the nearer one.
    assert said(filled(raw("a", None, "1"), raw("b", "a", "2"), raw("b", "b", "3"), raw("c", "b", "4"))) == list("1234")


def test_version_1_and_2_are_migrated_in_memory(tmp_path: Path) -> None:
    one = [
        {"type": "session", "id": "2f1e", "timestamp": "t", "cwd": "/w"},
        *[{"type": "message", "timestamp": "t", "message": {"role": "user", "content": c}} for c in "abc"],
        {"type": "compaction", "timestamp": "t", "summary": "SUM", "firstKeptEntryIndex": 3, "tokensBefore": 1},
        {"type": "message", "timestamp": "t", "message": {"role": "user", "content": "d"}},
    ]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in one)
    transcript = again([], data)
    assert said(transcript)[1:] == ["c", "d"]
    lines = transcript.add(UserMessage("e"), "", NOW)
    assert len(lines) == 1
    assert said(again(lines, data))[1:] == ["c", "d", "e"]

    two = [
        {"type": "session", "version": 2, "id": "2f1e", "timestamp": "t", "cwd": "/w"},
        {
            "type": "message",
            "id": "a",
            "parentId": None,
            "message": {"role": "hookMessage", "customType": "x", "content": "h"},
        },
    ]
    assert said(again([], b"".join(json.dumps(line).encode() + b"\n" for line in two))) == ["h"]


def test_a_file_without_header_loads_and_goes_on() -> None:
    transcript = filled(raw("a", None))
    assert transcript.session_id == "2f1e"
    lines = transcript.add(UserMessage("b"), "", NOW)
    assert len(lines) == 1
    assert said(again(lines, raw("a", None) + b"\n")) == ["a", "b"]


def test_a_file_of_garbage_starts_over() -> None:
    lines = filled(b"garbage").add(UserMessage("b"), "", NOW)
    assert len(lines) == 2
    assert said(again(lines, b"garbage\n")) == ["b"]


def test_an_unknown_line_without_an_id_is_nobodys_parent() -> None:
    transcript = filled(raw("a", None), b'{"type":"hologram"}')
    assert transcript.leaf == "a"
    assert len(transcript.entries) == 2


# --- taking back -----------------------------------------------------------------------------------------------


def test_rollback_forgets_everything_since_the_mark() -> None:
    transcript = new()
    start = transcript.mark()
    transcript.add(UserMessage("a"), "i1", NOW)
    mark = transcript.mark()
    size = transcript.size
    transcript.add(UserMessage("b"), "i1", NOW)
    transcript.rollback(mark, transcript.add(UserMessage("c"), "i2", NOW))
    assert said(transcript) == ["a"]
    assert transcript.size == size
    assert (len(transcript.entries_of("i1")), transcript.entries_of("i2")) == (1, [])
    (line,) = transcript.add(UserMessage("d"), "i2", NOW)
    assert json.loads(line.data)["parentId"] == "00000001"
    transcript.rollback(start, [line])
    assert transcript.messages() == ()
    assert len(transcript.add(UserMessage("e"), "", NOW)) == 2  # the header has not reached the disk either


def test_a_compaction_that_did_not_reach_the_disk_takes_nothing_away() -> None:
    transcript = new()
    first = transcript.add(UserMessage("a"), "i1", NOW)[-1]
    transcript.add(UserMessage("b"), "i1", NOW)
    mark = transcript.mark()
    lines = transcript.add_entry(CompactionEntry(summary="short", firstKeptEntryId=first.id), NOW)
    assert len(said(transcript)) == 3
    transcript.rollback(mark, lines)
    assert said(transcript) == ["a", "b"]
    with pytest.raises(NotFound):
        transcript.branch(lines[-1].id)


def test_what_was_looked_at_before_it_was_taken_back_is_gone() -> None:
    transcript = new()
    transcript.add(UserMessage("a"), "i1", NOW)
    mark = transcript.mark()
    lines = transcript.add(UserMessage("b"), "i1", NOW)
    assert said(transcript) == ["a", "b"]
    transcript.rollback(mark, lines)
    assert said(transcript) == ["a"]


def test_how_many_are_older_is_known_without_looking_at_them() -> None:
    transcript = new()
    first = transcript.add(UserMessage("a"), "i1", NOW)[-1]
    transcript.add_entry(CompactionEntry(summary="short", firstKeptEntryId=first.id), NOW)
    transcript.add(UserMessage("b"), "i1", NOW)
    assert transcript.older_count == 2


def test_the_header_stays_when_more_is_read() -> None:
    transcript = new()
    lines = transcript.add(UserMessage("a"), "i1", NOW)
    read = again(lines)
    header = read.header
    read.fill(raw("00000009", lines[-1].id, "b") + b"\n")
    assert header is not None and read.header == header and said(read) == ["a", "b"]


def test_lines_carry_the_name_below_home(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(raw("00000001", None, "a") + b"\n")
    assert read_transcript(str(tmp_path / "a.jsonl"), PATH).path == PATH
    assert read_transcript(str(tmp_path / "a.jsonl")).path == str(tmp_path / "a.jsonl")


async def test_a_new_transcript_says_whose_it_is(tmp_path: Path) -> None:
    transcripts = Transcripts(str(tmp_path))
    made = await transcripts.load(PATH, key="agent:main:main")
    assert await transcripts.load(PATH) is made
    assert json.loads(made.add(UserMessage("a"), "", NOW)[0].data)["sessionKey"] == "agent:main:main"


def test_what_is_taken_back_after_a_move_of_the_leaf_is_as_it_was() -> None:
    transcript = new()
    first = transcript.add(UserMessage("a"), "i1", NOW)[-1]
    transcript.add(UserMessage("b"), "i1", NOW)
    transcript.branch(first.id)
    mark = transcript.mark()
    transcript.rollback(mark, transcript.add(UserMessage("c"), "i1", NOW))
    assert said(transcript) == ["a"]
    mark = transcript.mark()
    transcript.rollback(mark, transcript.branch_line(None, NOW))
    assert said(transcript) == ["a"]


def test_what_a_run_hangs_on_is_not_taken_from_under_it() -> None:
    """A note could not be written because a run had begun, and that has written behind it already."""
    transcript = new()
    transcript.add(UserMessage("a"), "i1", NOW)
    mark = transcript.mark()
    note = transcript.add(UserMessage("note"), "", NOW)
    (line,) = transcript.add(UserMessage("b"), "i2", NOW)
    transcript.rollback(mark, note)
    assert said(transcript) == ["a", "note", "b"]
    assert json.loads(transcript.add(UserMessage("c"), "i2", NOW)[-1].data)["parentId"] == line.id


OPS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.integers(0, 3)),
        st.tuples(st.just("compact"), st.integers(0, 12)),
        st.tuples(st.just("branch"), st.integers(0, 12)),
        st.tuples(st.just("look"), st.just(0)),
        st.tuples(st.just("mark"), st.just(0)),
        st.tuples(st.just("back"), st.just(0)),
    ),
    max_size=25,
)


@given(OPS)
def test_memory_always_agrees_with_the_file(ops: list[tuple[str, int]]) -> None:
    """Whatever was added, branched and taken back: reading the lines again gives the same conversation."""
    transcript = new()
    lines: list[TranscriptLine] = []
    marks: list[tuple[Any, int]] = []
    for number, (op, arg) in enumerate(ops):
        if op == "say":
            lines += transcript.add(UserMessage(f"{number}"), f"i{arg}", NOW)
        elif op == "compact":
            kept = transcript.entries[arg].id if arg < len(transcript.entries) else None
            lines += transcript.add_entry(CompactionEntry(summary=f"S{number}", firstKeptEntryId=kept), NOW)
        elif op == "branch" and arg < len(transcript.entries):
            transcript.branch(transcript.entries[arg].id)
            lines += transcript.add(UserMessage(f"{number}"), "", NOW)
        elif op == "look":
            transcript.messages()
        elif op == "mark":
            marks.append((transcript.mark(), len(lines)))
        elif op == "back" and marks:
            mark, count = marks.pop()
            transcript.rollback(mark, lines[count:])
            del lines[count:]
    file = again(lines)
    assert transcript.messages() == file.messages()
    assert (transcript.leaf, transcript.older_count, transcript.entries) == (file.leaf, file.older_count, file.entries)
    assert transcript.size == file.size
    assert all(transcript.entries_of(f"i{n}") == file.entries_of(f"i{n}") for n in range(4))


LINES = [raw("a", None), raw("b", "a"), raw("c", "b"), raw("b", "b", "other"), raw("d", "nowhere"), raw("e", "e")]
PIECES = st.sampled_from(
    [*LINES, b'{"type":"session","version":3,"id":"2f1e"}', b"\n", b"\n", b"\0", b"{", b'{"type":"hologram"}']
)
SOUP = st.lists(PIECES | st.binary(max_size=9) | st.builds(lambda p, n: p[:n], PIECES, st.integers(0, 60)), max_size=12)


@given(SOUP.map(b"".join))
def test_any_file_can_be_continued(data: bytes) -> None:
    """No bytes are fatal, and what is added behind them is found again where it was put."""
    transcript = Transcript(PATH)
    transcript.fill(data)
    before = transcript.messages()
    lines = transcript.add(UserMessage("next"), "item", NOW)
    assert transcript.messages() == (*before, UserMessage("next"))
    file = again(lines, data + b"\n")
    assert file.messages() == transcript.messages()
    assert len(file.entries_of("item")) == 1


# --- files -----------------------------------------------------------------------------------------------------


def store(home: Path, lines: tuple[TranscriptLine, ...] | list[TranscriptLine]) -> None:
    """What the journal does with lines."""
    for line in lines:
        file = home / line.path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("ab") as handle:
            handle.write(line.data + b"\n")


@pytest.mark.seed(374)
async def test_a_session_lives_in_its_file(tmp_path: Path) -> None:
    first = await Transcripts(str(tmp_path), 8).load(PATH, "/w")
    store(tmp_path, first.add(UserMessage("hi"), "i", NOW))
    assert (tmp_path / "agents" / "main" / "sessions" / "2f1e.jsonl").exists()
    second = await Transcripts(str(tmp_path), 8).load(PATH)
    assert said(second) == ["hi"]
    assert second.session_id == "2f1e"


@pytest.mark.seed(376)
async def test_folders_of_other_tools_are_not_read(tmp_path: Path) -> None:
    for folder in (".openclaw", ".pi", ".claude", "sessions"):
        other = tmp_path / folder / PATH
        other.parent.mkdir(parents=True, exist_ok=True)
        other.write_bytes(raw("a", None, "not ours"))
    assert (await Transcripts(str(tmp_path), 8).load(PATH)).messages() == ()


async def test_the_same_object_until_it_is_forgotten(tmp_path: Path) -> None:
    transcripts = Transcripts(str(tmp_path), 8)
    first, same = await asyncio.gather(transcripts.load(PATH), transcripts.load(PATH))
    assert first is same
    store(tmp_path, first.add(UserMessage("a"), "", NOW))
    assert await transcripts.load(PATH) is first
    (tmp_path / PATH).write_bytes(raw("z", None, "replaced"))
    transcripts.forget(PATH)
    assert said(await transcripts.load(PATH)) == ["replaced"]


async def test_large_files_are_read_in_a_thread_once(tmp_path: Path) -> None:
    file = tmp_path / PATH
    file.parent.mkdir(parents=True)
    file.write_bytes(raw("a", None, "x" * 300_000) + b"\n" + raw("b", "a"))
    transcripts = Transcripts(str(tmp_path), 8)
    one = asyncio.ensure_future(transcripts.load(PATH))
    two = asyncio.ensure_future(transcripts.load(PATH))
    await asyncio.sleep(0)
    one.cancel()  # whoever came first may go: the others still get it
    got = await two
    assert [len(text) for text in said(got)] == [300_000, 1]
    assert await transcripts.load(PATH) is got


async def test_the_cache_is_bounded_by_number_and_by_bytes(tmp_path: Path) -> None:
    # One thread reads all: a second one may hold what it read a moment longer than whoever asked for it.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    names = [f"agents/main/sessions/{n}.jsonl" for n in range(4)]
    for name in names:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(raw("a", None, "x" * 1000))
    for transcripts in (Transcripts(str(tmp_path), 2), Transcripts(str(tmp_path), 99, max_bytes=2500)):
        for name in names[:3]:
            await transcripts.load(name)
        marks = {}
        for name in names:
            (tmp_path / name).write_bytes(raw("a", None, "changed"))
        for name in (names[1], names[2], names[0]):
            marks[name] = said(await transcripts.load(name)) == ["changed"]
        assert marks == {names[0]: True, names[1]: False, names[2]: False}
        for name in names:
            (tmp_path / name).write_bytes(raw("a", None, "x" * 1000))


async def test_a_transcript_in_use_is_never_loaded_twice(tmp_path: Path) -> None:
    transcripts = Transcripts(str(tmp_path), 1)
    held = await transcripts.load(PATH)
    held.add(UserMessage("not on file yet"), "", NOW)
    await transcripts.load("agents/main/sessions/other.jsonl")
    assert await transcripts.load(PATH) is held


async def test_a_transcript_that_lies_elsewhere_is_read_through_its_link(tmp_path: Path) -> None:
    there = tmp_path / "there.jsonl"
    there.write_bytes(raw("00000001", None, "hello") + b"\n")
    (tmp_path / "here.jsonl").symlink_to(there)
    assert said(await Transcripts(str(tmp_path)).load("here.jsonl")) == ["hello"]


async def test_what_another_node_has_added_is_read_on_once(tmp_path: Path) -> None:
    one, two, three = (raw(f"0000000{n + 1}", None if n == 0 else f"0000000{n}", "abc"[n]) + b"\n" for n in range(3))
    asked: list[int] = []
    rests = [one, b"", two, three, three]

    async def tail(path: str, after: int) -> bytes:
        asked.append(after)
        await asyncio.sleep(0)
        return rests.pop(0)

    transcripts = Transcripts(str(tmp_path), tail=tail)
    held = await transcripts.load("a.jsonl")
    assert said(held) == ["a"] == said(await transcripts.load("a.jsonl"))
    assert said(await transcripts.load("a.jsonl")) == ["a", "b"]
    both = await asyncio.gather(
        transcripts.load("a.jsonl"), transcripts.load("a.jsonl")
    )  # who is second has it already
    assert both[0] is held and said(held) == ["a", "b", "c"] and held.size == len(one + two + three)
    assert asked == [0, len(one), len(one), len(one + two), len(one + two)]


async def test_a_file_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    (tmp_path / PATH).mkdir(parents=True)
    transcripts = Transcripts(str(tmp_path), 8)
    with pytest.raises(StateUnwritable, match=r"2f1e\.jsonl"):
        await transcripts.load(PATH)
    (tmp_path / PATH).rmdir()
    assert (await transcripts.load(PATH)).messages() == ()


async def test_bad_pieces_are_copied_once_and_the_file_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / PATH
    file.parent.mkdir(parents=True)
    data = raw("a", None) + b"\ngarbage \xff\n" + raw("b", "a") + b'\n{"type":"mess'
    file.write_bytes(data)
    for _ in range(3):
        assert said(await Transcripts(str(tmp_path), 8).load(PATH)) == ["a", "b"]
    assert file.read_bytes() == data
    copies = sorted(p.name for p in file.parent.iterdir() if p != file)
    assert copies == ["2f1e.jsonl.bad-1"]
    copy = file.with_name(copies[0])
    assert b"garbage \xff" in copy.read_bytes()
    assert b'{"type":"mess' in copy.read_bytes()
    assert copy.stat().st_mode & 0o777 == 0o600
    file.write_bytes(data + b"\nmore garbage\n")
    assert set_aside(read_transcript(str(file)), str(file)).endswith(".bad-2")


def test_a_sound_file_leaves_no_copy(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(raw("a", None))
    assert set_aside(read_transcript(str(file)), str(file)) == ""
    assert os.listdir(tmp_path) == ["x.jsonl"]


def test_a_copy_that_cannot_be_written_is_not_fatal(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_bytes(b"garbage")
    assert set_aside(read_transcript(str(file)), str(tmp_path / "gone" / "x.jsonl")) == ""


@pytest.mark.parametrize("count", [20, 2000])
def test_a_tool_turn_comes_back_as_it_was(count: int) -> None:
    transcript = new()
    lines: list[TranscriptLine] = []
    turn: tuple[Message, ...] = (
        UserMessage("list", NOW),
        AssistantMessage((ToolCall("c", "ls", {"path": "."}),), "api", "p", "m", stopReason="toolUse", timestamp=NOW),
        ToolResult("c", "ls", (TextBlock("a.txt"),), details={"n": [1]}, timestamp=NOW),
        AssistantMessage((TextBlock("one file"),), "api", "p", "m", timestamp=NOW),
    )
    for n in range(count):
        lines += transcript.add(turn[n % 4], f"{n // 4}", NOW)
    assert again(lines).messages() == transcript.messages() == turn * (count // 4)


# --- what a mutant once did unseen


def told(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


HEADER = {"type": "session", "version": 3, "id": "theid", "timestamp": "2026-06-10T09:00:01.000Z", "cwd": "/w"}


def test_its_id_is_the_headers_and_a_file_with_a_header_alone_gets_no_second() -> None:
    transcript = new()
    assert transcript.session_id == "2f1e"
    transcript.fill(told(HEADER))
    assert transcript.session_id == "theid"
    assert len(transcript.add(UserMessage((TextBlock("hi"),)), "m1", NOW)) == 1


def test_an_entry_by_its_id_and_the_parents_of_all() -> None:
    transcript = new()
    for text in ("one", "two"):
        transcript.add(UserMessage((TextBlock(text),)), "m1", NOW)
    first, second = transcript.entries
    assert transcript.entry(second.id) is second and transcript.entry("nobody") is None
    transcript.branch(first.id)
    transcript.add(UserMessage((TextBlock("three"),)), "m2", NOW)
    assert transcript.parents() == [-1, 0, 0]
    transcript.parents().append(9)  # a copy
    assert len(transcript.parents()) == 3


def test_the_model_is_that_of_the_last_answer_that_names_one() -> None:
    transcript = new()
    transcript.add(AssistantMessage((TextBlock("a"),), provider="p", model="m"), "m1", NOW)
    transcript.add(AssistantMessage((TextBlock("b"),)), "m1", NOW)
    transcript.add(UserMessage((TextBlock("c"),)), "m2", NOW)
    assert transcript.model() == ("p", "m")


def test_a_lasting_branch_stands_where_it_was_told_to() -> None:
    transcript = new()
    for text in ("one", "two"):
        transcript.add(UserMessage((TextBlock(text),)), "m1", NOW)
    first = transcript.entries[0].id
    transcript.branch_line(first, NOW)
    above, _ = transcript.path_to_leaf()
    assert above.id == first
    assert len(transcript.messages()) == 1


def test_unreadable_pieces_are_set_aside_once_and_the_copy_is_named(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_bytes(told(HEADER) + b"{broken\n")
    transcript = read_transcript(str(file))
    names = [set_aside(transcript, str(file)) for _ in range(2)]
    assert names == [f"{file}.bad-1"] * 2


def user(number: int, size: int = 1) -> dict[str, Any]:
    message = {"role": "user", "content": [{"type": "text", "text": "x" * size}]}
    return {"type": "message", "id": f"{number:08x}", "parentId": None, "timestamp": "", "message": message}


def shelf(tmp_path: Path, data: bytes, **limits: int) -> Transcripts:
    async def tail(path: str, after: int) -> bytes:
        return data[after:]

    (tmp_path / "agents").mkdir(exist_ok=True)
    return Transcripts(str(tmp_path), tail=tail, **limits)


@pytest.mark.parametrize("size", [1, 300_000])
async def test_long_ones_are_read_in_a_thread_and_as_well(tmp_path: Path, size: int) -> None:
    store = shelf(tmp_path, told(HEADER, user(1, size)) + b"{broken\n")
    work = store._read("agents/a.jsonl", "")
    if size > 1:
        work.send(None)  # it leaves the loop to others
        work.close()
    else:
        with pytest.raises(StopIteration):
            work.send(None)
        store = shelf(tmp_path, told(HEADER, user(1, size)) + b"{broken\n")
    transcript = await store.load("agents/a.jsonl")
    assert len(transcript.messages()) == 1
    assert (tmp_path / "agents" / "a.jsonl.bad-1").exists()


async def test_the_one_that_was_not_used_for_longest_goes_and_one_always_stays(tmp_path: Path) -> None:
    data = told(HEADER, user(1))
    some = shelf(tmp_path, data, max_cached=2)
    for name in ("a", "b", "a", "c"):
        await some.load(name)
    assert list(some._cached) == ["a", "c"]
    small = shelf(tmp_path, data, max_bytes=1)
    await small.load("a")
    assert list(small._cached) == ["a"]
    exact = shelf(tmp_path, data, max_bytes=2 * len(data))
    for name in ("a", "b", "c"):
        await exact.load(name)
    assert list(exact._cached) == ["b", "c"]
