"""`pytest --slow-store SEED tests/flow`: every App of these tests has a store that takes its time, as one over a
network does. Without it the files of SAMPLE are run on both (`make torture PART=slow` runs them all).
`pytest --replay tests/flow`: every run of every App of these tests is recorded, and played again when the test is over,
with sockets closed. It has to come out byte-equal; the summary says how many did.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from flow.replays import ReplayCorpus, summarize_replays
from palinurus.app import App
from palinurus.testing.slowstore import open_slow_store
from store.postgres.conftest import server

__all__ = ("server",)

SAMPLE = frozenset(("test_queue.py", "test_stop.py"))

CORPUS = pytest.StashKey[ReplayCorpus]()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.path.name in SAMPLE and metafunc.config.getoption("--slow-store") is None:
        metafunc.parametrize("_store", [None, 1], ids=["usual", "slow"], indirect=True)


@pytest.fixture(autouse=True)
def _store(request: pytest.FixtureRequest) -> Iterator[None]:
    seed = request.config.getoption("--slow-store")
    seed = getattr(request, "param", None) if seed is None else seed
    if seed is None:
        yield
        return
    usual, App.open_store = App.open_store, staticmethod(open_slow_store(seed))
    yield
    App.open_store = staticmethod(usual)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--replay", default=False):
        config.stash[CORPUS] = ReplayCorpus.attach()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test that has passed fails if one of its runs cannot be played again."""
    corpus = item.config.stash.get(CORPUS, None)
    if corpus is not None:
        corpus.apps.clear()  # those of a test that failed are not the next one's
    result = yield
    if corpus is not None:
        try:
            corpus.replay_all(item.nodeid)
        finally:
            item.user_properties.append(("replays", corpus.take()))
    return result


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if CORPUS in config.stash:
        told = {
            report.nodeid: counted
            for reports in terminalreporter.stats.values()
            for report in reports
            for name, counted in getattr(report, "user_properties", ())
            if name == "replays" and report.when == "call"
        }
        terminalreporter.section("replays")
        for line in summarize_replays(told):
            terminalreporter.line(line)
