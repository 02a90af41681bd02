"""The event-stream machine: same events however the bytes are cut; bounded; never raises."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.providers.wire.sse import Event, SseReader


def run(*pieces: bytes, limit: int = 8_000_000) -> tuple[list[Event], str | None]:
    machine = SseReader(limit)
    out: list[Event] = []
    for piece in pieces:
        out += machine.feed(piece)
    return out + machine.close(), machine.failed


@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"data: a\n\n", [("", b"a")]),
        (b"data:a\n\n", [("", b"a")]),
        (b"data:  a\n\n", [("", b" a")]),
        (b"data: a\r\n\r\n", [("", b"a")]),
        (b"data: a\r\r", [("", b"a")]),
        (b"event: x\r\ndata: a\r\ndata: b\r\n\r\n", [("x", b"a\nb")]),
        (b"data: a\rdata: b\n\r\n", [("", b"a\nb")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [("x", b"a"), ("", b"b")]),
        (b"event:x\ndata: a\nid: 1\n\n", [("x", b"a")]),
        (b"data: a\ndata: b\n\n", [("", b"a\nb")]),
        (b"data\n\n", [("", b"")]),
        (b": comment\n\n: more\ndata: a\n\n", [("", b"a")]),
        (b"event: lonely\n\ndata: a\n\n", [("", b"a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [("", b"a")]),
        (b"\n\n\n\ndata: a\n\n\n\n\ndata: b\n\n", [("", b"a"), ("", b"b")]),
        (b"data: a", [("", b"a")]),
        (b"data: a\n", [("", b"a")]),
        (b"retry: 10\nid: 4\n\n", []),
        (b"", []),
    ],
)
def test_grammar_at_every_split(data: bytes, events: list[Event]) -> None:
    assert run(data) == (events, None)
    assert run(*[data[i : i + 1] for i in range(len(data))]) == (events, None)
    for cut in range(len(data)):
        assert run(data[:cut], data[cut:]) == (events, None), cut
    assert run(b"data: first\n\n", data.removeprefix(b"\xef\xbb\xbf")) == ([("", b"first"), *events], None)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=6))
def test_random_bytes_give_the_same_however_cut(data: bytes, cuts: list[int]) -> None:
    marks = sorted({min(c, len(data)) for c in cuts} | {0, len(data)})
    assert run(*[data[a:b] for a, b in itertools.pairwise(marks)]) == run(data)


@given(st.text(alphabet="data: event\r\n:xé", max_size=60), st.integers(0, 60))
def test_near_grammar_gives_the_same_however_cut(text: str, cut: int) -> None:
    data = text.encode()
    assert run(data[:cut], data[cut:], limit=20) == run(data, limit=20)


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_line_over_the_limit_ends_it(size: int) -> None:
    data = b"data: ok\n\ndata: " + b"x" * 200 + b"\n\ndata: late\n\n"
    events, failed = run(*[data[i : i + size] for i in range(0, len(data), size)], limit=100)
    assert events == [("", b"ok")]
    assert failed is not None and "100" in failed


def test_an_event_of_many_lines_over_the_limit_ends_it() -> None:
    events, failed = run(b"data: ok\n\n", b"data: 12345\n" * 50, b"\n", limit=100)
    assert events == [("", b"ok")] and failed is not None


def test_a_flood_of_comments_keeps_nothing() -> None:
    machine = SseReader(1000)
    for _ in range(5000):
        assert machine.feed(b": keep-alive\n") == []
    for _ in range(5000):
        assert machine.feed(b":" + b"x" * 50) == []
    assert machine.failed is None
    assert sum(map(len, machine._pieces)) < 100
    assert machine.feed(b"\ndata: a\n\n") == [("", b"a")]


def test_a_page_is_noticed() -> None:
    machine = SseReader()
    machine.feed(b"<html>\n<body>no</body>\n")
    assert machine.close() == []
    assert machine.odd == b"<html>"
