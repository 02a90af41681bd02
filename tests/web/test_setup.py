"""The first run on the page: a key is tried and kept, and a real gateway comes back with it."""

from __future__ import annotations

import json
import os
import sys
from asyncio import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from palinurus.testing.model import ScriptedModel, say
from palinurus.testing.server import ModelServer, respond_status
from web.served import TOKEN, served
from web.test_chat import BOX, write

KEY = "sk-test-0123456789abcdef"


@asynccontextmanager
async def installed(home: Path) -> AsyncIterator[str]:
    """`pal gateway` on a new machine; where its page is."""
    home.mkdir()
    (home / "palinurus.json").write_text(json.dumps({"gateway": {"auth": {"token": TOKEN}}}))
    kept = {name: value for name, value in os.environ.items() if "KEY" not in name and "TOKEN" not in name}
    process = await subprocess.create_subprocess_exec(
        sys.executable, "-m", "palinurus", "gateway", "--port", "0",
        env={**kept, "PALINURUS_HOME": str(home), "HOME": str(home.parent)},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async for line in process.stdout:
            if b"http://127.0.0.1:" in line:
                port = line.split(b"http://127.0.0.1:")[1].split(b"/")[0].decode()
                break
        yield f"http://127.0.0.1:{port}/#token={TOKEN}"
    finally:
        process.terminate()
        await process.communicate()


async def test_a_new_install_asks_tries_the_key_and_lands_in_a_working_chat(page: Any, tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with (
        ModelServer([respond_status(401), say("Yes."), say("Ahoy, I am real.")]) as server,
        installed(home) as url,
    ):
        await page.goto(url)
        await page.wait_for_selector("pal-setup form")
        assert await page.locator(".setup fieldset").count() == 3
        await page.select_option("[name=provider]", "anthropic")
        await page.click(".asks summary")
        await page.fill("[name=address]", server.url.removesuffix("/v1"))
        await page.fill("[name=key]", "sk-wrong")
        await page.fill("[name=workspace]", str(tmp_path / "desk"))
        await page.click(".setup .primary")
        await page.wait_for_selector(".setup .banner >> text=It does not answer")
        assert not any("anthropic" in file.read_text() for file in home.glob("palinurus.json"))
        await page.fill("[name=key]", KEY)
        await page.press("[name=key]", "Enter")
        await page.wait_for_selector(BOX, timeout=30_000)
        await page.wait_for_selector(".toasts >> text=answers from now on")
        await write(page, "are you real?")
        await page.wait_for_selector(".md >> text=Ahoy, I am real.")
        assert KEY not in await page.content() and server.requests[-1].headers["x-api-key"] == KEY
    raw = json.loads((home / "palinurus.json").read_text())
    assert raw["models"]["providers"]["anthropic"]["apiKey"] == KEY
    assert raw["agents"]["defaults"]["workspace"] == str(tmp_path / "desk") and (tmp_path / "desk").is_dir()


async def test_the_demo_may_be_kept_and_is_not_asked_about_again(page: Any, tmp_path: Path) -> None:
    async with served(tmp_path / "h", ScriptedModel([say("fine")]), models={}, agents={}) as site:
        await page.goto(site.url)
        await page.click("text=Skip: use the demo model")
        await page.wait_for_selector(".demo-note")
        await page.reload()
        await page.wait_for_selector(".demo-note")
        assert "/chat/" in page.url
        await page.click(".demo-note a")
        await page.click(".ways button >> text=Another server")
        await page.fill("[name=address]", "http://127.0.0.1:9/v1")
        await page.press("[name=address]", "Enter")
        await page.wait_for_selector(".setup .banner >> text=no list of models")
    assert "127.0.0.1:9" not in (tmp_path / "h" / "palinurus.json").read_text()
