"""The line machine."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palinurus.providers.wire.ollama import OllamaLineReader


@given(st.lists(st.binary(max_size=8), max_size=12))
def test_the_same_lines_however_they_are_cut(pieces: list[bytes]) -> None:
    machine, whole = OllamaLineReader(), OllamaLineReader()
    got = [line for piece in pieces for line in machine.feed(piece)] + machine.close()
    want = whole.feed(b"".join(pieces)) + whole.close()
    assert got == want == [ln for ln in b"".join(pieces).split(b"\n") if ln and not ln.isspace()]


def test_a_line_without_end_is_refused() -> None:
    machine = OllamaLineReader(limit=10)
    assert machine.feed(b"ok\n" + b"x" * 6) == [b"ok"]
    assert machine.feed(b"x" * 6) == [] and machine.failed
    assert machine.feed(b"\nmore\n") == []
