"""Lines about tools."""

from __future__ import annotations

from typing import Any

import pytest

from palinurus.core.stream.progress import OUTPUT, write_failure_line, write_tool_line, write_tool_output

CHECK = {"command": "node --check /tmp/app.js"}


@pytest.mark.seed(97)
@pytest.mark.parametrize(
    ("name", "args", "shown"),
    [
        ("read", {"path": "a.md"}, "📖 Read: a.md"),
        ("read", {"file_path": "a.md", "offset": 3}, "📖 Read: a.md"),
        ("web_search", {"query": "lobsters"}, "🔎 Web Search: lobsters"),
        ("process", {"action": "poll", "sessionId": "x1"}, "🧰 Process: poll x1"),
        ("update_plan", {"plan": [1]}, "🗺️ Update Plan"),
        ("other_tool", {"query": "q", "name": "n"}, "🧩 Other Tool: q"),
        ("other_tool", {"deep": {"x": 1}}, "🧩 Other Tool"),
    ],
)
def test_a_line(name: str, args: dict[str, Any], shown: str) -> None:
    assert write_tool_line(name, args) == shown


@pytest.mark.seed(104)
def test_explained() -> None:
    assert write_tool_line("exec", CHECK) == "🛠️ Exec: check JS syntax for /tmp/app.js"


@pytest.mark.seed(105)
def test_raw_adds_the_command() -> None:
    assert (
        write_tool_line("exec", CHECK, "", "raw") == "🛠️ Exec: check JS syntax for /tmp/app.js, node --check /tmp/app.js"
    )
    assert write_tool_line("exec", {"command": "./x --y"}, "", "raw") == "🛠️ Exec: ./x --y"


def test_failures() -> None:
    assert write_failure_line("exec", CHECK) == "⚠️ 🛠️ Exec failed: check JS syntax for /tmp/app.js"
    assert write_failure_line("goals", {}) == "⚠️ 🎯 Goals failed"


def test_a_line_is_one_short_line() -> None:
    made = write_tool_line("write", {"path": "a\n" * 500})
    assert len(made) < 130 and "\n" not in made


@pytest.mark.seed(101)
def test_output_is_cut_and_fenced() -> None:
    assert write_tool_output("a\nb\n") == "```txt\na\nb\n```"
    assert write_tool_output(" \n") == ""
    long = write_tool_output("head" + "x" * 50_000 + "tail")
    assert len(long) <= OUTPUT + 100 and "head" in long and "tail" in long and "… cut …" in long
    assert write_tool_output("a\n```\nb").startswith("````txt\n")
