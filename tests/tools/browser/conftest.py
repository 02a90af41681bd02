from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tools.browser.kit import BrowserKit
from tools.browser.site import TaskSite


@pytest.fixture
async def site() -> AsyncIterator[TaskSite]:
    made = TaskSite()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def kit(tmp_path: Path, ctx: Any, site: TaskSite) -> AsyncIterator[BrowserKit]:
    made = BrowserKit(tmp_path / "home", ctx, site.entries)
    yield made
    await made.offer.close()
