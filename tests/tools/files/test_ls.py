"""ls: what is in one folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any


async def test_sorted_with_dot_files_and_slashes(do: Any, workspace: Path) -> None:
    (workspace / "b").write_text("")
    (workspace / "A").mkdir()
    (workspace / ".hidden").write_text("")
    (workspace / "to-dir").symlink_to("A")
    assert (await do("ls")).text.split("\n") == [".hidden", "A/", "b", "to-dir"]
    assert (await do("ls", path="A")).text == "(empty directory)"


async def test_limits(do: Any, ctx: Any, workspace: Path) -> None:
    for i in range(30):
        (workspace / f"{i:03}{'x' * 50}").write_text("")
    result = await do("ls", limit=5)
    assert result.text.count("xxx\n") == 5 and "[5 of 30 entries." in result.text
    ctx.set(result_chars=1000)
    result = await do("ls")
    assert len(result.text) < 1000 and "of 30 entries" in result.text and "left out" not in result.text


async def test_errors(do: Any, workspace: Path) -> None:
    (workspace / "f").write_text("")
    assert (await do("ls", path="f")).text == "f is a file, not a directory; use read"
    assert "does not exist" in (await do("ls", path="nope")).text


async def test_names_that_are_no_utf8(do: Any, workspace: Path) -> None:
    (Path(str(workspace)) / "caf\udce9").write_text("")
    (workspace / "a-longer-plain-name").write_text("")
    assert (await do("ls")).text == "a-longer-plain-name\ncaf\ufffd"
