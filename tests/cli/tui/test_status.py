from __future__ import annotations

from pathlib import Path

import pytest

from palinurus.cli.tui.status import StatusBarFacts, read_branch, render_status_line, shorten_folder
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
    assert render_status_line(scene, 200).plain == (
        "working 3 s, Esc stops  1 to decide  main/main  fake/m  think low  ▰▱▱▱▱ 12.3k/200k tokens  $0.0123"
    )
    assert (
        render_status_line(StatusBarFacts("agent:x:dashboard:1", {"label": "mine", "thinkingLevel": "high"}), 200).plain
        == "x/mine"
    )
    assert render_status_line(StatusBarFacts("agent:main:main", ROW, line="reconnecting …"), 200).plain.startswith(
        "reconnecting …  main/main"
    )


@pytest.mark.parametrize("width", range(10, 100))
def test_it_is_never_wider_than_the_screen_and_the_place_goes_last(width: int) -> None:
    line = render_status_line(StatusBarFacts("agent:main:main", ROW), width).plain
    assert len(line) <= width and line.startswith("main/main")


def test_amounts() -> None:
    assert [format_tokens(n) for n in (0, 999, 1000, 12_345, 1_000_000)] == ["0", "999", "1k", "12.3k", "1M"]


def test_a_machine_made_key_is_short_and_the_title_says_what_it_is_about() -> None:
    key = "agent:main:dashboard:c9189c7e-af4d-4659-80d5-6873bcdf9abe"
    assert render_status_line(StatusBarFacts(key, {}), 80).plain == "main/dashboard:c9189c7e"
    assert render_status_line(StatusBarFacts(key, {}, title="fix the tests"), 80).plain == "main/fix the tests"


def test_the_parts_can_be_chosen_and_ordered_and_a_count_that_is_old_says_so() -> None:
    facts = StatusBarFacts("agent:main:main", {**ROW, "totalTokensFresh": False}, branch="dev", folder="~/p", tasks=2)
    assert render_status_line(facts, 80, ("branch", "nosuch", "folder")).plain == "⎇ dev  ~/p"
    assert "~12.3k/200k" in render_status_line(facts, 200).plain
    assert "2 in the background (F2)" in render_status_line(facts, 200).plain


def test_the_branch_of_a_folder_of_a_worktree_and_of_a_single_commit(tmp_path: Path) -> None:
    (tmp_path / "repo" / ".git" / "worktrees" / "w").mkdir(parents=True)
    (tmp_path / "repo" / "src").mkdir()
    (tmp_path / "repo" / ".git" / "HEAD").write_text("ref: refs/heads/feature/x\n")
    assert read_branch(str(tmp_path / "repo" / "src")) == "feature/x"
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / ".git").write_text(f"gitdir: {tmp_path}/repo/.git/worktrees/w\n")
    (tmp_path / "repo" / ".git" / "worktrees" / "w" / "HEAD").write_text("0123456789abcdef\n")
    assert read_branch(str(tmp_path / "tree")) == "01234567"


def test_folders_are_short() -> None:
    assert shorten_folder("/home/me/work", "/home/me") == "~/work"
    assert shorten_folder("/home/me/a/long/way/down/to/the/last/folder", "/home/me") == "~/…/last/folder"
    assert shorten_folder("/home/menu", "/home/me") == "/home/menu"
