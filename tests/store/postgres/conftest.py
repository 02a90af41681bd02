"""One server for a worker; every test begins with empty tables."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import AsyncIterator, Iterator

import pytest

from store.postgres.server import MISSING, empty_tables, find_programs, running_server


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Its address."""
    if importlib.util.find_spec("asyncpg") is None:
        pytest.skip("the store on PostgreSQL was not tested: asyncpg is not installed: pip install -e '.[dev]'")
    if url := os.environ.get("PALINURUS_TEST_POSTGRES"):
        yield url
        return
    if find_programs() is None:
        pytest.skip(f"the store on PostgreSQL was not tested: {MISSING}")
    with running_server() as url:
        yield url


@pytest.fixture
async def fleet(server: str) -> AsyncIterator[str]:
    """The address of a fleet in which nothing has happened yet."""
    await empty_tables(server)
    yield server
