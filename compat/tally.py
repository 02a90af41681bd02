"""What was checked and how it went: one line each, printed as it happens."""

from __future__ import annotations

import re
import time
from collections.abc import Callable


class Tally:
    """`good` once nothing has failed."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, bool, str]] = []

    @property
    def good(self) -> bool:
        return all(ok for _, ok, _ in self.rows)

    def note(self, name: str, ok: bool, said: str = "") -> bool:
        """One result; `said` is shown when it failed."""
        self.rows.append((name, ok, said))
        print(f"  {'ok  ' if ok else 'FAIL'}  {name}", flush=True)
        if not ok and said:
            print("\n".join(f"          {line}" for line in said.strip().splitlines()[-40:]), flush=True)
        return ok

    def has(self, name: str, text: str, *wanted: str) -> bool:
        """Every pattern of `wanted` is somewhere in `text`."""
        missing = [pattern for pattern in wanted if not re.search(pattern, text)]
        return self.note(name, not missing, f"not found: {missing}\n{text}" if missing else "")


def until(see: Callable[[], str], *wanted: str, seconds: float = 20) -> str:
    """What `see` shows once every pattern is in it, or at the end of the time."""
    end = time.monotonic() + seconds
    while True:
        text = see()
        if all(re.search(pattern, text) for pattern in wanted) or time.monotonic() > end:
            return text
        time.sleep(0.2)
