"""`pal usage`: sums by model, session, agent and day; unpriced is said to be so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palinurus.cli.args import parse_since
from palinurus.cli.look.usage import format_usage, run_usage
from palinurus.clock import SystemClock
from palinurus.errors import BadRequest
from palinurus.services.usage import build_usage_report
from palinurus.store.factory import open_store
from palinurus.store.port import InboxItem, Settlement, UsageRow

DAY = 86_400_000


def spent(at: int = 0, cost: float | None = None, **changes: Any) -> UsageRow:
    fields = {"session": "agent:main:main", "agent": "main", "provider": "p", "model": "m", **changes}
    return UsageRow("i", "r", at=at, input=100, output=20, cache_read=3, cache_write=4, cost=cost, **fields)


def test_sums_and_order() -> None:
    told = build_usage_report(
        [spent(), spent(cost=0.25, model="dear"), spent(cost=0.5, model="dear"), spent(model="free", cost=0.0)],
        "model",
        0,
        "2026",
    )
    lines = told["lines"]
    assert [(line.name, line.calls, line.cost, line.unpriced) for line in lines] == [
        ("p/dear", 2, 0.75, 0),
        ("p/free", 1, 0.0, 0),
        ("p/m", 1, None, 1),
    ]
    total = told["total"]
    assert (total.calls, total.input, total.output, total.cache_read, total.cache_write) == (4, 400, 80, 12, 16)
    assert (total.cost, total.unpriced) == (0.75, 1)


def test_unpriced_is_never_shown_as_nothing() -> None:
    text = format_usage(build_usage_report([spent()], "model", 0, ""))
    assert "unpriced" in text and "$0" not in text and "total" not in text
    both = format_usage(build_usage_report([spent(), spent(cost=2.0, model="x")], "model", 0, ""))
    assert "$2.00 + 1 unpriced" in both and "Unpriced calls are in the counts" in both
    assert "$0.00" in format_usage(build_usage_report([spent(cost=0.0)], "model", 0, ""))
    assert format_usage(build_usage_report([], "model", 0, "")) == "Nothing was used in that time."


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("session", ["agent:a:one", "agent:b:two"]),
        ("agent", ["a", "b"]),
        ("model", ["p/m"]),
    ],
)
def test_groups(by: str, names: list[str]) -> None:
    entries = [spent(cost=2.0, session="agent:a:one", agent="a"), spent(cost=1.0, session="agent:b:two", agent="b")]
    assert [line.name for line in build_usage_report(entries, by, 0, "")["lines"]] == names


def test_days_come_in_their_order() -> None:
    told = build_usage_report([spent(5 * DAY, 1.0), spent(3 * DAY, 9.0), spent(5 * DAY, 1.0)], "day", 0, "")
    assert [line.calls for line in told["lines"]] == [1, 2]


def test_control_characters_of_a_session_key_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in format_usage(build_usage_report([spent(session="agent:a:\x1b[2J")], "session", 0, ""))


def test_since() -> None:
    assert parse_since("7d", 8 * DAY) == DAY and parse_since("24h", 2 * DAY) == DAY and parse_since("2", 3 * DAY) == DAY
    assert parse_since("1000w", 5) == 0
    assert abs(parse_since("1970-01-03", 0) - 2 * DAY) <= DAY
    for wrong in ("", "soon", "7x", "2026-99-99", "-1d"):
        with pytest.raises(BadRequest):
            parse_since(wrong, 0)


def test_nothing_yet(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_usage([]) == 0 and "Nothing was used" in capsys.readouterr().out


async def test_from_the_ledger(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home.mkdir(mode=0o700)
    clock = SystemClock()
    store = await open_store(str(home), clock)
    accepted = await store.accept(InboxItem("i", "d", "agent:main:main", "main", b"{}", clock.now()), claim=True)
    assert accepted.claim is not None
    await store.settle(
        accepted.claim, Settlement("answered", spent=(spent(clock.now(), 0.125), spent(clock.now() - 40 * DAY, 1.0)))
    )
    await store.close()
    assert run_usage(["--json", "--by", "agent"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["by"] == "agent" and told["lines"] == [
        {
            "name": "main",
            "calls": 1,
            "input": 100,
            "output": 20,
            "cacheRead": 3,
            "cacheWrite": 4,
            "cost": 0.125,
            "unpriced": 0,
        }
    ]
    assert told["pricesAsOf"] and run_usage(["--since", "50d"]) == 0
    assert "$1.12" in capsys.readouterr().out
    with pytest.raises(BadRequest):
        run_usage(["--by", "moon"])
