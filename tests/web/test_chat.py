"""The conversation in a real browser: sending, streaming, tools, stopping, steering, branching, keys."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from palinurus.core.types.messages import UserMessage
from palinurus.core.types.model import ModelFailure, StreamRetry
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, fail, hold_at, say
from support import inbound
from web.conftest import Visit
from web.served import served

BOX = "pal-composer textarea"
# A tenth of a second of silence.
WAV = b"RIFF" + (836).to_bytes(4, "little") + b"WAVEfmt " + bytes.fromhex("1000000001000100401f0000401f000001000800")
WAV += b"data" + (800).to_bytes(4, "little") + b"\x80" * 800
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


async def write(page: Any, text: str) -> None:
    await page.fill(BOX, text)
    await page.press(BOX, "Enter")


async def texts(page: Any, selector: str) -> list[str]:
    return [text.strip() for text in await page.locator(selector).all_inner_texts()]


async def test_a_question_is_answered_with_markdown_tools_and_thoughts(page: Any, visit: Visit) -> None:
    code = "```python\nprint('hi')  # note\n```"
    model = ScriptedModel(
        [
            call_tools(("exec", {"command": "echo from-the-tool"}), text="Looking.", thinking="hm"),
            say(f"**Done**\n\n{code}"),
        ]
    )
    await visit(model)
    await page.wait_for_selector(".welcome")
    assert "token" not in page.url
    await write(page, "look around")
    await page.wait_for_selector(".md strong >> text=Done")
    await page.wait_for_selector(".row.assistant .bar")
    assert await texts(page, ".bubble") == ["look around"]
    assert await texts(page, ".hl-comment") == ["# note"]
    assert await page.locator(".thinking").count() == 1
    head = page.locator(".tool-head")
    assert "echo from-the-tool" in await head.inner_text()
    await head.click()
    assert "from-the-tool" in await page.locator(".tool-body .output").inner_text()
    await page.click(".code-head .copy")
    assert await page.evaluate("navigator.clipboard.readText()") == "print('hi')  # note"
    await page.reload()  # the device's own token lets it in again, and nothing is lost or doubled
    await page.wait_for_selector(".md strong >> text=Done")
    assert await texts(page, ".bubble") == ["look around"] and await page.locator("pal-tool").count() == 1


async def test_a_running_answer_streams_takes_in_more_and_can_be_stopped(page: Any, visit: Visit) -> None:
    gate, second = StreamGate(), StreamGate()
    model = ScriptedModel(
        [
            hold_at(call_tools(("exec", {"command": "true"}), text="one two three four five six"), gate, 2),
            say("took it in"),
            hold_at(say("endless endless endless endless"), second, 2),
        ],
    )
    await visit(model)
    await write(page, "first")
    await page.wait_for_selector(".md.streaming >> text=one")
    await page.wait_for_selector("[aria-label=Stop]")
    await write(page, "and this too")
    await page.wait_for_selector(".wait >> text=Waiting")
    gate.open()
    await page.wait_for_selector(".md >> text=took it in")
    await page.wait_for_selector(".wait", state="detached")
    assert await texts(page, ".bubble") == ["first", "and this too"]
    assert [m.text for m in model.requests[1].messages if isinstance(m, UserMessage)] == ["first", "and this too"]
    await write(page, "go on")
    await page.wait_for_selector(".md.streaming >> text=endless")
    await page.press(BOX, "Escape")
    await page.wait_for_selector("text=Stopped.")
    await page.wait_for_selector("[aria-label=Stop]", state="detached")


async def test_a_message_is_said_anew_in_its_place_and_what_was_said_before_stays(page: Any, visit: Visit) -> None:
    model = ScriptedModel([lambda request: say(f"answer to {request.messages[-1].text}")], repeat=True)
    await visit(model)
    for text in ("alpha", "beta"):
        await write(page, text)
        await page.wait_for_selector(f".md >> text=answer to {text}")
    before = page.url

    async def edit(text: str, button: str) -> None:
        await page.locator(".row.user").nth(1).hover()
        await page.locator("[aria-label='Edit']").nth(1).click()
        await page.fill("dialog.edit textarea", text)
        await page.click(f"dialog.edit {button}")
        await page.wait_for_selector(f".md >> text=answer to {text}")

    await edit("gamma", ".primary")
    await page.wait_for_selector(".versions >> text=2/2")
    assert page.url == before and await texts(page, ".bubble") == ["alpha", "gamma"]
    assert [m.text for m in model.requests[-1].messages] == ["alpha", "answer to alpha", "gamma"]
    await page.click("[aria-label='Earlier version']")
    await page.wait_for_selector(".versions >> text=1/2")
    assert await texts(page, ".bubble") == ["alpha", "beta"]
    assert await texts(page, ".md") == ["answer to alpha", "answer to beta"]
    await page.locator(".row.assistant").last.hover()
    await page.locator(".retry button").last.click()
    await page.locator(".retry [role=option]", has_text="Plain").click()
    await page.wait_for_selector(".versions >> text=3/3")
    await page.wait_for_selector(".facts >> text=fake/plain")
    assert str(model.requests[-1].model.ref) == "fake/plain"
    assert await texts(page, ".bubble") == ["alpha", "beta"] and page.url == before
    await edit("delta", "[value=branch]")
    assert page.url != before and await texts(page, ".bubble") == ["alpha", "delta"]
    await page.go_back()
    await page.wait_for_selector(".versions >> text=3/3")


async def test_a_failed_run_says_so_until_it_is_tried_again(page: Any, visit: Visit) -> None:
    await visit(ScriptedModel([fail("auth", "the key was refused"), say("now it works")]))
    await write(page, "hello")
    await page.wait_for_selector(".note.error >> text=the key was refused")
    await page.reload()
    await page.wait_for_selector(".note.error >> text=the key was refused")
    assert await page.locator(".note.error").count() == 1 and await page.locator("div.note").count() == 1
    await page.click(".mend >> text=Try again")
    await page.wait_for_selector(".md >> text=now it works")
    assert await texts(page, ".bubble") == ["hello"] and await page.locator(".note.error").count() == 0


async def test_a_broken_stream_is_told_once_and_a_retry_as_it_happens(page: Any, visit: Visit) -> None:
    gate = StreamGate()

    class Busy(ScriptedModel):
        async def stream(self, request: Any, stop: Any) -> Any:
            if not self.requests:
                yield StreamRetry(ModelFailure("rate_limit", "too many requests"), 1, 6.0)
            async for event in super().stream(request, stop):
                yield event

    await visit(Busy([hold_at(fail("server", "it broke off", after="half of it"), gate, 0), say("whole")]))
    await write(page, "go")
    await page.wait_for_selector(".dots >> text=trying again in 6 s")
    gate.open()
    await page.wait_for_selector(".note.error >> text=it broke off")
    await page.wait_for_selector(".row.assistant .bar")
    assert await page.locator(".note.error").count() == 1
    await page.click(".mend >> text=Try again")
    await page.wait_for_selector(".md >> text=whole")


async def test_what_waits_can_be_taken_back_changed_moved_and_sent_now(page: Any, visit: Visit) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("first second third"), gate, 1), *(say(f"answer {n}") for n in range(2, 6))])
    await visit(model)
    await write(page, "/queue followup")  # what Enter means here, unless somebody chooses
    await page.wait_for_selector(".row.note")
    await write(page, "one")
    await page.wait_for_selector(".md.streaming")
    after = page.locator(".wait >> text=After this reply")
    file = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"hello"}
    for count, text in enumerate(("not this", "but that", "later", "with a file", "sooner", "at once"), 1):
        if text == "with a file":
            await page.set_input_files("input[type=file]", [file])
        await page.fill(BOX, text)
        if text == "later":
            await page.click("[aria-label='Send after this reply']")
        else:
            await page.press(BOX, "Enter" if text == "not this" else "Alt+Enter")
        await after.nth(count - 1).wait_for()
    await page.reload()  # what waits is the gateway's, and its files too
    await page.locator(".row.user .file-chip", has_text="notes.txt").wait_for()

    def row(text: str) -> Any:
        return page.locator(".row.user", has_text=text)

    await row("not this").locator("[aria-label='Take back']").click()
    await page.locator(".bubble", has_text="not this").wait_for(state="detached")
    await row("but that").locator("[aria-label='Take back and edit']").click()
    await page.locator(".bubble", has_text="but that").wait_for(state="detached")
    assert await page.input_value(BOX) == "but that"
    await page.fill(BOX, "")
    await row("with a file").locator("[aria-label='Take back and edit']").click()
    await page.wait_for_selector(".composer .files >> text=notes.txt")
    assert await page.input_value(BOX) == "with a file"
    await page.press(BOX, "Alt+Enter")
    await row("with a file").locator("[aria-label='Move up']").wait_for()
    assert (
        await row("with a file").locator("[aria-label='Send now, into this reply'], [aria-label='Move down']").count()
        == 0
    )
    await row("sooner").locator("[aria-label='Move up']").click()
    await row("sooner").locator("[aria-label='Move up']").wait_for(state="detached")
    await row("at once").locator("[aria-label='Send now, into this reply']").click()
    await row("at once").locator(".wait >> text=Waiting").wait_for()
    gate.open()
    await page.wait_for_selector(".md >> text=answer 5")
    asked = [text.splitlines()[-1] for text in await texts(page, ".bubble")][-5:]
    assert asked == ["one", "at once", "sooner", "later", "with a file"]


async def test_keyboard_alone_reaches_everything(page: Any, visit: Visit) -> None:
    model = ScriptedModel([say("hello there")], repeat=True)
    await visit(model)
    await page.wait_for_selector(BOX)
    await page.keyboard.type("/verb")
    await page.wait_for_selector(".slash li.at >> text=/verbose")
    await page.keyboard.press("Tab")
    assert await page.input_value(BOX) == "/verbose "
    await page.keyboard.type("full")
    await page.keyboard.press("Enter")
    await page.wait_for_selector(".note >> text=Verbose logging set to full")
    await page.keyboard.type("hi")
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.type("you")
    await page.keyboard.press("Enter")
    await page.wait_for_selector(".md >> text=hello there")
    assert (await texts(page, ".bubble"))[-1] == "hi\nyou"
    await page.keyboard.press("Control+k")
    await page.keyboard.type("overv")
    await page.keyboard.press("Enter")
    await page.wait_for_selector("h1 >> text=Overview")
    await page.keyboard.press("Alt+n")
    await page.wait_for_selector(".welcome")
    assert "dashboard" in page.url


async def test_pictures_are_seen_and_other_files_go_along(page: Any, visit: Visit) -> None:
    model = ScriptedModel([say("I see")], repeat=True)
    files = [
        {"name": "dot.png", "mimeType": "image/png", "buffer": base64.b64decode(PIXEL)},
        {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"remember the milk"},
        {"name": "chart.pdf", "mimeType": "application/pdf", "buffer": b"%PDF-1.4 \x00"},
        {"name": "none.txt", "mimeType": "text/plain", "buffer": b""},
    ]
    await visit(model)
    await page.wait_for_selector(BOX)
    await page.set_input_files("input[type=file]", files)
    await page.wait_for_selector(".toasts >> text=none.txt is empty")
    assert await texts(page, ".files span") == ["dot.png", "notes.txt", "chart.pdf"]
    await write(page, "what is this?")
    await page.wait_for_selector(".md >> text=I see")
    for _ in range(2):  # the message as it stands on disk, then once more after a reload
        await page.wait_for_selector(".bubble img")
        await page.wait_for_selector(".file-chip >> text=chart.pdf")
        assert await texts(page, ".said") == ["what is this?"]
        await page.reload()
    async with page.expect_download() as saved:
        await page.click("[aria-label='Save notes.txt']")
    assert Path(await (await saved.value).path()).read_bytes() == b"remember the milk"
    asked = model.requests[0].messages[-1]
    assert len(asked.blocks) == 2 and "notes.txt (text/plain" in asked.text and "chart.pdf" in asked.text


async def test_an_approval_is_a_card_and_the_answer_counts(page: Any, tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("exec", {"command": "echo approved-output"})), say("ran it")])
    async with served(tmp_path / "h", model, tools={"exec": {"security": "allowlist", "ask": "always"}}) as site:
        await page.goto(site.url)
        await write(page, "run it")
        await page.wait_for_selector(".approval pre >> text=echo approved-output")
        await page.click(".approval .primary")
        await page.wait_for_selector(".md >> text=ran it")
        await page.wait_for_selector(".approval", state="detached")
        await page.click(".tool-head")
        assert "approved-output" in await page.locator(".tool-body .output").inner_text()


async def test_changes_are_drawn_as_what_was_added_and_taken_away(page: Any, tmp_path: Path) -> None:
    edit = {"path": "note.md", "edits": [{"oldText": "old words", "newText": "new words"}]}
    async with served(tmp_path / "h", ScriptedModel([call_tools(("edit", edit)), say("changed")])) as site:
        workspace = Path(site.app.settings.agents["main"].workspace)
        (workspace / "note.md").write_text("first\nold words\nlast\n")
        await page.goto(site.url)
        await write(page, "change it")
        await page.wait_for_selector(".md >> text=changed")
        assert [t[-9:] for t in await texts(page, ".tool .diff .add")] == ["new words"]
        assert [t[-9:] for t in await texts(page, ".tool .diff .del")] == ["old words"]
        await page.reload()
        await page.wait_for_selector(".tool .diff .add")


async def test_sessions_are_listed_searched_renamed_and_marked_unread(page: Any, tmp_path: Path) -> None:
    model = ScriptedModel([say("fine")], repeat=True)
    async with served(tmp_path / "h", model) as site:
        await page.goto(site.url)
        await write(page, "tell me about whales")
        await page.wait_for_selector(".session >> text=whales")
        await page.keyboard.press("Alt+n")
        await page.wait_for_selector(".welcome")
        await write(page, "tell me about bees")
        await page.wait_for_selector(".session.active >> text=bees")
        await page.click(".chat-head .more button")
        await page.click(".chat-head .more [role=option] >> text=Rename")
        await page.fill(".rename", "Bees & co")
        await page.press(".rename", "Enter")
        await page.wait_for_selector(".session.active .name >> text=Bees & co")
        await page.fill("[aria-label='Search sessions']", "whales")
        await page.wait_for_selector(".session >> text=Bees", state="detached")
        await site.app.submit(inbound("news", session="agent:main:main"))
        await page.wait_for_selector(".session.unread")


async def test_old_messages_come_when_somebody_looks_back(page: Any, tmp_path: Path) -> None:
    model = ScriptedModel([say("fine")], repeat=True)
    async with served(tmp_path / "h", model) as site:
        await page.goto(site.url)
        await write(page, "first words")
        await page.wait_for_selector(".md >> text=fine")
    long(tmp_path / "h", 2000)
    async with served(tmp_path / "h", model) as site:
        await page.goto(site.url)
        await page.wait_for_selector(".bubble >> text=filler 1999")
        assert await page.locator(".row").count() < 60  # only what is near exists
        for _ in range(300):
            await page.evaluate("document.querySelector('.log').scrollTop = 0; new Promise(requestAnimationFrame)")
            if await page.locator(".bubble >> text=first words").count():
                break
        await page.wait_for_selector(".bubble >> text=first words")
        await page.click(".to-end")
        await page.wait_for_selector(".bubble >> text=filler 1999")


def long(home: Path, messages: int) -> None:
    """Make the only transcript of a home that long."""
    (file,) = (home / "agents" / "main" / "sessions").glob("*.jsonl")
    last = json.loads(file.read_text().splitlines()[-1])
    with file.open("a") as out:
        parent = last["id"]
        for number in range(messages):
            ident = f"f{number:07d}"
            message = {
                "role": "user",
                "content": f"filler {number}",
                "timestamp": 1_700_000_000_000 + number,
            }
            entry = {**last, "id": ident, "parentId": parent, "message": message}
            out.write(json.dumps(entry) + "\n")
            parent = ident


async def test_a_voice_note_is_recorded_sent_and_played(page: Any, visit: Visit) -> None:
    model = ScriptedModel([say("heard"), say("heard again")], repeat=True)
    await visit(model)
    await page.click("[aria-label='Record a voice note']")
    await page.wait_for_selector(".recording")
    await page.click(".composer-bar >> text=Cancel")
    assert await page.locator(".files li").count() == 0
    await page.click("[aria-label='Record a voice note']")
    await page.wait_for_selector(".recording b >> text=0:01")
    await page.click(".composer-bar >> text=Done")
    await page.wait_for_selector(".files audio")
    await page.press(BOX, "Enter")
    await page.wait_for_selector(".md >> text=heard")
    await page.reload()  # now it comes from the gateway
    await page.wait_for_selector(".bubble audio")
    audio = page.locator(".bubble audio")
    await audio.evaluate("a => a.readyState || new Promise((done) => { a.onloadedmetadata = done; })")
    assert await audio.evaluate("a => a.error") is None
    assert "[voice note" not in "".join(await texts(page, ".bubble"))
    assert "voice note" in model.requests[0].messages[-1].text
    tune = {"name": "tune.wav", "mimeType": "audio/wav", "buffer": WAV}
    await page.set_input_files("input[type=file]", [tune])
    await page.wait_for_selector(".files audio")
    await page.press(BOX, "Enter")
    await page.wait_for_selector(".bubble figcaption >> text=tune.wav")
    await page.wait_for_selector(".md >> text=heard again")


SLOW = """
const send = WebSocket.prototype.send
WebSocket.prototype.send = function (data) { setTimeout(() => send.call(this, data), 400) }
"""


async def test_what_is_written_before_there_is_a_connection_is_sent_and_kept(page: Any, visit: Visit) -> None:
    await page.add_init_script(SLOW)
    await visit(ScriptedModel([say("heard")]))
    await write(page, "early")
    await page.wait_for_selector(".md >> text=heard")
    await page.reload()
    await page.wait_for_selector("pal-composer textarea")
    await page.fill(BOX, "half a thou")
    await page.wait_for_selector(".md >> text=heard")
    assert await page.input_value(BOX) == "half a thou"
    await page.click("button.new")  # and what is typed while a conversation is made is for that one
    await page.fill(BOX, "half a thought")
    await page.wait_for_selector(".welcome")
    assert await page.input_value(BOX) == "half a thought"


async def test_what_a_tool_saw_is_in_its_card_and_in_the_timeline(page: Any, visit: Visit) -> None:
    model = ScriptedModel([call_tools(("read", {"path": "dot.png"})), say("a dot")])
    there = await visit(model)
    workspace = Path(there.app.settings.agents["main"].workspace)
    workspace.mkdir(parents=True, exist_ok=True)
    (workspace / "dot.png").write_bytes(base64.b64decode(PIXEL))
    await write(page, "look at the dot")
    await page.wait_for_selector(".md >> text=a dot")
    card = await page.locator(".tool .pictures img").get_attribute("src")
    await page.click("[aria-label=Timeline]")
    step = page.locator(".timeline li", has_text="Result").locator(".pictures img")
    await step.wait_for()
    assert await step.get_attribute("src") == card and str(card).startswith("data:image/png;base64,iVBOR")


async def test_any_step_of_the_timeline_can_be_branched_from(page: Any, visit: Visit) -> None:
    first = [call_tools(("exec", {"command": "echo one"}), text="Looking."), say("old end")]
    model = ScriptedModel([*first, say("new end"), say("other model's end")])
    await visit(model)
    await write(page, "look around")
    await page.wait_for_selector(".md >> text=old end")
    before = page.url
    await page.click("[aria-label=Timeline]")
    await page.wait_for_selector(".timeline .steps")
    assert (await texts(page, ".timeline b"))[:2] == ["Accepted", "Claimed"]
    await page.locator(".timeline li", has_text="result").locator("summary").click()
    assert '"result": "one' in await page.locator(".timeline li", has_text="result").locator("pre").inner_text()
    await page.click("[aria-label^='Branch from here: result']")
    await page.wait_for_selector(".toasts >> text=This is a new branch")
    await page.wait_for_selector(".md >> text=Looking.")
    assert page.url != before and "old end" not in await page.inner_text(".log")
    await write(page, "now end differently")
    await page.wait_for_selector(".md >> text=new end")
    await page.goto(before)
    await page.wait_for_selector(".md >> text=old end")
    await page.click("[aria-label=Timeline]")
    await page.locator(".retry-step button").last.click()
    await page.locator(".retry-step [role=option]", has_text="Plain").click()
    await page.wait_for_selector(".facts >> text=fake/plain")
    assert str(model.requests[-1].model.ref) == "fake/plain"
    assert "old end" not in "".join(m.text for m in model.requests[-1].messages)


async def test_sub_agents_are_cards_in_cards_and_can_be_stopped(page: Any, tmp_path: Path) -> None:
    gate = StreamGate()

    def answer(request: Any) -> Any:
        said = " ".join(m.text for m in request.messages if isinstance(m, UserMessage))
        began = any(not isinstance(m, UserMessage) for m in request.messages)
        if "dig deeper" in said:
            return hold_at(say("deep down deep down deep down"), gate, 2)
        if "hunt" in said:
            return say("hunting") if began else call_tools(("sessions_spawn", {"task": "dig", "label": "Digger"}))
        more = ("sessions_spawn", {"task": "dig deeper", "label": "Deeper"})
        return hold_at(say("digging on and on and on"), gate, 2) if began else call_tools(more)

    model = ScriptedModel([answer], repeat=True)
    agents = {"defaults": {"model": {"primary": "fake/thinker"}, "subagents": {"maxSpawnDepth": 2}}}
    async with served(tmp_path / "h", model, agents=agents) as site:
        await page.goto(site.url)
        await write(page, "hunt")
        outer = page.locator(".dock > .child-card")
        inner = outer.locator(".child-card")
        await inner.locator("a >> text=Deeper").wait_for()
        await inner.locator(".child-text >> text=deep down").wait_for()
        assert await outer.locator("header a").first.inner_text() == "Digger"
        await inner.locator("[aria-label='Stop Deeper']").click()
        await inner.wait_for(state="detached")
        await outer.locator("header a").first.click()
        await page.wait_for_selector(".parent >> text=Main")
        gate.open()


async def test_a_recorded_run_is_stepped_through_and_played_again(page: Any, visit: Visit) -> None:
    model = ScriptedModel([call_tools(("read", {"path": "nothing.txt"})), say("There is no such file.")])
    at = await visit(model)
    await at.app.tapes.choose("*", True)
    await write(page, "read it")
    await page.wait_for_selector(".md >> text=There is no such file.")
    await at.app.tapes.choose("*", None)
    await at.app.tapes.close()
    await page.click("[aria-label=Timeline]")
    await page.wait_for_selector(".tape >> text=2 steps")
    await page.wait_for_selector(".tape summary >> text=read")
    await page.fill(".tape input[type=range]", "2")
    await page.wait_for_selector(".tape p >> text=There is no such file.")
    assert await page.is_visible(".tape button >> text=Replay")
