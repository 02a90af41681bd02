"""Broken files: whatever the bytes, what can be read is read, the rest is kept aside with its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.types.messages import UserMessage
from palinurus.sessions.entries import CompactionEntry, MessageEntry, UnknownEntry
from palinurus.sessions.scan import TranscriptScan, scan_transcript

HEADER = b'{"type":"session","version":3,"id":"2f1e","timestamp":"2026-06-10T09:00:00.000Z","cwd":"/w"}'


def line(number: int, text: str = "") -> bytes:
    parent = f"{number - 1:08x}" if number > 1 else None
    message = {"role": "user", "content": text or f"message {number}", "timestamp": number}
    stamp = "2026-06-10T09:00:00.000Z"
    fields = {"type": "message", "id": f"{number:08x}", "parentId": parent, "timestamp": stamp, "message": message}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


ONE, TWO, THREE = line(1), line(2), line(3)


def texts(found: TranscriptScan) -> list[str]:
    return [e.message.text for e in found.entries if isinstance(e, MessageEntry) and isinstance(e.message, UserMessage)]


ALL = ["message 1", "message 2", "message 3"]


def test_a_sound_file() -> None:
    found = scan_transcript(b"\n".join([HEADER, ONE, TWO, THREE, b""]))
    assert found.header is not None
    assert (found.header.id, found.header.version) == ("2f1e", 3)
    assert texts(found) == ALL
    assert found.bad == []


@pytest.mark.parametrize("tail", [b"", b"\n"])
def test_cut_at_every_byte_of_the_last_two_lines(tail: bytes) -> None:
    data = b"\n".join([HEADER, ONE, TWO, THREE]) + b"\n"
    kept = len(HEADER) + 1 + len(ONE) + 1
    ends = {kept: 1, kept + len(TWO): 2, kept + len(TWO) + 1: 2, len(data) - 1: 3, len(data): 3}
    whole = 1
    for cut in range(kept, len(data) + 1):
        found = scan_transcript(data[:cut] + tail)
        whole = ends.get(cut, whole)
        assert texts(found) == ALL[:whole], cut
        assert len(found.bad) == (cut not in ends), cut
        if found.bad:
            assert data[found.bad[0].offset : cut] == found.bad[0].data


@pytest.mark.parametrize("later", [THREE, json.dumps(json.loads(THREE)).encode()], ids=["tight", "spaced"])
def test_a_line_written_behind_a_torn_one_is_found(later: bytes) -> None:
    start = b"\n".join([HEADER, ONE]) + b"\n"
    for cut in range(1, len(TWO)):
        found = scan_transcript(start + TWO[:cut] + later + b"\n")
        assert texts(found) == ["message 1", "message 3"], cut
        assert [b.data for b in found.bad] == [TWO[:cut]], cut


@pytest.mark.parametrize("spoiled", [b"\x00", b"\xff", b"{", b'"', b"\n"])
def test_one_spoiled_byte_costs_one_line(spoiled: bytes) -> None:
    """At every place of the middle line; its neighbours are never lost."""
    for at in range(len(TWO)):
        broken = TWO[:at] + spoiled + TWO[at + 1 :]
        found = texts(scan_transcript(b"\n".join([HEADER, ONE, broken, THREE])))
        assert found[0] == "message 1", at
        assert found[-1] == "message 3", at
        assert len(found) <= 3


CORPUS: list[tuple[str, bytes, list[str], int]] = [
    ("nothing", b"", [], 0),
    ("blank lines", b"\n\n \t\r\n\n" + ONE + b"\n\n\n" + TWO, ALL[:2], 0),
    ("windows line ends", b"\r\n".join([HEADER, ONE, TWO, THREE]), ALL, 0),
    ("a byte order mark", b"\xef\xbb\xbf" + HEADER + b"\n" + ONE, ALL[:1], 0),
    ("only a byte order mark", b"\xef\xbb\xbf", [], 0),
    ("garbage between", ONE + b"\nnot json at all\n" + TWO, ALL[:2], 1),
    ("a block of zeros", ONE + b"\n" + b"\0" * 4096 + b"\n" + TWO, ALL[:2], 1),
    ("zeros before a line", ONE + b"\n" + b"\0" * 512 + TWO, ALL[:2], 0),
    ("zeros behind a line", ONE + b"\n" + TWO + b"\0" * 512, ALL[:2], 0),
    ("two on a line", HEADER + ONE + b"\n" + TWO + THREE, ALL, 0),
    ("two on a line with space", ONE + b" \t" + TWO + b"\r\n" + THREE, ALL, 0),
    ("garbage and a line", b"%%%" + ONE + b"\n" + TWO + b"%%%" + THREE + b"%%%", ALL, 2),
    ("numbers, lists, null", ONE + b"\n42\n[1]\nnull\n" + TWO, ALL[:2], 3),
    ("an object without type", b"{}\n" + ONE, ALL[:1], 1),
    ("deep nesting", ONE + b"\n" + b"[" * 100_000 + b"\n" + TWO, ALL[:2], 1),
    ("deep objects", ONE + b'\n{"type":"message","x":' + b'{"a":' * 50_000 + b"\n" + TWO, ALL[:2], 1),
    ("half an emoji", ONE + b"\n" + TWO.replace(b"message 2", b"cut \\ud83d"), ["message 1", "cut �"], 0),
    ("both halves", TWO.replace(b"message 2", b"\\ud83d\\ude00"), ["😀"], 0),
    ("not UTF-8", ONE + b"\n" + TWO.replace(b"message 2", b"caf\xe9"), ["message 1", "caf�"], 1),
    (
        "a raw control character",
        ONE + b"\n" + TWO.replace(b"message 2", b"a\x01b") + b"\n" + THREE,
        ["message 1", "message 3"],
        1,
    ),
    ("a second header", HEADER + b"\n" + ONE + b"\n" + HEADER.replace(b"2f1e", b"beef") + b"\n" + TWO, ALL[:2], 1),
    ("the same header twice", HEADER + b"\n" + HEADER + b"\n" + ONE, ALL[:1], 0),
    ("binary", bytes(range(256)) * 20 + b"\n" + ONE, ALL[:1], None),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("data", "expected", "bad"), [c[1:] for c in CORPUS], ids=[c[0] for c in CORPUS])
def test_corpus(data: bytes, expected: list[str], bad: int | None) -> None:
    found = scan_transcript(data)
    assert texts(found) == expected
    if bad is not None:
        assert len(found.bad) == bad, found.bad
    for piece in found.bad:
        assert piece.reason
        assert 0 <= piece.offset <= len(data)


def test_text_that_looks_like_a_line_is_not_taken_for_one() -> None:
    quoted = line(2, text=THREE.decode())
    for cut in range(1, len(quoted)):
        assert texts(scan_transcript(ONE + b"\n" + quoted[:cut])) == ["message 1"], cut


def test_blocks_of_a_torn_message_are_not_taken_for_lines() -> None:
    torn = b'{"type":"message","id":"x","parentId":null,"message":{"role":"user","content":[{"type":"text","text":"a"},'
    found = scan_transcript(ONE + b"\n" + torn)
    assert len(found.entries) == 1
    assert len(found.bad) == 1


def test_a_very_long_line() -> None:
    long = line(1, text="x" * 5_000_000)
    assert [len(t) for t in texts(scan_transcript(long + b"\n" + TWO))] == [5_000_000, 9]
    torn = scan_transcript(long[:-10] + b"\n" + TWO)
    assert texts(torn) == ["message 2"]
    assert len(torn.bad[0].data) == len(long) - 10


def test_a_file_that_lost_its_newlines() -> None:
    found = scan_transcript(HEADER + b"".join(line(n) for n in range(1, 500)))
    assert texts(found) == [f"message {n}" for n in range(1, 500)]
    assert found.bad == []


def test_a_hostile_line_does_not_cost_its_square() -> None:
    found = scan_transcript(b'{"type":"message","a":"' * 20_000 + b"\n" + ONE)
    assert texts(found) == ["message 1"]
    assert sum(len(b.data) for b in found.bad) >= 23 * 20_000


def test_version_1_gets_ids_that_every_reading_gives_again() -> None:
    old = [
        b'{"type":"session","id":"2f1e","timestamp":"2025-01-01T00:00:00.000Z","cwd":"/w"}',
        *[
            json.dumps({"type": "message", "timestamp": "t", "message": {"role": "user", "content": f"m{n}"}}).encode()
            for n in range(3)
        ],
        b'{"type":"compaction","timestamp":"t","summary":"s","firstKeptEntryIndex":2,"tokensBefore":5}',
    ]
    found = scan_transcript(b"\n".join(old))
    assert found.header is not None
    assert found.header.version == 1
    assert [e.id for e in found.entries] == ["00000001", "00000002", "00000003", "00000004"]
    last = found.entries[-1]
    assert isinstance(last, CompactionEntry)
    assert last.firstKeptEntryId == "00000002"
    assert scan_transcript(b"\n".join([*old, ONE])).entries[:4] == found.entries


def test_unknown_lines_are_no_damage() -> None:
    found = scan_transcript(
        ONE + b'\n{"type":"hologram","id":"h","parentId":"00000001"}\n{"type":"text","text":"x"}\n' + TWO
    )
    assert texts(found) == ALL[:2]
    assert [type(e) for e in found.entries] == [MessageEntry, UnknownEntry, UnknownEntry, MessageEntry]
    assert found.bad == []


PIECES = st.sampled_from(
    [
        HEADER,
        ONE,
        TWO,
        THREE,
        b"\n",
        b"\n",
        b"\0",
        b"{",
        b"}",
        b'"',
        b"\xef\xbb\xbf",
        b"\xff",
        b'{"type":"message"',
        b"\\ud83d",
    ]
)
SOUP = st.lists(
    PIECES | st.binary(max_size=12) | st.builds(lambda p, n: p[:n], PIECES, st.integers(0, 90)), max_size=14
)


@given(SOUP.map(b"".join))
def test_no_bytes_are_fatal(data: bytes) -> None:
    found = scan_transcript(data)
    assert all(0 <= b.offset < len(data) and b.reason for b in found.bad)
    for whole in (ONE, TWO, THREE):
        if whole in data.split(b"\n"):
            assert any(e.id == json.loads(whole)["id"] for e in found.entries)
