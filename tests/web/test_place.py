"""The page over HTTPS and under a base path: it finds its files, its gateway and its own addresses."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from gateway.test_proxy import free_port, proxied
from gateway.test_proxy import opened as allowed
from palinurus.testing.model import ScriptedModel, say
from palinurus.testing.server import FakeTranscriber
from web.conftest import Visit
from web.served import CONFIG, opened, served
from web.test_away import seen
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


async def test_a_proxy_may_hand_on_no_more_than_the_base_path(browser: Any, tmp_path: Path) -> None:
    """The rest of that name is another site's."""
    port = free_port()
    async with FakeTranscriber("write this down") as ears:
        hears = {"media": {"audio": {"models": [{"provider": "mine", "model": "w"}]}}}
        mine = {**CONFIG["models"]["providers"], "mine": {"baseUrl": ears.url, "apiKey": "k", "models": [{"id": "m"}]}}
        config = {**allowed(port, basePath="/pal/ui"), "tools": hears, "models": {"providers": mine}}
        async with served(tmp_path / "h", ScriptedModel([say("Found you.")], repeat=True), **config) as site:
            async with proxied("nginx", site.gateway.port, tmp_path / "proxy", port, "/pal/ui/"):
                async with opened(browser, 1280, 860) as page:
                    await page.goto(site.url.replace(str(site.gateway.port), str(port)))
                    await write(page, "where am I?")
                    await page.wait_for_selector("text=Found you.")
                    await page.click("[aria-label='Record a voice note']")
                    await page.wait_for_selector(".recording")
                    await asyncio.sleep(0.5)  # something to hear
                    await page.click(".composer-bar >> text=To text")
                    await page.wait_for_selector(".recording", state="detached")
                    await seen(page, "document.querySelector('pal-composer textarea').value")
                    assert await page.input_value("pal-composer textarea") == "write this down"


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
