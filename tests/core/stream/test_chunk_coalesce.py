"""Small blocks become one message; time is handed in."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from palinurus.core.stream.chunk import BlockSettings, Coalescer, CoalesceSettings, HumanDelay
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply

SETTINGS = CoalesceSettings(idle=100, min_chars=10, max_chars=30)


def block(text: str, ident: str = "b", **changes: Any) -> Reply:
    return msgspec.structs.replace(Reply(Target("fake"), text, ident, "block"), **changes)


def test_blocks_are_joined_until_nobody_writes() -> None:
    held = Coalescer(SETTINGS)
    assert held.add(block("one two", "b1"), 0) == []
    assert held.add(block("three", "b2"), 50) == []
    assert held.tick(149) == []
    assert held.tick(150) == [block("one two\n\nthree", "b1")]
    assert held.due is None and held.close() == []


def test_too_little_waits_again() -> None:
    held = Coalescer(SETTINGS)
    held.add(block("short"), 0)
    assert held.tick(100) == [] and held.due == 200
    assert held.close() == [block("short")]


def test_what_does_not_fit_starts_anew() -> None:
    held = Coalescer(SETTINGS)
    held.add(block("a" * 20, "b1"), 0)
    assert held.add(block("b" * 20, "b2"), 1) == [block("a" * 20, "b1")]
    assert held.add(block("c" * 40, "b3"), 2) == [block("b" * 20, "b2"), block("c" * 40, "b3")]


@pytest.mark.parametrize("changes", [{"reply_to": "9"}, {"voice": True}, {"kind": "reasoning"}, {"media": ("m",)}])
def test_unlike_ones_are_not_joined(changes: dict[str, Any]) -> None:
    held = Coalescer(SETTINGS)
    held.add(block("one"), 0)
    other = block("two", "b2", **changes)
    assert [*held.add(other, 1), *held.close()] == [block("one"), other]


def test_settings_fit_the_chunker() -> None:
    made = CoalesceSettings.beside(BlockSettings(5, 9, "sentence"), idle=9000)
    assert made == CoalesceSettings(5000, 5, 9, " ")
    assert Coalescer(msgspec.structs.replace(made, every=True)).add(block("x"), 0) == [block("x")]


def test_a_human_pace() -> None:
    assert HumanDelay().pause(3, 0.5) == 0
    assert HumanDelay("natural").pause(0, 0.5) == 0
    assert [HumanDelay("natural").pause(1, drawn) for drawn in (0.0, 0.9999)] == [800, 2500]
    assert HumanDelay("custom", 10, 20).pause(1, 0.5) == 15


def test_blocks_go_with_the_one_that_answers_somebody() -> None:
    held = Coalescer(SETTINGS)
    held.add(block("one", "b1", reply_to="m1"), 0)
    held.add(block("two", "b2"), 0)
    assert held.close() == [block("one\n\ntwo", "b1", reply_to="m1")]
    held.add(block("one", "b1"), 0)
    assert held.add(block("two", "b2", reply_to="m1"), 0) == [block("one", "b1")]
