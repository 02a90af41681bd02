"""Two write the same: what stands in an open form is not laid over what others changed meanwhile, nothing that is
written is lost without a question, and what was refused is not shown as done."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from palinurus.testing.model import ScriptedModel, say
from web.conftest import Visit
from web.served import CONFIG, served
from web.test_manage import submit, written
from web.test_pages import turn

ANSWER = ScriptedModel([say("Hello.")], repeat=True)
CALM = {"reload": {"mode": "off"}}
FILE = ".editor textarea"


async def patched(page: Any, change: dict[str, Any], whole: tuple[str, ...] = ()) -> None:
    """The config, changed by somebody else."""
    asked = {"raw": json.dumps(change), "replacePaths": list(whole)}
    now = await page.evaluate("palinurus.request('config.get')")
    ask = "asked => palinurus.request('config.patch', asked)"
    assert (await page.evaluate(ask, {**asked, "baseHash": now["hash"]}))["ok"]


async def until(done: Callable[[], bool]) -> None:
    """What the page was told to write is on disk."""
    while not done():
        await asyncio.sleep(0.01)


async def test_a_file_is_not_lost_by_a_click_nor_by_the_way_back(page: Any, tmp_path: Path) -> None:
    agents = {**CONFIG["agents"], "list": [{"id": "main"}, {"id": "research", "workspace": str(tmp_path / "r")}]}
    async with served(tmp_path / "h", ANSWER, agents=agents, gateway=CALM) as site:
        await page.goto(site.at("logs"))
        await page.wait_for_selector("h1 >> text=Logs")
        await page.click(".pages a >> text=Agents")
        await page.click("button >> text=SOUL.md")
        await page.fill(FILE, "not saved")
        for leave in (page.locator(".card", has_text="research").click, page.go_back):
            await leave()
            await page.click(".sure [value=no]")
            assert await page.input_value(FILE) == "not saved" and page.url.endswith("/agents")
        await page.click("button >> text=SOUL.md")
        await page.click(".sure [value=yes]")
        await page.wait_for_selector(".editor .primary[disabled]")
        assert await page.input_value(FILE) != "not saved"  # what is on disk, as the button says
        await page.fill(FILE, "not saved either")
        await page.go_back()
        await page.click(".sure [value=yes]")
        await page.wait_for_selector("h1 >> text=Logs")
        assert page.url.endswith("/logs")


async def test_a_file_that_the_agent_changed_meanwhile_is_not_replaced_unasked(page: Any, visit: Visit) -> None:
    site = await visit(ANSWER)
    await turn(page, "agents")
    await page.click("button >> text=USER.md")
    await page.fill(FILE, "mine")
    file = Path(site.app.settings.agents["main"].workspace) / "USER.md"
    file.write_text("the agent's")
    await page.press(FILE, "Control+s")
    await page.click(".sure [value=no]")
    assert file.read_text() == "the agent's"
    await page.press(FILE, "Control+s")
    await page.click(".sure [value=yes]")
    await page.wait_for_selector(".toasts >> text=USER.md saved")
    assert file.read_text() == "mine"
    await page.fill(FILE, "mine again")
    await page.press(FILE, "Control+s")
    await page.wait_for_selector(".editor .primary[disabled]")
    assert file.read_text() == "mine again"


async def test_an_agent_and_a_job_keep_what_their_forms_do_not_show(page: Any, tmp_path: Path) -> None:
    home = tmp_path / "h"
    agents = {**CONFIG["agents"], "list": [{"id": "main"}, {"id": "research", "workspace": str(tmp_path / "r")}]}
    async with served(home, ANSWER, agents=agents, gateway=CALM) as site:
        await page.goto(site.at("agents"))
        await page.locator(".card", has_text="research").click()

        async def change(fields: dict[str, str], model: str | None = None) -> dict[str, Any]:
            await page.click(".tools button >> text=Edit")
            for name, value in fields.items():
                await page.fill(f"#form-{name}", value)
            if model is not None:
                await page.select_option("#form-model", model)
            await submit(page)
            return dict(written(home)["agents"]["list"][1])

        entry = await change({"emoji": "🔬"})
        assert "model" not in entry and entry["identity"] == {"emoji": "🔬"}  # it goes on following the default
        await patched(page, {"agents": {"list": [{"id": "main"}, {**entry, "model": "fake/plain"}]}}, ("agents.list",))
        await page.reload()
        await page.locator(".card", has_text="research").click()
        entry = await change({"emoji": ""}, "")
        assert "model" not in entry and "identity" not in entry

        payload = {"kind": "agentTurn", "message": "look", "thinking": "low"}
        job = {"name": "tide", "schedule": {"kind": "every", "everyMs": 60_000, "anchorMs": 1}, "payload": payload}
        target = "session:agent:main:dashboard:x"
        made = await page.evaluate("job => palinurus.request('cron.add', job)", {**job, "sessionTarget": target})
        await turn(page, "cron")
        await page.click("[aria-label='Edit tide']")
        assert await page.input_value("#form-target") == target
        await page.fill("#form-name", "tides")
        await page.select_option("#form-agent", "research")
        await submit(page)
        (now,) = (await page.evaluate("palinurus.request('cron.list', {})"))["jobs"]
        assert (now["name"], now["agentId"]) == ("tides", "research")
        assert [now[key] for key in ("schedule", "payload", "sessionTarget")] == [
            made[key] for key in ("schedule", "payload", "sessionTarget")
        ]
        await page.evaluate("id => palinurus.request('cron.remove', {id})", made["id"])
        await page.wait_for_selector("[aria-label='Edit tides']", state="detached")  # told, not asked for


async def test_lists_and_limits_are_made_of_what_is_there_now(page: Any, tmp_path: Path) -> None:
    home = tmp_path / "h"
    first, second = ({"agentId": "main", "match": {"channel": name}} for name in ("irc", "signal"))
    many = {"bindings": [first], "budgets": {"day": {"softUsd": 1}}, "channels": {"irc": {"enabled": False}}}
    async with served(home, ANSWER, gateway=CALM, **many) as site:
        await page.goto(site.at("agents"))
        await page.wait_for_selector("button >> text=New rule")
        await patched(page, {"bindings": [first, second]}, ("bindings",))
        await page.click("[aria-label='Remove the rule Irc']")
        await page.wait_for_selector("[aria-label='Remove the rule Signal']")
        assert written(home)["bindings"] == [second]
        await turn(page, "models")
        await page.wait_for_selector("[aria-label='Default model']")
        await patched(
            page, {"agents": {"defaults": {"model": {"primary": "fake/thinker", "fallbacks": ["fake/plain"]}}}}
        )
        await page.select_option("[aria-label='Add a fallback']", "zai/glm-4.7")
        await page.wait_for_selector("[aria-label='Remove zai/glm-4.7']")
        assert written(home)["agents"]["defaults"]["model"]["fallbacks"] == ["fake/plain", "zai/glm-4.7"]
        await turn(page, "usage")
        await page.click("button >> text=Change limits")
        await patched(page, {"budgets": {"day": {"softUsd": 3}}})
        await page.fill("[id='form-day.hardUsd']", "5")
        await submit(page)
        assert written(home)["budgets"]["day"] == {"softUsd": 3, "hardUsd": 5}


async def test_a_key_is_written_unless_somebody_else_changed_it(page: Any, tmp_path: Path) -> None:
    home, name, zone = tmp_path / "h", "[id='f-ui.assistant.name']", "[id='f-agents.defaults.userTimezone']"
    async with served(home, ANSWER, gateway=CALM) as site:
        await page.goto(site.at("config"))
        await page.wait_for_selector(name)
        await patched(page, {"logging": {"level": "debug"}})
        await page.fill(name, "Jeeves")
        await page.press(name, "Enter")
        await until(lambda: written(home).get("ui") == {"assistant": {"name": "Jeeves"}})
        await patched(page, {"agents": {"defaults": {"userTimezone": "Asia/Tokyo"}}})
        await page.fill(zone, "Europe/Berlin")
        await page.press(zone, "Enter")
        await page.wait_for_selector(".field .warn >> text=changed elsewhere")
        assert await page.input_value(zone) == "Asia/Tokyo"
        assert written(home)["agents"]["defaults"]["userTimezone"] == "Asia/Tokyo"

        await page.click("button >> text=Text")
        await page.fill(FILE, "{ half")
        await page.click("button >> text=Form")
        await page.click("button >> text=Text")
        assert await page.input_value(FILE) == "{ half"
        await patched(page, {"logging": {"level": "info"}})
        await page.click(".editor .primary")
        await page.wait_for_selector("p.warn >> text=changed elsewhere")
        await page.click(".pages a >> text=Logs")
        await page.click(".sure [value=no]")
        assert await page.input_value(FILE) == "{ half"
        await page.click("button >> text=Discard changes")
        await page.wait_for_selector(".editor .primary[disabled]")
        await page.wait_for_function("at => document.querySelector(at).value.includes('\"info\"')", arg=FILE)
        assert "REDACTED" in await page.input_value(FILE)


async def test_what_was_refused_is_not_shown_as_done(page: Any, tmp_path: Path) -> None:
    async with served(tmp_path / "h", ANSWER, gateway=CALM) as site:
        await page.goto(site.at("models"))
        chosen = page.locator("[aria-label='Default model']")
        await chosen.wait_for()
        refuse = """names => { const asked = palinurus.request.bind(palinurus);
            palinurus.request = (name, ...rest) =>
                names.includes(name) ? Promise.reject(new Error("no")) : asked(name, ...rest); }"""
        await page.evaluate(refuse, ["config.patch", "skills.update", "sessions.patch"])
        await chosen.select_option("fake/plain")
        await page.wait_for_selector(".toasts .error")
        assert await chosen.input_value() == "fake/thinker"
        await turn(page, "skills")
        switch = page.locator(".switch input").first
        await switch.wait_for(state="attached")
        before = await switch.is_checked()
        await switch.dispatch_event("click")
        await page.locator(".toasts .error").nth(1).wait_for()
        await settled(page)
        assert await switch.is_checked() == before
        await page.evaluate("palinurus.request('sessions.create', {label: 'apples'})")
        await turn(page, "sessions")
        await page.click(".sessions-list [aria-label^='Actions for']")
        await page.click("[role=option] >> text=Archive")
        await page.locator(".toasts .error").nth(2).wait_for()
        await settled(page)
        assert await page.locator(".toasts >> text=archived").count() == 0


async def settled(page: Any) -> None:
    """What the page asked for so far has been answered and drawn."""
    await page.evaluate("palinurus.request('health').then(() => new Promise(requestAnimationFrame))")
