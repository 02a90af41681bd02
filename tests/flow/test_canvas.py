"""The agent and its canvas, whole: who is offered it, what is kept, pictures, and whose words come back."""

from __future__ import annotations

import base64
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running, settings
from palinurus.cli.doctor.checks import DoctorCase, check_web_page
from palinurus.cli.look.preview import preview_run
from palinurus.config.load import load_config
from palinurus.core.policy.decide import explain_tool_verdict
from palinurus.core.types.inbound import Sender
from palinurus.core.types.messages import ImageBlock, ToolResult
from palinurus.testing.model import ScriptedModel, call_tools, say
from palinurus.tools.canvas.offer import BRIDGE
from support import inbound
from tools.browser.player import CHROMIUM, needs_chromium

OWNER = Sender("me", owner=True)
needs_page = pytest.mark.skipif(not os.path.isfile(BRIDGE), reason="the web page is not built: make web")


def use(action: str, **args: Any) -> Any:
    return call_tools(("canvas", {"action": action, **args}))


def results(model: ScriptedModel) -> list[ToolResult]:
    return [message for message in model.requests[-1].messages if isinstance(message, ToolResult)]


@needs_page
@pytest.mark.seed(276, 297)
async def test_the_canvas_is_offered_where_a_page_can_show_it_and_as_part_of_its_group(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], bool]] = [
        ({}, True),
        ({"tools": {"deny": ["group:ui"]}}, False),
        ({"tools": {"profile": "minimal", "alsoAllow": ["group:ui"]}}, True),
        ({"tools": {"profile": "minimal"}}, False),
        ({"canvasHost": {"enabled": False}}, False),
        ({"gateway": {"controlUi": {"enabled": False}}}, False),
    ]
    for number, (changes, offered) in enumerate(cases):
        model = ScriptedModel([say("hello")])
        async with running(tmp_path / f"h{number}", model, **changes) as app:
            await app.wait((await app.submit(inbound("hi", sender=OWNER))).id)
        (request,) = model.requests
        tools = {tool.name: tool for tool in request.tools}
        assert ("canvas" in tools) == offered, number
        assert ("- canvas: Show the person a page" in request.prompt.stable) == offered, number
        if offered:  # no Chromium on the PATH of these: nobody takes pictures
            actions = tools["canvas"].parameters["properties"]["action"]["enum"]
            assert actions == ["present", "hide", "navigate", "eval", "a2ui_push", "a2ui_reset"]


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"canvasHost": {"enabled": False}}, "canvasHost.enabled is false"),
        ({"gateway": {"controlUi": {"enabled": False}}}, "the page that shows it is off"),
    ],
)
@needs_page
async def test_why_there_is_no_canvas_is_explained(tmp_path: Path, section: dict[str, Any], words: str) -> None:
    known = settings(tmp_path, **section)
    verdict = (await preview_run(known, {}, inbound("hi", sender=OWNER))).verdict
    assert "canvas" in verdict.hidden
    assert any(words in line for line in explain_tool_verdict("canvas", verdict, lambda key: ""))
    case = DoctorCase(str(tmp_path), {}, load_config(str(tmp_path), {}), False)
    (found,) = check_web_page(case)
    assert words in found.what


@needs_page
async def test_files_are_shown_from_the_workspace_and_nothing_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "secret.html").write_text("secret")
    steps = [
        use("present", target="canvas/index.html", title="One"),
        use("navigate", target="two.html"),
        use("navigate", target="/"),
        use("present", target="../../secret.html"),
        use("navigate", target="../secret.html"),
        use("navigate", target="https://example.org/"),
        use("present", target="notes.txt"),
        use("eval", javaScript="1"),
        use("present", html="x" * 1_000_001),
        use("a2ui_push", jsonl='{"createSurface": {"surfaceId": "a"}}'),
        use("hide"),
        use("eval", javaScript="1"),
        say("done"),
    ]
    model = ScriptedModel(steps)
    async with running(tmp_path / "h", model) as app:
        workspace = Path(app.settings.agents["main"].workspace)
        (workspace / "canvas").mkdir(parents=True)
        (workspace / "canvas" / "index.html").write_text("<h1>one</h1>")
        (workspace / "canvas" / "two.html").write_text("<h1>two</h1>")
        (workspace / "notes.txt").write_text("x")
        (workspace / "canvas" / "out").symlink_to("/etc")
        await app.wait((await app.submit(inbound("hi", sender=OWNER))).id)
        state = await app.canvas.board.find("agent:main:main")
    assert state is not None and not state.shown and state.path == "index.html" and state.html == "<h1>one</h1>"
    told = [(one.isError, one.text) for one in results(model)]
    wrong = [at for at, (failed, _) in enumerate(told) if failed]
    assert wrong == [3, 4, 5, 6, 7, 8, 9, 11], told
    assert "shown when the person opens this chat" in told[0][1]
    for at, words in {
        5: "browser tool",
        7: "nobody has the canvas open",
        8: "1,000,000",
        9: "v0.8",
        11: "hidden",
    }.items():
        assert words in told[at][1]


@needs_page
async def test_showing_asks_nobody_and_keeps_where_its_words_came_from(tmp_path: Path) -> None:
    model = ScriptedModel([use("present", html="<p>x"), say("done"), say("hello")])
    async with running(tmp_path / "h", model) as app:
        board = app.canvas.board
        await app.wait((await app.submit(inbound("/think high", sender=OWNER, source="web https://a.example"))).id)
        state = await board.find("agent:main:main")
        assert state is not None and state.shown and state.taint == ("web https://a.example",)
        assert model.requests[0].messages[-1].text == "/think high"  # a page's words are no command
        await app.canvas.sweep()
        assert await board.find("agent:main:main") == state
        await app.wait((await app.submit(inbound("/new", sender=OWNER, event="2"))).id)
        assert await board.find("agent:main:main") is None
        await app.canvas.sweep()
        assert await app.store.list_records("canvas") == []


@needs_page
@needs_chromium
async def test_a_picture_is_taken_and_its_page_reaches_nobody(tmp_path: Path) -> None:
    html = (  # blue from the file beside it; empty if anything was reached
        "<style>body{margin:0}img{width:50px;display:block}</style><img src='box.svg'><script>"
        "const fail = () => document.querySelector('img').remove(); fetch('https://example.org/').then(fail);"
        "try { localStorage.a = 1; fail() } catch {}</script>"
    )
    steps = [use("present", html=html), use("snapshot", width=300, height=200), say("done")]
    model = ScriptedModel(steps)
    async with running(tmp_path / "h", model, browser={"executablePath": CHROMIUM}) as app:
        folder = Path(app.settings.agents["main"].workspace) / "canvas"
        folder.mkdir(parents=True)
        (folder / "box.svg").write_text(
            "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 1 1'><rect width='1' height='1' fill='#00f'/></svg>"
        )
        await app.wait((await app.submit(inbound("hi", sender=OWNER))).id)
    last = results(model)[-1]
    (image,) = [block for block in last.content if isinstance(block, ImageBlock)]
    assert image.mimeType == "image/png" and not last.isError
    data = base64.b64decode(image.data)
    assert data[16:24] == (300).to_bytes(4, "big") + (200).to_bytes(4, "big")
    assert read_corner(data) == (0, 0, 255)


def read_corner(png: bytes) -> tuple[int, ...]:
    """The colour of the first pixel: no filter changes that one."""
    at, packed = 8, b""
    while at < len(png):
        size = int.from_bytes(png[at : at + 4], "big")
        packed += png[at + 8 : at + 8 + size] if png[at + 4 : at + 8] == b"IDAT" else b""
        at += size + 12
    return tuple(zlib.decompress(packed)[1:4])
