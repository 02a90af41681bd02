"""The table of `make compat`: what it says and when it is red. What it drives is for `make compat`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "compat"


@pytest.fixture(autouse=True)
def compat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    for path in FOLDER.glob("*.py"):
        monkeypatch.delitem(sys.modules, path.stem, raising=False)


def test_every_row_is_one_line_of_the_table() -> None:
    import run

    assert len({part.name for part in run.PARTS}) == len(run.PARTS)
    drawn = run.draw_table([(part.who, part.version, run.Told(2, 2)) for part in run.PARTS]).splitlines()
    assert len(drawn) == len(run.PARTS) + 1
    assert all(line.startswith(part.who) for part, line in zip(run.PARTS, drawn[1:], strict=True))
    assert "\n" not in run.draw_table([])


def test_a_failure_is_red_a_limit_and_an_absence_are_told() -> None:
    import tally

    good, bad, limited = tally.Tally(), tally.Tally(), tally.Tally()
    good.note("a", True)
    bad.note("a", False)
    limited.note("a", False, limit="their server has no threads")
    assert (good.tell().is_red, good.tell().verdict) == (False, "")
    assert (bad.tell().is_red, bad.tell().verdict) == (True, "RED: a")
    assert (limited.tell().is_red, limited.tell().passed) == (False, 0) and "no threads" in limited.tell().verdict
    absent = tally.Tally().tell("tmux not found")
    assert not absent.is_red and absent.verdict == "not installed: tmux not found"
    assert tally.Tally().tell().is_red  # nothing was checked
    assert tally.Told(3, 3, stopped="it stopped").is_red


def test_a_row_that_lacks_its_program_says_so() -> None:
    import run

    lacking = run.Part("x", "Nobody", "1", ("no-such-program-anywhere",), lambda cache, tally: None)
    assert run.start_alone(set(), lacking).missing == "no-such-program-anywhere not found"
    with pytest.raises(SystemExit, match="there is no part 'nothing'"):
        run.main(["nothing"])


def test_what_cannot_be_installed_says_why(tmp_path: Path) -> None:
    import run

    def refuse(cache: str, tally: object) -> None:
        raise run.place.NotInstalled("no wheel for this machine")

    run.play_alone(run.Part("x", "Nobody", "1", (), refuse), str(tmp_path / "told"))
    assert '"missing": "no wheel for this machine"' in (tmp_path / "told").read_text()


def test_the_table_becomes_a_page_of_the_docs() -> None:
    import run

    rows = [
        ("Nobody", "1", run.Told(3, 2, explained=("no threads",), seconds=7)),
        ("Other", "2", run.Told(missing="x")),
    ]
    assert run.sum_up(rows, 90).startswith("compat: 2 of 3 checks in 1 rows, 1.5 minutes (load ")
    assert run.sum_up(rows, run.AIM + 60).endswith("; not installed: Other") and "more than 25" in run.sum_up(
        rows, 1600
    )
    page = run.draw_page(rows, 90)
    assert page.endswith(
        "| Nobody | 1 | 3 | 2 | 7 | limit: no threads |\n| Other | 2 | - | - | - | not installed: x |\n"
    )
    kept = (FOLDER.parent / "docs" / "compat.md").read_text().splitlines()  # has a row for each that there is
    for part in run.PARTS:
        assert any(line.startswith(f"| {part.who} |") for line in kept), part.who


def test_a_name_picks_its_row_a_beginning_all_that_begin_so() -> None:
    import run

    assert [part.name for part in run.pick_parts(["tui"])] == ["tui"]
    assert {part.name for part in run.pick_parts(["conformance", "irc"])} == {
        "conformance-client", "conformance-server", "irc",
    }  # fmt: skip
    assert run.pick_parts([]) == list(run.PARTS)


def test_a_row_that_is_run_again_takes_its_place() -> None:
    import run

    rows = [("A", "1", run.Told(2, 2)), ("B", "x", run.Told(2, 1, ("no",), version="2")), ("A", "3", run.Told(1, 1))]
    page = run.renew_page(run.draw_page(rows, 60), [("B", "x", run.Told(2, 2, version="2", seconds=4))])
    assert page.splitlines()[-3:] == [
        "| A | 1 | 2 | 2 | 0 |  |",
        "| B | 2 | 2 | 2 | 4 | run again later |",
        "| A | 3 | 1 | 1 | 0 |  |",
    ]
