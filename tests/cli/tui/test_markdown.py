from __future__ import annotations

import pytest
from textual.style import Style

from palinurus.cli.tui.markdown import LONG_FENCE, OpenBlock, find_open_block, render_markdown


def draw(text: str, width: int = 60) -> list[str]:
    return [line.rstrip() for line in render_markdown(text, width).plain.split("\n")]


def test_tables_are_as_narrow_as_their_cells_and_numbers_stand_right() -> None:
    assert draw("| name | n |\n|---|--:|\n| a | 5 |\n| bb | 120 |", 200) == [
        "name │   n",
        "─────┼────",
        "a    │   5",
        "bb   │ 120",
    ]


def test_a_table_that_is_too_wide_wraps_in_its_cells() -> None:
    lines = draw("| a | b |\n|---|---|\n| short | " + "word " * 20 + "|", 40)
    assert all(len(line) <= 40 for line in lines) and len(lines) > 4


def test_lists_hang_and_keep_their_numbers() -> None:
    assert draw("3. one two three four five\n4. two\n   - in\n", 16) == [
        "3. one two three",
        "   four five",
        "4. two",
        "   • in",
    ]


def test_code_goes_on_below_and_a_diff_has_colours() -> None:
    lines = draw("```\n" + "x" * 30 + "\n```", 22)
    assert lines == ["  " + "x" * 20, "  " + "x" * 10]
    drawn = render_markdown("```diff\n-a\n+b\n c\n```", 40)
    assert {str(span.style) for span in drawn.spans} == {"$error", "$success"}


def test_where_links_lead_is_said_and_nothing_of_a_text_acts() -> None:
    assert draw("[page](https://x.org/a) <https://y.org> me NOTES.md") == [
        "page (https://x.org/a) https://y.org me NOTES.md"
    ]
    assert draw("<b>x</b> [bold]y[/] [@click=app.quit]z[/]") == ["<b>x</b> [bold]y[/] [@click=app.quit]z[/]"]
    metas = [
        span.style.meta for span in render_markdown("[p](https://x.org)", 40).spans if isinstance(span.style, Style)
    ]
    assert metas == [{"@click": ("app.copy_address", ("https://x.org",))}]


def test_headings_and_quotes_stand_left() -> None:
    assert draw("# Head\n\n> said\n> so\n\n---", 30) == ["Head", "", "▌ said", "▌ so", "", "─" * 30]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", OpenBlock()),
        ("one", OpenBlock()),
        ("one\n\ntwo", OpenBlock(5, "", True)),
        ("- a\n- b\n- c", OpenBlock(8, "", False)),
        ("- a\n\n- b", OpenBlock(5, "", True)),
        ("x\n\n```py\na\n", OpenBlock(3, "", True)),
    ],
)
def test_what_may_still_grow(text: str, found: OpenBlock) -> None:
    assert find_open_block(text) == found


def test_a_long_fence_is_cut_and_goes_on_with_its_first_line() -> None:
    text = "```py\n" + "".join(f"row {n}\n" for n in range(3 * LONG_FENCE))
    found = find_open_block(text)
    assert found.before == "```py\n" and text[found.start :].startswith(f"row {2 * LONG_FENCE}\n")
