"""What was checked and how it went: one line each, printed as it happens."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import NamedTuple


class Told(NamedTuple):
    """What came of one row of the table."""

    checks: int = 0
    passed: int = 0
    failed: tuple[str, ...] = ()  # names
    explained: tuple[str, ...] = ()  # limits of the other side, in words
    missing: str = ""  # why it could not be installed
    stopped: str = ""  # why it did not come to its end
    version: str = ""  # where only the installed program knows it
    seconds: float = 0

    @property
    def is_red(self) -> bool:
        return bool(self.failed or self.stopped or not (self.missing or self.checks))

    @property
    def verdict(self) -> str:
        """A word beside the figures; none where everything fits."""
        if self.missing:
            return f"not installed: {self.missing}"
        if self.is_red:
            return f"RED: {self.stopped or '; '.join(self.failed) or 'nothing was checked'}"
        return f"limit: {'; '.join(self.explained)}" if self.explained else ""


class Tally:
    """Counts. `version` may be set by who drives, where only the installed program knows it."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, bool, str]] = []  # name, whether it fits, the limit that explains why not
        self.version = ""

    def note(self, name: str, ok: bool, said: str = "", *, limit: str = "") -> bool:
        """One result; `said` is shown when it failed. `limit` is what the other side documents that it cannot: with
        one, a failure is told and is no mismatch."""
        self.rows.append((name, ok, limit))
        print(f"  {'ok  ' if ok else 'says' if limit else 'FAIL'}  {name}{f' ({limit})' if limit else ''}", flush=True)
        if not ok and said:
            print("\n".join(f"          {line}" for line in said.strip().splitlines()[-40:]), flush=True)
        return ok

    def has(self, name: str, text: str, *wanted: str) -> bool:
        """Every pattern of `wanted` is somewhere in `text`."""
        missing = [pattern for pattern in wanted if not re.search(pattern, text)]
        return self.note(name, not missing, f"not found: {missing}\n{text}" if missing else "")

    def tell(self, missing: str = "") -> Told:
        """The row."""
        failed = tuple(name for name, ok, limit in self.rows if not ok and not limit)
        explained = tuple(dict.fromkeys(limit for _, ok, limit in self.rows if not ok and limit))
        passed = sum(ok for _, ok, _ in self.rows)
        return Told(len(self.rows), passed, failed, explained, missing, version=self.version)


def until(see: Callable[[], str], *wanted: str, seconds: float = 20) -> str:
    """What `see` shows once every pattern is in it, or at the end of the time."""
    end = time.monotonic() + seconds
    while True:
        text = see()
        if all(re.search(pattern, text) for pattern in wanted) or time.monotonic() > end:
            return text
        time.sleep(0.2)
