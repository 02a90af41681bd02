"""The config's sections."""

from __future__ import annotations

import pytest

from palinurus.core.memory.results import MemoryOptions, read_memory_options


def test_nothing_configured() -> None:
    assert read_memory_options({}, {}, None) == MemoryOptions()


@pytest.mark.seed(396)
def test_limits() -> None:
    made = read_memory_options({}, {"memoryGetMaxChars": 900, "memoryGetDefaultLines": 10}, "on")
    assert (made.get_chars, made.get_lines, made.citations) == (900, 10, "on")


def test_search() -> None:
    query = {"maxResults": 3, "minScore": 0.2}
    told = {"query": query, "extraPaths": ["~/notes"], "chunking": {"tokens": 100}, "enabled": False}
    made = read_memory_options(told, {}, "auto")
    assert (made.max_results, made.min_score, made.extra, made.chunk, made.enabled) == (
        3,
        0.2,
        ("~/notes",),
        100,
        False,
    )
    assert made.overlap == 50


def test_what_makes_no_sense_is_the_default() -> None:
    wrong = {"query": {"maxResults": -1, "minScore": 7}, "extraPaths": "x", "chunking": []}
    assert read_memory_options(wrong, {"memoryGetMaxChars": True}, "loud") == MemoryOptions()
