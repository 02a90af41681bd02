"""`make seeds`: which lines of the checklist no passing test covers. Last line: `N of 401`."""

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


def main(report: str) -> int:
    wanted = lines()
    covered = {int(k) for k in json.loads(Path(report).read_text())}
    for number in sorted(set(wanted) - covered):
        print(f"{number:4}  {wanted[number]}")
    strange = covered - set(wanted)
    if strange:
        print(f"tests name lines that do not exist: {sorted(strange)}")
    print(f"{len(covered & set(wanted))} of {len(wanted)}")
    return 1 if strange else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
