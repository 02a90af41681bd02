"""The other pages, in light and dark, wide and on a phone; and what axe says about all of them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, call_tools, say
from palinurus.tools.program.signin import SignInState
from web.conftest import Visit
from web.served import opened, served
from web.test_chat import write

AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="
LONG = 90_000  # ms that another process may take on a busy machine
VIEWS = (
    *("overview", "usage", "channels", "sessions", "agents", "models", "skills", "integrations", "memory", "cron"),
    *("access", "nodes", "fleet", "config", "logs", "debug"),
)
PHONE = {"width": 375, "height": 740}


async def turn(page: Any, view: str) -> None:
    await page.evaluate(f"history.pushState(null, '', '/{view}'); dispatchEvent(new PopStateEvent('popstate'))")
    await page.wait_for_selector("main.page h1")
    await page.wait_for_selector(".skeleton", state="detached")


async def serious(page: Any, where: str, rules: str = "") -> list[str]:
    """What axe finds in a part of the page; `rules`: only these."""
    options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False, "iframes": False}
    options |= {"rules": {"target-size": {"enabled": True}}}  # WCAG 2.2, off by default
    options |= {"runOnly": [rules]} if rules else {}
    found = await page.evaluate("([where, options]) => axe.run(where, options)", [where, options])
    return [
        f"{page.url} {v['id']}: {v['nodes'][0]['html'][:200]}"
        for v in found["violations"]
        if v["impact"] in ("serious", "critical")
    ]


async def test_axe_finds_nothing_serious(page: Any, browser: Any, visit: Visit) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: make web")
    code = "**ok**\n\n```py\nx = 1\n```\n\n| a |\n|---|\n| b |"
    site = await visit(ScriptedModel([call_tools(("exec", {"command": "echo hi > made.txt"})), say(code)]))
    await page.wait_for_selector(".welcome")
    await page.evaluate(AXE.read_text())
    found: list[str] = []

    async def look(where: str = ".content") -> None:
        """All rules in the light; in the dark only the colours are others. What is around the content stays."""
        nonlocal found
        found += await serious(page, where)
        await page.emulate_media(color_scheme="dark")
        found += await serious(page, where, "color-contrast")
        await page.emulate_media(color_scheme="light")

    async def look_small(where: str = ".content") -> None:
        """On a phone, in the dark: all rules, and nothing is wider than the screen."""
        nonlocal found
        wide = await page.evaluate("[innerWidth, innerHeight]")
        await page.set_viewport_size(PHONE)
        await page.emulate_media(color_scheme="dark")
        found += await serious(page, where)
        over = await page.evaluate("document.documentElement.scrollWidth")
        found += [f"{page.url} is {over} px wide"] if over > PHONE["width"] else []
        await page.emulate_media(color_scheme="light")
        await page.set_viewport_size({"width": wide[0], "height": wide[1]})

    await look("html")
    await write(page, "go")
    await page.wait_for_selector(".row.assistant .bar")
    await page.click(".tool-head")
    await page.click("[aria-label='Why this answer']")
    await page.wait_for_selector(".why h3")
    await look()
    await page.click(".why [role=tab] >> text=Timeline")
    await page.wait_for_selector(".timeline .steps")
    await look()
    await page.click(".why [role=tab] >> text=Changes")
    await page.wait_for_selector(".why .diff .add")
    await look()
    await look_small()
    await page.keyboard.press("Control+k")
    await page.wait_for_selector("dialog.switcher li")
    await look("dialog.switcher")
    await look_small("dialog.switcher")
    await page.keyboard.press("Escape")
    await page.evaluate("document.body.classList.add('side-open')")
    await look_small("html")
    await page.evaluate("document.body.classList.remove('side-open')")
    for view in (*VIEWS, "nothing"):
        await turn(page, view)
        await look()
        await look_small()
    await page.evaluate("history.pushState(null, '', '/setup'); dispatchEvent(new PopStateEvent('popstate'))")
    await page.wait_for_selector("pal-setup form")
    await look()
    await look_small()
    async with opened(browser, PHONE["width"], PHONE["height"], color_scheme="dark") as stranger:
        await stranger.goto(site.url.partition("#")[0])
        await stranger.wait_for_selector(".login form")
        await stranger.evaluate(AXE.read_text())
        found += await serious(stranger, "html")
        await stranger.emulate_media(color_scheme="light")
        found += await serious(stranger, "html", "color-contrast")
        await stranger.set_viewport_size({"width": 1280, "height": 800})
        found += await serious(stranger, "html")
    assert not found, "\n".join(found)


async def test_what_a_run_changed_is_shown_undone_and_done_again(page: Any, tmp_path: Path) -> None:
    wrote = call_tools(("write", {"path": "made.txt", "content": "hello\n"}))
    model = ScriptedModel([wrote, say("I've sent the message to Bob.")])
    async with served(tmp_path / "h", model) as site:
        await page.goto(site.url)
        made = Path(site.app.settings.agents["main"].workspace) / "made.txt"
        await write(page, "go")
        await page.wait_for_selector(".row.assistant .bar")
        await page.click("[aria-label='Why this answer']")
        await page.wait_for_selector(".why >> text=no message was sent in this conversation")
        await page.click(".why [role=tab] >> text=Changes")
        await page.wait_for_selector(".why .diff .add >> text=hello")
        await page.click("text=Undo these changes")
        await page.wait_for_selector("text=Do it again")
        assert not made.exists()
        await page.click("text=Do it again")
        await page.wait_for_selector("text=Undo these changes")
        made.write_text("mine")
        await page.click("text=Undo these changes")
        await page.click(".sure [value=yes]")
        await page.wait_for_selector("text=Do it again")
        assert not made.exists()


async def test_a_phone_shows_one_thing_at_a_time(page: Any, visit: Visit) -> None:
    await page.set_viewport_size({"width": 375, "height": 740})
    await visit(ScriptedModel([say("fine " * 50)], repeat=True))
    await write(page, "hello")
    await page.wait_for_selector(".md >> text=fine")
    wide = "document.documentElement.scrollWidth"
    assert await page.evaluate(wide) <= 375
    round_ = await page.locator(".send").bounding_box()
    assert round_["width"] == round_["height"]
    assert not await page.is_visible(".sidebar")
    await page.click(".burger")
    await page.wait_for_selector(".sidebar", state="visible")
    await page.click("a[href='/config']")
    await page.wait_for_selector(".form")
    assert await page.evaluate(wide) <= 375


async def test_settings_are_changed_in_the_form_and_errors_stand_at_the_key(page: Any, tmp_path: Path) -> None:
    async with served(tmp_path / "h", ScriptedModel([])) as site:
        await page.goto(site.url)
        await page.wait_for_selector("pal-composer")
        await turn(page, "config")
        await page.fill("[aria-label='Find a key']", "gateway.port")
        await page.fill("[id='f-gateway.port']", "99999999")
        await page.press("[id='f-gateway.port']", "Tab")
        await page.wait_for_selector(".field .warn")
        await page.click("[aria-label='Explain gateway.port']")
        await page.wait_for_selector(".told >> text=a change acts after a restart")
        await page.fill("[id='f-gateway.port']", "18999")
        await page.press("[id='f-gateway.port']", "Tab")
        await page.wait_for_selector(".toasts >> text=Saved")
    assert json.loads((tmp_path / "h" / "palinurus.json").read_text())["gateway"]["port"] == 18999


async def test_settings_that_nobody_acts_on_say_so(page: Any, tmp_path: Path) -> None:
    odd = {"swarm": {"enabled": True}, "profil": "coding", "exec": {"timeoutSec": "soon"}}
    async with served(tmp_path / "h", ScriptedModel([]), tools=odd, messages={"messagePrefix": "x"}) as site:
        await page.goto(site.url)
        await page.wait_for_selector("pal-composer")
        await turn(page, "config")
        await page.click("summary >> text=2 keys are known and not acted on")
        await page.wait_for_selector(
            "li >> text=messages.messagePrefix: is known, but not acted on: not built (line 1)"
        )
        await page.wait_for_selector(".banner.error >> text=tools.exec.timeoutSec: expected a whole number, got a text")
        await page.click(".side-list >> text=Tools")
        await page.wait_for_selector(".field:has(label:text('swarm')) >> text=not acted on")
        await page.wait_for_selector(".field:has(label:text('profil')) >> text=unknown key")
        await page.click(".field:has(label:text('swarm')) button >> text=Unset")
        await page.wait_for_selector("summary >> text=1 key is known and not acted on")
    assert "swarm" not in (tmp_path / "h" / "palinurus.json").read_text()


async def test_workspace_files_are_edited(page: Any, visit: Visit) -> None:
    site = await visit(ScriptedModel([]))
    await turn(page, "agents")
    await page.click("button >> text=SOUL.md")
    await page.fill(".editor textarea", "Be brief.")
    await page.press(".editor textarea", "Control+s")
    await page.wait_for_selector(".toasts >> text=SOUL.md saved")
    assert (Path(site.app.settings.agents["main"].workspace) / "SOUL.md").read_text() == "Be brief."
    # What is not saved is not lost by a click elsewhere.
    await page.fill(".editor textarea", "Be long.")
    await page.click(".pages a >> text=Logs")
    await page.wait_for_selector(".sure >> text=Leave without saving?")
    await page.click(".sure [value=no]")
    assert await page.input_value(".editor textarea") == "Be long."
    await page.press(".editor textarea", "Control+s")
    await page.wait_for_selector(".editor button[disabled]")
    await page.click(".pages a >> text=Logs")
    await page.wait_for_selector("h1 >> text=Logs")


async def test_the_log_has_columns_levels_and_one_time_a_line(page: Any, tmp_path: Path) -> None:
    lines = [
        {"time": "2026-11-17T08:00:01.000+00:00", "level": "info", "subsystem": "gateway", "message": "listening"},
        {"time": "2026-11-17T08:00:02.000+00:00", "level": "warning", "subsystem": "config", "message": "an odd value"},
        {
            "time": "2026-11-17T08:00:03.000+00:00",
            "level": "error",
            "subsystem": "agent",
            "message": "no",
            "trace": "T",
        },
    ]
    home = tmp_path / "h"
    home.mkdir()
    file = home / "log.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines) + "not json\n")
    async with served(home, ScriptedModel([]), logging={"file": str(file)}) as site:
        await page.goto(site.at("logs"))
        await page.wait_for_selector(".loglines .bad")
        shown = await page.locator(".loglines > *").all_inner_texts()
        assert len(shown) == 4 and "an odd value" in shown[1] and "2026" not in shown[1] and shown[3] == "not json"
        await page.select_option("[aria-label='Least level']", "warning")
        assert await page.locator(".loglines > *").count() == 2


async def test_jobs_show_their_next_and_past_runs(page: Any, visit: Visit) -> None:
    site = await visit(ScriptedModel([say("It is Monday.")], repeat=True))
    job = {
        "name": "weekday",
        "schedule": {"kind": "cron", "expr": "0 8 * * *"},
        "sessionTarget": "isolated",
        "payload": {"kind": "agentTurn", "message": "which day is it?"},
    }
    await page.evaluate("job => window.palinurus.request('cron.add', job)", job)
    assert site is not None
    await turn(page, "cron")
    await page.wait_for_selector(".rows >> text=0 8 * * *")
    assert "has not run yet" in await page.inner_text(".rows")
    await page.click("button >> text=Run now")
    for _ in range(20):
        await turn(page, "overview")
        await turn(page, "cron")
        if await page.locator("h2 >> text=Past runs").count():
            break
    await page.click("section .rows a >> text=weekday")
    await page.wait_for_selector(".md >> text=It is Monday.")


async def test_channels_tell_how_they_are_and_who_asks(page: Any, tmp_path: Path) -> None:
    channel = FakeChannel()
    rules = {"fake": {"dmPolicy": "pairing"}}
    async with served(tmp_path / "h", ScriptedModel([]), chat=channel, channels=rules) as site:
        channel.set_status("ready", me="@pal")
        await channel.receive("hi", event="e1", sender="7")
        await page.goto(site.url)
        await page.wait_for_selector("pal-composer textarea")
        await turn(page, "overview")
        await page.wait_for_selector("section .tag.good >> text=connected")
        await page.click("h2 a >> text=Channels")
        await page.wait_for_selector(".rows >> text=@pal")
        await page.click("button >> text=Approve")
        await page.wait_for_selector("h2 >> text=People with access")
        await page.click("[aria-label='Stop Fake']")
        await page.wait_for_selector(".tag >> text=stopped")
        await page.click("[aria-label='Start Fake']")
        await page.wait_for_selector("[aria-label='Stop Fake']")


class Codes:
    """A sign-in whose code is read at the second look."""

    async def start(self, channel: str, account: str, wait: float) -> SignInState:
        return SignInState("code", "read it", PIXEL)

    def __init__(self) -> None:
        self.read = asyncio.Event()

    async def wait(self, channel: str, account: str, wait: float, seen: str = "") -> SignInState:
        if seen == PIXEL:
            return SignInState("code", "read it", PIXEL + "#2")
        await self.read.wait()
        return SignInState("done")


async def test_an_account_is_linked_with_a_code(page: Any, tmp_path: Path) -> None:
    channel, codes = FakeChannel("whatsapp"), Codes()
    async with served(tmp_path / "h", ScriptedModel([]), chat=channel) as site:
        channel.set_status("signed_out", "scan the code")
        site.app.signins.start, site.app.signins.wait = codes.start, codes.wait  # the library is not here
        await page.goto(site.url)
        await page.wait_for_selector("pal-composer textarea")
        await turn(page, "channels")
        await page.click("button >> text=Sign in")
        await page.wait_for_selector("img.code")
        codes.read.set()
        await page.wait_for_selector(".toasts >> text=Linked")


async def test_what_is_weak_is_shown_with_the_way_out(page: Any, tmp_path: Path) -> None:
    async with served(tmp_path / "h", ScriptedModel([]), tools={"taint": {"enabled": False}}) as site:
        await page.goto(site.url)
        await page.wait_for_selector("pal-composer")
        await turn(page, "access")
        shown = await page.inner_text(".safety")
    assert "Commands of main: contained by" in shown or "Commands of main: not contained" in shown
    assert "tools.taint off" in shown and "serious" in shown and "No weak settings" not in shown


async def test_a_recorded_run_is_walked_through_played_again_and_compared(
    page: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replay is a real one: another process, which reads the same home."""
    monkeypatch.setenv("HOME", str(tmp_path))  # the other process calls the same folder ~
    reads = call_tools(("read", {"path": "notes.txt"}))
    model = ScriptedModel([reads, say("It says: buy milk."), say("Hello to you.")])
    async with served(tmp_path / "h", model, record={"enabled": True}, browser={"enabled": False}) as site:
        work = Path(site.app.settings.agents["main"].workspace)
        (work / "notes.txt").write_text("buy milk\n")
        await page.goto(site.url)
        for words in ("what is in my notes?", "hello"):
            await write(page, words)
            await page.wait_for_selector(".row.assistant .bar")
        await page.wait_for_selector(".row.assistant >> text=Hello to you.")
        await page.locator("[aria-label='Why this answer']").first.click()
        await page.click(".why [role=tab] >> text=Timeline")
        tape = page.locator(".why .tape")
        await tape.locator("text=2 steps").wait_for()
        await tape.locator("summary >> text=read").click()
        await tape.locator("pre >> text=buy milk").wait_for()
        await page.focus(".tape input[type=range]")
        await page.keyboard.press("ArrowRight")
        await tape.locator("text=It says: buy milk.").wait_for()
        (work / "notes.txt").unlink()  # results come from the tape
        await tape.locator("button >> text=Replay").click()
        await tape.locator("text=Playing it again").wait_for()
        await tape.locator("text=Playing it again").wait_for(state="detached", timeout=LONG)
        assert await tape.locator("[role=status]").inner_text() == "Same: it came out byte for byte as it was."
        (work / "AGENTS.md").write_text("Always answer in Latin.\n")
        await tape.locator("button >> text=Replay").click()
        await tape.locator("text=AGENTS.md changed").wait_for(timeout=LONG)
        await tape.locator("[role=status] pre >> text=Latin").wait_for()
        await tape.locator("button >> text=Compare").click()
        await page.locator("[role=option], [role=menuitemradio], [role=menuitem]").last.click()
        await tape.locator("text=Differs first at step 1").wait_for()
        assert "Differs first at step 1, conversation: message 2 is another" in await tape.inner_text()
        assert len(model.requests) == 3  # nobody was asked again
