"""write: new files, replaced files, and every way to fail."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


async def test_parents_are_made_and_bytes_counted(do: Any, workspace: Path) -> None:
    result = await do("write", path="a/b/c.txt", content="h\u00e9\n")
    assert result.text == "Created a/b/c.txt (4 bytes)."
    assert (workspace / "a/b/c.txt").read_bytes() == "h\u00e9\n".encode()
    assert "Replaced a/b/c.txt (0 bytes)" in (await do("write", path="a/b/c.txt", content="")).text
    assert os.listdir(workspace / "a/b") == ["c.txt"]


async def test_large_content(do: Any, workspace: Path) -> None:
    assert not (await do("write", path="big", content="x" * 1_000_000)).isError
    assert (workspace / "big").stat().st_size == 1_000_000


async def test_odd_content_is_written_as_it_is(do: Any, workspace: Path) -> None:
    await do("write", path="f", content="a\r\nb\x00c")
    assert (workspace / "f").read_bytes() == b"a\r\nb\x00c"
    await do("write", path="g", content="half \ud800 pair")
    assert (workspace / "g").read_text() == "half \ufffd pair"


async def test_errors_change_nothing(do: Any, workspace: Path) -> None:
    (workspace / "dir").mkdir()
    (workspace / "file").write_text("x")
    assert "is a directory" in (await do("write", path="dir", content="x")).text
    assert "directory is needed" in (await do("write", path="file/sub", content="x")).text
    assert "missing required argument: content" in (await do("write", path="x")).text
    assert "directory" in (await do("write", path=".", content="x")).text
    assert sorted(os.listdir(workspace)) == ["dir", "file"]
    assert (workspace / "file").read_text() == "x"
