"""When a person has to be asked, and which folder a path belongs to."""

from __future__ import annotations

from palinurus.core.types.cell import Cell, needs_asking, within


def test_only_what_nothing_holds_is_asked_about() -> None:
    assert needs_asking(Cell())
    assert not needs_asking(Cell(accepted=True))  # the owner switched containment off
    assert not any(needs_asking(Cell(kind)) for kind in ("landlock", "bubblewrap", "docker"))  # type: ignore[arg-type]


def test_the_outermost_folder() -> None:
    folders = ("/w/sub", "/w", "/x")
    assert within("/w/sub/a", folders) == "/w" and within("/w", folders) == "/w" and within("/x/", ("/x",)) == "/x"
    assert within("/wx", folders) == "" and within("/", folders) == ""
    assert within("/anything", ("/",)) == "/"
