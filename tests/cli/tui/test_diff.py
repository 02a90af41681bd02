from __future__ import annotations

from palinurus.cli.tui.diff import draw_diff

DIFF = "@@ -7,3 +7,4 @@\n one\n-two\n+2\n+2b\n three"


def test_one_column_where_there_is_no_room_for_two() -> None:
    lines = draw_diff(DIFF, 80)
    assert [line.plain for line in lines] == DIFF.split("\n")
    assert [str(line.spans[0].style) for line in lines[2:5]] == ["$error", "$success", "$success"]


def test_before_and_after_beside_each_other_with_their_numbers() -> None:
    lines = [line.plain for line in draw_diff(DIFF, 190)]
    assert [" ".join(line.split()) for line in lines] == [
        "@@ -7,3 +7,4 @@",
        "7 one │ 7 one",
        "8 -two │ 8 +2",
        "│ 9 +2b",
        "9 three │ 10 three",
    ]
    assert len({line.index("│") for line in lines[1:]}) == 1


def test_a_new_file_has_one_side_and_long_lines_go_on_below() -> None:
    assert [line.plain for line in draw_diff("+a\n+b", 190)] == ["+a", "+b"]
    lines = draw_diff("-" + "x" * 150 + "\n+" + "y" * 150, 190)
    assert len(lines) == 2 and all(line.cell_length <= 190 for line in lines)
