"""What a terminal answers. The terminals themselves are proved through the process tool."""

from __future__ import annotations

import os
import termios

from hypothesis import given
from hypothesis import strategies as st

from palinurus.tools.commands.terminal import COLUMNS, ROWS, TerminalAnswers, has_terminals, open_terminal

DATA = b"a\x1b[6nb\x1b[?6n\x1b[31m\x1b[5n\x1b[\x1b[6n"


@given(cuts=st.sets(st.integers(0, len(DATA))))
def test_queries_are_answered_once_wherever_they_are_cut(cuts: set[int]) -> None:
    answers, at, said = TerminalAnswers(), 0, b""
    for cut in [*sorted(cuts), len(DATA)]:
        said += answers.feed(DATA[at:cut])
        at = cut
    assert said == b"\x1b[1;1R\x1b[?1;1R\x1b[0n\x1b[1;1R"


def test_a_terminal_has_a_size() -> None:
    assert has_terminals()
    ours, theirs = open_terminal()
    try:
        assert termios.tcgetwinsize(ours) == (ROWS, COLUMNS) and os.isatty(theirs)
    finally:
        os.close(ours)
        os.close(theirs)
