"""What is made and changed on the page: jobs, agents, chat apps, skills, servers, models, limits, devices, language."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from palinurus.testing.model import ScriptedModel, say
from palinurus.testing.oauth import EMAIL, FakeOAuth
from palinurus.testing.registry import FakeRegistry
from web.conftest import Visit
from web.served import CONFIG, opened, served
from web.test_pages import AXE, serious, turn

ANSWER = ScriptedModel([say("Hello.")], repeat=True)
NOTES = "---\nname: notes\ndescription: Keeps notes.\n---\nRead files and keep notes.\n"


def written(home: Path) -> dict[str, Any]:
    """The config as it is on disk."""
    return dict(json.loads((home / "palinurus.json").read_text()))


async def submit(page: Any) -> None:
    """Send the form, which closes when it is done."""
    await page.click(".form-dialog button[type=submit]")
    await page.wait_for_selector(".form-dialog", state="detached")


async def test_a_job_is_made_changed_and_looked_back_at(page: Any, visit: Visit) -> None:
    await visit(ANSWER)
    await turn(page, "cron")
    await page.click(".tools button >> text=New job")
    await page.fill("#form-name", "tea")
    await page.fill("#form-text", "remind me of tea")
    await page.fill("#form-expr", "not a time")
    await page.click(".form-dialog button[type=submit]")
    await page.wait_for_selector(".form-dialog .banner.error")  # and it stays open
    await page.fill("#form-expr", "0 16 * * *")
    await submit(page)
    await page.click("[aria-label='Edit tea']")
    await page.select_option("#form-kind", "every")
    await page.fill("#form-minutes", "90")
    await submit(page)
    await page.wait_for_selector(".rows >> text=every 1 h 30 min")
    await page.click("[aria-label='History of tea']")
    await page.wait_for_selector("li:has-text('tea') p.dim >> text=has not run yet")
    jobs = await page.evaluate("window.palinurus.request('cron.list', {})")
    (job,) = [one for one in jobs["jobs"] if one["name"] == "tea"]
    assert job["schedule"]["everyMs"] == 90 * 60_000 and job["payload"]["message"] == "remind me of tea"
    await page.click("[aria-label='Delete tea']")
    await page.click(".sure [value=yes] >> text=Delete")
    await page.wait_for_selector("[aria-label='Edit tea']", state="detached")


async def test_an_agent_a_chat_app_a_server_and_limits_are_written(page: Any, tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with served(home, ANSWER, gateway={"reload": {"mode": "off"}}) as site:
        await page.goto(site.at("agents"))
        await page.click(".tools button >> text=New agent")
        await page.fill("#form-name", "Research")
        await page.fill("#form-workspace", str(tmp_path / "research"))
        await submit(page)
        await turn(page, "channels")
        await page.click(".tools button >> text=Add a chat app")
        await page.select_option("#form-channel", "irc")
        await page.fill("[id='form-irc.host']", "irc.example.org")
        await page.fill("[id='form-irc.nick']", "pal")
        await submit(page)
        await turn(page, "integrations")
        await page.click(".tools button >> text=Add an MCP server")
        await page.fill("#form-name", "issues")
        await page.fill("#form-url", "https://mcp.example.org/mcp")
        await submit(page)
    made = written(home)
    assert [one["id"] for one in made["agents"]["list"]] == ["main", "research"]
    assert made["channels"]["irc"] == {"host": "irc.example.org", "nick": "pal", "enabled": True}
    assert made["mcp"]["servers"]["issues"] == {"url": "https://mcp.example.org/mcp"}


async def test_a_chat_app_that_is_switched_off_is_there_and_can_be_switched_on(page: Any, tmp_path: Path) -> None:
    home = tmp_path / "h"
    accounts = {"mine": {"host": "a.example.org", "nick": "a", "enabled": False}}
    chats = {"telegram": {"botToken": "1:a", "enabled": False}, "irc": {"accounts": accounts}}
    async with served(home, ANSWER, gateway={"reload": {"mode": "off"}}, channels=chats) as site:
        await page.goto(site.at("channels"))
        await page.wait_for_selector("li:has-text('Telegram') >> text=off")
        await page.click("[aria-label='Turn on IRC · mine']")
        await page.wait_for_selector("[aria-label='Turn on IRC · mine']", state="detached")
        assert written(home)["channels"]["irc"]["accounts"]["mine"]["enabled"] is True
        await page.click("[aria-label='Remove Telegram']")
        await page.click(".sure [value=yes]")
        await page.wait_for_selector("[aria-label='Turn on Telegram']", state="detached")
    assert "telegram" not in written(home)["channels"]


async def test_usage_has_charts_and_limits(page: Any, tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with served(home, ANSWER, gateway={"reload": {"mode": "off"}}) as site:
        await page.goto(site.url)
        await page.fill("pal-composer textarea", "hi")
        await page.press("pal-composer textarea", "Enter")
        await page.wait_for_selector(".row.assistant .bar")
        await turn(page, "usage")
        await page.wait_for_selector(".bars >> text=fake/thinker")
        assert await page.locator(".chart.dense > div").count() == 30
        await page.click("[role=tab] >> text=7 days")
        await page.wait_for_selector(".tile >> text=in 7 days")
        await page.click("button >> text=Change limits")
        await page.fill("[id='form-day.softUsd']", "2")
        await page.fill("[id='form-day.hardUsd']", "5")
        await submit(page)
    assert written(home)["budgets"]["day"] == {"softUsd": 2, "hardUsd": 5}


async def test_the_days_of_usage_are_those_of_whoever_looks(browser: Any, tmp_path: Path) -> None:
    """Where it is another day than at the gateway, today's calls are today's; what has no price is not free."""
    east = datetime.now(UTC).hour >= 10
    async with served(tmp_path / "h", ANSWER) as site:
        zone = "Pacific/Kiritimati" if east else "Pacific/Pago_Pago"
        async with opened(browser, 1280, 860, timezone_id=zone) as page:
            await page.goto(site.url)
            await page.fill("pal-composer textarea", "hi")
            await page.press("pal-composer textarea", "Enter")
            await page.wait_for_selector(".row.assistant .bar")
            await turn(page, "usage")
            await page.wait_for_selector(".tile >> text=1 call without a price")
            last = "document.querySelector('.chart > div:last-child').title"
            today = await page.evaluate("new Date().toLocaleDateString('sv')")
            assert (await page.evaluate(last)).startswith(f"{today}: 15 ")
            await turn(page, "overview")
            await page.wait_for_selector(".tile:has-text('Today') >> text=15 tokens")
            assert await page.locator(".chart > div").count() == 14
            assert (await page.evaluate(last)).startswith(f"{today}: 15 ")


async def test_a_log_that_is_read_does_not_run_away(page: Any, tmp_path: Path) -> None:
    async with served(tmp_path / "h", ANSWER) as site:
        file = tmp_path / "h" / "logs" / "gateway.log"
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(f"line {at}\n" for at in range(300)))
        await page.goto(site.at("logs"))
        await page.wait_for_selector(".loglines >> text=line 299")
        box = "document.querySelector('.loglines')"
        rests = "setTimeout(() => done(!document.querySelector('.check input').checked))"
        unread = f"new Promise(done => {{ {box}.scrollTop = 0; {rests}; }})"
        while not await page.evaluate(unread):  # it may just have come to its end
            await asyncio.sleep(0.05)
        await page.evaluate("palinurus.onchange()")
        assert await page.evaluate(f"{box}.scrollTop") == 0
        file.write_text(file.read_text() + "line 300\n")
        await page.evaluate(f"{box}.scrollTop = {box}.scrollHeight")
        await page.wait_for_selector(".loglines >> text=line 300")


async def test_a_skill_is_looked_at_and_installed(page: Any, tmp_path: Path) -> None:
    registry = FakeRegistry()
    await registry.start()
    registry.put("notes", "1.0.0", SKILL=NOTES)
    try:
        async with served(tmp_path / "h", ANSWER, environ={"CLAWHUB_REGISTRY": registry.url}) as site:
            await page.goto(site.at("skills"))
            await page.click("[role=tab] >> text=Store")
            await page.fill("[role=search] input", "notes")
            await page.press("[role=search] input", "Enter")
            await page.click("[aria-label='Look at notes']")
            await page.wait_for_selector("dialog.look h3 >> text=It can")
            assert not (tmp_path / "h" / "skills" / "notes").exists()
            await page.click("dialog.look button >> text=Install")
            await page.wait_for_selector(".toasts >> text=notes is installed")
    finally:
        await registry.stop()
    assert (tmp_path / "h" / "skills" / "notes" / "SKILL.md").read_text() == NOTES


async def test_the_default_model_and_who_steps_in(page: Any, tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with served(home, ANSWER, gateway={"reload": {"mode": "off"}}) as site:
        await page.goto(site.at("models"))
        await page.select_option("[aria-label='Add a fallback']", "fake/plain")
        await page.wait_for_selector("[aria-label='Remove fake/plain']")
        await page.wait_for_selector(".grid >> text=zai/glm-4.7")
    model = written(home)["agents"]["defaults"]["model"]
    assert model == {"primary": "fake/thinker", "fallbacks": ["fake/plain"]}


async def test_a_method_is_called_by_hand_and_events_are_seen(page: Any, visit: Visit) -> None:
    await visit(ANSWER)
    await turn(page, "debug")
    await page.fill("#rpc-method", "cron.status")
    await page.click("button >> text=Call")
    await page.wait_for_selector("pre[aria-label=Answer] >> text=enabled")
    await page.fill("#rpc-params", "{")
    await page.click("button >> text=Call")
    await page.wait_for_selector(".banner.error")
    await page.evaluate("window.palinurus.request('sessions.create', {})")
    await page.wait_for_selector("[role=log] summary >> text=sessions.changed")


async def test_a_device_is_named(page: Any, visit: Visit) -> None:
    await visit(ANSWER)
    await turn(page, "access")
    row = page.locator("li", has=page.locator(".tag >> text=this one"))
    await row.locator("button >> text=Rename").click()
    await page.fill("#form-name", "My laptop")
    await submit(page)
    await row.locator("b >> text=My laptop").wait_for()


async def test_broken_text_of_the_config_is_told_with_its_line(page: Any, tmp_path: Path) -> None:
    async with served(tmp_path / "h", ANSWER) as site:
        await page.goto(site.at("config"))
        await page.click(".tools button >> text=Text")
        await page.fill(".editor textarea", '{\n  "gateway": {\n')
        await page.click(".editor button >> text=Save")
        await page.wait_for_selector(".warn >> text=line 2")
        await page.fill(".editor textarea", '{"gateway": {"port": "x"}}')
        await page.click(".editor button >> text=Save")
        await page.wait_for_selector(".warn >> text=write the number without quotes")
        assert await page.locator(".warn").count() == 1


async def test_the_page_speaks_the_language_that_is_chosen(page: Any, visit: Visit) -> None:
    await visit(ANSWER)
    await turn(page, "config")
    try:
        await page.select_option("#page-language", "de")
        await page.wait_for_selector("h1 >> text=Einstellungen")
        assert await page.evaluate("document.documentElement.lang") == "de"
    finally:
        await page.evaluate("localStorage.removeItem('language')")


async def test_tabs_are_in_step(page: Any, profile: Any, visit: Visit) -> None:
    site = await visit(ANSWER)
    other = await profile.new_page()
    try:
        await other.goto(site.at("config"))
        await other.select_option("#page-theme", "dark")
        await page.wait_for_selector("html[data-theme=dark]")
    finally:
        await other.evaluate("localStorage.removeItem('theme')")
        await other.close()


async def test_the_page_opens_without_the_gateway_and_keeps_nothing_it_said(page: Any, tmp_path: Path) -> None:
    async with served(tmp_path / "h", ScriptedModel([say("the secret answer")])) as site:
        await page.goto(site.url)
        await page.wait_for_selector("pal-composer textarea")
        manifest = await page.evaluate("fetch('/manifest.webmanifest').then((answer) => answer.json())")
        assert manifest["display"] == "standalone" and len(manifest["icons"]) >= 3
        await page.fill("pal-composer textarea", "tell me")
        await page.press("pal-composer textarea", "Enter")
        await page.wait_for_selector(".row.assistant .bar")
        await page.evaluate("navigator.serviceWorker.ready.then(() => true)")
        kept = await page.evaluate(
            "caches.keys().then((names) => Promise.all("
            "names.map((name) => caches.open(name).then((shelf) => shelf.keys()))))"
            ".then((all) => all.flat().map((one) => new URL(one.url).pathname))"
        )
        assert "/" in kept and not [path for path in kept if path != "/" and "-" not in path and ".svg" not in path]
    await page.reload()
    await page.wait_for_selector("text=The gateway cannot be reached.")


@pytest.mark.parametrize("size", [(1280, 800), (375, 740)])
async def test_a_form_fits_the_screen(page: Any, visit: Visit, size: tuple[int, int]) -> None:
    await page.set_viewport_size({"width": size[0], "height": size[1]})
    await visit(ANSWER)
    await turn(page, "cron")
    await page.click(".tools button >> text=New job")
    box = await page.locator(".form-dialog").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= size[0] and box["height"] <= size[1]


async def test_signing_in_shows_the_address_and_takes_the_answer(page: Any, tmp_path: Path) -> None:
    async with FakeOAuth() as oauth:
        vendor = {"baseUrl": "http://127.0.0.1:9/v1", "signIn": oauth.make_config()}
        models = {"providers": {**CONFIG["models"]["providers"], "openai-codex": vendor}}
        async with served(tmp_path / "h", ANSWER, models=models) as site:
            await page.goto(site.at("models"))
            await page.click("[aria-label^='Sign in: OpenAI']")
            link = page.locator("pal-signin a")
            await page.wait_for_selector("pal-signin img.code")
            back = await oauth.browse(await link.get_attribute("href"), follow=False)
            await page.fill("#pasted", back)
            await page.click("pal-signin button >> text=Continue")
            await page.wait_for_selector(f".toasts >> text=Signed in as {EMAIL}")
            await page.wait_for_selector("pal-signin", state="detached")
            await page.wait_for_selector(".tag.good >> text=signed in")


async def test_axe_finds_nothing_serious_in_forms(page: Any, visit: Visit) -> None:
    """What all pages look like on a phone: test_pages.py."""
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: make web")
    await page.set_viewport_size({"width": 375, "height": 740})
    await visit(ANSWER)
    await page.evaluate(AXE.read_text())
    found: list[str] = []
    for view, button in (("cron", "New job"), ("channels", "Add a chat app"), ("nodes", "Add a node")):
        await turn(page, view)
        await page.click(f".tools button >> text={button}")
        await page.wait_for_selector(".form-dialog")
        for theme, rules in (("light", ""), ("dark", "color-contrast")):
            await page.emulate_media(color_scheme=theme)
            found += await serious(page, ".form-dialog", rules)
        await page.emulate_media(color_scheme="light")
        await page.keyboard.press("Escape")
        await page.wait_for_selector(".form-dialog", state="detached")
    assert not found, "\n".join(found)
