"""Hostile text on the page runs nothing, loads nothing, and breaks out of nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say
from web.conftest import OPEN
from web.served import opened, served
from web.test_chat import write

MARK = "window.__hit=1"
FORBIDDEN = "script, iframe, object, embed, style, link, form:not(.composer), [onerror], [onload], [onfocus]"
# Each is tried as model text, tool output, a file name and a session label.
PAYLOADS = tuple(line.replace("X", MARK) for line in Path(__file__).with_name("payloads.txt").read_text().splitlines())


async def test_no_payload_runs_anywhere(page: Any, tmp_path: Path) -> None:
    assert len(PAYLOADS) >= 80
    text = "\n\n".join(PAYLOADS)
    sheet = "poison.txt"
    gate = StreamGate()
    tools = call_tools(("exec", {"command": f"cat {sheet}"}), *_names())
    model = ScriptedModel([say("ok"), tools, hold_at(say(text), gate, 0)], repeat=True)
    strange: list[str] = []
    page.on(
        "request",
        lambda r: strange.append(r.url) if not r.url.startswith(("http://127.0.0.1", "data:", "blob:")) else None,
    )
    page.on("dialog", lambda d: strange.append(d.message))
    async with served(tmp_path / "h", model, tools=OPEN) as site:
        workspace = Path(site.app.settings.agents["main"].workspace)
        workspace.mkdir(parents=True, exist_ok=True)
        (workspace / sheet).write_text(text)
        await page.goto(site.url)
        names = [f"{payload.replace('/', '_')[:80]}.txt" for payload in PAYLOADS[:6]]
        files = [{"name": name, "mimeType": "text/html", "buffer": text.encode()} for name in names]
        await page.set_input_files("input[type=file]", files)
        await page.wait_for_selector(".files li:nth-child(6)")
        await write(page, "look at these")
        await page.wait_for_selector(".row.assistant .bar")
        await page.wait_for_selector(".file-chip >> nth=5")
        await write(page, text)
        await page.wait_for_selector(".tool.failed >> nth=3")
        for head in await page.locator(".tool-head").all():
            await head.click()
        await page.wait_for_selector(".output >> text=__hit")
        gate.open()
        await page.wait_for_selector(".md a")
        labels = [[f"agent:main:dashboard:x{n}", f"{n} {payload}"[:500]] for n, payload in enumerate(PAYLOADS)]
        patch = "([key, label]) => window.palinurus.request('sessions.patch', { key, label })"
        await page.evaluate(f"all => Promise.all(all.map({patch}))", labels)
        await page.wait_for_selector(".session >> text=__hit")
        await page.click("a[href='/sessions']")
        await page.wait_for_selector(".sessions-list")
        await page.go_back()
        await page.wait_for_selector(".row.assistant")
        for link in await page.locator(".md a").all():
            href = await link.get_attribute("href") or ""
            assert href == "" or href.startswith(("http://", "https://", "mailto:"))
        assert await page.evaluate("window.__hit") in (None, {})
        found = await page.evaluate(f"document.querySelectorAll('pal-chat :is({FORBIDDEN})').length")
        assert found == 0
    assert strange == []


def _names() -> list[tuple[str, dict[str, str]]]:
    return [("read", {"path": payload[:200]}) for payload in PAYLOADS[:4]]


async def test_a_wrong_token_gets_the_sign_in_form_and_a_right_one_the_page(page: Any, tmp_path: Path) -> None:
    async with served(tmp_path / "h", ScriptedModel([say("x")])) as site:
        await page.goto(site.url.replace("token=", "token=wrong-"))
        await page.wait_for_selector("text=That token is not the right one.")
        await page.fill("input[name=secret]", site.url.partition("token=")[2])
        await page.press("input[name=secret]", "Enter")
        await page.wait_for_selector("pal-composer textarea")
        assert "token" not in page.url


async def test_whose_access_is_taken_back_is_told_that_and_no_other_reason(page: Any, tmp_path: Path) -> None:
    """Nobody has entered a token that could be wrong."""
    async with served(tmp_path / "h", ScriptedModel([say("x")])) as site:
        await page.goto(site.url)
        await page.fill("pal-composer textarea", "half a sentence")
        listed = await page.evaluate("palinurus.request('device.pair.list')")
        (device,) = [one["deviceId"] for one in listed["paired"]]
        end = "deviceId => void palinurus.request('device.token.revoke', {deviceId, role: 'operator'}).catch(() => {})"
        await page.evaluate(end, device)
        await page.wait_for_selector(".login >> text=The access of this browser has ended")
        await page.fill("input[name=secret]", site.url.partition("token=")[2])
        await page.press("input[name=secret]", "Enter")
        await page.wait_for_selector("pal-composer textarea")
        assert await page.input_value("pal-composer textarea") == "half a sentence"


async def test_a_browser_whose_clock_is_wrong_is_let_in_all_the_same(browser: Any, tmp_path: Path) -> None:
    async with served(tmp_path / "h", ScriptedModel([say("x")])) as site:
        for hours in (-30, 2):
            async with opened(browser, 800, 600) as page:
                await page.add_init_script(
                    f"const now = Date.now.bind(Date); Date.now = () => now() + {hours * 3_600_000}"
                )
                await page.goto(site.url)
                await page.wait_for_selector("pal-composer .send")
                await page.wait_for_selector(".welcome")


async def test_a_refusal_that_may_pass_is_told_as_what_it_is(browser: Any, tmp_path: Path) -> None:
    """Not as a gateway that cannot be reached."""
    async with served(tmp_path / "h", ScriptedModel([say("x")])) as site, opened(browser, 800, 600) as page:
        await page.add_init_script(
            "const sign = SubtleCrypto.prototype.sign;"
            "SubtleCrypto.prototype.sign = async (...all) => (await sign.apply(crypto.subtle, all)).slice(1)"
        )
        await page.goto(site.url)
        await page.wait_for_selector(".line >> text=device signature invalid")


async def test_the_link_with_the_token_works_in_the_tab_that_asks_for_it(page: Any, tmp_path: Path) -> None:
    async with served(tmp_path / "h", ScriptedModel([say("x")])) as site:
        address, _, fragment = site.url.partition("#")
        await page.goto(address)
        await page.wait_for_selector("input[name=secret]")
        assert "missing" not in await page.inner_text(".login")  # nobody has done anything wrong yet
        await page.evaluate(f"location.hash = {json.dumps(fragment)}")
        await page.wait_for_selector("pal-composer textarea")
        assert "token" not in page.url


async def test_on_an_address_that_is_not_secure_the_page_says_what_to_do(browser: Any, tmp_path: Path) -> None:
    async with served(tmp_path / "h", ScriptedModel([say("x")])) as site, opened(browser, 800, 600) as page:
        # What a browser leaves out on plain http away from localhost.
        await page.add_init_script(
            "delete Crypto.prototype.randomUUID; Object.defineProperty(Crypto.prototype, 'subtle', {value: undefined})"
        )
        await page.goto(site.url)
        await page.wait_for_selector("h1 >> text=This address is not secure enough")
        assert "SSH tunnel" in await page.inner_text(".login")
