from __future__ import annotations

from pathlib import Path

from palinurus.cli.tui.history import InputHistory


def test_back_and_on_with_the_draft_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "history"
    file.write_text("one\n\ntwo\n")
    history = InputHistory(str(file))
    assert [history.back("draft"), history.back("two"), history.back("one")] == ["two", "one", None]
    assert [history.forward(), history.forward(), history.forward()] == ["two", "draft", None]


def test_what_is_said_is_kept_for_the_owner_only_and_not_twice(tmp_path: Path) -> None:
    file = tmp_path / "history"
    history = InputHistory(str(file))
    for text in ("a\nb", "a\nb", "c"):
        history.add(text)
    assert file.read_text() == "a b\nc\n" and file.stat().st_mode & 0o777 == 0o600
    assert [history.back(""), history.back("")] == ["c", "a\nb"]


def test_a_disk_that_keeps_nothing_stops_nobody(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    (tmp_path / "history").symlink_to(target)
    history = InputHistory(str(tmp_path / "history"))
    history.add("x")
    history.add("y")
    assert history.back("") == "y" and not target.exists()
