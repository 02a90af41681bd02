"""The page as an app: notices by push, without a network, on paper, by touch, for eyes that need more contrast."""

from __future__ import annotations

import asyncio
import io
import shutil
from pathlib import Path
from typing import Any

import pytest
from pypdf import PdfReader, PdfWriter

from palinurus.testing.model import ScriptedModel, StreamGate, hold_at, say
from palinurus.testing.server import FakeTranscriber
from web.conftest import Visit
from web.served import TOKEN, launched, served
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
# The event of a click with the notice that really hangs there. Only what asks for a person's hand is not the browser's:
# it lets a worker open or raise a window after a real press alone, and an event that is told to go on is a real one.
CLICK = """async () => {
  const [notification] = await self.registration.getNotifications();
  const event = new NotificationEvent("notificationclick", {notification});
  event.waitUntil = (work) => { self.work = work; };
  self.clients.openWindow = async (url) => { self.opened = url; };
  WindowClient.prototype.focus = async function () { return this; };
  self.dispatchEvent(event);
  await self.work;
  return [self.opened ?? "", (await self.registration.getNotifications()).length];
}"""
SHOWN = "self.registration.getNotifications().then((all) => all.map((one) => ({title: one.title, body: one.body})))"
WORDS = {"approval": "needs your approval", "done": "has answered", "failed": "could not", "other": "something"}


async def seen(page: Any, true: str) -> None:
    """Until an expression is true; the page's policy lets nobody evaluate one in it again and again."""
    async with asyncio.timeout(60):
        while not await page.evaluate(true):
            await asyncio.sleep(0.05)


async def knock(worker: Any, line: Any, origin: str, ident: str) -> dict[str, Any]:
    """Until a notice says that there is an answer; before, there is only news that the gateway cannot name."""
    async with asyncio.timeout(60):
        while True:
            knocked = {"origin": origin, "registrationId": ident, "data": ""}
            await line.send("ServiceWorker.deliverPushMessage", knocked)
            await asyncio.sleep(0.1)
            if found := [one for one in await worker.evaluate(SHOWN) if one["title"] == "has answered"]:
                return dict(found[0])


@pytest.mark.skipif(shutil.which("chromium") is None, reason="notices need a whole browser: apt-get install chromium")
async def test_a_knock_shows_a_notice_that_opens_the_conversation(tmp_path: Path) -> None:
    """A push event of the browser, the page's own worker, a notice that is really shown. (The push service is not here:
    the browser is given the event by its debugger.)"""
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("The report is ready, all of it."), gate, 2)])
    async with served(tmp_path / "h", model) as site, launched(shutil.which("chromium")) as browser:
        origin = site.url.partition("/#")[0]
        profile = await browser.new_context()
        await profile.grant_permissions(["notifications"], origin=origin)
        page = await profile.new_page()
        found: asyncio.Queue[str] = asyncio.Queue()
        line = await profile.new_cdp_session(page)
        line.on(
            "ServiceWorker.workerRegistrationUpdated",
            lambda told: [found.put_nowait(one["registrationId"]) for one in told["registrations"]],
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
        (worker,) = profile.service_workers
        note = await knock(worker, line, origin, ident)
        assert note["body"] == "The report is ready, all of it."
        assert told["secret"] not in str(note) and TOKEN not in str(note)
        place = "/chat/agent%3Amain%3Amain"
        assert await worker.evaluate("self.registration.getNotifications().then((all) => all.length)") == 1
        await page.goto(f"{origin}/overview")
        await page.wait_for_selector("h1 >> text=Overview")
        await worker.evaluate(CLICK)  # a window is there: it goes to the conversation
        await page.wait_for_url(f"{origin}{place}")
        await page.wait_for_selector(".md >> text=The report is ready")
        await page.goto("about:blank")
        await worker.evaluate("self.registration.showNotification('x', {data: {path: 'access'}})")
        assert await worker.evaluate(CLICK) == ["/access", 0]  # there is none: one is opened


async def test_the_page_opens_without_a_network(page: Any, profile: Any, visit: Visit) -> None:
    await visit(ANSWER)
    await page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    kept = ".line >> text=What you write is kept and sent later."
    await profile.set_offline(True)
    try:
        await page.reload()  # some chromiums call themselves online after it, so the reason in front is either
        await page.wait_for_selector(kept)
    finally:
        await profile.set_offline(False)
    await page.wait_for_selector(kept, state="detached")
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
    gate = StreamGate()
    await visit(ScriptedModel([say("both see this"), hold_at(say("on and on it goes"), gate, 1)]))
    other = await profile.new_page()
    try:
        await other.goto(page.url)
        await other.wait_for_selector(BOX)
        await write(page, "from the first tab")
        await other.wait_for_selector(".bubble >> text=from the first tab")
        await other.wait_for_selector(".md >> text=both see this")
        await write(other, "from the second")
        await page.wait_for_selector(".bubble >> text=from the second")
        await page.wait_for_selector(".md.streaming")
        await page.fill(BOX, "rather not")
        await page.press(BOX, "Alt+Enter")
        await page.wait_for_selector(".wait >> text=After this reply")
        await other.reload()
        await other.wait_for_selector(".bubble.waiting >> text=rather not")
        await page.click("[aria-label='Take back']")
        await other.wait_for_selector(".bubble >> text=rather not", state="detached")  # it was not said
    finally:
        gate.open()
        await other.close()


async def test_a_draft_is_in_both_tabs_and_outlives_a_deletion(page: Any, profile: Any, visit: Visit) -> None:
    await visit(ScriptedModel([say("hello")]))
    await write(page, "hello")
    await page.wait_for_selector(".md >> text=hello")
    key = await page.evaluate("decodeURIComponent(location.pathname.split('/').pop())")
    other = await profile.new_page()
    try:
        await other.goto(page.url)
        await other.wait_for_selector(BOX)
        await other.fill(BOX, "half a sentence")
        await seen(page, f"document.querySelector('{BOX}').value === 'half a sentence'")
        await page.evaluate("key => palinurus.request('sessions.delete', {key})", key)
        for tab in (page, other):
            await tab.wait_for_selector(".toasts >> text=deleted elsewhere")
            await seen(tab, f"document.querySelector('{BOX}').value === 'half a sentence'")
        await other.fill(BOX, "")
    finally:
        await other.close()


async def test_a_draft_that_is_too_long_to_be_kept_harms_nothing(page: Any, visit: Visit) -> None:
    """The browser keeps about 5 MB; the page's complaints are what the test is about."""
    site = await visit(ScriptedModel([say("hello")], repeat=True))
    typed = "area.value = 'many words\\n'.repeat(600_000); area.dispatchEvent(new InputEvent('input', {bubbles: true}))"
    await page.evaluate(f"const area = document.querySelector('{BOX}'); {typed}")
    await page.goto(site.at("chat/agent%3Amain%3Adashboard%3Aafter"))
    await write(page, "short")
    await page.wait_for_selector(".md >> text=hello")
