"""What is done on the page besides talking: nodes, chat apps, sign-ins, providers, plugins, rules, links."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from palinurus.channels import ChannelEntry
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, say
from palinurus.testing.oauth import EMAIL, FakeOAuth
from palinurus.testing.server import ModelServer
from web.conftest import Visit
from web.served import CONFIG, served
from web.test_chat import BOX, long, write
from web.test_manage import ANSWER, submit, written
from web.test_pages import turn

NODE = {"nodeId": "a" * 64, "displayName": "shed", "platform": "linux", "version": "1.0"}
SKILL = {"id": "clock", "description": "Tells the time", "tools": ["now"]}
QUIET = {"reload": {"mode": "off"}}


async def test_nodes_are_approved_named_and_removed(page: Any, visit: Visit) -> None:
    await visit(ANSWER)
    await turn(page, "nodes")
    await page.wait_for_selector(".empty-small >> text=No nodes yet")
    asked = {**NODE, "commands": ["system.run", "system.notify"]}
    for ident in ("a" * 64, "b" * 64):
        await page.evaluate("one => window.palinurus.request('node.pair.request', one)", {**asked, "nodeId": ident})
    await turn(page, "overview")
    await turn(page, "nodes")
    await page.locator("[aria-label='Decline shed']").nth(1).click()
    await page.click("[aria-label='Approve shed']")
    await page.uncheck("[id='form-system.run']")
    await submit(page)
    row = page.locator(".rows li", has_text="shed")
    await row.locator("code >> text=system.notify").wait_for()
    assert await row.locator("code >> text=system.run").count() == 0  # less than it asked for
    await page.click("[aria-label='Rename shed']")
    await page.fill("#form-displayName", "attic")
    await submit(page)
    await page.click("[aria-label='Remove attic']")
    await page.click(".sure [value=yes]")
    await page.wait_for_selector(".empty-small >> text=No nodes yet")
    await page.click(".tools button >> text=Add a node")
    await submit(page)
    await page.wait_for_selector("code.command >> text=pal node run --code")
    await page.wait_for_selector("img.code")


async def test_a_chat_app_has_all_its_fields_and_says_what_is_missing(page: Any, tmp_path: Path) -> None:
    home, channel = tmp_path / "h", FakeChannel()
    rows = {"fake": {"enabled": True}, "telegram": {"enabled": False, "botToken": "1:x"}}
    async with served(home, ANSWER, chat=channel, channels=rows, gateway=QUIET) as site:
        channel.set_status("ready", me="@pal")
        gone = ChannelEntry("palinurus.channels.slack.channel:x", "no_such_library", "slack")
        site.app.receivers.table = {"slack": gone}
        await page.goto(site.at("channels"))
        await page.wait_for_selector(".rows >> text=@pal")
        await page.click("[aria-label='Test Fake']")
        await page.fill("#form-to", "7")
        await submit(page)
        await page.wait_for_selector(".toasts >> text=Sent")
        assert [(one.to, one.text) for one in channel.seen] == [("7", "Hello from Palinurus")]
        await page.click(".tools button >> text=Add a chat app")
        await page.select_option("#form-channel", "slack")
        await page.wait_for_selector(".form-dialog .banner code >> text=pal extras add slack")
        await page.select_option("#form-channel", "irc")
        await page.fill("[id='form-irc.host']", "irc.example.org")
        await page.fill("[id='form-irc.nick']", "pal")
        assert await page.locator("[id='form-irc.port']").count() == 0
        await page.check("#form-more")
        await page.fill("[id='form-irc.port']", "6667")
        await page.select_option("[id='form-irc.tls']", "false")
        await page.fill("[id='form-irc.channels']", "#den, #boat")
        await page.fill("[id='form-irc.nickserv']", "{")
        await page.click(".form-dialog button[type=submit]")
        await page.wait_for_selector(".form-dialog .banner.error")
        await page.fill("[id='form-irc.nickserv']", '{"service": "NickServ"}')
        await submit(page)
    made = {"host": "irc.example.org", "nick": "pal", "port": 6667, "tls": False, "channels": ["#den", "#boat"]}
    assert written(home)["channels"]["irc"] == {**made, "nickserv": {"service": "NickServ"}, "enabled": True}


async def test_signing_in_with_a_code_and_to_a_tool_server(page: Any, tmp_path: Path) -> None:
    async with FakeOAuth(polls=["authorization_pending"]) as oauth:
        vendor = {"baseUrl": "http://127.0.0.1:9/v1", "signIn": oauth.make_config(device="rfc")}
        models = {"providers": {**CONFIG["models"]["providers"], "openai-codex": vendor}}
        servers = {"far": {"url": f"{oauth.url}/mcp", "transport": "http"}}
        async with served(tmp_path / "h", ANSWER, models=models, mcp={"servers": servers}) as site:
            site.app.mcp.start()
            await site.app.mcp.all["far"].wait_settled()
            await page.goto(site.at("integrations"))
            await page.click("[aria-label='Sign in to far']")
            await oauth.browse(await page.locator("pal-signin a").get_attribute("href"))
            await page.wait_for_selector(".tag.good >> text=signed in")
            await turn(page, "models")
            await page.wait_for_selector("section p code")  # what the gateway says has no raw backticks
            assert "`" not in await page.inner_text("main.page")
            await page.click("[aria-label^='Sign in with a code: OpenAI']")
            await page.wait_for_selector("pal-signin .bigcode code")
            await page.wait_for_selector(f".toasts >> text=Signed in as {EMAIL}")


async def test_a_provider_a_plugin_a_rule_and_a_binding(page: Any, tmp_path: Path) -> None:
    home = tmp_path / "h"
    folder = home / "plugins" / "clock"
    folder.mkdir(parents=True)
    (folder / "palinurus.plugin.json").write_text(json.dumps({**SKILL, "configSchema": {"type": "object"}}))
    (folder / "plugin.py").write_text("def register(api):\n    pass\n")
    agents = {**CONFIG["agents"], "list": [{"id": "main", "default": True}, {"id": "research"}]}
    chats = {"fake": {"enabled": True}}
    async with ModelServer([say("Yes.")]) as server:
        async with served(home, ANSWER, chat=FakeChannel(), agents=agents, channels=chats, gateway=QUIET) as site:
            await page.goto(site.at("models"))
            await page.click(".tools button >> text=Add a provider")
            await page.select_option("#form-provider", label="Another server")
            await page.fill("#form-baseUrl", server.url)
            await submit(page)
            await turn(page, "integrations")
            await page.locator("[aria-label='Use clock']").dispatch_event("click")
            await page.click(".sure [value=yes]")
            await page.wait_for_selector(".toasts >> text=Saved")
            await turn(page, "agents")
            await page.click("button >> text=New rule")
            await page.select_option("#form-agentId", "research")
            await page.select_option("#form-kind", "direct")
            await page.fill("#form-peer", "7")
            await submit(page)
            await page.wait_for_selector("[aria-label='Remove the rule Fake · direct 7']")
            kept = written(home)
            await page.click("[aria-label='Remove the rule Fake · direct 7']")
            await page.wait_for_selector("text=The default agent answers everywhere")
            rules = await page.evaluate("window.palinurus.request('exec.approvals.get', {})")
            file = {**rules["file"], "agents": {"main": {"allowlist": [{"pattern": "/usr/bin/make"}]}}}
            await page.evaluate(
                "one => window.palinurus.request('exec.approvals.set', one)", {"file": file, "baseHash": rules["hash"]}
            )
            await turn(page, "access")
            await page.click("[aria-label='Ask again for /usr/bin/make']")
            await page.wait_for_selector("text=Nothing yet.")
    assert any(one["baseUrl"] == server.url for one in kept["models"]["providers"].values())
    assert kept["plugins"]["entries"]["clock"]["enabled"] is True
    assert kept["bindings"] == [
        {"agentId": "research", "match": {"channel": "fake", "peer": {"kind": "direct", "id": "7"}}}
    ]


async def test_all_that_was_said_is_found_and_a_link_needs_a_yes(page: Any, tmp_path: Path) -> None:
    home, model = tmp_path / "h", ScriptedModel([say("fine")], repeat=True)
    async with served(home, model, gateway=QUIET) as site:
        await page.goto(site.url)
        await write(page, "first words")
        await page.wait_for_selector(".md >> text=fine")
    long(home, 250)
    async with served(home, model, gateway=QUIET) as site:
        await page.goto(site.url)
        await page.wait_for_selector(BOX)
        await page.fill(".find input", "filler")
        for count in (20, 120, 220):
            await page.locator(".session.hit").nth(count - 1).wait_for()
            assert await page.locator(".session.hit").count() == count
            await page.click(".sessions .older")
        await page.locator(".session.hit").nth(249).wait_for()
        assert await page.locator(".sessions .older").count() == 0
        await page.fill(".find input", "")
        await page.click(".chat-head .more button")
        await page.click("[role=option] >> text=Share")
        await page.wait_for_selector("dialog[open] >> text=without signing in")
        await page.click("dialog[open] button >> text=Allow links")
        await page.wait_for_selector(".toasts >> text=Saved")
    assert written(home)["gateway"]["controlUi"] == {"sharing": True}
