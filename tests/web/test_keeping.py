"""Conversations as things that are kept: pinned, tagged, put away, deleted and brought back, handed on."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from palinurus.cli.gateway.reload import apply_live_settings
from palinurus.config.load import load_config
from palinurus.testing.model import ScriptedModel, say
from web.conftest import Visit
from web.served import served
from web.test_chat import texts, write

NAMES = ".session .name"


async def names(page: Any) -> list[str]:
    return [re.split(r"[,\n]", one)[0] for one in await texts(page, NAMES)]


async def begin(page: Any, words: str, answer: str) -> None:
    """A conversation of its own."""
    before = page.url
    await page.click("button.new")
    await page.wait_for_url(lambda url: url != before)
    await page.wait_for_selector(".welcome")
    await write(page, words)
    await page.wait_for_selector(f".md >> text={answer}")
    await page.wait_for_selector(f"{NAMES} >> text={words}")


async def choose(page: Any, name: str, act: str) -> None:
    """From the menu of a conversation in the list."""
    row = page.locator(".session-row", has_text=name)
    await row.hover()
    await row.locator(".row-more button").click()
    await page.locator("[role=option] b", has_text=re.compile(f"^{act}")).click()


async def test_pin_tag_archive_and_delete_with_a_way_back(page: Any, tmp_path: Path) -> None:
    async with served(tmp_path / "h", ScriptedModel([say("fine")], repeat=True)) as site:
        await page.goto(site.url)
        await page.wait_for_selector("pal-composer textarea")
        for words in ("apples", "bears", "cedars"):
            await begin(page, words, "fine")
        assert (await names(page))[:3] == ["cedars", "bears", "apples"]
        await choose(page, "apples", "Pin")
        await page.wait_for_selector(".sessions h2 >> text=Pinned")
        assert (await texts(page, NAMES))[0].startswith("apples")
        await choose(page, "bears", "Tags")
        await page.fill(".keeping input", "zoo, big")
        await page.click(".keeping .primary")
        await page.wait_for_selector(".session .tag >> text=zoo")
        await choose(page, "bears", "Rename")
        await page.fill(".keeping input", "Brown bears")
        await page.click(".keeping .primary")
        await page.wait_for_selector(f"{NAMES} >> text=Brown bears")
        assert (await names(page))[:3] == [
            "apples",
            "cedars",
            "Brown bears",
        ]  # not moved
        await choose(page, "cedars", "Archive")
        await page.wait_for_selector(f"{NAMES} >> text=cedars", state="detached")
        await page.click(".filter button")
        await page.click("[role=option] >> text=Archived")
        await page.wait_for_selector(f"{NAMES} >> text=cedars")
        await page.click(".filter button")
        await page.click("[role=option] >> text=zoo")
        await page.wait_for_selector(f"{NAMES} >> text=cedars", state="detached")
        assert await names(page) == ["Brown bears"]
        await page.click("button.new")  # what is begun in a tag has it
        await page.locator(NAMES, has_text="New conversation").wait_for()
        assert sorted(await names(page)) == ["Brown bears", "New conversation"]
        await page.click(".filter button")
        await page.click("[role=option] >> text=All conversations")
        await page.wait_for_selector(f"{NAMES} >> text=apples")
        # Several at once, and what is taken back was never deleted.
        await page.click(".pages a >> text=Sessions")
        await page.check("[aria-label='Choose Brown bears']")
        await page.check("[aria-label='Choose apples']")
        await page.click(".bulk >> text=Tags")
        await page.fill(".keeping input[type=text]", "wood")
        await page.check(".keeping .gone >> text=big")
        await page.click(".keeping .primary")
        rows = page.locator(".sessions-list li")
        await rows.filter(has_text="apples").locator(".tag >> text=wood").wait_for()
        tags = [
            await rows.filter(has_text=name).locator(".tag").all_inner_texts() for name in ("apples", "Brown bears")
        ]
        assert tags == [["wood"], ["zoo", "wood"]]  # each keeps what it had
        await page.click(".bulk >> text=Delete")
        await page.wait_for_selector(".sessions-list >> text=apples", state="detached")
        await page.locator(".toasts p", has_text="deleted").locator("button").click()
        await page.wait_for_selector(".sessions-list >> text=apples")
        kept = {row.key for row in await site.app.store.sessions()}
        await page.check("[aria-label='Choose apples']")
        await page.click(".bulk >> text=Delete")
        await page.reload()  # whoever leaves has not taken it back
        await page.wait_for_selector(".sessions-list >> text=Brown bears")
        await page.wait_for_selector(".sessions-list >> text=apples", state="detached")
        assert len(kept) == len(await site.app.store.sessions()) + 1


async def test_a_hit_opens_the_message_and_a_link_is_made_and_taken_back(page: Any, visit: Visit) -> None:
    site = await visit(ScriptedModel([say("The kittiwake nests on cliffs."), *[say("so")] * 3]))
    await page.wait_for_selector(".welcome")
    await write(page, "which bird?")
    await page.wait_for_selector("text=nests on cliffs")
    for words in ("one", "two", "three"):
        await write(page, words)
        await page.wait_for_selector(f".bubble >> text={words}")
        await page.locator(".row.assistant .bar").last.wait_for()
    await page.fill('input[aria-label="Search sessions"]', "kittiwake")
    assert await page.inner_text(".session.hit mark") == "kittiwake"
    await page.click(".session.hit")
    await page.wait_for_selector(".row.found >> text=kittiwake")
    await page.fill('input[aria-label="Search sessions"]', "")
    await page.click(".chat-head .more button")
    await page.click("[role=option] >> text=Share")
    await page.wait_for_selector(".keeping >> text=without signing in")  # what a link means, before there can be one
    await page.click(".keeping >> text=Allow links")
    await page.wait_for_selector(".toasts >> text=Saved")
    written = load_config(site.app.settings.home, {}).settings
    site.app.settings = apply_live_settings(site.app.settings, written)  # as `pal gateway` does when it sees the file
    await page.click(".keeping >> text=Make a link")
    link = await page.input_value(".keeping .link input")
    other = await page.context.browser.new_context()  # somebody who knows nothing but the link
    try:
        reader = await other.new_page()
        answer = await reader.goto(link)
        assert answer.status == 200 and "nests on cliffs" in await reader.inner_text("main")
        assert await reader.evaluate("window.origin") == "null"
        await page.click(".keeping >> text=Revoke")
        await page.wait_for_selector(".keeping >> text=Revoke", state="detached")
        assert (await reader.goto(link)).status == 404
    finally:
        await other.close()
    await page.click(".keeping header button")
    await page.click(".chat-head .more button")
    await page.click("[role=option] >> text=Export")
    async with page.expect_download() as saved:
        await page.click(".keeping >> text=Markdown")
    text = Path(await (await saved.value).path()).read_text()
    assert "nests on cliffs" in text and site is not None
    look = "const text = document.querySelector('.paper').textContent; document.body.dataset.all = text.includes"
    await page.evaluate(f"void (window.print = () => {{ {look}('nests on cliffs') && text.includes('three'); }})")
    await page.click(".chat-head .more button")
    await page.click("[role=option] >> text=Export")
    await page.click(".keeping >> text=PDF")
    await page.wait_for_selector("body[data-all=true]")


async def test_what_is_deleted_or_put_away_elsewhere_is_gone_here(page: Any, tmp_path: Path) -> None:
    async with served(tmp_path / "h", ScriptedModel([say("fine")], repeat=True)) as site:
        await page.goto(site.url)
        await page.wait_for_selector("pal-composer textarea")
        for words in ("apples", "bears"):
            await begin(page, words, "fine")
        keys = "palinurus.request('sessions.list', {includeDerivedTitles: true})"
        found = {one["derivedTitle"]: one["key"] for one in (await page.evaluate(keys))["sessions"]}
        put = "key => palinurus.request('sessions.patch', {key, archived: true})"
        await page.evaluate(put, found["apples"])
        await page.wait_for_selector(f"{NAMES} >> text=apples", state="detached")
        await page.fill("pal-composer textarea", "half a sentence")
        await page.evaluate("key => palinurus.request('sessions.delete', {key})", found["bears"])
        await page.wait_for_selector(".toasts >> text=deleted elsewhere")
        await page.wait_for_url("**/chat/agent%3Amain%3Amain")
        await page.wait_for_selector(".welcome")
        assert await page.input_value("pal-composer textarea") == "half a sentence"


async def test_many_changes_are_one_look_and_rows_leave_nothing_behind(page: Any, visit: Visit) -> None:
    await visit(ScriptedModel([say("fine")], repeat=True))
    comments = """() => [...document.querySelector(".log").childNodes].filter(one => one.nodeType === 8).length"""
    sizes = []
    for number in range(1, 4):
        await write(page, f"question {number}")
        await page.locator(".row.assistant .bar").nth(number - 1).wait_for(state="attached")
        sizes.append(await page.evaluate(comments))
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0] == 4  # two for each row that is there
    await page.evaluate("""() => {
        const asked = palinurus.request.bind(palinurus);
        window.looks = 0;
        palinurus.request = (name, ...rest) => {
            looks += name === "sessions.list";
            return asked(name, ...rest);
        };
    }""")
    await page.evaluate("""() => Promise.all([...Array(20).keys()].map(at =>
        palinurus.request("sessions.create", {label: `pear ${at}`})))""")
    await page.locator(NAMES, has_text="pear").nth(19).wait_for()
    await page.evaluate("palinurus.request('health')")
    assert await page.evaluate("looks") < 10  # not one for each
