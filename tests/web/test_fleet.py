"""The page about the gateways of a fleet: what it shows, what it does, and what it says where there is none."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from fleets import FakeFleet, make_node
from palinurus.store.fleet import UnservedAgent
from palinurus.testing.model import ScriptedModel
from web.conftest import Visit
from web.served import served
from web.test_pages import AXE, serious, turn


async def test_a_gateway_alone_is_told_kindly(page: Any, visit: Visit) -> None:
    await visit(ScriptedModel([]))
    await page.wait_for_selector("pal-composer")
    await turn(page, "fleet")
    await page.wait_for_selector("text=One gateway, on its own")
    await turn(page, "overview")
    assert await page.locator("a[href='/fleet']").count() == 0


async def test_nodes_are_shown_drained_and_evicted(page: Any, tmp_path: Path) -> None:
    lost = make_node("harbour", left=-75.0, runs=1, holds=[], serves=["agent:main:"], skew=3_600_000)
    fleet = FakeFleet(make_node("here"), make_node("quay", config="cd34", stale={"settle": 2}), lost,
                      unserved=[UnservedAgent("work", 3)])  # fmt: skip
    async with served(tmp_path / "h", ScriptedModel([]), opener=fleet.wrap_opener()) as site:
        await page.goto(site.url)
        await page.wait_for_selector("pal-composer")
        await turn(page, "overview")
        await page.click("a[href='/fleet']")
        await page.wait_for_selector("h1 >> text=Fleet")
        row = page.locator("li:has(b:text('quay'))")
        for text in ("at work", "2 runs", "lease 12 s", "2 refused as stale", "config cd34", "clock"):
            await row.locator(f"text={text}").first.wait_for()
        for text in ("lost ", "serves main", "off the database's"):
            await page.locator("li:has(b:text('harbour'))").locator(f"text={text}").first.wait_for()
        await page.wait_for_selector(".banner >> text=3 messages for the agent work")
        await page.wait_for_selector(".banner >> text=configs of these gateways differ")
        if AXE.is_file():
            await page.evaluate(AXE.read_text())
            assert not await serious(page, ".content")
        await page.screenshot(path=str(tmp_path / "fleet.png"))
        await page.click("[aria-label='Drain quay']")
        await page.wait_for_selector(".sure >> text=Have quay finish")
        assert not await serious(page, ".sure")
        await page.keyboard.press("Escape")
        await page.wait_for_selector(".sure", state="detached")
        assert not fleet.nodes["quay"].draining  # asked, and thought better of it
        await page.click("[aria-label='Drain quay']")
        await page.click(".sure [value=yes]")
        await row.locator("text=going").wait_for()
        await page.click("[aria-label='Evict harbour']")
        await page.click(".sure [value=yes]")
        await page.wait_for_selector("li:has(b:text('harbour'))", state="detached")
        await page.set_viewport_size({"width": 375, "height": 740})
        await asyncio.sleep(0)
        assert await page.evaluate("document.documentElement.scrollWidth") <= 375
