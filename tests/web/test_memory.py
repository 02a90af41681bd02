"""What the agent would like to remember, decided on the page."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from palinurus.testing.model import ScriptedModel, say
from services.test_learning import MILK, OLD, propose, write_memory
from web.served import served
from web.test_pages import AXE, serious, turn


async def test_a_proposal_is_edited_accepted_and_undone(page: Any, tmp_path: Path) -> None:
    file = write_memory(tmp_path / "h")
    model = ScriptedModel([say("Noted."), propose(MILK)])
    async with served(tmp_path / "h", model) as site:
        await page.goto(site.url)
        await page.fill("pal-composer textarea", "no milk for me")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("text=Noted.")
        await page.fill("pal-composer textarea", "/learn")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("text=MEMORY.md")
        await turn(page, "memory")
        row = page.locator(".proposal")
        await row.locator(".diff >> text=+no milk").wait_for()
        await row.locator("text=From 1 message").click()
        await row.locator("text=no milk for me").wait_for()
        if AXE.is_file():
            await page.evaluate(AXE.read_text())
            assert not await serious(page, ".content")
        await page.screenshot(path=str(tmp_path / "memory.png"))
        assert file.read_bytes() == OLD.encode()
        await row.get_by_role("button", name="Edit").click()
        await row.locator("textarea").fill("likes tea, no milk\n")
        await row.get_by_role("button", name="Save").click()
        await row.get_by_role("button", name="Undo").click()
        await row.locator("text=undone").wait_for()
        await asyncio.sleep(0)
    assert file.read_bytes() == OLD.encode()
