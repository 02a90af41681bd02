from __future__ import annotations

import pytest

from palinurus.cli.tui.complete import (
    complete_line,
    complete_mention,
    find_mention,
    gather_completion_words,
)

COMMANDS = [{"name": "think", "description": "thinking level"}, {"name": "model"}, {"name": "models"}]
KNOWN = gather_completion_words(COMMANDS, ["fake/one", "fake/two"], ["off", "high"])


def test_commands_by_their_beginning_ours_among_them_once() -> None:
    assert [o.line for o in complete_line("/mo", KNOWN)] == ["/model ", "/models "]
    assert [o.about for o in complete_line("/thi", KNOWN)] == ["thinking level"]
    assert [o.label for o in complete_line("/ex", KNOWN)] == ["/exit"]


def test_arguments_by_any_part_of_them() -> None:
    assert [o.line for o in complete_line("/model two", KNOWN)] == ["/model fake/two"]
    assert [o.label for o in complete_line("/think ", KNOWN)] == ["default", "off", "high"]
    assert complete_line("/think high", KNOWN) == []


def test_nothing_for_words_several_lines_and_whole_commands() -> None:
    assert [complete_line(text, KNOWN) for text in ("", "hi /mo", "/mo\nx", "/think", "/nosuch x")] == [[]] * 5


def test_files_are_found_by_their_letters_the_nearest_first() -> None:
    files = ["docs/app.md", "src/app.py", "src/deep/map.py", "notes.txt"]
    found = [o.line for o in complete_mention("read @app", files)]
    assert found == ["read ./src/app.py ", "read ./docs/app.md ", "read ./src/deep/map.py "]
    assert [o.label for o in complete_mention("@sdm", files)] == ["src/deep/map.py"]
    assert [o.label for o in complete_mention("@./src/", files)] == ["src/app.py", "src/deep/map.py"]
    assert complete_mention("@zebra", files) == []


@pytest.mark.parametrize(
    ("text", "word"), [("@", ""), ("see @a/b", "a/b"), ("x\n@./a", "a"), ("me@home.example", None), ("@a ", None)]
)
def test_what_is_a_mention(text: str, word: str | None) -> None:
    assert find_mention(text) == word
