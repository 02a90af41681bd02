"""What is said about a machine."""

from __future__ import annotations

import pytest

from palinurus.core.types.cell import SandboxKind
from palinurus.tools.sandbox.probe import Have, gaps, have


@pytest.mark.parametrize(
    ("found", "best"),
    [
        (Have(), "none"),
        (Have(landlock=1), "landlock"),
        (Have(landlock=7, bubblewrap=True), "bubblewrap"),
        (Have(landlock=3, bubblewrap=True), "landlock"),  # without rules about ports namespaces alone are less
        (Have(bubblewrap=True), "none"),
        (Have(landlock=7, bubblewrap=True, root=True), "landlock"),  # root's archives have other owners
    ],
)
def test_the_best_there_is(found: Have, best: SandboxKind) -> None:
    assert found.best() == best


@pytest.mark.parametrize(
    ("found", "kind", "says"),
    [
        (Have(), "none", "not contained at all"),
        (Have(landlock=3, seccomp=True), "landlock", "TCP ports are not limited"),
        (Have(landlock=5, seccomp=True), "landlock", "signals"),
        (Have(landlock=7), "landlock", "Unix sockets"),
        (Have(landlock=7, seccomp=True), "landlock", "bubblewrap"),
    ],
)
def test_what_is_open_comes_with_a_way_out(found: Have, kind: SandboxKind, says: str) -> None:
    told = gaps(found, kind)
    assert any(says in gap.what + gap.fix for gap in told) and all(gap.fix for gap in told)


def test_a_whole_machine_has_no_gaps() -> None:
    assert gaps(Have(7, True, True, True, ""), "bubblewrap") == []
    assert gaps(Have(), "docker") == []


def test_it_is_looked_up_once() -> None:
    assert have() is have()
