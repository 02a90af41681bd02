"""The table of fixes that are taken back fits the source."""

from __future__ import annotations

from torture.faults import FAULTS, ROOT, SOURCE, SUSPECTED


def test_every_fault_has_a_part_that_can_be_taken_back() -> None:
    assert {row.fault for row in FAULTS} == set(range(1, SUSPECTED + 1))


def test_what_is_taken_back_is_there_once() -> None:
    texts = {row.file: (SOURCE / row.file).read_text() for row in FAULTS}
    assert [(row.fault, row.part) for row in FAULTS if texts[row.file].count(row.old) != 1] == []
    assert [row.tests for row in FAULTS if not (ROOT / "tests" / row.tests.partition(" ")[0]).exists()] == []
