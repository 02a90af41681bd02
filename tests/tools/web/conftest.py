"""The servers of `kit`, started and stopped around a test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from palinurus.tools.web.egress import EgressGuard
from tools.web.kit import Canary, Site


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def canary() -> AsyncIterator[Canary]:
    made = Canary()
    await made.start()
    yield made
    await made.stop()
    assert made.hits == 0, "something behind the door was reached"


@pytest.fixture
def door(site: Site) -> EgressGuard:
    """Open for the site, closed for all else that is not public."""
    return EgressGuard(site.rules)
