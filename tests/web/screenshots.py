"""The pictures of docs/web.md: every main screen, light and dark, wide and on a phone, with the demo model.

`make screenshots`, or: python tests/web/screenshots.py FOLDER [LOOK …]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from palinurus.testing.channel import FakeChannel
from web.conftest import missing
from web.served import Served, launched, opened, served
from web.test_chat import BOX, WAV, write

DEMO = {"models": {}, "agents": {"defaults": {"model": {"primary": "builtin/demo"}}}}
ASKS = {"exec": {"security": "allowlist", "ask": "always"}}
TALK = ("write plan.md with Sail at dawn, south by south-east.", "list files", "read plan.md")
LOOKS = {
    f"{name}-{scheme}": (width, height, scheme)
    for name, width, height in (("wide", 1280, 800), ("phone", 390, 780))
    for scheme in ("light", "dark")
}
PAGES = (
    "overview", "usage", "channels", "sessions", "agents", "models", "skills", "integrations", "memory", "cron",
    "nodes", "access", "config", "logs",
)  # fmt: skip
JOBS = (
    ("Morning plan", {"kind": "cron", "expr": "0 8 * * 1-5"}, "What is on today?"),
    ("Tide table", {"kind": "every", "everyMs": 6 * 3_600_000}, "Fetch the tides and note the next high water."),
)


async def settled(page: Any) -> None:
    await page.wait_for_selector("[aria-label=Stop]", state="detached")
    await page.wait_for_selector(".row.assistant:last-of-type .bar")


async def shoot(page: Any, folder: Path, name: str) -> None:
    await page.evaluate("document.fonts.ready")
    await page.wait_for_selector(".toasts p", state="detached")
    await page.wait_for_timeout(250)  # what moves has come to rest
    await page.screenshot(path=str(folder / f"{name}.png"))


async def turn(page: Any, view: str) -> None:
    await page.evaluate(f"history.pushState(null, '', '/{view}'); dispatchEvent(new PopStateEvent('popstate'))")
    await page.wait_for_selector("main h1")
    await page.wait_for_selector(".skeleton", state="detached")


async def talk(page: Any, folder: Path, look: str) -> None:
    """The conversation and what belongs to it."""
    await page.wait_for_selector(".welcome")
    await shoot(page, folder, f"welcome-{look}")
    for text in TALK:
        await write(page, text)
        await page.wait_for_selector(f".bubble:not(.sending):not(.waiting) >> text={text}")
        await settled(page)
    await page.locator(".tool-head").last.click()
    await shoot(page, folder, f"chat-{look}")
    await page.click(".pick-model button")
    await shoot(page, folder, f"picker-{look}")
    await page.keyboard.press("Escape")
    await page.fill(BOX, "/")
    await shoot(page, folder, f"commands-{look}")
    await page.fill(BOX, "")
    await page.locator("[aria-label='Why this answer']").last.click()
    await page.wait_for_selector(".why h3")
    await shoot(page, folder, f"why-{look}")
    await page.click(".why [role=tab] >> text=Timeline")
    await page.wait_for_selector(".timeline .steps")
    await shoot(page, folder, f"timeline-{look}")
    await page.click(".why [aria-label='Close the panel']")
    files = [
        {"name": "voice.wav", "mimeType": "audio/wav", "buffer": WAV},
        {"name": "chart.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.4" + b" " * 40_000},
    ]
    await page.set_input_files("input[type=file]", files)
    await page.wait_for_selector(".files audio")
    await write(page, "What do you make of these?")
    await page.wait_for_selector(".bubble .file-chip")
    await settled(page)
    await shoot(page, folder, f"files-{look}")
    await write(page, "run ls -la")
    await page.wait_for_selector(".approval")
    await shoot(page, folder, f"approval-{look}")
    for count, text in enumerate(("Then sum up the plan in one line.", "And list the files again."), 1):
        await page.fill(BOX, text)
        await page.press(BOX, "Alt+Enter")
        await page.locator(".wait >> text=After this reply").nth(count - 1).wait_for()
    await page.locator(".row.user").last.hover()
    await shoot(page, folder, f"queue-{look}")
    await page.click(".approval .primary")
    await page.wait_for_selector(".approval", state="detached")
    await settled(page)


async def tour(page: Any, site: Served, folder: Path, look: str) -> None:
    """One walk through the page."""
    await page.goto(site.url)
    await talk(page, folder, look)
    if look.startswith("phone"):
        await page.click(".burger")
        await shoot(page, folder, f"sidebar-{look}")
        await page.locator(".scrim").click(position={"x": 360, "y": 300})
    for name, schedule, text in JOBS:
        payload = {"kind": "agentTurn", "message": text}
        job = {"name": name, "schedule": schedule, "sessionTarget": "isolated", "payload": payload}
        await page.evaluate("job => window.palinurus.request('cron.add', job)", job)
    for ident, name in (("a" * 64, "shed"), ("b" * 64, "phone")):
        node = {"nodeId": ident, "displayName": name, "platform": "linux", "commands": ["system.run", "system.notify"]}
        asked = await page.evaluate("one => window.palinurus.request('node.pair.request', one)", node)
        if name == "shed":
            told = {"requestId": asked["request"]["requestId"]}
            await page.evaluate("one => window.palinurus.request('node.pair.approve', one)", told)
    notes = Path(site.app.settings.agents["main"].workspace)
    (notes / "MEMORY.md").write_text("# Facts\n\n- The boat is called Halcyon; she lies at berth 12.\n")
    for view in PAGES:
        await turn(page, view)
        if view == "memory":
            await page.fill("[name=query]", "boat")
            await page.press("[name=query]", "Enter")
            await page.wait_for_selector(".rows li")
        if view == "agents":
            await page.click("button >> text=SOUL.md")
            await page.wait_for_selector(".editor textarea")
        await shoot(page, folder, f"{view}-{look}")


async def walk(browser: Any, folder: Path, look: str, home: Path) -> None:
    """All pictures of one look."""
    width, height, scheme = LOOKS[look]
    async with served(home / "new", None, models={}, agents={}) as site:
        async with opened(browser, width, height, color_scheme=scheme) as page:
            await page.goto(site.url)
            await page.wait_for_selector("pal-setup form")
            await shoot(page, folder, f"setup-{look}")
    channel = FakeChannel()
    rules = {"fake": {"dmPolicy": "pairing"}}
    async with served(home / "used", None, **DEMO, tools=ASKS, chat=channel, channels=rules) as site:
        channel.set_status("ready", me="@palinurus")
        await channel.receive("hello?", event="e1", sender="7")
        async with opened(browser, width, height, color_scheme=scheme) as page:
            await page.goto(site.url.replace("token=", "token=wrong-"))
            await page.wait_for_selector("#login-problem")
            await shoot(page, folder, f"login-{look}")
            await page.goto("about:blank")
            await tour(page, site, folder, look)
            await turn(page, "chat")
            await settled(page)
            await site.gateway.close()
            site.gateway.clients.disconnect(conn=site.gateway.clients.clients()[0].conn)
            await page.wait_for_selector(".line")
            await shoot(page, folder, f"offline-{look}")


async def main(folder: Path, looks: list[str]) -> None:
    if reason := missing():
        sys.exit(f"no screenshots: {reason}")
    folder.mkdir(parents=True, exist_ok=True)
    async with launched() as browser:
        for look in looks or LOOKS:
            with tempfile.TemporaryDirectory() as home:
                await walk(browser, folder, look, Path(home))
    print(f"{len(list(folder.glob('*.png')))} pictures in {folder}")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
