"""Writing: completion, prompts, comparison, long pastes, keys for approvals, another level."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say
from web.conftest import Visit
from web.served import opened, served
from web.test_chat import BOX, texts, write

OFFERS = ".slash li b"


async def test_arguments_files_and_prompts_are_offered(page: Any, visit: Visit) -> None:
    site = await visit(ScriptedModel([say("ok")], repeat=True))
    work = Path(site.app.settings.agents["main"].workspace)
    work.mkdir(parents=True, exist_ok=True)
    (work / "ledger.csv").write_text("a,b\n")
    await page.wait_for_selector(".welcome")
    await page.fill(BOX, "/think hi")
    await page.wait_for_selector(".slash li")
    assert "high" in await texts(page, OFFERS)
    await page.locator(".slash li", has_text="high").first.click()
    assert await page.input_value(BOX) == "/think high"
    await page.fill(BOX, "/model pla")
    await page.wait_for_selector(f"{OFFERS} >> text=fake/plain")
    await page.press(BOX, "Tab")
    assert await page.input_value(BOX) == "/model fake/plain"
    await page.fill(BOX, "")
    await page.type(BOX, "sum up @ledg")
    await page.wait_for_selector(f"{OFFERS} >> text=ledger.csv")
    await page.press(BOX, "Enter")
    assert await page.input_value(BOX) == "sum up ./ledger.csv "
    await page.fill(BOX, "Report about {{what}} please")
    await page.click(".library")
    await page.fill(".keeping [name=name]", "weekly")
    await page.click(".keeping .primary")
    await page.wait_for_selector(".keeping .rows >> text=weekly")
    await page.click(".keeping header button")
    await page.reload()  # the gateway has kept it
    await page.wait_for_selector(BOX)
    await page.fill(BOX, "/week")
    await page.wait_for_selector(f"{OFFERS} >> text=weekly")
    await page.press(BOX, "Enter")
    assert await page.input_value(BOX) == "Report about {{what}} please"
    picked = "box => box.value.slice(box.selectionStart, box.selectionEnd)"
    assert await page.locator(BOX).evaluate(picked) == "{{what}}"
    await page.fill(BOX, "")
    paste = """text => {
        const data = new DataTransfer();
        data.setData("text/plain", text);
        const how = { clipboardData: data, bubbles: true, cancelable: true };
        document.querySelector("pal-composer textarea").dispatchEvent(new ClipboardEvent("paste", how));
    }"""
    await page.evaluate(paste, "long words " * 900)
    await page.wait_for_selector(".files >> text=pasted.txt")
    await page.click(".files >> text=As text")
    assert (await page.input_value(BOX)).startswith("long words long words")
    await page.fill(BOX, "")


async def test_two_models_answer_side_by_side_and_one_is_kept(page: Any, visit: Visit) -> None:
    await visit(ScriptedModel([lambda request: say(f"answer of {request.model.ref.model}")], repeat=True))
    await page.wait_for_selector(".welcome")
    before = page.url
    await page.click(".chat-head .more button")
    await page.click("[role=option] >> text=Compare two models")
    await page.select_option(".compare label:nth-child(2) select", "fake/plain")
    await page.fill(".compare textarea", "who are you?")
    await page.click(".compare .primary")
    await page.wait_for_selector(".sides .md >> text=answer of thinker")
    await page.wait_for_selector(".sides .md >> text=answer of plain")
    await page.click(".sides button:enabled >> text=Continue with Plain")
    await page.wait_for_selector(".log .md >> text=answer of plain")
    assert page.url != before and await texts(page, ".bubble") == ["who are you?"]
    await page.wait_for_selector(".toasts >> text=1 conversation archived")


async def test_a_message_is_tried_again_at_another_level(page: Any, visit: Visit) -> None:
    model = ScriptedModel([say("first"), say("second")])
    await visit(model)
    await page.wait_for_selector(".welcome")
    await write(page, "think about it")
    await page.wait_for_selector(".row.assistant .bar")
    await page.locator(".row.assistant").last.hover()
    await page.locator(".retry button").last.click()
    await page.locator(".retry [role=option]", has_text="High").first.click()
    await page.wait_for_selector(".md >> text=second")
    assert model.requests[0].level != model.requests[1].level


async def test_keys_answer_an_approval_that_has_been_seen(page: Any, tmp_path: Path) -> None:
    asks = call_tools(("exec", {"command": "uname"}))
    model = ScriptedModel([asks, say("did it"), asks, say("left it")])
    rules = {"exec": {"security": "allowlist", "ask": "always"}}
    async with served(tmp_path / "h", model, tools=rules) as site:
        await page.goto(site.url)
        await page.wait_for_selector(BOX)
        for key, answer in (("Alt+a", "did it"), ("Alt+d", "left it")):
            await write(page, "go")
            await page.wait_for_selector(".approval kbd")
            await page.press(BOX, key)  # too early: it has just come
            await page.wait_for_timeout(700)
            assert await page.locator(".approval").count() == 1
            await page.press(BOX, key)
            await page.wait_for_selector(f".md >> text={answer}")


async def test_files_wait_in_the_conversation_they_were_attached_in(page: Any, visit: Visit) -> None:
    await visit(ScriptedModel([say("Got it.")], repeat=True))
    here = page.url
    await page.set_input_files(".attach input", [{"name": "a.txt", "mimeType": "text/plain", "buffer": b"kept"}])
    await page.wait_for_selector(".files li >> text=a.txt")
    await page.click(".pages a >> text=Logs")
    await page.wait_for_selector("h1 >> text=Logs")
    await page.click("a.brand")
    await page.wait_for_selector("pal-composer textarea")
    assert await page.locator(".files li").count() == 0
    await page.go_back()
    await page.go_back()
    await page.wait_for_url(here)
    await page.wait_for_selector(".files li >> text=a.txt")
    await write(page, "read this")
    await page.wait_for_selector(".row.assistant .bar")
    assert await page.locator(".files li").count() == 0
    assert await texts(page, ".bubble .file-chip span") == ["a.txt"]


async def test_on_the_narrowest_phone_no_button_lies_on_another(browser: Any, tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("on and on"), gate, 1)])
    async with served(tmp_path / "h", model) as site, opened(browser, 320, 640) as page:
        await page.goto(site.url)
        await page.fill("pal-composer textarea", "go")
        await page.press("pal-composer textarea", "Enter")
        await page.wait_for_selector(".stop")
        shown = page.locator(".composer-bar :is(button, label.attach):visible")
        boxes = [await one.bounding_box() for one in await shown.all()]
        gate.open()
    apart = all(
        a["x"] + a["width"] <= b["x"] + 1 or a["y"] + a["height"] <= b["y"] + 1 or b["y"] + b["height"] <= a["y"] + 1
        for at, a in enumerate(sorted(boxes, key=lambda box: box["x"]))
        for b in sorted(boxes, key=lambda box: box["x"])[at + 1 :]
    )
    assert len(boxes) > 5 and apart, boxes
