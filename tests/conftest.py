"""Shared: the seed report. `pytest --seeds FILE` writes which checklist lines have a passing test."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from seeds.level import runs_product

# Timing belongs in benchmarks: a loaded machine must not fail a property. `make test` draws the same examples every
# time, so that red means a change; `make torture` draws new ones, and more of them.
_SHARED: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
FURTHER = 6
settings.register_profile("ours", max_examples=50, derandomize=True, **_SHARED)
settings.register_profile("long", max_examples=50 * FURTHER, **_SHARED)
settings.load_profile("ours")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--torture"):
        settings.load_profile("long")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", help="write {line: {passing test: is it a whole flow?}} of the checklist here")
    parser.addoption("--torture", action="store_true", help="run the long sweeps too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--torture"):
        for item in items:
            _look_further(item)
        return
    skip = pytest.mark.skip(reason="long sweep: make torture")
    for item in items:
        if item.get_closest_marker("torture"):
            item.add_marker(skip)


def _look_further(item: pytest.Item) -> None:
    """A property that says how many examples it wants gets more of them too."""
    function = getattr(item, "obj", None)
    wanted = getattr(function, "_hypothesis_internal_use_settings", None)
    if isinstance(wanted, settings):
        more = settings(wanted, max_examples=wanted.max_examples * FURTHER)
        getattr(function, "__func__", function)._hypothesis_internal_use_settings = more


# What a skipped test would have needed, by the words of its reason, and the one command that brings it.
NEEDS = {
    "chromium": "apt-get install chromium",
    "bubblewrap": "apt-get install bubblewrap",
    "bwrap": "apt-get install bubblewrap",
    "tmux": "apt-get install tmux",
    "make torture": "make torture",
}


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says at the end what was not tested, and what would test it."""
    reasons: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", ()):
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reasons[text.removeprefix("Skipped: ")] += 1
    if reasons:
        terminalreporter.section("not tested here")
    for reason, count in reasons.most_common():
        command = next((command for word, command in NEEDS.items() if word in reason.lower()), "")
        terminalreporter.line(f"{count:5}  {reason}" + (f"  ->  {command}" if command and command != reason else ""))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    if report.when == "call":
        numbers = [n for mark in item.iter_markers("seed") for n in mark.args]
        whole = bool(numbers) and _runs_product(item)
        report.user_properties.extend(("flow" if whole else "seed", n) for n in numbers)
    return report


def _runs_product(item: pytest.Item) -> bool:
    assert isinstance(item, pytest.Function)
    found = item._fixtureinfo.name2fixturedefs.values()  # the only way to them
    return runs_product(item.obj, (one[-1].func for one in found))


_seen: dict[int, dict[str, bool]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        for key, value in report.user_properties:
            if key in ("seed", "flow"):
                _seen.setdefault(int(str(value)), {})[report.nodeid] = key == "flow"


def pytest_sessionfinish(session: pytest.Session) -> None:
    target = session.config.getoption("--seeds")
    if target and not hasattr(session.config, "workerinput"):
        Path(str(target)).write_text(json.dumps({str(k): v for k, v in sorted(_seen.items())}))
