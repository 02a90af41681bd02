"""The config's sections."""

from __future__ import annotations

import pytest

from palinurus.core.memory.results import MemoryOptions, read_memory_options


def test_nothing_configured() -> None:
    assert read_memory_options([None, {}], [None], None) == MemoryOptions()
    off = read_memory_options([{"enabled": False}, {"enabled": None}], [], None)
    assert not off.enabled  # null says nothing


@pytest.mark.seed(396)
def test_an_agents_own_limits_go_over_the_shared_ones() -> None:
    made = read_memory_options(
        [], [{"memoryGetMaxChars": 500, "memoryGetDefaultLines": 10}, {"memoryGetMaxChars": 900}], "on"
    )
    assert (made.get_chars, made.get_lines, made.citations) == (900, 10, "on")


def test_search_sections_are_laid_over_each_other() -> None:
    shared = {"query": {"maxResults": 3, "minScore": 0.1}, "extraPaths": ["~/notes"], "chunking": {"tokens": 100}}
    made = read_memory_options([shared, {"query": {"minScore": 0.2}, "enabled": False}], [], "auto")
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
    assert read_memory_options([wrong], [{"memoryGetMaxChars": True}], "loud") == MemoryOptions()
