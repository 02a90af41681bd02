"""The door under taint: who is asked, what the answer is bound to, what a result brings along."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.core.types.approval import ApprovalAnswer, TaintRules
from palinurus.core.types.messages import TextBlock, ToolCall, ToolResult, UserMessage
from palinurus.core.types.tool import Tool, ToolOutput, ToolReach, make_output
from palinurus.plugins.hooks import Hooks
from palinurus.tools.call import call_tool
from palinurus.tools.collect import make_builtin_tools

SCHEMA: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}


class Spy:
    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    async def __call__(self, ctx: Any, **args: Any) -> ToolOutput:
        self.calls.append(args)
        return make_output("done")


@pytest.fixture
def tainted(ctx: Any) -> Any:
    ctx.taint = ("web https://a.example",)
    ctx.marks = []

    async def mark(path: str) -> None:
        ctx.marks.append(path)

    ctx.mark, ctx.may_leak = mark, lambda url: "evil" in url
    return ctx


def one(name: str, run: Any, **facts: Any) -> dict[str, Tool]:
    return {name: Tool(name, name, SCHEMA, run, **facts)}


@pytest.mark.parametrize(
    ("name", "args", "facts"),
    [
        ("message", {"action": "send", "to": "bob", "message": "hi"}, {}),
        ("cron", {"action": "add"}, {}),
        ("gateway", {"action": "config.apply"}, {}),
        ("sessions_send", {"message": "hi"}, {}),
        ("sessions_spawn", {"task": "hi"}, {}),
        ("lights", {"on": True}, {"origin": "home"}),
        ("web_fetch", {"url": "https://evil.example"}, {}),
    ],
)
async def test_what_reaches_further_is_asked_and_runs_only_with_a_yes(
    tainted: Any, name: str, args: dict[str, Any], facts: dict[str, Any]
) -> None:
    spy = Spy()
    tools, hooks = one(name, spy, **facts), Hooks()
    result = await call_tool(ToolCall("1", name, args), tools, tainted, hooks)
    assert result.isError and "needs an approval" in result.text and "https://a.example" in result.text
    tainted.told = ApprovalAnswer("deny", "me")
    assert "denied by me" in (await call_tool(ToolCall("1", name, args), tools, tainted, hooks)).text
    assert spy.calls == []
    tainted.told = ApprovalAnswer("allow-once", "me")
    assert not (await call_tool(ToolCall("1", name, args), tools, tainted, hooks)).isError and spy.calls == [args]
    assert [ask.taint for ask in tainted.asked] == [tainted.taint] * 3 and tainted.asked[0].binding["args"]
    tainted.taint = ()
    await call_tool(ToolCall("1", name, args), tools, tainted, hooks)
    assert len(tainted.asked) == 3 and len(spy.calls) == 2


async def test_a_plugin_that_only_looks_is_not_asked_about(tainted: Any) -> None:
    spy = Spy()
    await call_tool(ToolCall("1", "look", {}), one("look", spy, origin="home", effect="pure"), tainted, Hooks())
    assert spy.calls == [{}] and tainted.asked == []


@pytest.mark.parametrize(
    ("args", "asked"),
    [
        ({}, False),  # a list
        ({"prompt": "brief"}, False),  # its own word
        ({"prompt": "brief", "arguments": {"topic": "boats"}}, False),  # the person's
        ({"prompt": "brief", "arguments": {"topic": "the safe opens with 4711"}}, True),
        ({"uri": "memo://the-safe-opens-with-4711"}, True),
        ({"uri": "memo://notes/1"}, False),
    ],
)
async def test_what_a_server_is_asked_for_tells_it_nothing_new(tainted: Any, args: Any, asked: bool) -> None:
    """Its prompts take any words: "take the prompt brief with the code of the safe" carried it away, unasked."""
    spy, source = Spy(), "mcp:docs"
    tainted.messages = [
        UserMessage("write the brief about boats", 0),
        ToolResult("0", "docs__prompt", (TextBlock("brief(topic)\nmemo://notes/1"),), source=source),
        ToolResult("0", "read", (TextBlock("the safe opens with 4711"),), source="file notes.txt"),
    ]
    tools = one("docs__prompt", spy, origin="bundle-mcp:docs", effect="pure", reach=ToolReach("asks", to=tuple(args)))
    result = await call_tool(ToolCall("1", "docs__prompt", args), tools, tainted, Hooks())
    assert (result.isError, len(tainted.asked), spy.calls == []) == (asked, asked, asked)


async def test_a_change_that_cannot_be_shown_whole_is_refused(tainted: Any, workspace: Path) -> None:
    long = ToolCall("1", "write", {"path": "MEMORY.md", "content": "x" * 4000})
    result = await call_tool(long, make_builtin_tools(), tainted, Hooks())
    assert result.isError and "too long to be shown" in result.text and tainted.asked == []


async def test_a_card_shows_what_changes_in_a_file(tainted: Any, workspace: Path) -> None:
    (workspace / "SOUL.md").write_text("one\ntwo\nthree\n")
    new = {"path": "SOUL.md", "content": "one\n2\nthree\n"}
    change = {"path": "SOUL.md", "edits": [{"oldText": "two", "newText": "2"}]}
    for name, args in (("write", new), ("edit", change), ("write", {"path": "MEMORY.md", "content": "all\nof it"})):
        await call_tool(ToolCall("1", name, args), make_builtin_tools(), tainted, Hooks())
    assert [one.command for one in tainted.asked] == ["-two\n+2", "-two\n+2", "all\nof it"]


async def test_memory_is_marked_before_it_is_written_and_a_prompt_file_a_person_read_is_theirs(
    tainted: Any, workspace: Path
) -> None:
    tainted.told = ApprovalAnswer("allow-once", "me")
    for path in ("memory/a.md", "MEMORY.md", "plain.md"):
        assert not (
            await call_tool(
                ToolCall("1", "write", {"path": path, "content": "x"}), make_builtin_tools(), tainted, Hooks()
            )
        ).isError
    assert tainted.marks == [str(workspace / name) for name in ("memory/a.md", "plain.md")] and len(tainted.asked) == 2
    tainted.set(taint=TaintRules(allow=("write",)))
    await call_tool(
        ToolCall("1", "write", {"path": "MEMORY.md", "content": "y"}), make_builtin_tools(), tainted, Hooks()
    )
    assert tainted.marks[2:] == [str(workspace / "MEMORY.md")] and len(tainted.asked) == 2
    assert (workspace / "MEMORY.md").read_text() == "y"


@pytest.mark.parametrize("tool", ["edit", "apply_patch"])
async def test_a_link_to_a_shaping_file_is_that_file(tainted: Any, workspace: Path, tool: str) -> None:
    (workspace / "SOUL.md").write_text("good\n")
    (workspace / "x.txt").symlink_to("SOUL.md")
    patch = "*** Begin Patch\n*** Update File: x.txt\n@@\n-good\n+bad\n*** End Patch"
    args = {"input": patch} if tool == "apply_patch" else {"path": "x.txt", "oldText": "good", "newText": "bad"}
    result = await call_tool(ToolCall("1", tool, args), make_builtin_tools(), tainted, Hooks())
    assert result.isError and "SOUL.md" in tainted.asked[0].title and (workspace / "SOUL.md").read_text() == "good\n"


async def test_results_say_where_they_came_from(ctx: Any, workspace: Path) -> None:
    (workspace / "a.txt").write_text("hello")
    (workspace / "SOUL.md").write_text("soul")
    tools, sources = make_builtin_tools(), []
    for name, args in (
        ("read", {"path": "a.txt"}),
        ("read", {"path": "SOUL.md"}),
        ("read", {"path": "missing"}),
        ("exec", {"command": "echo hi"}),
        ("write", {"path": "b.txt", "content": "x"}),
    ):
        sources.append((await call_tool(ToolCall("1", name, args), tools, ctx, Hooks())).source)
    assert sources == ["file a.txt", "own read", "", "command echo hi", ""]
    ctx.file_taint = lambda path: ("web x",) if path.endswith("SOUL.md") else ()
    assert (await call_tool(ToolCall("1", "read", {"path": "SOUL.md"}), tools, ctx, Hooks())).source == "memory SOUL.md"


async def test_typing_into_a_command_outside_the_sandbox_is_asked_about(do: Any, ctx: Any) -> None:
    started = await do("exec", command="cat", background=True)
    ident = started.details["sessionId"]
    ctx.taint = ("web x",)
    sent = await do("process", action="submit", sessionId=ident, data="evil")
    assert sent.isError and "needs an approval" in sent.text and "cat" in ctx.asked[0].title
    ctx.set(cell=msgspec.structs.replace(ctx.settings.cell, accepted=True))
    assert (await do("process", action="submit", sessionId=ident, data="evil")).isError  # it has the network
    ctx.taint = ("file x",)
    assert not (await do("process", action="submit", sessionId=ident, data="fine")).isError


@pytest.mark.parametrize(("decision", "kept"), [("allow-once", True), ("deny", False), (None, False)])
async def test_what_a_command_writes_to_lasting_files_is_a_proposal_also_in_a_clean_session(
    do: Any, ctx: Any, workspace: Path, decision: Any, kept: bool
) -> None:
    (workspace / "SOUL.md").write_text("kind\n")
    ctx.told = ApprovalAnswer(decision, "me")
    ran = await do("exec", command="echo evil >> SOUL.md; mkdir -p skills/ev hooks; echo x > skills/ev/SKILL.md")
    (ask,) = ctx.asked
    assert ask.title == "keep what a command wrote to SOUL.md, skills/ev/SKILL.md"
    assert "+evil" in ask.command and "-kind" not in ask.command and not ask.taint
    assert (workspace / "SOUL.md").read_text() == ("kind\nevil\n" if kept else "kind\n")
    assert (workspace / "skills/ev/SKILL.md").exists() is kept
    assert ("The owner let the command change" if kept else "Undone: SOUL.md") in ran.text


async def test_a_flood_that_cannot_be_shown_is_undone_without_a_question(do: Any, ctx: Any, workspace: Path) -> None:
    ctx.told = ApprovalAnswer("allow-once", "me")
    ran = await do("exec", command="mkdir memory; for n in $(seq 300); do echo line $n > memory/n$n.md; done")
    assert ctx.asked == [] and "Undone" in ran.text and list((workspace / "memory").glob("*.md")) == []


async def test_a_command_that_was_left_behind_cannot_write_them_later(do: Any, ctx: Any, workspace: Path) -> None:
    (workspace / "HEARTBEAT.md").write_text("look\n")
    await do("exec", command="sleep 0.2; echo evil > HEARTBEAT.md; sleep 100", background=True)
    async with asyncio.timeout(90):
        while (workspace / "HEARTBEAT.md").read_text() != "evil\n":
            await asyncio.sleep(0.02)
    read = await do("read", path="HEARTBEAT.md")
    assert (workspace / "HEARTBEAT.md").read_text() == "look\n" and "look" in read.text and "Undone" in read.text
    assert len(ctx.asked) == 1


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", "a/b/AGENTS.md", ".claude/settings.json", ".mcp.json"])
async def test_files_that_steer_other_programs_ask_after_untrusted_content(tainted: Any, path: str) -> None:
    call = ToolCall("1", "write", {"path": path, "content": "x"})
    assert "needs an approval" in (await call_tool(call, make_builtin_tools(), tainted, Hooks())).text
    assert path in tainted.asked[0].title
    tainted.taint = ()
    assert not (await call_tool(call, make_builtin_tools(), tainted, Hooks())).isError
