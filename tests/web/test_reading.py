"""What a stranger could not read, find or keep on the page (page-findings W5, W6, W8, W22, W23)."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from palinurus.testing.model import ScriptedModel, say
from support import inbound
from web.conftest import Visit
from web.test_chat import BOX, texts, write

TABLE = "| region | requests |\n|---|---:|\n| Europe | 1,204,331 |\n| elsewhere | 7 |"
MATH = r"Then \(a^2\) and \[ \int x\,dx \] and $$\frac{1}{2}$$."


async def test_numbers_stay_whole_and_mathematics_stays_as_it_was_written(page: Any, visit: Visit) -> None:
    await visit(ScriptedModel([say(f"{TABLE}\n\n{MATH}")]))
    await page.wait_for_selector(".welcome")
    await write(page, "figures please")
    await page.wait_for_selector("pal-md table")
    await page.wait_for_selector(".row.assistant .bar")
    assert await texts(page, "pal-md .math") == [r"\(a^2\)", r"\[ \int x\,dx \]", r"$$\frac{1}{2}$$"]
    cell = page.locator("pal-md td", has_text="1,204,331")
    style = "(one) => { const s = getComputedStyle(one); return [s.textAlign, s.overflowWrap]; }"
    assert await cell.evaluate(style) in (["right", "normal"], ["-webkit-right", "normal"])
    assert await page.locator("pal-md td", has_text="Europe").evaluate(style) == ["left", "normal"]


async def test_what_was_said_is_found_and_opened(page: Any, visit: Visit) -> None:
    await visit(ScriptedModel([say("The halcyon nests at sea."), say("Quite so.")]))
    await page.wait_for_selector(".welcome")
    await write(page, "tell me of birds")
    await page.wait_for_selector("text=nests at sea")
    await page.click("button.new")
    await page.wait_for_selector(".welcome")
    await write(page, "and now?")
    await page.wait_for_selector("text=Quite so.")
    await page.fill('input[aria-label="Search sessions"]', "halcyon")
    await page.click(".session.hit")
    await page.wait_for_selector(".md >> text=nests at sea")
    await page.fill('input[aria-label="Search sessions"]', "")
    assert await page.locator(".session.hit").count() == 0


async def test_an_empty_conversation_is_used_and_a_file_may_be_let_go_anywhere(page: Any, visit: Visit) -> None:
    await visit(ScriptedModel([]))
    await page.wait_for_selector(".welcome")
    await page.click("button.new")
    await page.wait_for_url(re.compile(r"dashboard%3A[0-9a-f]{8}-"))
    first = page.url
    await page.wait_for_selector(".session.active >> text=New conversation")  # it is in the list
    await page.click("button.new")
    await page.wait_for_timeout(300)
    assert page.url == first  # nobody wrote into it yet
    drop = """() => {
        const data = new DataTransfer();
        data.items.add(new File(["hello"], "notes.txt", { type: "text/plain" }));
        const how = { dataTransfer: data, bubbles: true, cancelable: true };
        document.querySelector("pal-sidebar").dispatchEvent(new DragEvent("drop", how));
    }"""
    await page.evaluate(drop)
    await page.wait_for_selector("pal-composer >> text=notes.txt")
    assert await page.locator(BOX).count() == 1


async def test_the_programs_words_are_not_the_persons(page: Any, visit: Visit) -> None:
    """W3, W4: neither in the conversation nor as its title."""
    site = await visit(ScriptedModel([say("noted"), say("hello")]))
    await page.wait_for_selector(".welcome")
    key = unquote(page.url.rpartition("/chat/")[2])
    told = inbound("System: sub-agent “scout” completed successfully.\n\nThe result", event="w3", session=key)
    await site.app.wait((await site.app.submit(told)).id)
    await page.wait_for_selector(".told >> text=sub-agent “scout” completed successfully.")
    await write(page, "good morning")
    await page.wait_for_selector(".md >> text=hello")
    assert await texts(page, ".bubble") == ["good morning"]
    await page.wait_for_selector(".session.active .name >> text=good morning")
