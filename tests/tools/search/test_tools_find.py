"""find through the door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def tree(workspace: Path) -> Path:
    for path in ("a.py", "src/b.py", "src/sub/c.py", "src/d.txt", "node/skip.py"):
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text("")
    (workspace / ".gitignore").write_text("node/\n")
    return workspace


async def test_names_paths_and_folders(do: Any, tree: Path) -> None:
    assert (await do("find", pattern="*.py")).text.split("\n") == ["a.py", "src/b.py", "src/sub/c.py"]
    assert (await do("find", pattern="src/*")).text.split("\n") == ["src/b.py", "src/d.txt", "src/sub/"]
    assert (await do("find", pattern="**/*.{py,txt}", path="src")).text.split("\n") == [
        "src/b.py",
        "src/d.txt",
        "src/sub/c.py",
    ]
    assert (await do("find", pattern="nothing")).text == "No files match."


async def test_absolute_and_parent_paths_can_be_given_to_read(do: Any, tree: Path) -> None:
    assert (await do("find", pattern="b.py", path=str(tree))).text == f"{tree}/src/b.py"
    assert (await do("find", pattern="b.py", path="./src/")).text == "src/b.py"


async def test_limits(do: Any, ctx: Any, workspace: Path) -> None:
    for i in range(50):
        (workspace / f"{i:02}{'x' * 40}").write_text("")
    result = await do("find", pattern="*", limit=10)
    assert "[First 10 shown; raise limit" in result.text and result.details == {"count": 10, "truncated": True}
    ctx.set(result_chars=900)
    result = await do("find", pattern="*")
    assert "[Cut here: too long.]" in result.text and "left out" not in result.text


async def test_a_repository_above_counts(do: Any, workspace: Path) -> None:
    (workspace / ".git").mkdir()
    (workspace / ".gitignore").write_text("/sub/hidden\n*.log\n")
    (workspace / "sub").mkdir()
    for name in ("hidden", "seen", "x.log"):
        (workspace / "sub" / name).write_text("")
    assert (await do("find", pattern="*", path="sub")).text == "sub/seen"


async def test_errors(do: Any) -> None:
    assert "pattern is empty" in (await do("find", pattern=" ")).text
    assert "does not exist" in (await do("find", pattern="*", path="nope")).text
    assert "not searched" in (await do("find", pattern="*", path="/proc")).text
    assert "not searched" in (await do("find", pattern="*", path="/dev")).text
