"""Verdicts in words."""

from __future__ import annotations

from palinurus.core.policy.decide import decide_tools, describe_tool_verdict, explain_tool_verdict
from palinurus.core.policy.layers import ToolLists, ToolQuestion, ToolRules, ToolScope
from support import tool

VERDICT = decide_tools(
    ToolRules(ToolScope(ToolLists("tools", deny=("bash",)))),
    ToolQuestion("main"),
    {"read": tool("read"), "exec": tool("exec")},
)


def where(key: str) -> str:
    return f"file.json:{len(key)}"


def test_told() -> None:
    lines = explain_tool_verdict("Bash", VERDICT, where)
    assert lines[0] == "exec is not offered: tools.deny names it (file.json:10)."
    assert lines[1:3] == ["  3 global lists: hidden, tools.deny names it (file.json:10)", "  7 of 8 layers say nothing"]
    assert lines[-2:] == ["to allow it:", "  take exec out of tools.deny: pal config set tools.deny '[]'"]
    assert (
        explain_tool_verdict("read", VERDICT, where)[0] == "read is offered."
        and len(explain_tool_verdict("read", VERDICT, where)) == 3
    )


def test_names_that_are_no_tools_here() -> None:
    assert explain_tool_verdict("raed", VERDICT, where) == ["There is no tool raed. Did you mean read?"]
    assert explain_tool_verdict("browser", VERDICT, where) == [
        "browser is a name that policies know, but there is no such tool in this program yet."
    ]
    assert describe_tool_verdict("qqqqq", VERDICT, where) == {
        "tool": "qqqqq", "known": False, "available": False, "reason": "There is no tool qqqqq.",
    }  # fmt: skip


def test_explained() -> None:
    body = describe_tool_verdict("exec", VERDICT, where)
    assert (body["available"], body["layer"], body["key"], body["source"]) == (False, 3, "tools.deny", "file.json:10")
    assert body["changes"] == [{"words": "take exec out of tools.deny", "key": "tools.deny", "value": []}]
    assert [step["hidden"] for step in body["steps"]] == [n == 3 for n in range(1, 9)]
    assert describe_tool_verdict("read", VERDICT, where)["available"] is True


def test_only_files_are_named_where_something_is_written() -> None:
    assert explain_tool_verdict("exec", VERDICT, lambda key: "")[0] == "exec is not offered: tools.deny names it."
