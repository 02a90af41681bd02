"""`pal logs`: the last lines, and what comes, over rotations."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from palinurus.cli.gateway.logs import start_logging
from palinurus.cli.look.logs import follow_lines, read_last, run_logs
from palinurus.clock import SystemClock
from palinurus.config.sections.session import LoggingSettings
from palinurus.errors import NotFound


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "gateway.log"


def begin(log: Path, files: int, size: int = 1500) -> logging.Logger:
    root, kept = logging.getLogger(), list(logging.getLogger().handlers)
    start_logging(logging.CRITICAL, [], file=str(log), rules=LoggingSettings(file_bytes=size, files=files))
    assert root.handlers != kept
    return root


@pytest.fixture(autouse=True)
def usual_logging() -> object:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for one in root.handlers:
        if one not in handlers:
            one.close()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize("files", [0, 1, 4])
def test_size_and_count_are_kept(log: Path, files: int) -> None:
    root = begin(log, files)
    for number in range(100):
        root.info("line %d %s", number, "x" * 50)
    found = sorted(path.name for path in log.parent.iterdir())
    assert found == ["gateway.log", *(f"gateway.log.{n}" for n in range(1, files + 1))]
    assert all(path.stat().st_size <= 1500 for path in log.parent.iterdir())


def test_the_last_lines_come_from_older_files_too(log: Path) -> None:
    root = begin(log, 4)
    for number in range(30):
        root.info("line %d", number)
    assert [b"line %d" % n in line for n, line in enumerate(read_last(str(log), 12), 18)] == [True] * 12
    assert read_last(str(log), 0) == []


async def test_followed_over_rotations_none_is_left_out(log: Path) -> None:
    root = begin(log, 50)
    root.info("before")
    lines = follow_lines(str(log), SystemClock())
    waiting = asyncio.ensure_future(anext(lines))
    await asyncio.sleep(0)
    seen = []
    for number in range(60):
        root.info("line %d %s", number, "x" * 100)
        seen.append(await asyncio.wait_for(waiting, 60))
        waiting = asyncio.ensure_future(anext(lines))
    waiting.cancel()
    assert [f"line {n} ".encode() in line for n, line in enumerate(seen)] == [True] * 60
    assert (log.parent / "gateway.log.5").exists()


def test_for_people(home: Path, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NotFound):
        run_logs([])
    root = begin(home / "logs" / "gateway.log", 2, 99999)
    root.info("quiet")
    root.error("loud")
    assert run_logs(["--level", "warn"]) == 0
    said = capsys.readouterr().out
    assert "error" in said and "loud" in said and "quiet" not in said
    assert run_logs(["-n", "1", "--json"]) == 0
    assert capsys.readouterr().out.startswith('{"time"')
