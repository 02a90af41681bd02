"""The other pages, in light and dark, wide and on a phone; and what axe says about all of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palinurus.testing.model import ScriptedModel, calls, say
from web.served import served
from web.test_chat import OPEN, write

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = ("overview", "sessions", "agents", "skills", "memory", "cron", "access", "config", "logs")


async def visit(page: Any, view: str) -> None:
    await page.evaluate(f"history.pushState(null, '', '/{view}'); dispatchEvent(new PopStateEvent('popstate'))")
    await page.wait_for_selector("main.page h1")
    await page.wait_for_selector(".skeleton", state="detached")


async def serious(page: Any) -> list[str]:
    found = await page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{page.url} {v['id']}: {v['nodes'][0]['html'][:200]}"
        for v in found["violations"]
        if v["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_serious(page: Any, tmp_path: Path, scheme: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: make web")
    model = ScriptedModel(
        [calls(("exec", {"command": "echo hi"})), say("**ok**\n\n```py\nx = 1\n```\n\n| a |\n|---|\n| b |")]
    )
    await page.emulate_media(color_scheme=scheme)
    async with served(tmp_path / "h", model, tools=OPEN) as site:
        await page.goto(site.url)
        await page.wait_for_selector(".welcome")
        await page.evaluate(AXE.read_text())
        found = await serious(page)
        await write(page, "go")
        await page.wait_for_selector(".row.assistant .bar")
        await page.click(".tool-head")
        await page.click("[aria-label='Why this answer']")
        await page.wait_for_selector(".why h3")
        found += await serious(page)
        for view in VIEWS:
            await visit(page, view)
            found += await serious(page)
    assert not found, "\n".join(found)


async def test_a_phone_shows_one_thing_at_a_time(page: Any, tmp_path: Path) -> None:
    await page.set_viewport_size({"width": 375, "height": 740})
    async with served(tmp_path / "h", ScriptedModel([say("fine " * 50)], repeat=True)) as site:
        await page.goto(site.url)
        await write(page, "hello")
        await page.wait_for_selector(".md >> text=fine")
        wide = "document.documentElement.scrollWidth"
        assert await page.evaluate(wide) <= 375
        assert not await page.is_visible(".sidebar")
        await page.click(".burger")
        await page.wait_for_selector(".sidebar", state="visible")
        await page.click("a[href='/config']")
        await page.wait_for_selector(".form")
        assert await page.evaluate(wide) <= 375


async def test_settings_are_changed_in_the_form_and_errors_stand_at_the_key(page: Any, tmp_path: Path) -> None:
    async with served(tmp_path / "h", ScriptedModel([])) as site:
        await page.goto(site.url)
        await page.wait_for_selector("pal-composer")
        await visit(page, "config")
        await page.fill("[aria-label='Find a key']", "gateway.port")
        await page.fill("[id='f-gateway.port']", "99999999")
        await page.press("[id='f-gateway.port']", "Tab")
        await page.wait_for_selector(".field .warn")
        await page.fill("[id='f-gateway.port']", "18999")
        await page.press("[id='f-gateway.port']", "Tab")
        await page.wait_for_selector(".toasts >> text=Saved")
    assert json.loads((tmp_path / "h" / "palinurus.json").read_text())["gateway"]["port"] == 18999


async def test_workspace_files_are_edited(page: Any, tmp_path: Path) -> None:
    async with served(tmp_path / "h", ScriptedModel([])) as site:
        await page.goto(site.url)
        await page.wait_for_selector("pal-composer")
        await visit(page, "agents")
        await page.click("button >> text=SOUL.md")
        await page.fill(".editor textarea", "Be brief.")
        await page.press(".editor textarea", "Control+s")
        await page.wait_for_selector(".toasts >> text=SOUL.md saved")
        assert (Path(site.app.settings.agents["main"].workspace) / "SOUL.md").read_text() == "Be brief."
