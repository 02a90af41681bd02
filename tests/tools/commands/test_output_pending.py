"""What waits to be read: nothing twice, nothing in halves, never too much."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palinurus.tools.commands.output import MAX_UNREAD, UnreadOutput, clean_output

WHOLE = "plain é€😀 \x1b[1mbold\x1b[0m \x1b]0;title\x07 end\n"


@given(cuts=st.sets(st.integers(0, len(WHOLE.encode()))))
def test_wherever_it_is_cut_the_text_is_the_same(cuts: set[int]) -> None:
    data, seen, pending, at = WHOLE.encode(), "", UnreadOutput(), 0
    for cut in [*sorted(cuts), len(data)]:
        pending.feed(data[at:cut])
        at = cut
        seen += pending.take()
    assert seen + pending.take(last=True) == clean_output(WHOLE) == "plain é€😀 bold  end\n"
    assert not pending


@given(st.lists(st.binary(max_size=300)))
def test_any_bytes(pieces: list[bytes]) -> None:
    pending = UnreadOutput()
    for piece in pieces:
        pending.feed(piece)
        pending.take()
    pending.take(last=True)
    assert not pending


def test_the_oldest_goes_first_and_that_is_said() -> None:
    pending = UnreadOutput()
    for _ in range(100):
        pending.feed(("é" * 5000).encode())
    text = pending.take()
    assert text.startswith("[… 970000 bytes left out …]\né") and len(text) < MAX_UNREAD and "\ufffd" not in text
    assert pending.take() == ""


def test_binary_is_only_described() -> None:
    pending = UnreadOutput()
    pending.feed(bytes(range(8)) * 100)
    assert pending.take() == "[binary output, 800 bytes]"
