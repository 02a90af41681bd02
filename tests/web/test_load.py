"""A long conversation. Long to run, so only with `make torture`; what it costs: `make bench ARGS="--only page"`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palinurus.testing.model import ScriptedModel, say
from web.served import served
from web.test_chat import long, write

pytestmark = pytest.mark.torture


async def test_ten_thousand_messages_are_few_rows(page: Any, tmp_path: Path) -> None:
    model = ScriptedModel([say("fine")], repeat=True)
    async with served(tmp_path / "h", model) as site:
        await page.goto(site.url)
        await write(page, "first words")
        await page.wait_for_selector(".md >> text=fine")
    long(tmp_path / "h", 10_000)
    async with served(tmp_path / "h", model) as site:
        await page.goto(site.url)
        await page.wait_for_selector(".bubble >> text=filler 9999")
        assert await page.locator(".row").count() < 100
