"""`pytest --slow-store SEED tests/flow`: every App of these tests has a store whose reads take a while.
`pytest --replay tests/flow`: every run of every App of these tests is recorded, and played again when the test is over,
with sockets closed. It has to come out byte-equal; the summary says how many did.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from flow.replays import ReplayCorpus
from palinurus.app import App
from palinurus.testing.slowstore import open_slow_store

CORPUS = pytest.StashKey[ReplayCorpus]()


@pytest.fixture(autouse=True, scope="session")
def _slow_store(request: pytest.FixtureRequest) -> None:
    if (seed := request.config.getoption("--slow-store")) is not None:
        App.open_store = staticmethod(open_slow_store(seed))


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--replay", default=False):
        config.stash[CORPUS] = ReplayCorpus.attach()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test that has passed fails if one of its runs cannot be played again."""
    result = yield
    if (corpus := item.config.stash.get(CORPUS, None)) is not None:
        corpus.replay_all(item.nodeid)
    return result


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if (corpus := config.stash.get(CORPUS, None)) is not None:
        terminalreporter.section("replays")
        terminalreporter.line(corpus.summarize())
