"""The gateway goes and comes back: nothing is lost, nothing is shown twice."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from palinurus.testing.model import ScriptedModel, StreamGate, hold_at, say
from web.conftest import Visit
from web.served import served
from web.test_chat import texts, write


async def test_a_restart_in_mid_stream_loses_and_doubles_nothing(page: Any, tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("begun and never ended"), gate, 1), say("the whole answer")], repeat=True)
    async with served(tmp_path / "h", model) as site:
        port = site.gateway.port
        await page.goto(site.url)
        await write(page, "a long question")
        await page.wait_for_selector(".md.streaming >> text=begun")
    await page.wait_for_selector(".line")
    await write(page, "written while it was gone")
    async with served(tmp_path / "h", model, port) as site:
        await page.wait_for_selector(".line", state="detached")
        await page.wait_for_selector(".md >> text=the whole answer")
        await page.wait_for_selector(".wait", state="detached")
        assert await texts(page, ".bubble") == ["a long question", "written while it was gone"]
        users = {m.text for request in model.requests for m in request.messages}
        assert {"a long question", "written while it was gone"} <= users
        await page.reload()
        await page.wait_for_selector(".md >> text=the whole answer")
        assert await texts(page, ".bubble") == ["a long question", "written while it was gone"]


async def test_a_lost_line_resumes_in_the_middle_of_an_answer(page: Any, visit: Visit) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("one two three four five six seven"), gate, 2)], repeat=True)
    site = await visit(model)
    await write(page, "count")
    await page.wait_for_selector(".md.streaming >> text=one")
    site.gateway.clients.disconnect(conn=site.gateway.clients.clients()[0].conn)
    gate.open()
    await page.wait_for_selector(".md >> text=seven")
    await page.wait_for_selector(".row.assistant .bar")
    assert await texts(page, ".md") == ["one two three four five six seven"]
    assert await texts(page, ".bubble") == ["count"]


async def test_what_was_written_while_the_gateway_was_away_outlives_a_reload(page: Any, tmp_path: Path) -> None:
    model = ScriptedModel([lambda request: say(f"answer to {request.messages[-1].text}")], repeat=True)
    async with served(tmp_path / "h", model) as site:
        port = site.gateway.port
        await page.goto(site.url)
        await write(page, "before")
        await page.wait_for_selector(".md >> text=answer to before")
    await page.wait_for_selector(".line")
    name = "a.txt"
    await page.set_input_files(".attach input", [{"name": name, "mimeType": "text/plain", "buffer": b"kept"}])
    await page.wait_for_selector(".files li")
    await write(page, "written while it was gone")
    await page.wait_for_selector(".wait >> text=Sending")
    await page.goto("about:blank")  # the tab is closed
    async with served(tmp_path / "h", model, port) as site:
        await page.goto(site.url)
        await page.wait_for_selector(".md >> text=answer to")
        await page.locator(".md", has_text="written while it was gone").wait_for()
        await page.wait_for_selector(".wait", state="detached")
        assert len(await texts(page, ".bubble")) == 2
        assert "a.txt" in model.requests[-1].messages[-1].text
        await page.reload()
        await page.wait_for_selector(".md >> text=answer to")
        assert len(await texts(page, ".bubble")) == 2
    asked = [m.text for m in model.requests[-1].messages if "gone" in m.text and "answer to" not in m.text]
    assert len(asked) == 1 and len(model.requests) == 2


async def test_who_closes_the_window_with_enter_has_written_it(page: Any, tmp_path: Path) -> None:
    """The browser's database takes a moment; words are kept before it has them, and go nowhere without their files."""
    model = ScriptedModel([lambda request: say(f"answer to {request.messages[-1].text}")], repeat=True)
    async with served(tmp_path / "h", model) as site:
        port = site.gateway.port
        await page.goto(site.url)
        await write(page, "before")
        await page.wait_for_selector(".md >> text=answer to before")
    await page.wait_for_selector(".line")
    await page.evaluate("() => { IDBObjectStore.prototype.put = function () { return this.get('nothing'); }; }")
    await write(page, "words alone")
    await page.set_input_files(".attach input", [{"name": "a.txt", "mimeType": "text/plain", "buffer": b"kept"}])
    await page.wait_for_selector(".files li")
    await write(page, "words with a file")
    await page.goto("about:blank")
    async with served(tmp_path / "h", model, port) as site:
        await page.goto(site.url)
        await page.locator(".md", has_text="answer to words alone").wait_for()
        assert await page.input_value("pal-composer textarea") == "words with a file"
        assert await texts(page, ".bubble") == ["before", "words alone"]
        assert await page.evaluate("Object.keys(localStorage).filter((name) => name.startsWith('outgoing'))") == []


async def test_what_is_open_in_the_page_outlives_attempts_to_connect(page: Any, visit: Visit) -> None:
    """Opened while the gateway is away, the page was drawn anew with every attempt: focus and open menus were gone."""
    await visit(ScriptedModel([say("fine")], repeat=True))
    refused: list[Any] = []

    async def refuse(socket: Any) -> None:
        refused.append(socket)
        if len(refused) > 2:
            socket.connect_to_server()
        else:
            await socket.close()

    await page.route_web_socket("**", refuse)
    await page.reload()
    await page.wait_for_selector("pal-composer textarea")
    await page.evaluate("window.composer = document.querySelector('pal-composer')")
    while not await page.evaluate("palinurus.link === 'open'"):
        await asyncio.sleep(0.01)
    assert len(refused) == 3
    assert await page.evaluate("window.composer === document.querySelector('pal-composer')")


async def test_a_list_of_what_waits_that_is_older_than_the_lines_shows_nothing_twice(page: Any, visit: Visit) -> None:
    """It is read while a run takes a message in: the answer may come after the line it speaks of."""
    gate = StreamGate()
    await visit(ScriptedModel([hold_at(say("first second"), gate, 1), say("answer 2")], repeat=True))
    await write(page, "one")
    await page.wait_for_selector(".md.streaming")
    await page.fill("pal-composer textarea", "two")
    await page.press("pal-composer textarea", "Alt+Enter")
    await page.wait_for_selector(".wait >> text=After this reply")
    asked = "{ sessionKey: decodeURIComponent(location.pathname.split('/').pop()) }"
    old = await page.evaluate(f"async () => (await palinurus.request('chat.history', {asked})).queued")
    assert [one["text"] for one in old] == ["two"]
    gate.open()
    await page.wait_for_selector(".md >> text=answer 2")
    await page.wait_for_selector(".wait", state="detached")
    stale = """(old) => {
        const ask = palinurus.request.bind(palinurus);
        palinurus.request = async (method, ...rest) => {
            const answer = await ask(method, ...rest);
            if (method === "chat.history") { answer.queued = old; window.told = true; }
            return answer;
        };
        palinurus.link = "waiting";
        palinurus.hurry();
    }"""
    await page.evaluate("() => (palinurus.resume = null)")  # so that all is read again
    await page.evaluate(stale, old)
    while not await page.evaluate("window.told && palinurus.link === 'open'"):
        await asyncio.sleep(0.01)
    await page.wait_for_selector(".row.assistant .bar")
    assert await texts(page, ".bubble") == ["one", "two"]


async def test_what_is_deleted_while_the_gateway_is_away_is_deleted_when_it_is_back(page: Any, tmp_path: Path) -> None:
    async with served(tmp_path / "h", ScriptedModel([say("fine")], repeat=True)) as site:
        port = site.gateway.port
        await page.goto(site.url)
        await page.click("button.new")
        await page.wait_for_selector(".welcome")
        await write(page, "apples")
        await page.wait_for_selector(".session .name >> text=apples")
    await page.wait_for_selector(".line")
    await page.locator(".chat-head .more button").click()
    await page.locator("[role=option] >> text=Delete").click()
    await page.wait_for_selector(".toasts >> text=deleted")
    await page.locator(".chat-head .more button").click()
    await page.locator("[role=option] >> text=Archive").click()
    await page.wait_for_selector(".toasts .error >> text=The gateway cannot be reached")
    await page.evaluate("dispatchEvent(new Event('pagehide'))")  # who leaves has not taken it back
    async with served(tmp_path / "h", ScriptedModel([]), port) as site:
        await page.wait_for_selector(".line", state="detached")
        await page.wait_for_selector(".session .name >> text=apples", state="detached")
        while any("apples" in str(row) for row in (await listed(page))["sessions"]):
            await asyncio.sleep(0.01)


async def listed(page: Any) -> Any:
    return await page.evaluate("palinurus.request('sessions.list', {includeDerivedTitles: true})")


async def test_a_message_that_is_not_tried_again_says_so(page: Any, tmp_path: Path) -> None:
    """It is given up before anybody can look; its words stand there with the reason, not without an answer."""
    home, model = tmp_path / "h", ScriptedModel([hold_at(say("never said"), StreamGate(), 0)])
    async with served(home, model) as site:
        port = site.gateway.port
        await page.goto(site.url)
        await write(page, "the one that kills")
        await page.wait_for_selector(".stop")
    with closing(sqlite3.connect(home / "state.db")) as conn, conn:
        conn.execute("UPDATE inbox SET attempts = 3")
    async with served(home, model, port):
        note = ".note.error >> text=this message stopped the gateway 3 times and is not tried again"
        await page.wait_for_selector(note)
        await page.reload()
        await page.wait_for_selector(".bubble >> text=the one that kills")
        await page.wait_for_selector(note)
