"""Replacing by handle: atomic, and kind to what was there."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from palinurus.core.types.tool import ToolFailure
from palinurus.tools.files import handles
from palinurus.tools.files.paths import resolve_path


def test_mode_is_kept_and_nothing_else_is_left(ctx: Any, workspace: Path) -> None:
    path = workspace / "script"
    path.write_text("old")
    path.chmod(0o751)
    assert handles.replace_file(resolve_path("script", ctx), b"new") is False
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert os.listdir(workspace) == ["script"]


def test_a_reader_with_the_old_file_open_keeps_it(ctx: Any, workspace: Path) -> None:
    (workspace / "f").write_text("old")
    with open(workspace / "f") as reader:
        handles.replace_file(resolve_path("f", ctx), b"new")
        assert reader.read() == "old"
    assert (workspace / "f").read_text() == "new"


def test_a_failed_replacement_leaves_the_old_file_and_no_rest(ctx: Any, workspace: Path) -> None:
    (workspace / "d").mkdir()
    with pytest.raises(ToolFailure, match="is a directory"):
        handles.replace_file(resolve_path("d", ctx), b"x")
    with pytest.raises(ToolFailure, match="too long"):
        handles.replace_file(resolve_path("n" * 256, ctx), b"x")
    assert os.listdir(workspace) == ["d"]


def test_missing_files_come_with_the_nearest_name(ctx: Any, workspace: Path) -> None:
    (workspace / "readme.md").write_text("")
    with (
        pytest.raises(ToolFailure, match=r"redme.md does not exist; did you mean readme.md\?"),
        handles.open_file(resolve_path("redme.md", ctx)),
    ):
        pass


async def test_one_change_at_a_time(ctx: Any) -> None:
    place = resolve_path("f", ctx)
    inside = 0

    async def one() -> None:
        nonlocal inside
        async with handles.lock_path(place):
            assert inside == 0
            inside += 1
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(one() for _ in range(20)))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open handles in /proc")
def test_no_handle_is_lost(ctx: Any, workspace: Path) -> None:
    (workspace / "f").write_text("x")
    before = len(os.listdir("/proc/self/fd"))
    for path in ("f", "missing", "a/b/missing", ".", "/dev/null", "f/x"):
        for use in (handles.open_file, handles.open_listing):
            try:
                with use(resolve_path(path, ctx)):
                    pass
            except ToolFailure:
                pass
    assert len(os.listdir("/proc/self/fd")) == before
