"""The page over HTTPS and under a base path: it finds its files, its gateway and its own addresses."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from palinurus.testing.model import ScriptedModel, say
from web.conftest import Visit
from web.served import opened, served
from web.test_chat import write


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
async def test_https_under_a_base_path(browser: Any, tmp_path: Path) -> None:
    gateway = {"tls": {"enabled": True}, "controlUi": {"basePath": "/pal/ui"}}
    async with served(tmp_path / "h", ScriptedModel([say("Found you.")], repeat=True), gateway=gateway) as site:
        async with opened(browser, 1280, 860, ignore_https_errors=True) as page:
            lost: list[str] = []
            page.on("response", lambda r: lost.append(r.url) if r.status >= 400 else None)
            await page.goto(site.url)
            await write(page, "where am I?")
            await page.wait_for_selector("text=Found you.")
            assert "/pal/ui/chat/agent" in page.url and page.url.startswith("https://")
            await page.click("a[href='/pal/ui/sessions']")
            await page.wait_for_url("**/pal/ui/sessions")
            await page.reload()
            await page.wait_for_selector("a[href='/pal/ui/sessions'].active")
            assert lost == []


async def test_the_page_looks_as_the_config_says(browser: Any, tmp_path: Path) -> None:
    ui = {"seamColor": "#ff8800", "assistant": {"name": "Nemo <b>", "avatar": "🐠"}}
    async with served(tmp_path / "h", ScriptedModel([say("hi")], repeat=True), ui=ui) as site:
        async with opened(browser, 1280, 860) as page:
            await page.goto(site.url)
            await page.wait_for_selector(".brand .avatar")
            assert await page.inner_text(".brand b") == "Nemo <b>" and await page.inner_text(".brand .avatar") == "🐠"
            accent = "getComputedStyle(document.documentElement).getPropertyValue('--accent').trim()"
            assert await page.evaluate(accent) == "#ff8800"


async def test_links_are_links_and_an_address_may_be_cut_off(page: Any, visit: Visit) -> None:
    site = await visit(ScriptedModel([]))
    async with page.context.expect_page() as other:  # with Ctrl held down the browser opens it beside this one
        await page.click(".pages a >> text=Logs", modifiers=["Control"])
    await (await other.value).wait_for_selector("h1 >> text=Logs")
    await (await other.value).close()
    assert "/chat/" in page.url
    await page.click(".pages a >> text=Logs")
    await page.wait_for_selector("h1 >> text=Logs")
    for cut in ("chat/100%", "chat/%E0%A4%A"):
        await page.goto(site.at(cut))
        await page.wait_for_selector("pal-composer textarea")
