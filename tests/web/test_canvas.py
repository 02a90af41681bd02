"""The canvas in a real browser: shown beside the chat, used by a person, and held where it is whatever it tries."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from palinurus.core.types.messages import UserMessage
from palinurus.testing.model import ScriptedModel, call_tools, say
from web.conftest import OPEN, Visit
from web.served import served
from web.test_chat import write

PAGE = """<!doctype html><title>x</title><h1>Tides</h1><p id=p>high at noon</p>
<button id=b onclick="palinurus.send('book', {berth: 7})">Book</button>"""


def show(**args: Any) -> Any:
    return call_tools(("canvas", {"action": "present", **args}))


async def test_a_page_is_shown_used_and_hidden(page: Any, visit: Visit) -> None:
    model = ScriptedModel(
        [show(html=PAGE, title="Harbour"), say("There."), call_tools(("canvas", {"action": "hide"})), say("Booked.")]
    )
    await visit(model)
    await write(page, "show me the tides")
    frame = page.frame_locator(".canvas-room iframe")
    await frame.locator("h1 >> text=Tides").wait_for()
    assert await page.locator(".canvas h2").inner_text() == "Harbour"
    await page.wait_for_selector(".md >> text=There.")
    await frame.locator("#b").click()
    await page.wait_for_selector(".md >> text=Booked.")
    await page.wait_for_selector(".canvas", state="detached")
    said = [m for m in model.requests[-1].messages if isinstance(m, UserMessage)]
    assert '"book"' in said[-1].text and '"berth": 7' in said[-1].text
    assert said[-1].source == "own canvas" and said[0].source == ""
    assert await page.locator(".pressed >> text=You used").count() == 1
