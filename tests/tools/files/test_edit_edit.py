"""edit on real files."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any


def one(old: str, new: str) -> list[dict[str, str]]:
    return [{"oldText": old, "newText": new}]


async def test_bom_line_endings_and_foreign_bytes_are_kept(do: Any, workspace: Path) -> None:
    (workspace / "f").write_bytes(b"\xef\xbb\xbfa\r\n\xff\xfe b\r\n")
    result = await do("edit", path="f", edits=one("a\n", "x\ny\n"))
    assert not result.isError, result.text
    assert (workspace / "f").read_bytes() == b"\xef\xbb\xbfx\r\ny\r\n\xff\xfe b\r\n"
    assert "-a\n+x\n+y" in result.details["diff"]
    assert result.details["firstChangedLine"] == 1


async def test_several_edits_in_one_call(do: Any, workspace: Path) -> None:
    (workspace / "f").write_text("a\nb\nc\n")
    result = await do("edit", path="f", edits=[*one("c", "z"), *one("a", "x")])
    assert (workspace / "f").read_text() == "x\nb\nz\n"
    assert "2 places, first at line 1" in result.text


async def test_failures_change_nothing(do: Any, workspace: Path) -> None:
    (workspace / "f").write_text("a\nb\na\n")
    (workspace / "bin").write_bytes(b"a\x00b")
    (workspace / "big").write_bytes(b"x" * 10_000_001)
    for path, edits, says in (
        ("f", one("a", "x"), "occurs 2 times"),
        ("f", [*one("b", "x"), *one("nope", "y")], "edit 2: oldText was not found"),
        ("f", [], "edits is empty"),
        ("bin", one("a", "x"), "binary file"),
        ("big", one("a", "x"), "too large to edit"),
        ("none", one("a", "x"), "does not exist"),
        (".", one("a", "x"), "directory"),
    ):
        result = await do("edit", path=path, edits=edits)
        assert result.isError and says in result.text
    assert (workspace / "f").read_text() == "a\nb\na\n"


async def test_parallel_edits_of_one_file_do_not_lose_each_other(do: Any, workspace: Path) -> None:
    text = "".join(f"<{i}>\n" for i in range(30)) + "x" * 300_000  # large: the work is done in threads
    (workspace / "f").write_text(text)
    results = await asyncio.gather(*(do("edit", path="f", edits=one(f"<{i}>", f"[{i}]")) for i in range(30)))
    assert not any(r.isError for r in results)
    assert (workspace / "f").read_text() == text.replace("<", "[").replace(">", "]")
