"""A small table that outlives the process."""

from __future__ import annotations

import asyncio
from pathlib import Path

from palinurus.channels.kit import MemoTable
from palinurus.testing.platform import FileMemo


async def test_the_last_rows_outlive_the_process_and_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    first = MemoTable(FileMemo(str(tmp_path)), "k", 3)
    await asyncio.gather(first.put("a", 0), first.put("b", 1))
    await first.put("c", 2)
    assert await MemoTable(FileMemo(str(tmp_path)), "k", 3).rows() == {"a": 0, "b": 1, "c": 2}
    await first.put("a", 9)
    await first.put("d", 4)
    assert list(await MemoTable(FileMemo(str(tmp_path)), "k", 3).rows()) == ["c", "a", "d"]
