"""What the model is offered."""

from __future__ import annotations

from typing import Any

import pytest

from palinurus.tools.collect import make_builtin_tools

PARAMS = {
    "read": "path offset? limit?",
    "write": "path content",
    "edit": "path edits",
    "apply_patch": "input",
    "ls": "path? limit?",
    "find": "pattern path? limit?",
    "grep": "pattern path? glob? ignoreCase? literal? context? limit?",
    "update_plan": "explanation? plan",
    "exec": "command workdir? env? yieldMs? background? timeout? pty? elevated? host? security? ask? node?",
    "process": "action sessionId? data? keys? hex? literal? text? bracketed? eof? offset? limit? timeout?",
}


@pytest.mark.seed(274, 278)
def test_the_tools_and_their_arguments() -> None:
    offered = {}
    for name, tool in make_builtin_tools().items():
        required = tool.parameters.get("required", [])
        offered[name] = " ".join(p if p in required else f"{p}?" for p in tool.parameters["properties"])
        assert tool.name == name
        assert tool.description
        assert all(p["description"] for p in tool.parameters["properties"].values())
        assert set(tool.aliases.values()) <= set(tool.parameters["properties"]) | {
            "oldText",
            "newText",
            "step",
            "status",
        }
    assert offered == PARAMS


@pytest.mark.seed(274, 278)
async def test_every_tool_really_works(do: Any) -> None:
    assert "Created a.txt" in (await do("write", path="a.txt", content="one\n")).text
    assert (await do("edit", path="a.txt", edits=[{"oldText": "one", "newText": "two"}])).details[
        "firstChangedLine"
    ] == 1
    assert (await do("read", path="a.txt")).text == "two\n"
    assert (await do("ls")).text == "a.txt"
    assert (await do("find", pattern="*.txt")).text == "a.txt"
    assert (await do("grep", pattern="tw.")).text == "a.txt:1: two"
    assert (await do("exec", command="cat a.txt")).text == "two"


def test_what_may_be_repeated() -> None:
    effects = {name: tool.effect for name, tool in make_builtin_tools().items()}
    assert effects == {
        "read": "pure",
        "ls": "pure",
        "find": "pure",
        "grep": "pure",
        "update_plan": "idempotent",
        "write": "idempotent",
        "edit": "effect",
        "apply_patch": "effect",
        "exec": "effect",
        "process": "effect",
    }


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("exec", {"command": "  ls -l\nrm x"}, "ls -l"),
        ("exec", {"command": "x" * 200}, "x" * 79 + "…"),
        ("exec", {}, ""),
        ("exec", {"command": 5}, "5"),
        ("read", {"path": "a/b"}, "a/b"),
        ("read", {"file_path": "a"}, "a"),
        ("read", {"path": None}, ""),
        ("write", {"path": ["a"]}, "['a']"),
        ("edit", {"path": "a"}, "a"),
        ("ls", {}, "."),
        ("find", {"pattern": "*.py"}, "*.py in ."),
        ("grep", {"pattern": "x", "path": "src"}, "x in src"),
    ],
)
def test_summaries(name: str, args: dict[str, Any], expected: str) -> None:
    summary = make_builtin_tools()[name].summary
    assert summary is not None and summary(args) == expected
