"""Permission modes at the door: mode x kind of tool x taint."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.core.policy.modes import MODES, REFUSED
from palinurus.core.types.approval import ApprovalAnswer, ExecRules
from palinurus.core.types.messages import ToolCall
from palinurus.core.types.tool import Tool, ToolOutput, make_output
from palinurus.plugins.hooks import Hooks
from palinurus.tools.call import call_tool
from palinurus.tools.collect import make_builtin_tools

SCHEMA: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
OUTSIDE = ("web https://a.example",)
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "look": ("read", {"path": "a.txt"}),
    "edit": ("write", {"path": "new.txt", "content": "x"}),
    "lasting": ("write", {"path": "SOUL.md", "content": "x"}),
    "command": ("exec", {"command": "echo hi"}),
    "act": ("lights", {"on": True}),
}
# What becomes of it: runs, asks or refused. Clean first, then after content from outside.
EXPECTED: dict[str, dict[str, tuple[str, str]]] = {
    "plan": {
        "look": ("runs", "runs"),
        "edit": ("refused", "refused"),
        "lasting": ("refused", "refused"),
        "command": ("refused", "refused"),  # nothing contains commands in this test; flow/test_modes has the other case
        "act": ("refused", "refused"),
    },
    "ask": {
        "look": ("runs", "runs"),
        "edit": ("asks", "asks"),
        "lasting": ("asks", "asks"),
        "command": ("asks", "asks"),
        "act": ("asks", "asks"),
    },
    **{
        mode: {
            "look": ("runs", "runs"),
            "edit": ("runs", "runs"),
            "lasting": ("runs", "asks"),
            "command": ("runs", "asks"),  # nothing contains it: outside content makes it ask, in `full` as well
            "act": ("runs", "asks"),
        }
        for mode in ("default", "acceptEdits", "full")
    },
}


async def switch(ctx: Any, **args: Any) -> ToolOutput:
    return make_output("done")


@pytest.mark.parametrize(("mode", "kind", "tainted"), list(product(MODES, CALLS, (False, True))))
async def test_mode_by_kind_by_taint(ctx: Any, workspace: Path, mode: Any, kind: str, tainted: bool) -> None:
    (workspace / "a.txt").write_text("hello")
    ctx.taint = OUTSIDE if tainted else ()
    rules = ExecRules(security="full", ask="always" if mode == "ask" else "off", mode=mode)
    ctx.set(rules=rules, cell=msgspec.structs.replace(ctx.settings.cell, accepted=True))
    tools = {**make_builtin_tools(), "lights": Tool("lights", "lights", SCHEMA, switch, origin="home")}
    name, args = CALLS[kind]
    result = await call_tool(ToolCall("1", name, args), tools, ctx, Hooks())
    wanted = EXPECTED[mode][kind][tainted]
    if wanted == "refused":
        assert result.isError and result.text == REFUSED and ctx.asked == []
    elif wanted == "asks":
        assert result.isError and len(ctx.asked) == 1, "one question for one call"
        ctx.told = ApprovalAnswer("allow-once", "me")
        assert not (await call_tool(ToolCall("1", name, args), tools, ctx, Hooks())).isError
    else:
        assert not result.isError and ctx.asked == []
    assert (workspace / "new.txt").exists() == (kind == "edit" and wanted != "refused")


async def test_the_question_of_an_edit_shows_what_changes_and_says_the_mode(ctx: Any, workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\ntwo\n")
    ctx.set(rules=ExecRules(mode="ask"))
    await call_tool(
        ToolCall("1", "edit", {"path": "a.txt", "edits": [{"oldText": "two", "newText": "2"}]}),
        make_builtin_tools(),
        ctx,
        Hooks(),
    )
    (asked,) = ctx.asked
    assert (asked.title, asked.command, asked.why) == ("change a.txt", "-two\n+2", "permission mode is ask")
