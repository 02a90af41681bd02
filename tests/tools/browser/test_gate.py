"""What leaves by way of a page after something from outside was read: asked about, unless the owner gave it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.core.types.approval import ApprovalAnswer
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.messages import UserMessage
from palinurus.core.types.tool import ToolFailure
from palinurus.tools.browser.gate import PageSending, is_named, require_leave
from palinurus.tools.browser.live import POPUPS
from tools.browser.kit import BrowserKit, read
from tools.browser.player import needs_chromium
from tools.browser.site import TaskSite, page

HERE = "https://shop.example/buy"


def hear(ctx: Any, text: str, *taint: str) -> Any:
    """The owner's words, and what was read before."""
    ctx.inbound = Inbound(Target("fake", "chat"), Sender("human", owner=True), "e", text, 0)
    ctx.messages = (UserMessage(text, 0),)
    ctx.taint = taint
    ctx.may_leak = lambda url: False  # somebody of ours, or a page, gave the address
    return ctx


@pytest.mark.parametrize(
    ("said", "sending", "named", "asked"),
    [
        ("buy it at shop.example for Ada", PageSending("send", HERE, ("Ada",)), True, False),
        ("buy it at shop.example", PageSending("send", HERE, ("Ada",)), True, True),
        ("buy it at shop.example for Ada", PageSending("send", HERE, ("Ada",)), False, True),
        ("look at shop.example", PageSending("send", HERE, label="Delete all"), True, True),
        ("press Delete all at shop.example", PageSending("send", HERE, label="Delete all"), True, False),
        ("search shop.example", PageSending("send", HERE, ("own words",), reads=True), True, False),
        ("search", PageSending("send", HERE, ("own words",), reads=True), False, True),
        ("use hunter2 at shop.example", PageSending("send", HERE, secrets=("hunter2",)), True, False),
    ],
)
async def test_who_gave_it_decides(ctx: Any, said: str, sending: PageSending, named: bool, asked: bool) -> None:
    hear(ctx, said, "web https://evil.example/")
    known = frozenset(("shop.example",)) if named else frozenset()
    if asked:
        with pytest.raises(ToolFailure, match="needs an approval"):
            await require_leave(ctx, sending, known)
    else:
        await require_leave(ctx, sending, known)
    assert len(ctx.asked) == asked


async def test_nothing_is_asked_before_anything_was_read_and_all_of_it_in_strict_mode(ctx: Any) -> None:
    await require_leave(hear(ctx, "hi"), PageSending("send", HERE, ("x",)), frozenset())
    assert not ctx.asked
    ctx.set(taint=msgspec.structs.replace(ctx.settings.taint, mode="strict"))
    hear(ctx, "Ada at shop.example", "web x")
    with pytest.raises(ToolFailure):
        await require_leave(ctx, PageSending("send", HERE, ("Ada",)), frozenset(("shop.example",)))


async def test_the_card_shows_what_is_sent_but_no_password(ctx: Any) -> None:
    hear(ctx, "hi", "web x").told = ApprovalAnswer("allow-once", "me")
    await require_leave(ctx, PageSending("send a form", HERE, ("Ada",), ("hunter2",)), frozenset())
    (card,) = ctx.asked
    assert "Ada" in card.command and HERE in card.command and "shop.example" in card.title
    assert "hunter2" not in repr(card) and card.allowed == ("allow-once", "deny")


def test_a_host_is_named_by_the_owner_or_before_anything_was_read(ctx: Any) -> None:
    assert is_named(hear(ctx, "anything"), HERE)
    assert is_named(hear(ctx, "go to https://shop.example/a", "web x"), HERE)
    assert is_named(hear(ctx, "shop.example, please", "web x"), HERE)
    assert not is_named(hear(ctx, "go to notshop.example or shop.example.evil.net", "web x"), HERE)
    ctx.inbound = msgspec.structs.replace(ctx.inbound, text="shop.example", sender=Sender("other"))
    ctx.messages = ()
    assert not is_named(ctx, HERE)


@needs_chromium
async def test_a_form_that_nobody_asked_for_is_not_sent(kit: BrowserKit, site: TaskSite, workspace: Path) -> None:
    (workspace / "diary.txt").write_text("dear diary")
    hear(kit.ctx, f"what does {site.url('/login')} say?", "web before")
    await kit.do("open", targetUrl=site.url("/login"))
    await kit.do("snapshot")
    await kit.act("type", ref=kit.ref("textbox User"), text="stolen words")
    for told in (
        await kit.act("click", ref=kit.ref("button Sign in")),
        await kit.act("press", key="Enter"),
        await kit.act("type", ref=kit.ref("textbox Password"), text="x", submit=True),
        await kit.do("upload", inputRef=kit.ref("textbox User"), paths=["diary.txt"]),
    ):
        assert told.isError and "needs an approval" in told.text
    assert "/login/in" not in site.seen and len(kit.ctx.asked) == 4
    kit.ctx.told = ApprovalAnswer("allow-once", "me")
    assert not (await kit.act("click", ref=kit.ref("button Sign in"))).isError
    assert "/login/in" in site.seen


@needs_chromium
async def test_nothing_is_typed_into_a_page_that_nobody_named(kit: BrowserKit, site: TaskSite) -> None:
    hear(kit.ctx, "say hello", "web before")
    await kit.do("open", targetUrl=site.url("/search"))
    await kit.do("snapshot")
    refused = await kit.act("type", ref=kit.ref("textbox Query"), text="the owner's secret")
    assert refused.isError and "needs an approval" in refused.text
    given = await kit.act("type", ref=kit.ref("textbox Query"), text="hello")
    assert not given.isError and "hello" in read(given)["changed"]
    script = await kit.act("evaluate", fn="() => fetch('/x?' + document.title)")
    assert script.isError and "needs an approval" in script.text


@needs_chromium
async def test_an_address_that_nobody_gave_is_asked_about(kit: BrowserKit, site: TaskSite) -> None:
    hear(kit.ctx, "hello", "web before")
    kit.ctx.may_leak = lambda url: True
    for action in ("open", "navigate"):
        for name in ("targetUrl", "url"):
            told = await kit.do(action, **{name: site.url("/evil?secret")})
            assert told.isError and "needs an approval" in told.text
    hidden = await kit.do("open", request={"targetUrl": site.url("/evil?secret")})
    assert hidden.isError and "targetUrl is missing" in hidden.text
    assert site.seen == []


@needs_chromium
async def test_files_that_shape_the_agent_are_not_written_by_a_page(
    kit: BrowserKit, site: TaskSite, workspace: Path
) -> None:
    hear(kit.ctx, "go")
    await kit.do("open", targetUrl=site.url("/paper"))
    assert (await kit.do("pdf", path="AGENTS.md")).isError and not (workspace / "AGENTS.md").exists()
    told = await kit.do("pdf", path="out/invoice.pdf")
    assert not told.isError and (workspace / "out/invoice.pdf").read_bytes().startswith(b"%PDF")


@needs_chromium
async def test_what_waits_for_a_yes_is_not_done_after_a_prompt_came_in_between(kit: BrowserKit, site: TaskSite) -> None:
    site.extra["/trap"] = page("<form method=post action=/login/in><input aria-label=A><button>Go</button></form>")
    answered = asyncio.Event()

    async def ask(request: Any) -> ApprovalAnswer:
        kit.ctx.asked.append(request)
        await answered.wait()
        return ApprovalAnswer("allow-once", "me")

    hear(kit.ctx, f"look at {site.url('/trap')}", "web before")
    kit.ctx.ask = ask
    await kit.do("open", targetUrl=site.url("/trap"))
    await kit.do("snapshot")
    await kit.act("evaluate", fn="() => { setTimeout(() => alert('now'), 1500) }")
    told = await kit.act("type", ref=kit.ref("textbox A"), text="x", submit=True)
    while not read(told).get("blockedByDialog"):  # the alert comes while the form waits for its yes, or before
        told = await kit.do("snapshot")
    answered.set()
    await kit.do("dialog", accept=True)
    await kit.act("wait", timeMs=300)
    assert "/login/in" not in site.seen


@needs_chromium
async def test_a_page_cannot_open_windows_without_end(kit: BrowserKit, site: TaskSite) -> None:
    hear(kit.ctx, "go")
    site.extra["/flood"] = page("<button onclick=\"for(let i=0;i<40;i++)open('/paper')\">Flood</button>")
    await kit.do("open", targetUrl=site.url("/flood"))
    await kit.do("snapshot")
    await kit.act("click", ref=kit.ref("button Flood"))
    assert len(read(await kit.do("tabs"))["tabs"]) <= POPUPS
