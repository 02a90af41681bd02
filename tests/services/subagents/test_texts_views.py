"""Lists, and which one somebody means."""

from __future__ import annotations

from typing import Any

import pytest

from inbox.children.kit import child
from palinurus.services.subagents import texts
from palinurus.services.subagents.texts import SubagentCost

A = child("aaaa1111", label="Dig")
B = child("bbbb2222", label="Digger", state="told", outcome="ok", ended=1)
C = child("cccc3333", label="fish", made=2)
ALL = [A, B, C]


@pytest.mark.parametrize(
    ("target", "found"),
    [
        ("1", [A]), ("#3", [C]), ("all", [A, C]), ("*", [A, C]), ("last", [C]), ("dig", [A]), ("FISH", [C]), 
        ("fi", [C]), ("bbbb2222", [B]), ("bbbb", [B]), (C.session, [C]), ("digg", [B]),
    ],
)  # fmt: skip
def test_what_is_meant(target: str, found: list[Any]) -> None:
    assert texts.find_subagents(target, ALL, ALL) == found


@pytest.mark.parametrize(
    ("target", "why"), [("4", "no sub-agent"), ("", "say which"), ("²", "no sub"), ("di", "means 2"), ("zz", "no sub")]
)
def test_what_means_nobody(target: str, why: str) -> None:
    found = texts.find_subagents(target, ALL, ALL)
    assert isinstance(found, str) and why in found, found


def test_nobody_is_at_work() -> None:
    assert texts.find_subagents("all", [B], [B]) == "no sub-agent is at work"
    assert texts.find_subagents("last", [], []) == "there are no sub-agents"


@pytest.mark.seed(364)
def test_a_line_has_label_model_runtime_tokens_and_status() -> None:
    ran = child(label="Dig", model="fake/m", started=1000, ended=66_000, state="told", outcome="timeout")
    row = texts.to_list_row(2, ran, SubagentCost(1000, 500), 99_000)
    assert texts.format_list_row(row) == "2. Dig (timeout, 1m05s, 1.5k tokens, fake/m) aaaa1111"
    assert row["runtimeMs"] == 65_000


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "queued"),
        ({"started": 1}, "running"),
        ({"started": 1, "killed": True}, "stopping"),
        ({"state": "ended", "outcome": "ok"}, "done"),
        ({"state": "told", "outcome": "error"}, "failed"),
        ({"state": "told", "outcome": "killed", "killed": True}, "killed"),
    ],
)
def test_where_one_stands(changes: dict[str, Any], word: str) -> None:
    assert texts.describe_status(child(**changes)) == word


@pytest.mark.seed(364)
def test_finished_ones_are_shown_for_half_an_hour() -> None:
    ended = child(state="told", outcome="ok", ended=1_000)
    assert texts.is_recent(ended, 1_000 + 30 * 60_000, texts.RECENT)
    assert not texts.is_recent(ended, 1_001 + 30 * 60_000, texts.RECENT)
    assert texts.is_recent(child(), 10**12, texts.RECENT)
