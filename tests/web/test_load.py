"""Long conversations and long answers. Long to run, so only with `make torture`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palinurus.clock import SystemClock
from palinurus.testing.model import ScriptedModel, say
from web.served import served
from web.test_chat import long, write

pytestmark = pytest.mark.torture


async def test_ten_thousand_messages_open_at_once(page: Any, tmp_path: Path) -> None:
    model = ScriptedModel([say("fine")], repeat=True)
    async with served(tmp_path / "h", model) as site:
        await page.goto(site.url)
        await write(page, "first words")
        await page.wait_for_selector(".md >> text=fine")
    long(tmp_path / "h", 10_000)
    async with served(tmp_path / "h", model) as site:
        await page.goto(site.url)
        await page.wait_for_selector(".bubble >> text=filler 9999")
        marks = await page.evaluate("performance.now()")
        print(f"open: {marks:.0f} ms since the page began")
        assert await page.locator(".row").count() < 100


async def test_five_thousand_tokens_leave_most_of_a_core(page: Any, tmp_path: Path) -> None:
    text = "".join(f"word{n} " + ("\n\n" if n % 60 == 59 else "") for n in range(5000))
    clock = SystemClock()

    class Slow(ScriptedModel):
        async def stream(self, request: Any, stop: Any) -> Any:
            async for number, event in _numbered(super().stream(request, stop)):
                if number % 10 == 0:
                    await clock.sleep(0.02)
                yield event

    async with served(tmp_path / "h", Slow([say(text)], chunk=9)) as site:
        await page.goto(site.url)
        await page.wait_for_selector("pal-composer textarea")
        session = await page.context.new_cdp_session(page)
        await session.send("Performance.enable")

        async def spent() -> float:
            metrics = await session.send("Performance.getMetrics")
            return float(next(m["value"] for m in metrics["metrics"] if m["name"] == "TaskDuration"))

        before, began = await spent(), clock.monotonic()
        await write(page, "write a lot")
        await page.wait_for_selector(".md >> text=word4999", timeout=60_000)
        share = (await spent() - before) / (clock.monotonic() - began)
        print(f"the page was busy {share:.0%} of the time, {clock.monotonic() - began:.1f} s")
        assert share < 0.3


async def _numbered(events: Any) -> Any:
    number = 0
    async for event in events:
        yield number, event
        number += 1
