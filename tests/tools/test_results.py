"""Results within bounds, and the whole of what was cut on disk."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.history.truncate import find_result_handle, make_result_handle
from palinurus.core.types.messages import ImageBlock, TextBlock
from palinurus.tools.results import MAX_IMAGE, fit_content, limit_details


async def test_small_results_are_untouched(tmp_path: Path) -> None:
    blocks = (TextBlock("hello"), ImageBlock("aGk=", "image/png"))
    assert await fit_content(blocks, 100, f"{tmp_path}/s.jsonl.result-") == blocks
    assert (await fit_content(blocks, 100))[0] is blocks[0]
    assert os.listdir(tmp_path) == []


@pytest.mark.seed(326)
async def test_the_whole_of_a_long_result_is_kept_before_it_is_shown(tmp_path: Path) -> None:
    text = "\n".join(f"line {n}" for n in range(2000))
    (block,) = await fit_content((TextBlock(text),), 2000, f"{tmp_path}/a/s.jsonl.result-")
    assert isinstance(block, TextBlock) and len(block.text) <= 2000
    kept = tmp_path / "a" / f"s.jsonl.result-{find_result_handle(block.text)}"
    assert kept.read_text() == text and find_result_handle(block.text) == make_result_handle(text)
    assert kept.stat().st_mode & 0o777 == 0o600
    assert await fit_content((TextBlock(text),), 2000, f"{tmp_path}/a/s.jsonl.result-") == (block,)
    assert os.listdir(tmp_path / "a") == [kept.name]  # once, and nothing half done beside it


async def test_a_disk_that_refuses_does_not_lose_the_result(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (block,) = await fit_content((TextBlock("word " * 2000),), 2000, f"{tmp_path}/file/s.jsonl.result-")
    assert isinstance(block, TextBlock) and block.text.startswith("word ") and not find_result_handle(block.text)


@pytest.mark.seed(326)
async def test_json_is_laid_out_before_it_is_cut(tmp_path: Path) -> None:
    value = {"items": [{"name": f"n{i}", "size": i} for i in range(500)]}
    (block,) = await fit_content((TextBlock(json.dumps(value)),), 2000, f"{tmp_path}/r-")
    assert isinstance(block, TextBlock)
    assert block.text.startswith('{\n  "items": [\n    {\n      "name": "n0",') and block.text.endswith("]\n}")
    assert json.loads((tmp_path / f"r-{find_result_handle(block.text)}").read_text()) == value
    small = (TextBlock('{"a":1}'),)
    assert await fit_content(small, 2000) == small


@pytest.mark.seed(326)
async def test_binary_is_described() -> None:
    assert await fit_content((TextBlock("\x00\x01\x02" * 50),), 1000) == (
        TextBlock("[binary data, 150 characters, not shown]"),
    )
    (red,) = await fit_content((TextBlock("\x1b[31mred text, plainly readable\x1b[0m"),), 1000)
    assert isinstance(red, TextBlock) and red.text.startswith("\x1b[31m")


async def test_the_limit_is_for_all_blocks_together() -> None:
    got = await fit_content((TextBlock("a " * 600), ImageBlock("aGk=", "image/png"), TextBlock("b " * 600)), 2000)
    assert isinstance(got[0], TextBlock) and len(got[0].text) <= 2000
    assert got[1:] == (ImageBlock("aGk=", "image/png"),)


async def test_huge_images_are_left_out() -> None:
    (block,) = await fit_content((ImageBlock("A" * (MAX_IMAGE + 1), "image/png"),), 100)
    assert isinstance(block, TextBlock) and "image left out" in block.text


@pytest.mark.parametrize("value", [object(), {"a": object()}, {1, object()}, "\ud800"])
def test_details_that_cannot_be_stored(value: object) -> None:
    got = limit_details(value)
    msgspec.json.encode(got)
    assert "omitted" in got


def test_details_are_bounded() -> None:
    assert limit_details({"a": 1}) == {"a": 1}
    assert limit_details(None) is None
    assert limit_details({"a": "x" * 100_000}) == {"omitted": "100008 bytes"}


@given(st.text(st.characters(), max_size=4000), st.integers(400, 3000))
async def test_any_text_comes_out_storable_and_bounded(text: str, limit: int) -> None:
    got = await fit_content((TextBlock(text),), limit)
    msgspec.json.encode(got)
    assert sum(len(block.text) for block in got if isinstance(block, TextBlock)) <= max(limit, 60)
