"""The table of fixes that are taken back fits the source."""

from __future__ import annotations

import re

from torture.faults import FAULTS, ROOT, SOURCE, SUSPECTED


def test_every_fault_has_a_part_that_can_be_taken_back() -> None:
    assert {row.fault for row in FAULTS} == set(range(1, SUSPECTED + 1))


def test_what_is_taken_back_is_there_once() -> None:
    texts = {row.file: (SOURCE / row.file).read_text() for row in FAULTS}
    assert [(row.fault, row.part) for row in FAULTS if texts[row.file].count(row.old) != 1] == []


def test_the_tests_of_each_fault_exist() -> None:
    """FAULTS is the table of which tests answer for which of the twenty-two: a file, and words of their names."""
    missing = []
    for row in FAULTS:
        where, _, words = row.tests.partition(" ")
        place = ROOT / "tests" / where
        suite = [*(SOURCE / "testing" / "conformance").glob("*.py")] if "test_store" in where else []  # of the port
        names = [name for path in (place, *suite) for name in re.findall(r"def (test_\w+)", path.read_text())]
        if not any(words.partition(" and ")[0] in name for name in names):
            missing.append(row.tests)
    assert missing == []
