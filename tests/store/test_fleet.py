"""What a report of a fleet says of its agents."""

from __future__ import annotations

import pytest

from fleets import make_node
from palinurus.store.fleet import FleetReport


@pytest.mark.parametrize(
    ("mine", "others", "orphans"),
    [
        (["agent:main:", "agent:work:"], [["agent:work:"]], ["main"]),
        (["agent:main:"], [None], []),
        (["agent:main:"], [["agent:-:"]], ["main"]),
        (None, [["agent:work:"]], []),
        (["agent:-:"], [], []),
    ],
)
def test_who_is_left_without_a_node(mine: list[str] | None, others: list[list[str] | None], orphans: list[str]) -> None:
    rest = [make_node(f"n{at}", serves=told) for at, told in enumerate(others)]
    gone = make_node("gone", left=-1.0, serves=None)  # who is dead runs nothing
    assert FleetReport([make_node("me", serves=mine), gone, *rest], 0, 0.0, 2, []).find_orphans("me") == orphans
