"""`pytest --slow-store SEED tests/flow`: every App of these tests has a store whose reads take a while."""

from __future__ import annotations

import pytest

from palinurus.app import App
from palinurus.testing.slowstore import open_slow_store
from store.postgres.conftest import server

__all__ = ("server",)


@pytest.fixture(autouse=True, scope="session")
def _slow_store(request: pytest.FixtureRequest) -> None:
    if (seed := request.config.getoption("--slow-store")) is not None:
        App.open_store = staticmethod(open_slow_store(seed))
