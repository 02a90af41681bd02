"""Whether a heartbeat is worth a call."""

from __future__ import annotations

from typing import Any

import pytest

from palinurus.core.schedule.heartbeat import (
    HeartbeatObservation,
    HeartbeatPage,
    HeartbeatState,
    HeartbeatTask,
    judge_heartbeat,
)

MIN = 60_000
TEXT, TASKS = HeartbeatPage((), "Look."), HeartbeatPage((HeartbeatTask("a", 3600.0, "b"),), "")


@pytest.mark.parametrize(
    ("before", "look", "wanted"),
    [
        (HeartbeatState(stopped="auth"), {}, (False, "stopped")),
        (HeartbeatState(), {"now": 29 * MIN}, (False, "not-due")),
        (HeartbeatState(), {"now": 30 * MIN}, (True, "first")),
        (HeartbeatState(digest="d"), {"now": 30 * MIN}, (False, "unchanged")),
        (HeartbeatState(digest="d"), {"now": 30 * MIN, "talked": 5}, (True, "activity")),
        (HeartbeatState(digest="d", quiet=2), {"now": 119 * MIN, "talked": 5}, (False, "idle")),
        (HeartbeatState(digest="d", quiet=9), {"now": 240 * MIN, "talked": 5}, (True, "activity")),
        (HeartbeatState(digest="other"), {"now": MIN}, (True, "file-changed")),
        (HeartbeatState(digest="d", quiet=3), {"now": 30 * MIN, "events": True}, (True, "events")),
        (HeartbeatState(), {"now": 30 * MIN, "page": HeartbeatPage(), "digest": ""}, (False, "empty-heartbeat-file")),
        (HeartbeatState(digest="d"), {"now": 30 * MIN, "page": TASKS}, (True, "tasks-due")),
        (HeartbeatState(digest="d", tasks={"a": 0}), {"now": 31 * MIN, "page": TASKS}, (False, "no-tasks-due")),
        (
            HeartbeatState(digest="d", tasks={"a": 0}, last=50 * MIN),
            {"now": 60 * MIN, "page": TASKS},
            (True, "tasks-due"),
        ),
    ],
)
def test_judge(before: HeartbeatState, look: dict[str, Any], wanted: tuple[bool, str]) -> None:
    seen = HeartbeatObservation(**{"now": 0, "every": 1800.0, "page": TEXT, "digest": "d", **look})
    verdict = judge_heartbeat(before, seen)
    assert (verdict.beat, verdict.why) == wanted
