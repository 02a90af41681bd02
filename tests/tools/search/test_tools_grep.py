"""grep through the door."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from palinurus.tools.commands.descendants import list_processes


async def test_regex_literal_case_and_glob(do: Any, workspace: Path) -> None:
    (workspace / "a.py").write_text("def foo():\n    return 1\n")
    (workspace / "b.txt").write_text("DEF foo()\r\n")
    assert (await do("grep", pattern=r"def \w+\(")).text == "a.py:1: def foo():"
    assert (await do("grep", pattern="foo()", literal=True)).text == "a.py:1: def foo():\nb.txt:1: DEF foo()"
    assert (await do("grep", pattern="def", ignoreCase="true", glob="*.txt")).text == "b.txt:1: DEF foo()"
    assert (await do("grep", pattern="FOO()", literal=True, ignoreCase=True, glob="*.py")).text == "a.py:1: def foo():"
    assert (await do("grep", pattern=r"\)$")).text == "b.txt:1: DEF foo()"
    assert (await do("grep", pattern="nothing like it")).text == "No matches found."


async def test_one_file(do: Any, workspace: Path) -> None:
    (workspace / "sub").mkdir()
    (workspace / "sub" / "f").write_text("x\ny\n")
    (workspace / "sub" / "g").write_text("x\n")
    (workspace / "sub" / ".gitignore").write_text("f\n")
    assert (await do("grep", pattern="x", path="sub/f")).text == "sub/f:1: x"  # asked for by name: not ignored
    assert (await do("grep", pattern="x", path="sub")).text == "sub/g:1: x"


async def test_context(do: Any, workspace: Path) -> None:
    (workspace / "f").write_text("".join(f"{i}\n" for i in range(1, 21)))
    assert (await do("grep", pattern="^(5|7|15)$", context=1)).text.split("\n") == [
        *("f-4- 4", "f:5: 5", "f-6- 6", "f:7: 7", "f-8- 8"),
        "--",
        *("f-14- 14", "f:15: 15", "f-16- 16"),
    ]


async def test_limits(do: Any, ctx: Any, workspace: Path) -> None:
    (workspace / "f").write_text("hit\n" * 300)
    result = await do("grep", pattern="hit")
    assert result.details == {"matches": 100, "truncated": True}
    assert "[First 100 shown" in result.text
    (workspace / "f").write_text("hit " + "x" * 5000 + "\n")
    assert (await do("grep", pattern="hit")).text == f"f:1: hit {'x' * 496}… [5004 characters]"
    (workspace / "f").write_text(("hit " + "x" * 400 + "\n") * 100)
    ctx.set(result_chars=5000)
    result = await do("grep", pattern="hit")
    assert "[Cut here: too long.]" in result.text and "left out" not in result.text


async def test_binary_and_unreadable_files_are_skipped(do: Any, workspace: Path) -> None:
    (workspace / "bin").write_bytes(b"hit\x00")
    (workspace / "latin").write_bytes(b"hit \xff here is more\n")
    (workspace / "link").symlink_to("latin")
    os.mkfifo(workspace / "pipe")
    assert (await do("grep", pattern="hit")).text == "latin:1: hit \ufffd here is more"


@pytest.mark.parametrize("pattern", ["(", "[a", "*x", "(?P<n>", "a{2,1}"])
async def test_patterns_that_are_none(do: Any, pattern: str) -> None:
    result = await do("grep", pattern=pattern)
    assert result.isError and "not a valid regular expression" in result.text and "literal" in result.text


async def test_other_errors(do: Any) -> None:
    assert "pattern is empty" in (await do("grep", pattern="")).text
    assert "does not exist" in (await do("grep", pattern="x", path="nope")).text
    assert "not searched" in (await do("grep", pattern="x", path="/proc/cpuinfo")).text


async def test_cancel_ends_a_search_that_is_stuck_in_a_match(do: Any, workspace: Path) -> None:
    (workspace / "f").write_text("a" * 60 + "!\n")
    mine = os.getpid()
    before = set(list_processes())  # other tests of this worker may have left children
    task = asyncio.ensure_future(do("grep", pattern="(a+)+$"))
    while not (found := {p.pid for p in list_processes().values() if p.parent == mine} - before):
        await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not found & set(list_processes())
