"""The pictures of docs/web.md: every main screen, light and dark, wide and on a phone, with the demo model.

`make screenshots`, or: python tests/web/screenshots.py FOLDER
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from web.conftest import missing
from web.served import launched, opened, served
from web.test_chat import BOX, write

DEMO = {"models": {}, "agents": {"defaults": {"model": {"primary": "builtin/demo"}}}}
ASKS = {"exec": {"security": "allowlist", "ask": "always"}}
TALK = ("write plan.md with Sail at dawn, south by south-east.", "list files", "read plan.md")


async def settled(page: Any) -> None:
    await page.wait_for_selector("[aria-label=Stop]", state="detached")
    await page.wait_for_timeout(700)


async def shoot(page: Any, folder: Path, name: str) -> None:
    await page.wait_for_timeout(300)
    await page.screenshot(path=str(folder / f"{name}.png"))


async def tour(page: Any, url: str, folder: Path, look: str) -> None:
    """One walk through the page."""
    await page.goto(url)
    await page.wait_for_selector(".welcome")
    await shoot(page, folder, f"welcome-{look}")
    for text in TALK:
        await write(page, text)
        await page.wait_for_timeout(300)
        await settled(page)
    await page.locator(".tool-head").last.click()
    await shoot(page, folder, f"chat-{look}")
    await page.click(".pick-model button")
    await shoot(page, folder, f"models-{look}")
    await page.keyboard.press("Escape")
    await page.fill(BOX, "/")
    await shoot(page, folder, f"commands-{look}")
    await page.fill(BOX, "")
    await page.locator("[aria-label='Why this answer']").last.click()
    await page.wait_for_selector(".why h3")
    await shoot(page, folder, f"why-{look}")
    await page.click(".why [aria-label='Close the panel']")
    await write(page, "run ls -la")
    await page.wait_for_selector(".approval")
    await shoot(page, folder, f"approval-{look}")
    await page.click(".approval .primary")
    await page.wait_for_selector(".approval", state="detached")
    await settled(page)
    if look.startswith("phone"):
        await page.click(".burger")
        await page.wait_for_timeout(300)
        await shoot(page, folder, f"sidebar-{look}")
        await page.locator(".scrim").click(position={"x": 360, "y": 300})
    for view in ("overview", "sessions", "agents", "skills", "access", "config"):
        await page.evaluate(f"history.pushState(null, '', '/{view}'); dispatchEvent(new PopStateEvent('popstate'))")
        await page.wait_for_selector("main.page h1")
        await page.wait_for_selector(".skeleton", state="detached")
        await shoot(page, folder, f"{view}-{look}")


async def main(folder: Path) -> None:
    if reason := missing():
        sys.exit(f"no screenshots: {reason}")
    folder.mkdir(parents=True, exist_ok=True)
    async with launched() as browser:
        for name, width, height in (("wide", 1280, 800), ("phone", 390, 780)):
            for scheme in ("light", "dark"):
                with tempfile.TemporaryDirectory() as home:
                    async with served(Path(home) / "h", None, **DEMO, tools=ASKS) as site:
                        async with opened(browser, width, height, color_scheme=scheme) as page:
                            await tour(page, site.url, folder, f"{name}-{scheme}")
    print(f"{len(list(folder.glob('*.png')))} pictures in {folder}")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
