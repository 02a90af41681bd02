"""Browser tests need a built page, playwright and a chromium; where one is missing they are skipped and say so."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from web.served import built, chromium, launched, opened

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One loop for all of these, so that they can share a browser: starting one takes longer than most tests."""
    for item in items:
        if item.path.parent == HERE and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


def missing() -> str:
    """What stands in the way, with how to get it."""
    if importlib.util.find_spec("playwright") is None:
        return "playwright is not installed: pip install -e '.[dev]'"
    if chromium() is None:
        return "no chromium: apt-get install chromium, or name one in CHROMIUM"
    return "" if built() else "the web page is not built: make web"


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def browser() -> AsyncIterator[Any]:
    """The one browser of all these tests."""
    if reason := missing():
        pytest.skip(f"browser tests were skipped: {reason}")
    async with launched() as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Any) -> AsyncIterator[Any]:
    """A browser page; what it complains about fails the test."""
    async with opened(browser) as made:
        complaints: list[str] = []
        made.on("pageerror", lambda error: complaints.append(str(error)))
        made.on("console", lambda said: complaints.append(said.text) if "Security Policy" in said.text else None)
        yield made
        assert complaints == []
