"""`make seeds`: which lines of the checklist no passing test covers, and which only tests of parts do (`level.py`).

Last lines: `N of 401`, and how many of them a test proves through the whole product.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

CHECKLIST = Path(__file__).with_name("checklist.md")


def lines() -> dict[int, str]:
    """The numbered lines of the checklist."""
    found = re.findall(r"^(\d+)\. (.*)$", CHECKLIST.read_text(encoding="utf-8"), re.MULTILINE)
    return {int(number): text for number, text in found}


def _write_ranges(numbers: list[int]) -> str:
    """`1-3, 7`."""
    starts = [n for n in numbers if n - 1 not in numbers]
    ends = [n for n in numbers if n + 1 not in numbers]
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def main(report: str) -> int:
    wanted = lines()
    found = {int(k): tests for k, tests in json.loads(Path(report).read_text()).items()}
    covered, whole = set(found), {number for number, tests in found.items() if any(tests.values())}
    for number in sorted(set(wanted) - covered):
        print(f"{number:4}  {wanted[number]}")
    strange = covered - set(wanted)
    if strange:
        print(f"tests name lines that do not exist: {sorted(strange)}")
    parts = sorted(covered & set(wanted) - whole)
    print(f"{len(covered & set(wanted))} of {len(wanted)}")
    print(f"{len(whole & set(wanted))} through the whole product; by parts only: {_write_ranges(parts) or 'none'}")
    return 1 if strange else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
