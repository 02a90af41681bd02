"""The child that reads: warm between pages, and its crash, hang or flood is one failed page and nothing more."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nosync import count_filters
from palinurus.core.types.tool import ToolFailure
from palinurus.tools.sandbox.probe import detect_support
from palinurus.tools.web.reader import PAGE_MODULE, FormatReader, is_usable

CHILD = """
import os, time, sys
LIFE = os.urandom(8).hex()
from palinurus.tools.web.serve import serve_jobs
def boom(told, data): raise ValueError("no good")
def grow(told, data): return len(bytearray(4 << 30))
def deep(told, data): return deep(told, data)
def look(told, data):
    import socket
    found = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
    try: found["read"] = open(told["path"]).read()
    except OSError as exc: found["read"] = type(exc).__name__
    try: found["network"] = str(socket.socket())
    except OSError as exc: found["network"] = type(exc).__name__
    try: open(told["path"] + "/../new", "w").close()
    except OSError: pass
    return found
serve_jobs({
    "look": look,
    "echo": lambda told, data: {"told": told, "size": len(data), "pid": LIFE, "env": dict(os.environ)},
    "boom": boom, "grow": grow, "deep": deep,
    "die": lambda told, data: os._exit(11),
    "hang": lambda told, data: time.sleep(60),
    "write": lambda told, data: os.write(os.open(told["path"], os.O_CREAT | os.O_WRONLY), b"x"),
    "flood": lambda told, data: "x" * (40 << 20),
})
"""


@pytest.fixture
async def reader() -> AsyncIterator[FormatReader]:
    made = FormatReader("", "the thing", (sys.executable, "-I", "-c", CHILD))
    yield made
    await made.close()


async def test_one_child_answers_again_and_again_with_an_empty_environment(reader: FormatReader) -> None:
    first = await reader.ask("echo", {"a": 1}, b"x" * 300_000, 20)
    again = await reader.ask("echo", {}, b"", 20)
    assert first["told"] == {"a": 1, "job": "echo"} and first["size"] == 300_000 and first["pid"] == again["pid"]
    assert set(first["env"]) <= {"PATH", "LC_CTYPE", "TMPDIR"}


@pytest.mark.parametrize(
    ("job", "words"),
    [("boom", "no good"), ("grow", "memory"), ("deep", "nested"), ("none", "KeyError"), ("write", "large|denied|No")],
)  # fmt: skip
async def test_a_job_that_fails_is_said_and_the_child_lives(
    reader: FormatReader, job: str, words: str, tmp_path: object
) -> None:
    before = await reader.ask("echo", {}, b"", 20)
    with pytest.raises(ToolFailure, match=words):
        await reader.ask(job, {"path": f"{tmp_path}/x"}, b"", 20)
    assert (await reader.ask("echo", {}, b"", 20))["pid"] == before["pid"]


@pytest.mark.parametrize(("job", "seconds"), [("die", 20), ("hang", 0.3), ("flood", 20)])
async def test_a_child_that_is_lost_is_replaced(reader: FormatReader, job: str, seconds: float) -> None:
    before = (await reader.ask("echo", {}, b"", 20))["pid"]
    with pytest.raises(ToolFailure, match="the thing could not be read"):
        await reader.ask(job, {}, b"", seconds)
    assert (await reader.ask("echo", {}, b"", 20))["pid"] != before


async def test_who_gives_up_in_the_middle_does_not_leave_his_answer_to_the_next(reader: FormatReader) -> None:
    task = asyncio.ensure_future(reader.ask("hang", {}, b"", 20))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await reader.ask("echo", {"who": 2}, b"", 20))["told"]["who"] == 2


async def test_a_stuck_page_holds_up_nobody_else(reader: FormatReader) -> None:
    """Issue 21: one page of 200,000 nested elements held every reader for 15 seconds."""
    stuck = asyncio.ensure_future(reader.ask("hang", {}, b"", 50))
    await asyncio.sleep(0.2)
    assert (await reader.ask("echo", {"who": 2}, b"", 40))["told"]["who"] == 2
    assert not stuck.done()
    stuck.cancel()


@pytest.mark.skipif(detect_support().best() == "none", reason="nothing contains here")
async def test_a_parser_that_is_taken_over_has_nothing(reader: FormatReader, tmp_path: Path) -> None:
    """F16: no rights, no network, no file of the user's, nothing to write."""
    (tmp_path / "key").write_text("canary")
    seen = await reader.ask("look", {"path": str(tmp_path / "key")}, b"", 40)
    assert int(seen["Seccomp_filters"]) > count_filters() and seen["Seccomp"] == "2"
    assert seen["NoNewPrivs"] == "1" and int(seen["CapEff"], 16) & 0x3FFFFFF & ~0x4FB == 0
    assert "canary" not in seen["read"] and seen["network"] == "PermissionError"
    assert not (tmp_path / "new").exists()


async def test_questions_at_the_same_time_get_their_own_answers(reader: FormatReader) -> None:
    found = await asyncio.gather(*(reader.ask("echo", {"n": n}, b"", 20) for n in range(20)))
    assert [one["told"]["n"] for one in found] == list(range(20))


async def test_a_page_that_kills_its_parser_is_one_failed_page() -> None:
    """Twenty thousand levels crash the markdown writer when they reach it, and take long before that."""
    pages = FormatReader(PAGE_MODULE, "the page")
    assert is_usable(PAGE_MODULE)
    try:
        with pytest.raises(ToolFailure, match="the page could not be read"):
            await pages.ask("extract", {"mode": "markdown"}, b"<ul><li>" * 30_000, 1.0)
        found = await pages.ask("extract", {"mode": "markdown", "url": "http://x/"}, b"<p>fine</p>", 20)
        assert found["text"] == "fine"
    finally:
        await pages.close()
