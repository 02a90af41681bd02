from __future__ import annotations

import random

import pytest
from textual.content import Content
from textual.style import Style

from palinurus.cli.tui.markdown import LONG_FENCE, OpenBlock, draw_markdown, find_open_block


def draw(text: str, width: int = 60) -> list[str]:
    return [line.plain.rstrip() for line in draw_markdown(text, width)]


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
    drawn = draw_markdown("```diff\n-a\n+b\n c\n```", 40)
    assert {str(span.style) for line in drawn for span in line.spans} == {"$error", "$success"}


def test_where_links_lead_is_said_and_nothing_of_a_text_acts() -> None:
    assert draw("[page](https://x.org/a) <https://y.org> me NOTES.md") == [
        "page (https://x.org/a) https://y.org me NOTES.md"
    ]
    assert draw("<b>x</b> [bold]y[/] [@click=app.quit]z[/]") == ["<b>x</b> [bold]y[/] [@click=app.quit]z[/]"]
    drawn = draw_markdown("[p](https://x.org)", 40)
    metas = [span.style.meta for line in drawn for span in line.spans if isinstance(span.style, Style)]
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


def test_plain_letters_wrap_as_all_others_do() -> None:
    dice = random.Random(7)
    for _ in range(300):
        words = ["".join(dice.choices("ab.-", k=dice.choice((1, 2, 5, 9)))) for _ in range(dice.randrange(1, 30))]
        text, width = "x" + dice.choice((" ", "  ")).join(words), dice.randrange(10, 40)
        wanted = [line.plain for line in Content(text).wrap(width)]
        assert draw(text, width) == wanted, (text, width)
    assert draw("ab " + "x" * 25 + " y", 10) == ["ab", "x" * 10, "x" * 10, "xxxxx y"]


def test_what_is_bold_stays_bold_where_a_line_ends() -> None:
    first, second = draw_markdown("aaa bbb **ccc ddd** eee", 12)
    assert (first.plain, second.plain) == ("aaa bbb ccc", "ddd eee")
    assert [(span.start, span.end) for span in (*first.spans, *second.spans)] == [(8, 11), (0, 3)]
