"""Whether a heartbeat is worth a call."""

from __future__ import annotations

from typing import Any

import pytest

from palinurus.core.schedule.beat import Beat, Look, judge
from palinurus.core.schedule.tasks import Page, Task

MIN = 60_000
TEXT, TASKS = Page((), "Look."), Page((Task("a", 3600.0, "b"),), "")


@pytest.mark.parametrize(
    ("before", "look", "wanted"),
    [
        (Beat(stopped="auth"), {}, (False, "stopped")),
        (Beat(), {"now": 29 * MIN}, (False, "not-due")),
        (Beat(), {"now": 30 * MIN}, (True, "first")),
        (Beat(digest="d"), {"now": 30 * MIN}, (False, "unchanged")),
        (Beat(digest="d"), {"now": 30 * MIN, "talked": 5}, (True, "activity")),
        (Beat(digest="d", quiet=2), {"now": 119 * MIN, "talked": 5}, (False, "idle")),
        (Beat(digest="d", quiet=9), {"now": 240 * MIN, "talked": 5}, (True, "activity")),
        (Beat(digest="other"), {"now": MIN}, (True, "file-changed")),
        (Beat(digest="d", quiet=3), {"now": 30 * MIN, "events": True}, (True, "events")),
        (Beat(), {"now": 30 * MIN, "page": Page(), "digest": ""}, (False, "empty-heartbeat-file")),
        (Beat(digest="d"), {"now": 30 * MIN, "page": TASKS}, (True, "tasks-due")),
        (Beat(digest="d", tasks={"a": 0}), {"now": 31 * MIN, "page": TASKS}, (False, "no-tasks-due")),
        (Beat(digest="d", tasks={"a": 0}, last=50 * MIN), {"now": 60 * MIN, "page": TASKS}, (True, "tasks-due")),
    ],
)
def test_judge(before: Beat, look: dict[str, Any], wanted: tuple[bool, str]) -> None:
    seen = Look(**{"now": 0, "every": 1800.0, "page": TEXT, "digest": "d", **look})
    verdict = judge(before, seen)
    assert (verdict.beat, verdict.why) == wanted
