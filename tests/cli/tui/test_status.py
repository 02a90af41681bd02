from __future__ import annotations

import pytest

from palinurus.cli.tui.status import StatusBarFacts, render_status_line
from palinurus.core.text import format_tokens

ROW = {
    "modelProvider": "fake",
    "model": "m",
    "thinkingDefault": "low",
    "totalTokens": 12_345,
    "contextTokens": 200_000,
}


def test_everything_in_one_line() -> None:
    scene = StatusBarFacts("agent:main:main", ROW, running=3.2, waiting=1, cost=0.01234)
    assert render_status_line(scene, 200) == (
        "working 3 s, Esc stops  1 to decide  main/main  fake/m  think low  12.3k/200k tokens  $0.0123"
    )
    assert (
        render_status_line(StatusBarFacts("agent:x:dashboard:1", {"label": "mine", "thinkingLevel": "high"}), 200)
        == "x/dashboard:1 (mine)"
    )
    assert render_status_line(StatusBarFacts("agent:main:main", ROW, line="reconnecting …"), 200).startswith(
        "reconnecting …  main/main"
    )


@pytest.mark.parametrize("width", range(10, 100))
def test_it_is_never_wider_than_the_screen_and_the_place_goes_last(width: int) -> None:
    line = render_status_line(StatusBarFacts("agent:main:main", ROW), width)
    assert len(line) <= width and line.startswith("main/main")


def test_amounts() -> None:
    assert [format_tokens(n) for n in (0, 999, 1000, 12_345, 1_000_000)] == ["0", "999", "1k", "12.3k", "1M"]
