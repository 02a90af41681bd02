"""Shared: the seed report. `pytest --seeds FILE` writes which checklist lines have a passing test."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Timing belongs in benchmarks: a loaded machine must not fail a property. `make torture` looks further.
_SHARED: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("ours", max_examples=50, **_SHARED)
settings.register_profile("long", max_examples=300, **_SHARED)
settings.load_profile("ours")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--torture"):
        settings.load_profile("long")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seeds", help="write {line: [passing tests]} of the seed checklist to this file")
    parser.addoption("--torture", action="store_true", help="run the long sweeps too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--torture"):
        return
    skip = pytest.mark.skip(reason="long sweep: make torture")
    for item in items:
        if item.get_closest_marker("torture"):
            item.add_marker(skip)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    report = yield
    if report.when == "call":
        numbers = [n for mark in item.iter_markers("seed") for n in mark.args]
        report.user_properties.extend(("seed", n) for n in numbers)
    return report


_seen: dict[int, list[str]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        for key, value in report.user_properties:
            if key == "seed":
                _seen.setdefault(int(str(value)), []).append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    target = session.config.getoption("--seeds")
    if target and not hasattr(session.config, "workerinput"):
        Path(str(target)).write_text(json.dumps({str(k): v for k, v in sorted(_seen.items())}))
