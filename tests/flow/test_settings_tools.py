"""Settings of tools, through the App: what is written there changes what tools do, or which there are."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import CONFIG, running, until
from flow.test_children import Cast, children, result, settled, spawn, started
from flow.test_children import config as family
from flow.test_directives import tell
from palinurus.core.media import read_dimensions
from palinurus.core.types.inbound import Attachment
from palinurus.core.types.messages import ImageBlock, ToolResult
from palinurus.inbox.attachments import FileAttacher
from palinurus.providers.transcribe import SoundRecording
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say
from palinurus.tools.web.reader import PDF_MODULE, is_usable
from support import inbound
from tools.web.kit import Site
from tools.web.paper import pdf

SEES = {"id": "see", "input": ["text", "image"]}
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def provider(*models: Any) -> dict[str, Any]:
    return {"providers": {"fake": {**CONFIG["models"]["providers"]["fake"], "models": [{"id": "m"}, *models]}}}


def last_result(model: ScriptedModel) -> ToolResult:
    return next(m for m in reversed(model.requests[-1].messages) if isinstance(m, ToolResult))


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ({}, ""),
        ({"enabled": False}, "given no files here"),
        ({"maxFiles": 1}, "2 files are more than 1"),
        ({"maxFileBytes": 4}, "5 bytes are more than 4"),
        ({"maxTotalBytes": 6}, "7 bytes are more than 6"),
    ],
)
async def test_sub_agents_are_given_files_as_the_config_says(tmp_path: Path, rules: dict[str, Any], why: str) -> None:
    files = [{"name": "a.txt", "content": "hello"}, {"name": "b.txt", "content": "hi"}]
    cast = Cast([call_tools(spawn("read", attachments=files)), say("started"), say("NO_REPLY")], read=say("ok"))
    channel, tools = FakeChannel(), {"sessions_spawn": {"attachments": rules}}
    async with running(tmp_path / "h", cast, channel, **family(), tools=tools) as app:
        await started(app, channel, cast)
        await settled(app)
    told = result(cast.heard["main"][1])
    assert (told["status"] == "accepted") is not bool(why) and why in told.get("error", "")


@pytest.mark.parametrize("keep", [True, False])
async def test_files_of_a_sub_agent_stay_or_go_with_its_end(tmp_path: Path, keep: bool) -> None:
    files = [{"name": "a.txt", "content": "hello"}]
    cast = Cast([call_tools(spawn("read", attachments=files)), say("started"), say("NO_REPLY")], read=say("ok"))
    channel, tools = FakeChannel(), {"sessions_spawn": {"attachments": {"retainOnSessionKeep": keep}}}
    async with running(tmp_path / "h", cast, channel, **family(), tools=tools) as app:
        await started(app, channel, cast)
        await until(lambda: bool(children(app)))
        folder = Path(children(app)[0].folder)
        await settled(app)
        if not keep:
            await until(lambda: not folder.exists())
    assert folder.exists() is keep


@pytest.mark.parametrize("wanted", [True, False])
async def test_the_plan_tool_can_be_left_out(tmp_path: Path, wanted: bool) -> None:
    model = ScriptedModel([say("hello")])
    tools = {"experimental": {"planTool": wanted}}
    async with running(tmp_path / "h", model, FakeChannel(), tools=tools) as app:
        await tell(app, "hi")
    assert ("update_plan" in [tool.name for tool in model.requests[0].tools]) is wanted
    assert ("update_plan" in model.requests[0].prompt.text) is wanted


@pytest.mark.parametrize(
    ("rules", "asked", "text"),
    [
        ({"models": [{"provider": "fake", "model": "see"}]}, ["fake/see"], "a cat"),
        ({"models": [{"provider": "fake", "model": "see2"}]}, ["fake/see2"], "a cat"),
        ({"models": [{"provider": "fake", "model": "see", "timeoutSeconds": 0.1}]}, ["fake/see", "fake/see2"], "a cat"),
        ({"models": [{"provider": "fake", "model": "see"}], "timeoutSeconds": 0.1}, ["fake/see", "fake/see2"], "a cat"),
        ({"enabled": False}, [], "image"),
    ],
)
async def test_pictures_are_shown_to_whom_the_config_names(
    tmp_path: Path, rules: dict[str, Any], asked: list[str], text: str
) -> None:
    gate, late = StreamGate(), len(asked) > 1
    look = call_tools(("image", {"image": f"data:image/png;base64,{DOT}"}))
    eyes = [hold_at(say("too late"), gate, 0), say("a cat")] if late else [say("a cat")] if asked else []
    model = ScriptedModel([look, *eyes, say("done")])
    config = {"models": provider(SEES, {**SEES, "id": "see2"}), "tools": {"media": {"image": rules}}}
    async with running(tmp_path / "h", model, FakeChannel(), **config) as app:
        await tell(app, "look")
        gate.open()
    seen = [str(request.model.ref) for request in model.requests[1:-1]]
    assert seen == asked and text in last_result(model).text
    assert ("image" in [tool.name for tool in model.requests[0].tools]) is bool(asked)


@pytest.mark.skipif(not is_usable(PDF_MODULE), reason="pypdf is not installed")
@pytest.mark.parametrize(
    ("own", "text", "asked"),
    [
        ({}, "[Page 3 of 3]", []),
        ({"pdfMaxPages": 2}, "1 more pages; continue with pages=3-", []),
        ({"pdfMaxBytesMb": 0.0001}, "is larger than", []),
        ({"pdfModel": "fake/reader"}, "it says three", ["fake/reader"]),
        ({"pdfModel": {"primary": "fake/nobody", "fallbacks": ["fake/reader"]}}, "it says three", ["fake/reader"]),
    ],
)
async def test_pdfs_are_read_as_the_config_says(
    tmp_path: Path, own: dict[str, Any], text: str, asked: list[str]
) -> None:
    work = tmp_path / "h" / "workspace"
    work.mkdir(parents=True)
    (work / "a.pdf").write_bytes(pdf("one", "two", "three"))
    ask = call_tools(("pdf", {"pdf": "a.pdf", "prompt": "how many?"}))
    model = ScriptedModel([ask, *([say("it says three")] if asked else []), say("done")])
    agents = {"defaults": {"model": {"primary": "fake/m"}, **own}}
    config = {"models": provider({"id": "reader"}), "agents": agents}
    async with running(tmp_path / "h", model, FakeChannel(), **config) as app:
        await tell(app, "read it")
    assert text in last_result(model).text
    assert [str(request.model.ref) for request in model.requests[1:-1]] == asked
    if asked:
        assert "three" in model.requests[1].messages[0].text and "EXTERNAL_UNTRUSTED" in last_result(model).text


class SlowEars:
    """Listens until it has listened to `enough` at once, and counts how many those were."""

    def __init__(self, enough: int) -> None:
        self.now = self.most = 0
        self.enough, self.reached = enough, asyncio.Event()

    async def transcribe(self, sound: SoundRecording) -> str:
        self.now += 1
        self.most = max(self.most, self.now)
        if self.most >= self.enough:
            self.reached.set()
        await self.reached.wait()
        await asyncio.sleep(0.05)  # one more would come in now
        self.now -= 1
        return sound.name


@pytest.mark.parametrize(("own", "most"), [({}, 2), ({"concurrency": 3}, 3), ({"concurrency": 1}, 1)])
async def test_recordings_are_listened_to_side_by_side(tmp_path: Path, own: dict[str, Any], most: int) -> None:
    files = []
    for number in range(4):
        (tmp_path / f"{number}.ogg").write_bytes(b"OggS")
        path = str(tmp_path / f"{number}.ogg")
        files.append(Attachment(path, f"{number}.ogg", "audio/ogg", 4, voice=True))
    async with running(tmp_path / "h", ScriptedModel([]), tools={"media": own}) as app:
        ears = SlowEars(most)
        attach = FileAttacher(ears, None, app.settings.audio.together)
        made = await attach(inbound("", files=tuple(files)), str(tmp_path / "mine"), 1200, False)
    assert ears.most == most
    assert [line.rpartition(" ")[2] for line in made.text.splitlines()] == [file.name for file in files]


@pytest.mark.parametrize(("quality", "side"), [("efficient", 800), ("balanced", 1200), ("high", 2048), ("auto", 1200)])
async def test_pictures_are_as_sharp_as_the_config_says(tmp_path: Path, quality: str, side: int) -> None:
    pillow = pytest.importorskip("PIL.Image")
    pillow.new("RGB", (3000, 30), "red").save(tmp_path / "wide.jpg")
    came = ImageBlock(base64.b64encode((tmp_path / "wide.jpg").read_bytes()).decode(), "image/jpeg")
    agents = {"defaults": {"model": {"primary": "fake/see"}, "imageQuality": quality}}
    model = ScriptedModel([say("red")])
    async with running(tmp_path / "h", model, models=provider(SEES), agents=agents) as app:
        await app.wait((await app.submit(inbound("what is it?", images=(came,)))).id)
    (image,) = (one for one in model.requests[0].messages[-1].blocks if isinstance(one, ImageBlock))  # type: ignore[union-attr]
    assert read_dimensions(base64.b64decode(image.data), "image/jpeg")[0] == side


@pytest.mark.parametrize("wanted", [True, False])
async def test_pages_come_whole_or_only_what_is_to_be_read(tmp_path: Path, wanted: bool) -> None:
    site = Site()
    await site.start()
    site.routes["/p"] = "<body><nav>menu of all pages</nav><main><p>" + "the text. " * 60 + "</p></main></body>"
    model = ScriptedModel([call_tools(("web_fetch", {"url": site.url("/p")})), say("done")])
    tools = {"web": {"fetch": {"allowedHosts": [site.entry], "readability": wanted}}}
    async with running(tmp_path / "h", model, FakeChannel(), tools=tools) as app:
        await tell(app, "read it")
    await site.stop()
    assert ("menu of all pages" in last_result(model).text) is not wanted and "the text." in last_result(model).text
