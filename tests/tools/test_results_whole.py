"""Whole results: kept once, paged by `read`, out of reach for other sessions."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from palinurus.core.history.truncate import find_result_handle, make_read_hint, make_result_handle, shorten_result
from palinurus.core.types.messages import ToolResult
from palinurus.tools.results import keep_result, parse_handle

Do = Callable[..., Awaitable[ToolResult]]


def test_what_is_a_handle() -> None:
    assert parse_handle("result:0123456789abcdef") == "0123456789abcdef"
    for path in ("result:../../x", "results", "result:0123", "result:0123456789abcdef/x", "/result:0123456789abcdef"):
        assert parse_handle(path) == ""


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"line {n}" for n in range(3000)),
        "one line without an end, " * 2000,
        "wide " * 900 + "\n" + "narrow\n" * 900 + "ü€😀" * 3000,
    ],
)
async def test_following_the_marks_gives_every_character(do: Do, ctx: Any, tmp_path: Path, text: str) -> None:
    ctx.set(result_chars=4000, results=f"{tmp_path}/s.jsonl.result-")
    kept = keep_result(ctx.settings.results, text)
    assert kept == make_result_handle(text)
    found, offset = "", 1
    while offset:
        result = await do("read", path=f"result:{kept}", offset=offset)
        assert not result.isError and len(result.text) <= 4000
        page, _, hint = result.text.partition("\n[Lines ")
        going = re.search(r"Continue with offset=(\d+)", hint)
        offset = int(going[1]) if going else 0
        found += page
    assert found.replace("\n", "") == text.replace("\n", "")


async def test_the_mark_of_a_cut_leads_to_what_was_cut(do: Do, ctx: Any, tmp_path: Path) -> None:
    ctx.set(result_chars=4000, results=f"{tmp_path}/s.jsonl.result-")
    text = "\n".join(f"row {n}" for n in range(3000))
    short = shorten_result(text, 4000, keep_result(ctx.settings.results, text))
    offset = int(short.partition("offset=")[2].split()[0])
    assert make_read_hint(find_result_handle(short), offset) in short
    last = short.partition("\n[…")[0].splitlines()[-1]
    result = await do("read", path=f"result:{find_result_handle(short)}", offset=offset)
    assert last in text.splitlines()[offset - 2 : offset]
    assert f"row {int(last.split()[1]) + 1}" in result.text


async def test_what_is_gone_or_another_sessions_is_said_to_be(do: Do, ctx: Any, tmp_path: Path) -> None:
    other = keep_result(f"{tmp_path}/other.jsonl.result-", "theirs " * 1000)
    ctx.set(results=f"{tmp_path}/s.jsonl.result-")
    result = await do("read", path=f"result:{other}")
    assert result.isError and "not kept (any more) in this session" in result.text
    ctx.set(results="")
    assert (await do("read", path=f"result:{other}")).isError
    os.symlink(f"{tmp_path}/other.jsonl.result-{other}", f"{tmp_path}/l.jsonl.result-{other}")
    ctx.set(results=f"{tmp_path}/l.jsonl.result-")
    assert "cannot be read" in (await do("read", path=f"result:{other}")).text


async def test_an_offset_beyond_the_end(do: Do, ctx: Any, tmp_path: Path) -> None:
    ctx.set(results=f"{tmp_path}/s.jsonl.result-")
    kept = keep_result(ctx.settings.results, "a\nb\n")
    assert "has 2 lines" in (await do("read", path=f"result:{kept}", offset=3)).text


async def test_the_same_text_at_the_same_time_is_one_file(tmp_path: Path) -> None:
    text = "x" * 200_000
    names = await asyncio.gather(
        *(asyncio.to_thread(keep_result, f"{tmp_path}/s.jsonl.result-", text) for _ in range(8))
    )
    assert set(names) == {make_result_handle(text)}
    assert os.listdir(tmp_path) == [f"s.jsonl.result-{make_result_handle(text)}"]
    assert keep_result("", text) == ""
