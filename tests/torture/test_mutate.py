"""The mutants themselves: each is the file with one thing changed, in place; what only tells people is left alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from torture.hunt import Passed, choose_tests, collect_mutants
from torture.mutate import HITS, describe_mutants, make_hand_mutant, make_mutants, mark_lines
from torture.targets import EQUIVALENT, HAND, TARGETS

SOURCE = '''"""A file."""
LIMIT = 3


class Shell:
    def __init__(self, disk):
        self.disk = disk
        self.open()

    def write(self, line, *, sync=True):
        """Write it."""
        log.info("writing %s", line)
        if line and len(self.disk) < LIMIT:
            self.disk.append(line)
        try:
            return self.flush(sync=True)
        except OSError:
            return False
        finally:
            self.close()
'''


def said(source: str = SOURCE) -> list[str]:
    return [mutant.what.partition(" in `")[0] for mutant in make_mutants("shell.py", source)]


def test_each_operator_finds_its_places_and_nothing_else() -> None:
    assert sorted(said()) == sorted(
        [
            "dropped",  # self.open()
            "condition negated",
            "without `line`",
            "without `len(self.disk) < LIMIT`",
            "Lt swapped",
            "dropped",  # append
            "no finally",
            "returns None",
            "sync=False",
            "not caught",
            "returns True",
            "dropped",  # close
        ]
    )


def test_a_mutant_is_a_program_that_differs() -> None:
    for mutant in make_mutants("shell.py", SOURCE):
        assert ast.dump(ast.parse(mutant.source)) != ast.dump(ast.parse(SOURCE)), mutant.name
        assert mutant.scope.startswith("Shell.") and mutant.line in range(6, 21)


def test_a_mutant_by_hand_must_find_its_text_once() -> None:
    made = make_hand_mutant("shell.py", SOURCE, "LIMIT = 3", "LIMIT = 4")
    assert "LIMIT = 4" in made.source and (made.line, made.scope) == (2, "")
    for old in ("nowhere", "line"):
        with pytest.raises(ValueError, match="times"):
            make_hand_mutant("shell.py", SOURCE, old, "")


def test_marked_code_says_which_lines_it_passed() -> None:
    source = "def f(x):\n    if x:\n        return 1\n    for _ in ():\n        pass\n    return 2\n"
    space: dict[str, object] = {HITS: (hits := set[int]())}
    exec(compile(mark_lines(source), "f", "exec"), space)
    assert space["f"](0) == 2 and hits == {2, 4, 6}  # type: ignore[operator]
    hits.clear()
    assert space["f"](1) == 1 and hits == {2, 3}  # type: ignore[operator]


def test_the_files_own_tests_come_first_and_all_then_others_as_long_as_there_is_time() -> None:
    (mutant, *_) = make_mutants("a/shell.py", SOURCE)
    here = frozenset(mutant.lines)
    passed = {
        "tests/a/test_shell.py::slow": Passed(here, 9, 9),
        "tests/a/test_shell.py::quick": Passed(here, 1, 1),
        "tests/flow/test_x.py::quick": Passed(here, 1, 1),
        "tests/flow/test_x.py::long": Passed(here, 9, 9),
        "tests/flow/test_x.py::elsewhere": Passed(frozenset(), 1, 1),
        "tests/a/test_disk.py::apart": Passed(frozenset(), 1, 1),
    }
    chosen = choose_tests(mutant, list(passed), passed, ("a/test_disk.py",))
    assert [nodeid.partition("::")[2] for nodeid in chosen] == ["quick", "slow", "quick", "apart"]


def test_every_row_of_the_tables_is_about_something_that_is_there() -> None:
    tests = Path(__file__).parents[1]
    for target, row in TARGETS.items():
        assert collect_mutants(target, 1, by_hand=True) or not row.by_hand, target  # raises for a text that is gone
        names = [name.partition("::")[0] for name in (*row.tests, *row.wide)]
        assert [name for name in names if not (tests / name).exists()] == []
        assert all(name.partition("::")[0] in row.tests for name in row.processes)
    assert {file for file, _, _ in (*HAND, *EQUIVALENT)} <= set(TARGETS)
    for file in {file for file, _, _ in EQUIVALENT}:
        said = "\n".join(describe_mutants((tests.parent / "src" / "palinurus" / file).read_text()))
        assert [what for of, what, _ in EQUIVALENT if of == file and what not in said] == [], file
