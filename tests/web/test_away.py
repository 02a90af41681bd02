"""The page as an app: notices by push, without a network, on paper, by touch, for eyes that need more contrast."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

from pypdf import PdfReader, PdfWriter

from palinurus.testing.model import ScriptedModel, StreamGate, hold_at, say
from palinurus.testing.server import FakeTranscriber
from web.conftest import Visit
from web.served import TOKEN, served
from web.test_chat import BOX, write
from web.test_manage import ANSWER
from web.test_pages import turn

PUT = """([name, value]) => new Promise((done) => {
  const asked = indexedDB.open("palinurus", 1);
  asked.onsuccess = () => {
    const work = asked.result.transaction("kept", "readwrite");
    work.objectStore("kept").put(value, name);
    work.oncomplete = () => { asked.result.close(); done(true); };
  };
})"""
# The browsers of tests allow no notices, and let a worker open a window only after a real press: what the worker asks
# for is kept instead.
WATCH = """() => {
  self.shown = [];
  self.registration.showNotification = async (title, options) => self.shown.push({title, ...options});
}"""
CLICK = """async (notice) => {
  const opened = [];
  self.clients.openWindow = async (url) => opened.push(url);
  self.clients.matchAll = async () => [];
  const notification = {data: notice.data, close() {}};
  self.dispatchEvent(Object.assign(new ExtendableEvent("notificationclick"), {notification, waitUntil() {}}));
  await new Promise((done) => setTimeout(done, 50));
  return opened;
}"""
WORDS = {"approval": "needs your approval", "done": "has answered", "failed": "could not", "other": "something"}


async def seen(page: Any, true: str) -> None:
    """Until an expression is true; the page's policy lets nobody evaluate one in it again and again."""
    async with asyncio.timeout(60):
        while not await page.evaluate(true):
            await asyncio.sleep(0.05)


async def test_a_knock_shows_a_notice_that_opens_the_conversation(page: Any, profile: Any, tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("The report is ready, all of it."), gate, 2)])
    async with served(tmp_path / "h", model) as site:
        origin = site.url.partition("/#")[0]
        found: asyncio.Queue[str] = asyncio.Queue()
        line = await profile.new_cdp_session(page)
        line.on(
            "ServiceWorker.workerRegistrationUpdated",
            lambda told: [
                found.put_nowait(one["registrationId"])
                for one in told["registrations"]
                if one["scopeURL"].startswith(origin)
            ],
        )
        await line.send("ServiceWorker.enable")
        await page.goto(site.url)
        await page.wait_for_selector(BOX)
        await page.evaluate("navigator.serviceWorker.ready.then(() => true)")
        ident = await found.get()
        told = await page.evaluate(
            "window.palinurus.request('push.subscribe', {endpoint: 'http://127.0.0.1:9/push/x'})"
        )
        await page.evaluate(PUT, ["push", {"secret": told["secret"], "words": WORDS}])
        await write(page, "write the report")
        await page.wait_for_selector(".md.streaming")
        await page.goto("about:blank")  # nobody looks
        gate.open()
        worker = next(one for one in profile.service_workers if one.url.startswith(origin))
        await worker.evaluate(WATCH)

        async def knock(title: str) -> dict[str, Any]:
            """Until a notice says that; before, there is only news that the gateway cannot name."""
            async with asyncio.timeout(60):
                while True:
                    knocked = {"origin": origin, "registrationId": ident, "data": ""}
                    await line.send("ServiceWorker.deliverPushMessage", knocked)
                    await asyncio.sleep(0.1)
                    if found := [one for one in await worker.evaluate("self.shown") if one["title"] == title]:
                        return dict(found[0])

        note = await knock("has answered")
        assert note["body"] == "The report is ready, all of it."
        assert told["secret"] not in str(note) and TOKEN not in str(note)
        assert await worker.evaluate(CLICK, note) == ["/chat/agent%3Amain%3Amain"]


async def test_the_page_opens_without_a_network(page: Any, profile: Any, visit: Visit) -> None:
    await visit(ANSWER)
    await page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    await profile.set_offline(True)
    try:
        await page.reload()
        await page.wait_for_selector("text=You are offline.")
    finally:
        await profile.set_offline(False)
    await page.wait_for_selector("text=You are offline.", state="detached")
    await page.wait_for_selector("pal-composer textarea")


async def test_speech_becomes_words_in_the_composer(page: Any, tmp_path: Path) -> None:
    async with FakeTranscriber("buy rope and tar") as ears:
        mine = {"baseUrl": ears.url, "apiKey": "k", "models": [{"id": "m"}]}
        hears = {"media": {"audio": {"models": [{"provider": "mine", "model": "w"}]}}}
        async with served(tmp_path / "h", ANSWER, tools=hears, models={"providers": {"mine": mine}}) as site:
            await page.goto(site.url)
            await page.fill(BOX, "please")
            await page.click("[aria-label='Record a voice note']")
            await page.wait_for_selector(".recording")
            await asyncio.sleep(0.5)  # something to hear
            await page.click(".composer-bar >> text=To text")
            await page.wait_for_selector(".recording", state="detached")
            await seen(page, "document.querySelector('pal-composer textarea').value.includes('rope')")
            assert await page.input_value(BOX) == "please buy rope and tar"
            assert await page.locator(".files li").count() == 0
    assert len(ears.asked) == 1


async def test_a_pdf_is_looked_at_and_a_conversation_goes_on_paper(page: Any, visit: Visit) -> None:
    made, file = PdfWriter(), io.BytesIO()
    made.add_blank_page(200, 200)
    made.write(file)
    table = "| a | b |\n|---|--:|\n| one | 2 |"
    await visit(ScriptedModel([say(f"# Harbours\n\nThe kittiwake nests here.\n\n{table}")], repeat=True))
    pdf = {"name": "chart.pdf", "mimeType": "application/pdf", "buffer": file.getvalue()}
    await page.set_input_files("pal-composer input[type=file]", [pdf])
    await page.wait_for_selector(".files li")
    await write(page, "what is this?")
    await page.wait_for_selector(".row.assistant .bar")
    await page.click(".bubble >> text=chart.pdf")
    assert (await page.locator("iframe.viewer-pdf").get_attribute("src")).startswith("blob:")
    await page.keyboard.press("Escape")
    await page.evaluate("void (window.print = () => { document.body.dataset.asked = 'yes'; })")
    await page.click(".chat-head .more button")
    await page.click("[role=option] >> text=Export")
    await page.click(".keeping >> text=PDF")
    await page.wait_for_selector("body[data-asked=yes]")
    paper = PdfReader(io.BytesIO(await page.pdf()))
    text = "\n".join(one.extract_text() for one in paper.pages)
    await page.evaluate("dispatchEvent(new Event('afterprint'))")
    await page.wait_for_selector(".paper", state="detached")
    assert "The kittiwake nests here." in text and "what is this?" in text
    assert "New conversation" not in text and "Overview" not in text  # the frame stays on the screen
    assert len(paper.pages) == 1


async def test_a_swipe_opens_and_closes_the_list(page: Any, visit: Visit) -> None:
    await page.set_viewport_size({"width": 390, "height": 800})
    await visit(ANSWER)
    line = await page.context.new_cdp_session(page)

    async def swipe(start: int, end: int) -> None:
        for kind, x in (("touchStart", start), ("touchMove", (start + end) // 2), ("touchMove", end)):
            await line.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": 400}]})
        await line.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    await swipe(200, 330)  # not from the edge
    assert not await page.is_visible(".sidebar")
    await swipe(8, 150)
    await page.wait_for_selector("body.side-open .sidebar", state="visible")
    await swipe(300, 120)
    await page.wait_for_selector("body:not(.side-open)")


async def test_contrast_and_motion_are_as_the_person_wants_them(page: Any, visit: Visit) -> None:
    gate = StreamGate()
    await visit(ScriptedModel([hold_at(say("one two three four five"), gate, 0)]))
    dots = "getComputedStyle(document.querySelector('.dots i')).animationDuration"
    await page.emulate_media(reduced_motion="no-preference")
    await write(page, "go")
    await page.wait_for_selector(".dots i")
    assert await page.evaluate(dots) == "1.2s"
    await page.emulate_media(reduced_motion="reduce")
    assert float((await page.evaluate(dots)).removesuffix("s")) < 0.001
    gate.open()
    await page.wait_for_selector(".row.assistant .bar")
    await page.emulate_media(forced_colors="active")
    try:
        outline = "getComputedStyle(document.querySelector('.session.active')).outlineStyle"
        assert await page.evaluate(outline) == "solid"
        await turn(page, "access")
        border = "getComputedStyle(document.querySelector('.switch i')).borderTopStyle"
        assert await page.evaluate(border) == "solid"
    finally:
        await page.emulate_media(forced_colors="none")


async def test_two_tabs_show_the_same_conversation(page: Any, profile: Any, visit: Visit) -> None:
    await visit(ScriptedModel([say("both see this")], repeat=True))
    other = await profile.new_page()
    try:
        await other.goto(page.url)
        await other.wait_for_selector(BOX)
        await write(page, "from the first tab")
        await other.wait_for_selector(".bubble >> text=from the first tab")
        await other.wait_for_selector(".md >> text=both see this")
        await write(other, "from the second")
        await page.wait_for_selector(".bubble >> text=from the second")
    finally:
        await other.close()
