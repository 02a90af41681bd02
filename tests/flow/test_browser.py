"""The agent and its browser, whole: thirty tasks in real Chromium, what it may not reach, and what is asked before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running, settings
from palinurus.cli.doctor.checks import DoctorCase, check_browser
from palinurus.cli.look.preview import preview_run
from palinurus.config.load import load_config
from palinurus.core.policy.decide import explain_tool_verdict
from palinurus.core.types.inbound import Sender, Target
from palinurus.core.types.messages import ImageBlock
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, ScriptStep, call_tools, say
from support import inbound
from tools.browser.player import CHROMIUM, act, make_player, needs_chromium, results, step
from tools.browser.site import TaskSite, proof

OWNER = Sender("me", owner=True)
LOOK = step("snapshot")


@pytest.fixture
async def site() -> Any:
    made = TaskSite()
    await made.start()
    yield made
    await made.stop()


def opened(site: TaskSite, **more: Any) -> dict[str, Any]:
    return {
        "tools": {"web": {"fetch": {"allowedHosts": site.entries}}},
        "browser": {"executablePath": CHROMIUM, **more},
    }


# Name of the task -> what the owner says besides the address, and the steps after it is opened.
TASKS: dict[str, tuple[str, list[ScriptStep]]] = {
    "login": (
        "log in as ada with s3cret-tide",
        [
            LOOK,
            act("type", ref="@textbox User", text="ada"),
            act("type", ref="@textbox Password", text="s3cret-tide", submit=True),
            LOOK,
        ],
    ),
    "table": ("what is Ada's code?", [LOOK]),
    "list": (
        "find the special item",
        [
            LOOK,
            act("scrollIntoView", ref="@listitem item 10"),
            act("wait", text="item 20"),
            LOOK,
            act("scrollIntoView", ref="@listitem item 20"),
            act("wait", text="item 30"),
            LOOK,
            act("scrollIntoView", ref="@listitem item 30"),
            act("wait", text="proof-list"),
            LOOK,
        ],
    ),
    "frame": ("press Inside", [LOOK, act("click", ref="@button Inside"), LOOK]),
    "nested": ("press Deep", [LOOK, act("click", ref="@button Deep"), LOOK]),
    "foreign": (
        "the word is tide",
        [LOOK, act("type", ref="@textbox Word", text="tide"), act("click", ref="@button Check"), LOOK],
    ),
    "shadow": ("press it", [LOOK, act("click", ref="@button In the shadow"), LOOK]),
    "closed": (
        "the word is reef",
        [LOOK, act("type", ref="@textbox Word", text="reef"), act("click", ref="@button Try"), LOOK],
    ),
    "upload": (
        "upload notes.txt",
        [
            LOOK,
            step("upload", inputRef="@button File", paths=["notes.txt"]),
            act("click", ref="@button Send file"),
            LOOK,
        ],
    ),
    "picker": (
        "give it notes.txt",
        [LOOK, step("upload", paths=["notes.txt"]), act("click", ref="@button Choose"),
         act("wait", text="proof"), LOOK],
    ),
    "download": (
        "get the report",
        [LOOK, step("download", ref="@link Report", path="in/report.txt"),
         call_tools(("read", {"path": "in/report.txt"}))],
    ),
    "confirm": (
        "delete it",
        [LOOK, step("dialog", accept=True), act("click", ref="@button Delete"), act("wait", text="proof"), LOOK],
    ),
    "prompt": (
        "say you are Ada",
        [LOOK, act("click", ref="@button Ask"), LOOK, step("dialog", accept=True, promptText="Ada"), LOOK],
    ),
    "alert": ("warn me", [LOOK, act("click", ref="@button Warn"), step("dialog", accept=True), LOOK]),
    "canvas": (
        "draw an angle",
        [LOOK, act("drag", ref="@canvas", points=[[20, 20], [100, 20], [100, 100]]), LOOK],
    ),
    "drop": (
        "put the parcel on the shelf",
        [LOOK, act("drag", startRef="@draggable Parcel", endRef="@clickable Shelf"), LOOK],
    ),
    "slider": ("to the end", [LOOK, act("drag", startRef="@slider Knob", endRef="@button End"), LOOK]),
    "spa": (
        "second view",
        [LOOK, act("click", ref="@link Second"), act("wait", url="*/spa/two", text="Second view"), LOOK],
    ),
    "slow": ("wait for it", [act("wait", text="proof-slow"), LOOK]),
    "popup": ("open the window", [LOOK, act("click", ref="@button Open window"), act("wait", text="proof"), LOOK]),
    "blank": (
        "use the code 4711",
        [
            LOOK,
            act("click", ref="@link Code"),
            LOOK,
            step("close"),
            LOOK,
            act("type", ref="@textbox Code", text="4711"),
            act("click", ref="@button Use"),
            LOOK,
        ],
    ),
    "select": (
        "green, S and L",
        [LOOK, act("select", ref="@combobox Colour", values=["Green"]),
         act("select", ref="@listbox Sizes", values=["S", "L"]), LOOK],
    ),
    "fields": (
        "news, train, 2026-05-01, 7, window seat",
        [
            LOOK,
            act("fill", fields=[
                {"ref": "@checkbox News", "value": True}, {"ref": "@radio Train", "value": True},
                {"ref": "@date Day", "value": "2026-05-01"}, {"ref": "@slider Size", "value": "7"},
                {"ref": "@textbox Note", "value": "window seat"},
            ]),
            act("click", ref="@button Done"),
            LOOK,
        ],
    ),
    "hover": (
        "take the hidden item",
        [LOOK, act("hover", ref="@button Menu"), LOOK, act("click", ref="@button Hidden item"), LOOK],
    ),
    "mouse": (
        "twice, then right",
        [LOOK, act("click", ref="@button Target", doubleClick=True),
         act("click", ref="@button Target", button="right"), LOOK],
    ),
    "keys": (
        "open harbour",
        [LOOK, act("press", key="Control+k"), LOOK,
         act("type", ref="@textbox Palette", text="open harbour", slowly=True),
         act("press", key="Enter"), LOOK],
    ),
    "editor": (
        "new text",
        [LOOK, act("type", ref="@textbox Editor", text="new text"), act("click", ref="@button Save"), LOOK],
    ),
    "div": ("press it", [LOOK, act("click", ref="@clickable Looks"), LOOK]),
    "cover": (
        "go on",
        [LOOK, act("click", ref="@button Go on"), act("click", ref="@button Accept all"),
         act("click", ref="@button Go on"), LOOK],
    ),
    "script": ("the token", [act("evaluate", fn="() => window.token")]),
    "complete": (
        "Hamburg",
        [LOOK, act("type", ref="@textbox City", text="Ham", slowly=True), act("wait", text="Hamburg"), LOOK,
         act("click", ref="@listitem Hamburg"), LOOK],
    ),
    "narrow": ("on a phone", [act("resize", width=400, height=700), LOOK]),
    "console": ("read the log", [LOOK, act("click", ref="@button Log"), step("console", level="error")]),
    "search": (
        "look for spiny lobster",
        [LOOK, act("type", ref="@textbox Query", text="spiny lobster"), act("press", key="Enter"), LOOK],
    ),
    "spinner": ("wait", [act("wait", textGone="Please wait"), LOOK]),
    "moved": ("go there", [act("wait", text="proof"), LOOK]),
    "guarded": (
        "name ada, password open sesame",
        [step("dialog", accept=True, promptText="ada:open sesame"), LOOK],
    ),
}  # fmt: skip
GROUPS = [list(TASKS)[at : at + 10] for at in range(0, len(TASKS), 10)]


@needs_chromium
@pytest.mark.seed(276, 297)
@pytest.mark.parametrize("names", GROUPS, ids=lambda names: f"{names[0]}-{names[-1]}")
async def test_tasks_on_pages_are_solved(tmp_path: Path, site: TaskSite, names: list[str]) -> None:
    scripts = {f"/{name} :": [step("open", targetUrl=site.url(f"/{name}")), *TASKS[name][1]] for name in names}
    model = make_player(scripts)
    found: dict[str, str] = {}
    async with running(tmp_path / "h", model, **opened(site)) as app:
        (Path(app.settings.agents["main"].workspace) / "notes.txt").write_text("buy milk\n")
        for name in names:
            said = f"open {site.url(f'/{name}')} : {TASKS[name][0]}"
            row = await app.wait((await app.submit(inbound(said, sender=OWNER, target=Target("fake", name)))).id)
            found[name] = row.note
            if row.note != proof(name):
                print(f"== {name}")
                for result in results(model.requests[-1]):
                    print(result.text[:1200])
    assert found == {name: proof(name) for name in names}


@pytest.mark.seed(276, 297)
async def test_the_browser_is_offered_to_the_owner_where_there_is_one_and_as_part_of_its_group(tmp_path: Path) -> None:
    program = tmp_path / "chromium"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    there: dict[str, Any] = {"browser": {"executablePath": str(program)}}
    cases: list[tuple[dict[str, Any], Sender, bool]] = [
        (there, OWNER, True),
        (there, Sender("you", allowed=True), False),  # its profile holds the owner's logins
        ({**there, "tools": {"deny": ["group:ui"]}}, OWNER, False),
        ({**there, "tools": {"profile": "minimal", "alsoAllow": ["group:ui"]}}, OWNER, True),
        ({**there, "tools": {"deny": ["group:nodes"]}}, OWNER, True),
        ({"browser": {**there["browser"], "enabled": False}}, OWNER, False),
        ({"browser": {"executablePath": "/no/such/chromium"}}, OWNER, False),
        ({}, OWNER, False),  # nothing on the PATH
    ]
    for number, (changes, sender, offered) in enumerate(cases):
        model = ScriptedModel([say("hello")])
        async with running(tmp_path / f"h{number}", model, **changes) as app:
            await app.wait((await app.submit(inbound("hi", sender=sender))).id)
        (request,) = model.requests
        assert ("browser" in {tool.name for tool in request.tools}) == offered, number
        assert ("- browser: Drive a browser" in request.prompt.stable) == offered, number
        assert "nodes" not in {tool.name for tool in request.tools}


@needs_chromium
async def test_a_picture_of_a_page_comes_back_as_an_image_and_its_words_as_words_from_outside(
    tmp_path: Path, site: TaskSite
) -> None:
    url = site.url("/table")
    steps = [step("open", targetUrl=url), step("screenshot"), LOOK]
    model = make_player({"look": steps})
    async with running(tmp_path / "h", model, **opened(site)) as app:
        await app.wait((await app.submit(inbound(f"look at {url}", sender=OWNER))).id)
    told = results(model.requests[-1])
    (image,) = [block for block in told[1].content if isinstance(block, ImageBlock)]
    assert image.mimeType == "image/png" and image.data.startswith("iVBOR")
    assert all(one.source.startswith("web ") for one in told)
    assert "EXTERNAL_UNTRUSTED_CONTENT" in told[2].text


@needs_chromium
async def test_the_owner_is_asked_before_a_form_is_sent_that_he_did_not_ask_for(tmp_path: Path, site: TaskSite) -> None:
    url = site.url("/login")
    steps = [
        step("open", targetUrl=url),
        LOOK,
        act("type", ref="@textbox User", text="ada"),
        act("type", ref="@textbox Password", text="s3cret-tide", submit=True),
        LOOK,
    ]
    model, channel = make_player({"read": steps}), FakeChannel()
    async with running(tmp_path / "h", model, channel, **opened(site)) as app:
        first = await app.submit(inbound(f"read {url}", sender=OWNER))
        async with asyncio.timeout(60):
            while not (rows := await app.approvals.pending()):
                await asyncio.sleep(0.01)
        assert "127.0.0.1" in rows[0].ask.title and "ada" in rows[0].ask.command
        assert "s3cret-tide" not in rows[0].ask.command and "/login/in" not in site.seen
        await app.wait((await app.submit(inbound(f"/approve {rows[0].id} allow-once", sender=OWNER, event="y"))).id)
        row = await app.wait(first.id)
    assert row.note == proof("login") and site.seen.count("/login/in") == 1


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({}, "there is no Chromium on this machine; install chromium"),
        ({"executablePath": "/no/such"}, "browser.executablePath (/no/such)"),
        ({"enabled": False}, "browser.enabled is false"),
    ],
)
async def test_why_there_is_no_browser_is_explained(tmp_path: Path, section: dict[str, Any], words: str) -> None:
    known = settings(tmp_path, browser=section)
    verdict = (await preview_run(known, {}, inbound("hi", sender=OWNER))).verdict
    assert "browser" in verdict.hidden
    assert any(words in line for line in explain_tool_verdict("browser", verdict, lambda key: ""))
    case = DoctorCase(str(tmp_path), {}, load_config(str(tmp_path), {}), False)
    (found,) = check_browser(case)
    assert words in found.what
    assert found.level == ("warn" if "executablePath" in section else "ok")
