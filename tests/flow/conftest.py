"""`pytest --slow-store SEED tests/flow`: every App of these tests has a store that takes its time, as one over a
network does. Without it the files of SAMPLE are run on both (`make torture PART=slow` runs them all)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from palinurus.app import App
from palinurus.testing.slowstore import open_slow_store
from store.postgres.conftest import server

__all__ = ("server",)

SAMPLE = frozenset(("test_queue.py", "test_stop.py"))


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
