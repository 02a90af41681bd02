"""The workspace through the whole App: files in the prompt, images, hooks around it, what /context says."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from flow.test_app import running
from flow.test_directives import tell
from palinurus.core.media import read_dimensions
from palinurus.core.types.inbound import Sender
from palinurus.core.types.messages import ImageBlock
from palinurus.sessions.record import SessionRecord
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, call_tools, say
from support import inbound
from tools.web.kit import Site

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def workspace(home: Path, **files: str) -> Path:
    folder = home / "workspace"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / f"{name}.md").write_text(text)
    return folder


@pytest.mark.seed(260, 263, 265)
async def test_files_are_in_the_prompt_from_the_first_turn_and_tools_work_beside_them(tmp_path: Path) -> None:
    folder = workspace(tmp_path / "h", AGENTS="Be kind to lobsters.", SOUL="A helmsman.")
    model = ScriptedModel([call_tools(("exec", {"command": "pwd"})), say("one"), say("two")])
    async with running(tmp_path / "h", model, FakeChannel()) as app:
        await tell(app, "hi")
        (folder / "AGENTS.md").write_text("Be kind to crabs.")
        await tell(app, "again")
    first, second, third = model.requests
    assert "Be kind to lobsters." in first.prompt.stable and "A helmsman." in first.prompt.stable
    assert second.prompt.stable == first.prompt.stable
    assert "Be kind to crabs." in third.prompt.stable
    assert second.messages[-1].text.strip() == str(folder)
    assert str(folder) in first.prompt.stable


@pytest.mark.seed(400)
async def test_the_model_is_told_to_read_the_docs_first_and_to_ask_status_itself(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("exec", {"command": "pal status --help"})), say("one")])
    async with running(tmp_path / "h", model, FakeChannel()) as app:
        await tell(app, "are you well?")
    text = model.requests[0].prompt.stable
    assert text.index("## Documentation") < text.index("read the docs first") < text.index("run `pal status` yourself")
    assert "exec" in {tool.name for tool in model.requests[0].tools}  # with which it can


@pytest.mark.seed(251, 255)
async def test_context_status_and_log_show_what_is_on_disk_and_what_is_sent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "palinurus.workspace")
    folder = workspace(tmp_path / "h", AGENTS="x" * 20_000, SOUL="short")
    model = ScriptedModel([say("one")])
    async with running(tmp_path / "h", model, FakeChannel()) as app:
        await tell(app, "hi")
        listed, detail = await tell(app, "/context list"), await tell(app, "/context detail")
        status = await tell(app, "/status")
        (folder / "AGENTS.md").write_text("x")
        assert "Files:" not in await tell(app, "/status")
    assert "file AGENTS.md: 20000 characters on disk, " in listed and "(shortened)" in listed
    assert "file SOUL.md: 5 characters" in listed and f"tools: {len(model.requests[0].tools)}," in listed
    assert "exec: " in detail and "exec: " not in listed
    assert "Files: AGENTS.md 20000 characters on disk, 12000 in the prompt (shortened)" in status.splitlines()
    assert "AGENTS.md: 20000 characters, 12000 in the prompt (shortened)" in caplog.text and "SOUL" not in caplog.text
    assert "20000" not in model.requests[0].prompt.text


@pytest.mark.seed(396)
@pytest.mark.parametrize("own", [True, False])
async def test_an_agents_limits_of_what_tools_give_go_over_everybodys(tmp_path: Path, own: bool) -> None:
    (workspace(tmp_path / "h") / "MEMORY.md").write_text("".join(f"line {n}\n" for n in range(2000)))
    calls = call_tools(("memory_get", {"path": "MEMORY.md", "lines": 2000}), ("exec", {"command": "seq 1 9000"}))
    limits = {"memoryGetMaxChars": 3000, "toolResultMaxChars": 6000}
    mine = {"contextLimits": {"memoryGetMaxChars": 700, "toolResultMaxChars": 2500}} if own else {}
    agents = {"defaults": {"model": {"primary": "fake/m"}, "contextLimits": limits}, "list": [{"id": "main", **mine}]}
    model, free = ScriptedModel([calls, say("ok")]), {"exec": {"security": "full", "ask": "off"}}
    async with running(tmp_path / "h", model, agents=agents, tools=free) as app:
        await app.wait((await app.submit(inbound("go", sender=Sender("human", owner=True)))).id)
    got, ran = (len(message.text) for message in model.requests[1].messages[-2:])
    most = (700, 2500) if own else (3000, 6000)
    assert most[0] / 2 < got <= most[0] + 100 and most[1] / 2 < ran <= most[1] + 300


@pytest.mark.seed(153)
@pytest.mark.parametrize("sees", [True, False])
async def test_images_named_in_the_message_are_shown_to_models_that_see(tmp_path: Path, sees: bool) -> None:
    folder = workspace(tmp_path / "h")
    (folder / "dot.png").write_bytes(PNG)
    kinds = ["text", "image"] if sees else ["text"]
    provider = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m", "input": kinds}]}
    model = ScriptedModel([say("a dot")])
    async with running(tmp_path / "h", model, FakeChannel(), models={"providers": {"fake": provider}}) as app:
        await app.wait((await app.submit(inbound("what is in ./dot.png ?", sender=Sender("human", owner=True)))).id)
    blocks = model.requests[0].messages[-1].blocks  # type: ignore[union-attr]
    images = [block for block in blocks if isinstance(block, ImageBlock)]
    assert bool(images) is sees
    if sees:
        assert base64.b64decode(images[0].data) == PNG and images[0].mimeType == "image/png"


@pytest.mark.seed(153)
@pytest.mark.parametrize("who", ["person", "blind", "program"])
async def test_images_whose_address_a_person_writes_are_fetched_through_the_one_door(tmp_path: Path, who: str) -> None:
    site = Site()
    await site.start()
    site.routes["/dot.png"] = lambda request: web.Response(body=PNG, content_type="image/png")
    kinds = ["text"] if who == "blind" else ["text", "image"]
    provider = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m", "input": kinds}]}
    model, tools = ScriptedModel([say("a dot")]), {"web": {"fetch": {"allowedHosts": [site.entry]}}}
    text = f"what is in {site.url('/dot.png?a=1')} and http://10.0.0.1/no.png?"
    async with running(tmp_path / "h", model, models={"providers": {"fake": provider}}, tools=tools) as app:
        await app.wait((await app.submit(inbound(text, system=who == "program"))).id)
    await site.stop()
    said = model.requests[0].messages[-1]
    images = [block for block in said.blocks if isinstance(block, ImageBlock)]  # type: ignore[union-attr]
    fetched = who == "person"
    assert [base64.b64decode(one.data) for one in images] == ([PNG] if fetched else [])
    assert len(site.seen) == fetched and ("10.0.0.1" in said.text.partition("\n")[2]) is fetched  # and says why not


async def test_large_images_are_made_smaller_before_a_model_sees_them(tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    folder = workspace(tmp_path / "h")
    pillow.new("RGB", (900, 300), "red").save(folder / "wide.jpg")
    provider = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m", "input": ["text", "image"]}]}
    agents = {"defaults": {"model": {"primary": "fake/m"}, "imageMaxDimensionPx": 300}}
    model = ScriptedModel([say("red")])
    came = ImageBlock(base64.b64encode((folder / "wide.jpg").read_bytes()).decode(), "image/jpeg")
    whole = ImageBlock(base64.b64encode(PNG).decode(), "image/png")
    async with running(tmp_path / "h", model, models={"providers": {"fake": provider}}, agents=agents) as app:
        message = msgspec.structs.replace(
            inbound("what is in ./wide.jpg ?", sender=Sender("human", owner=True)), images=(came, whole)
        )
        await app.wait((await app.submit(message)).id)
    blocks = model.requests[0].messages[-1].blocks  # type: ignore[union-attr]
    first, second, named = (block for block in blocks if isinstance(block, ImageBlock))
    assert second == whole and named == first
    assert read_dimensions(base64.b64decode(first.data), "image/jpeg") == (300, 100)


@pytest.mark.seed(152, 197)
@pytest.mark.parametrize("point", ["before_agent_start", "before_prompt_build"])
async def test_hooks_go_around_the_prompt_and_the_message(tmp_path: Path, point: str) -> None:
    model = ScriptedModel([say("one"), say("two")])
    async with running(tmp_path / "h", model, FakeChannel()) as app:
        changes = {"prependContext": "It is raining.", "appendSystemContext": "Speak softly."}
        app.hooks.on(point, lambda payload: changes if payload["prompt"] == "hi" else None)
        await tell(app, "hi")
        await tell(app, "there")
    assert model.requests[0].messages[-1].text == "It is raining.\n\nhi"
    assert "Speak softly." in model.requests[0].prompt.volatile
    assert "Speak softly." not in model.requests[1].prompt.text
    assert model.requests[1].messages[-1].text == "there"


@pytest.mark.seed(211, 256, 257, 259)
@pytest.mark.parametrize(("form", "time"), [("24", "15:04"), ("12", "3:04 PM")])
async def test_the_time_zone_is_in_the_prompt_and_the_clock_only_in_session_status(
    tmp_path: Path, form: str, time: str
) -> None:
    defaults = {"model": "fake/m", "userTimezone": "Asia/Kolkata", "timeFormat": form}
    model = ScriptedModel([call_tools(("session_status", {})), say("it is late")])
    async with running(tmp_path / "h", model, FakeChannel(), agents={"defaults": defaults}) as app:
        app.clock.now = lambda: 1_767_346_440_000  # type: ignore[method-assign] # 2026-01-02 09:34 UTC
        await tell(app, "what time is it?")
    assert "Asia/Kolkata" in model.requests[0].prompt.stable and "2026" not in model.requests[0].prompt.text
    assert time in model.requests[1].messages[-1].text


@pytest.mark.seed(258)
async def test_only_a_trusted_turn_may_choose_the_model_by_tool(tmp_path: Path) -> None:
    provider: dict[str, Any] = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k"}
    provider["models"] = [{"id": "m"}, {"id": "other"}]
    switch = call_tools(("session_status", {"model": "fake/other"}))
    clear = call_tools(("session_status", {"model": "default"}))
    model = ScriptedModel([switch, say("no"), switch, say("yes"), say("there"), clear, say("ok"), say("back")])
    async with running(tmp_path / "h", model, FakeChannel(), models={"providers": {"fake": provider}}) as app:
        await app.wait((await app.submit(inbound("switch"))).id)  # a stranger
        for text in ("switch", "hello", "clear", "hello"):
            await tell(app, text)
        row = await app.store.session("agent:main:main")
        assert row is not None and SessionRecord.decode(row.data).modelOverride is None  # cleared, not set to the same
    used = [request.model.ref.model for request in model.requests]
    assert used == ["m", "m", "m", "m", "other", "other", "other", "m"]
    assert "not" in model.requests[1].messages[-1].text


@pytest.mark.seed(245)
@pytest.mark.parametrize("word", ["/new", "/reset"])
async def test_a_bare_new_or_reset_begins_once_with_the_notes_of_the_last_days(tmp_path: Path, word: str) -> None:
    folder = workspace(tmp_path / "h") / "memory"
    folder.mkdir()
    model = ScriptedModel([say("one"), say("two"), say("three"), say("four")])
    async with running(tmp_path / "h", model, FakeChannel()) as app:
        today = datetime.fromtimestamp(app.clock.now() / 1000, UTC).date()
        (folder / f"{today}.md").write_text("The lobster likes jazz.")
        (folder / "2001-01-01.md").write_text("ancient")
        await tell(app, "hello")
        await tell(app, word)
        await tell(app, "hi")
        await tell(app, "again")
        await tell(app, f"{word} straight on")
    texts = [request.messages[-1].text for request in model.requests]
    assert texts[0] == "hello" and texts[2] == "again" and texts[3] == "straight on"
    assert "The lobster likes jazz." in texts[1] and texts[1].endswith("hi") and "ancient" not in texts[1]


async def test_a_skill_is_used_by_name(tmp_path: Path) -> None:
    folder = workspace(tmp_path / "h") / "skills" / "tides"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: tides\ndescription: Tells the tides.\n---\nLook at the moon.\n")
    model = ScriptedModel([call_tools(("read", {"path": str(folder / "SKILL.md")})), say("high at noon")])
    async with running(tmp_path / "h", model, FakeChannel()) as app:
        assert "tides - Tells the tides." in await tell(app, "/skill")
        assert 'no skill "wind"' in await tell(app, "/skill wind")
        assert await tell(app, "/skill tides in Brest?", push=False) == "high at noon"
    asked = model.requests[0].messages[-1].text
    assert str(folder / "SKILL.md") in asked and asked.endswith("in Brest?")
    assert "Look at the moon." in model.requests[1].messages[-1].text
    assert "<name>tides</name>" in model.requests[0].prompt.stable
