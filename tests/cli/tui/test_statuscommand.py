from __future__ import annotations

from pathlib import Path

import pytest

from config.test_resolve import made
from palinurus.cli.tui.statuscommand import StatusCommand
from palinurus.testing.clock import FakeClock
from palinurus.tools.sandbox.probe import detect_support


@pytest.mark.skipif(detect_support().best() == "none", reason="nothing holds commands here")
async def test_it_is_held_cached_and_may_not_take_long(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_text("inside\n")
    (tmp_path / "secret").write_text("hidden")
    line = f"cat a; cat {tmp_path}/secret; touch b"
    clock = FakeClock()
    command = StatusCommand(made({"ui": {"terminal": {"statusCommand": line}}}), {}, clock)
    folder = str(tmp_path / "folder")
    assert await command(folder) == "inside"
    assert not (tmp_path / "folder" / "b").exists()
    (tmp_path / "folder" / "a").write_text("other\n")
    assert await command(folder) == "inside"
    await clock.advance(11)
    assert await command(folder) == "other"
