from __future__ import annotations

from palinurus.cli.tui.complete import known, offers

COMMANDS = [{"name": "think", "description": "thinking level"}, {"name": "model"}, {"name": "models"}]
KNOWN = known(COMMANDS, ["fake/one", "fake/two"], ["off", "high"])


def test_commands_by_their_beginning_ours_among_them_once() -> None:
    assert [o.line for o in offers("/mo", KNOWN)] == ["/model ", "/models "]
    assert [o.about for o in offers("/th", KNOWN)] == ["thinking level"]
    assert [o.label for o in offers("/ex", KNOWN)] == ["/exit"]


def test_arguments_by_any_part_of_them() -> None:
    assert [o.line for o in offers("/model two", KNOWN)] == ["/model fake/two"]
    assert [o.label for o in offers("/think ", KNOWN)] == ["default", "off", "high"]
    assert offers("/think high", KNOWN) == []


def test_nothing_for_words_several_lines_and_whole_commands() -> None:
    assert [offers(text, KNOWN) for text in ("", "hi /mo", "/mo\nx", "/think", "/nosuch x")] == [[]] * 5
