"""Browser tests need a built page, playwright and a chromium; where one is missing they are skipped and say so.

A browser, and a gateway for the tests that need no config of their own, are started once per worker: both take longer
than most tests.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import pytest_asyncio

from palinurus.core.types.model import Model
from web.served import PATIENCE, Served, Understudy, built, chromium, launched, outdated, remembered, served

HERE = Path(__file__).parent
OPEN = {"exec": {"security": "full", "ask": "off"}}
Visit: TypeAlias = Callable[[Model], Awaitable[Served]]
_NUMBERS = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One loop for all of these, so that they can share a browser."""
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
    assert not outdated(), "the page is older than web/src: rm -f .venv/.web && make web"
    async with launched() as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def profile(browser: Any) -> AsyncIterator[Any]:
    """What the browser remembers. Every gateway is an origin of its own, so tests see nothing of one another."""
    async with remembered(browser, reduced_motion="reduce") as made:  # spinners cost as much as the rest
        await made.new_page()  # stays open: closing the last one ends the renderer, and the next takes 1.6 s to start
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def page(profile: Any) -> AsyncIterator[Any]:
    """A browser page; what it complains about fails the test."""
    made = await profile.new_page()
    made.set_default_timeout(PATIENCE)
    complaints: list[str] = []
    made.on("pageerror", lambda error: complaints.append(str(error)))
    made.on("console", lambda said: complaints.append(said.text) if "Security Policy" in said.text else None)
    yield made
    await made.close()
    assert complaints == []


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def common(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Served, Understudy]]:
    """The gateway that tests share, and its model."""
    model = Understudy()
    async with served(tmp_path_factory.mktemp("web") / "h", model, tools=OPEN) as site:
        yield site, model


@pytest_asyncio.fixture(loop_scope="session")
async def visit(page: Any, common: tuple[Served, Understudy]) -> AsyncIterator[Visit]:
    """Opens a conversation of its own on the shared gateway, with this model behind it."""
    site, model = common

    async def go(now: Model) -> Served:
        while site.app.dispatcher.busy:  # a run of the test before would ask this one's model
            await asyncio.sleep(0.01)
        model.now = now
        await page.goto(site.at(f"chat/agent%3Amain%3Adashboard%3At{next(_NUMBERS)}"))
        await page.wait_for_selector("pal-composer textarea")
        return site

    yield go
    model.now = None
