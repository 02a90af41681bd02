"""What a command printed, bounded and readable."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.tools.commands.output import MAX_KEPT, OutputBuffer, clean_output


def fed(*pieces: bytes) -> OutputBuffer:
    kept = OutputBuffer()
    for piece in pieces:
        kept.feed(piece)
    return kept


def test_small_output_is_whole() -> None:
    assert fed(b"a\n", b"b").text() == "a\nb"
    assert fed().text() == ""


def test_head_and_tail_with_what_is_missing() -> None:
    kept = fed(*[b"%08d\n" % i for i in range(200_000)])
    text = kept.text()
    assert text.startswith("00000000\n00000001\n") and text.endswith("00199999\n")
    assert f"[… {1_800_000 - MAX_KEPT} bytes left out, and not kept: send long output to a file …]" in text
    assert kept.total == 1_800_000


def test_memory_stays_flat() -> None:
    kept = OutputBuffer()
    for _ in range(2000):
        kept.feed(b"y\n" * 32_768)
    assert kept.total == 2000 * 65_536
    assert sys.getsizeof(kept._head) + sys.getsizeof(kept._tail) < 4 * MAX_KEPT


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07text", "text"),
        (b"\x1b]52;c;ZXZpbA==\x1b\\text", "text"),
        (b"10%\r20%\r\ndone", "10%\n20%\ndone"),
        (b"bell\x07 back\x08", "bell back"),
        (b"bad \xff byte", "bad \ufffd byte"),
        ("caf\u00e9 \u4f60".encode(), "caf\u00e9 \u4f60"),
        (b"\x9b31m c1 \xc2\x9b", "\ufffd31m c1 "),
        (b"cut escape \x1b[3", "cut escape 3"),
    ],
)
def test_control_characters_are_gone(raw: bytes, expected: str) -> None:
    assert fed(raw).text() == expected


def test_binary_output_is_described() -> None:
    assert fed(b"\x00\x01\x02\x03" * 100).text() == (
        "[binary output, 400 bytes; begins 00 01 02 03 00 01 02 03 00 01 02 03 00 01 02 03 00 01 02 03 00 01 02 03]"
    )


def test_the_cut_does_not_split_characters() -> None:
    kept = fed("\u4f60".encode() * 200_000)
    assert "\ufffd" not in kept.text()
    assert set(kept.tail(100)) == {"\u4f60"} and len(kept.tail(100)) == 100


def test_tail_spans_the_seam() -> None:
    kept = fed(b"a" * 50_000, b"b" * 10)
    assert kept.tail(20) == "a" * 10 + "b" * 10


@given(st.lists(st.binary(max_size=50), max_size=20))
def test_pieces_do_not_matter(pieces: list[bytes]) -> None:
    assert fed(*pieces).text() == fed(b"".join(pieces)).text()


@given(st.text(st.characters(codec="utf-8")))
def test_clean_leaves_no_control_character(text: str) -> None:
    assert not any(ord(c) < 32 and c not in "\t\n" for c in clean_output(text))
