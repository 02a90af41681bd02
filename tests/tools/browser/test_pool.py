"""Which browser a call gets: profiles, sessions, and a person's own, which is asked about."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from palinurus.config.sections.browser import BrowserProfile
from palinurus.core.types.approval import ApprovalAnswer
from tools.browser.kit import BrowserKit, read
from tools.browser.player import CHROMIUM, needs_chromium
from tools.browser.site import TaskSite

pytestmark = needs_chromium


@pytest.fixture
async def persons(tmp_path: Path) -> AsyncIterator[str]:
    """A browser that a person has started, with a port: where it listens."""
    folder = tmp_path / "person"
    flags = ("--headless", "--remote-debugging-port=0", "--no-sandbox", "--no-first-run", "--disable-gpu",
             "--disable-background-networking",
             "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1")  # fmt: skip
    line = (CHROMIUM, *flags, f"--user-data-dir={folder}", "about:blank")
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(line, stdin=nothing, stdout=nothing, stderr=nothing)
    port = folder / "DevToolsActivePort"
    async with asyncio.timeout(60):
        while not port.exists() or not port.read_text().strip():
            await asyncio.sleep(0.05)
    yield f"http://127.0.0.1:{port.read_text().split()[0]}"
    process.kill()
    process.wait()


async def test_a_persons_own_browser_is_used_only_after_a_yes_that_names_it(
    tmp_path: Path, ctx: Any, site: TaskSite, persons: str
) -> None:
    kit = BrowserKit(tmp_path / "home", ctx, site.entries, profiles={"user": BrowserProfile(persons)})
    try:
        refused = await kit.do("open", profile="user", targetUrl=site.url("/table"))
        assert refused.isError and "needs an approval" in refused.text
        assert "profile user" in ctx.asked[0].title and persons in ctx.asked[0].command
        assert ctx.asked[0].allowed == ("allow-once", "deny") and site.seen == []
        ctx.told = ApprovalAnswer("allow-once", "me")
        assert not (await kit.do("open", profile="user", targetUrl=site.url("/table"))).isError
        seen = await kit.do("snapshot", profile="user")
        assert "Ada" in seen.text and len(ctx.asked) == 2  # asked once for as long as it is used
        for action in ("cookies", "waitfordownload"):
            assert (await kit.do(action, profile="user")).isError
        assert (await kit.do("open", profile="user", targetUrl="http://10.0.0.1/")).isError
        ctx.session = "agent:main:other"
        await kit.do("tabs", profile="user")
        assert len(ctx.asked) == 3  # another session is another question
        await kit.do("stop", profile="user")
    finally:
        await kit.offer.close()


async def test_each_session_sees_its_own_tabs_and_the_oldest_goes_first(
    tmp_path: Path, ctx: Any, site: TaskSite
) -> None:
    kit = BrowserKit(tmp_path / "home", ctx, site.entries, tabs=2)
    try:
        for name in ("table", "paper", "search"):
            await kit.do("open", targetUrl=site.url(f"/{name}"))
        tabs = read(await kit.do("tabs"))["tabs"]
        assert [tab["targetId"] for tab in tabs] == ["t2", "t3"] and tabs[1]["current"]
        await kit.do("focus", targetId="t2")
        assert "Invoice" in (await kit.do("snapshot")).text
        ctx.session = "agent:main:other"
        assert read(await kit.do("tabs"))["tabs"] == []
        assert "no tab is open" in (await kit.do("snapshot", targetId="t2")).text
        assert "there is no profile 'x'" in (await kit.do("start", profile="x")).text
        assert read(await kit.do("profiles"))["profiles"][0] == {"name": "openclaw", "kind": "ours", "running": True}
        assert not read(await kit.do("status"))["tabs"]
    finally:
        await kit.offer.close()


async def test_mistakes_are_told_in_words_that_help(kit: BrowserKit, site: TaskSite) -> None:
    await kit.do("open", targetUrl=site.url("/fields"))
    await kit.do("snapshot")
    box = kit.ref("checkbox News")
    cases: list[tuple[str, dict[str, Any]]] = [
        ("targetUrl is missing", {"action": "open"}),
        ("ref is missing", {"action": "act", "kind": "click"}),
        ("e999 is not on the page", {"action": "act", "kind": "click", "ref": "e999"}),
        ("act needs a kind", {"action": "act"}),
        ("it takes no text", {"action": "act", "kind": "type", "ref": kit.ref("button Done"), "text": "x"}),
        ("no list to choose from", {"action": "act", "kind": "select", "ref": box, "values": ["x"]}),
        ("there is no key", {"action": "act", "kind": "press", "key": "Hyper"}),
        ("was not seen after 0.3", {"action": "act", "kind": "wait", "text": "never", "timeoutMs": 300}),
        ("wait needs one of", {"action": "act", "kind": "wait"}),
        ("nothing on the page is", {"action": "snapshot", "selector": "#none"}),
        ("there is no tab 't9'", {"action": "focus", "targetId": "t9"}),
        ("upload needs paths", {"action": "upload"}),
        ("no download began", {"action": "waitfordownload", "timeoutMs": 200}),
        ("ReferenceError", {"action": "act", "kind": "evaluate", "fn": "() => nowhere.x"}),
        ("resize needs", {"action": "act", "kind": "resize", "width": 1, "height": 1}),
        ("fill needs fields", {"action": "act", "kind": "fill"}),
        ("Not fetched: port 1", {"action": "navigate", "targetUrl": "http://127.0.0.1:1/"}),
    ]
    for words, args in cases:
        told = await kit.do(**args)
        assert told.isError and words in told.text, (words, told.text)


async def test_a_snapshot_of_a_part_and_of_what_changed(kit: BrowserKit, site: TaskSite) -> None:
    await kit.do("open", targetUrl=site.url("/frame"))
    part = await kit.do("snapshot", frame="iframe")
    assert "Inside" in part.text
    await kit.do("snapshot", mode="efficient")
    same = await kit.do("snapshot", mode="diff")
    assert "nothing has changed" in same.text
    await kit.act("click", ref=kit.ref("button Inside"))
    await kit.do("navigate", targetUrl=site.url("/table"))
    few = await kit.do("snapshot", selector="tr:nth-child(2)")
    assert "Bob" in few.text and "Ada" not in few.text
    small = await kit.do("snapshot", maxChars=10)
    assert read(small)["stats"]["truncated"]
