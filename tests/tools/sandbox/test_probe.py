"""What is said about a machine."""

from __future__ import annotations

import pytest

from palinurus.core.types.sandbox import SandboxKind
from palinurus.tools.sandbox.probe import SandboxSupport, detect_support, list_gaps


@pytest.mark.parametrize(
    ("found", "best"),
    [
        (SandboxSupport(), "none"),
        (SandboxSupport(landlock=1), "landlock"),
        (SandboxSupport(landlock=7, bubblewrap=True), "bubblewrap"),
        (SandboxSupport(landlock=3, bubblewrap=True), "bubblewrap"),  # open ports are a gap; open files would be worse
        (SandboxSupport(bubblewrap=True), "bubblewrap"),
        (SandboxSupport(landlock=7, bubblewrap=True, namespaces=True), "namespaces"),
        (SandboxSupport(namespaces=True, root=True), "namespaces"),
    ],
)
def test_the_best_there_is(found: SandboxSupport, best: SandboxKind) -> None:
    assert found.best() == best


@pytest.mark.parametrize(
    ("found", "kind", "says"),
    [
        (SandboxSupport(), "none", "not contained at all"),
        (SandboxSupport(landlock=3, seccomp=True), "landlock", "TCP ports are not limited"),
        (SandboxSupport(landlock=5, seccomp=True), "landlock", "signals"),
        (SandboxSupport(landlock=7), "landlock", "Unix sockets"),
        (SandboxSupport(landlock=7, seccomp=True), "landlock", "bubblewrap"),
        (SandboxSupport(landlock=2, seccomp=True), "landlock", "truncate"),
        (SandboxSupport(seccomp=True, bubblewrap=True), "bubblewrap", "TCP ports are not limited"),
        (SandboxSupport(seccomp=True, namespaces=True), "namespaces", "TCP ports are not limited"),
        (SandboxSupport(landlock=7, seccomp=True, root=True), "landlock", "only root may read"),
        (SandboxSupport(7, False, bubblewrap=True, root=True), "bubblewrap", "user namespaces"),
        (SandboxSupport(7, False, bubblewrap=True, closes=False), "bubblewrap", "user namespaces"),
    ],
)
def test_what_is_open_comes_with_a_way_out(found: SandboxSupport, kind: SandboxKind, says: str) -> None:
    told = list_gaps(found, kind)
    assert any(says in gap.what + gap.fix for gap in told) and all(gap.fix for gap in told)


@pytest.mark.parametrize("kind", ["bubblewrap", "namespaces"])
def test_no_way_out_is_named_that_is_none(kind: SandboxKind) -> None:
    """bubblewrap holds no ports: it was named as the way out, to who had it, too."""
    (gap,) = list_gaps(SandboxSupport(0, True, True, True, "", namespaces=True), kind)
    assert "TCP" in gap.what and "bubblewrap" not in gap.fix and "connect: none" in gap.fix


def test_a_whole_machine_has_no_gaps() -> None:
    assert list_gaps(SandboxSupport(7, True, True, True, "", root=False), "bubblewrap") == []
    assert list_gaps(SandboxSupport(7, True, root=True, namespaces=True), "namespaces") == []
    assert list_gaps(SandboxSupport(), "docker") == []


def test_the_worst_comes_first() -> None:
    assert "chmod" in list_gaps(SandboxSupport(landlock=7, seccomp=True), "landlock")[0].what


def test_it_is_looked_up_once() -> None:
    assert detect_support() is detect_support()
