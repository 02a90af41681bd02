"""The form of the settings: what it shows is what is written, and what was wrong stays told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from palinurus.testing.model import ScriptedModel
from web.served import CONFIG, Served, served
from web.test_away import seen
from web.test_unsaved import patched, until

CALM = {"reload": {"mode": "off"}, "auth": {"token": "web-test-token"}}


def held(home: Path) -> dict[str, Any]:
    return dict(json.loads((home / "palinurus.json").read_text()))


async def seek(page: Any, site: Served, words: str) -> None:
    await page.goto(site.at("config"))
    await page.fill("[aria-label='Find a key']", words)


async def put(page: Any, key: str, text: str) -> None:
    await page.fill(f"[id='f-{key}']", text)
    await page.press(f"[id='f-{key}']", "Tab")


def warned(page: Any, key: str) -> Any:
    return page.locator(".field", has=page.locator(f"[id='f-{key}']")).locator(".warn")


async def test_what_is_taken_out_of_a_map_or_a_list_is_gone(page: Any, tmp_path: Path) -> None:
    home, tools = tmp_path / "h", {"byProvider": {"openai": {"allow": ["read"]}, "zai": {"allow": ["ls"]}}}
    async with served(home, ScriptedModel([]), gateway=CALM, tools={**tools, "deny": ["exec", "write"]}) as site:
        await seek(page, site, "tools.")
        await put(page, "tools.byProvider", '{"zai": {"allow": ["ls"]}}')
        await until(lambda: held(home)["tools"]["byProvider"] == {"zai": {"allow": ["ls"]}})
        await page.wait_for_selector(".toasts >> text=after a restart")  # with `reload.mode: "off"` it does
        assert await page.input_value("[id='f-tools.deny']") == "exec\nwrite"
        await put(page, "tools.deny", "write\n\n ls ")
        await until(lambda: held(home)["tools"]["deny"] == ["write", "ls"])
        await seen(page, "document.getElementById('f-tools.deny').value === 'write\\nls'")  # as it is on disk
        await put(page, "tools.deny", "[]")
        await until(lambda: held(home)["tools"]["deny"] == [])
        await page.fill("[aria-label='Find a key']", "commands.ownerDisplay")
        await put(page, "commands.ownerDisplay", "hash")  # of no kind: a text is one
        await until(lambda: held(home).get("commands") == {"ownerDisplay": "hash"})
        await page.fill("[aria-label='Find a key']", "tools.")
        await put(page, "tools.byProvider", "{zai: 1}")
        await warned(page, "tools.byProvider").get_by_text("This is no JSON").wait_for()


async def test_what_is_wrong_is_not_written_and_stays_told(page: Any, tmp_path: Path) -> None:
    home = tmp_path / "h"
    agents = {"defaults": {**CONFIG["agents"]["defaults"], "timeoutSeconds": 77}}
    async with served(home, ScriptedModel([]), gateway=CALM, agents=agents) as site:
        await seek(page, site, "agents.defaults.")
        await page.press("[id='f-agents.defaults.timeoutSeconds']", "End")
        await page.keyboard.type("e")
        await page.keyboard.press("Tab")
        await warned(page, "agents.defaults.timeoutSeconds").wait_for()
        await put(page, "agents.defaults.heartbeat.every", "5 fortnights")
        await warned(page, "agents.defaults.heartbeat.every").get_by_text("write it as 500ms, 30s").wait_for()
        await put(page, "agents.defaults.contextTokens", "99000")
        await until(lambda: "contextTokens" in held(home)["agents"]["defaults"])
        await page.wait_for_selector(".toasts >> text=Saved")
        assert held(home)["agents"]["defaults"]["timeoutSeconds"] == 77
        assert await warned(page, "agents.defaults.timeoutSeconds").count() == 1
        assert await warned(page, "agents.defaults.heartbeat.every").count() == 1
        await put(page, "agents.defaults.timeoutSeconds", "-5")
        await warned(page, "agents.defaults.timeoutSeconds").get_by_text("must be 0").wait_for()
        for other in ("imageMaxDimensionPx", "timeoutSeconds"):  # what was typed into one field is in no other
            await page.fill("[aria-label='Find a key']", f"agents.defaults.{other}")
            field = page.locator(f"[id='f-agents.defaults.{other}']")
            await field.wait_for()
            assert await field.input_value() == ("77" if other == "timeoutSeconds" else "")
            assert await warned(page, f"agents.defaults.{other}").count() == 0


async def test_a_key_that_is_one_value_or_several_shows_the_one_it_has(page: Any, tmp_path: Path) -> None:
    home = tmp_path / "h"
    agents = {"defaults": {"model": "fake/thinker"}}
    async with served(home, ScriptedModel([]), gateway=CALM, agents=agents) as site:
        await seek(page, site, "gateway.auth.token")
        secret = "[id='f-gateway.auth.token']"
        assert await page.input_value(secret) == "" and await page.get_attribute(secret, "placeholder") == "••••••••"
        assert await page.locator("[id='f-gateway.auth.token.id']").count() == 0
        await put(page, "gateway.auth.token", "another-token-of-mine")
        await until(lambda: held(home)["gateway"]["auth"]["token"] == "another-token-of-mine")
        await page.fill("[aria-label='Find a key']", "agents.defaults.model")
        assert await page.input_value("[id='f-agents.defaults.model']") == "fake/thinker"
        assert await page.locator("[id='f-agents.defaults.model.fallbacks']").count() == 0
        await patched(page, {"agents": {"defaults": {"model": {"primary": "fake/plain"}}}})
        await page.reload()
        await page.fill("[aria-label='Find a key']", "agents.defaults.model")
        assert await page.input_value("[id='f-agents.defaults.model.primary']") == "fake/plain"
        await put(page, "agents.defaults.model.fallbacks", "fake/thinker")
        model = {"primary": "fake/plain", "fallbacks": ["fake/thinker"]}
        await until(lambda: held(home)["agents"]["defaults"]["model"] == model)


async def test_a_section_is_an_address_and_is_seen_where_it_is_chosen(page: Any, tmp_path: Path) -> None:
    async with served(tmp_path / "h", ScriptedModel([]), gateway=CALM) as site:
        await page.goto(site.at("config"))
        await page.click(".side-list >> text=Agents")
        await page.wait_for_url("**/config/agents")
        await page.evaluate("document.querySelector('main').scrollTop = 2000")
        await page.click(".side-list >> text=Ui")  # far down in the list; its form was above what is seen
        await page.wait_for_url("**/config/ui")
        box = await page.locator(".form .field, .form details").first.bounding_box()
        assert 0 < box["y"] < 860
        await page.go_back()
        await page.wait_for_selector(".side-list .active >> text=Agents")
        await page.reload()
        await page.wait_for_selector(".side-list .active >> text=Agents")
        await page.fill("[aria-label='Find a key']", "your time zone")  # the words of this page
        await page.wait_for_selector("[id='f-agents.defaults.userTimezone']")
        await page.fill("[aria-label='Find a key']", "nobody who is listed may")  # of the key's sentence
        await page.wait_for_selector("text=No key has that in its name.")
        await page.fill("[aria-label='Find a key']", "language that is spoken")
        await page.wait_for_selector("[id='f-talk.speechLocale']")
        await page.fill("[aria-label='Find a key']", "tools.web")
        await page.click("[aria-label='Explain tools.web']")
        await page.wait_for_selector(".told li >> text=search")  # what a free-form section can hold
