"""When a person has to be asked, and which folder a path belongs to."""

from __future__ import annotations

from palinurus.core.folders import find_enclosing_folder
from palinurus.core.types.sandbox import SandboxSpec, needs_approval


def test_only_what_nothing_holds_is_asked_about() -> None:
    assert needs_approval(SandboxSpec())
    assert not needs_approval(SandboxSpec(accepted=True))  # the owner switched containment off
    assert not any(needs_approval(SandboxSpec(kind)) for kind in ("landlock", "bubblewrap", "docker"))  # type: ignore[arg-type]


def test_the_outermost_folder() -> None:
    folders = ("/w/sub", "/w", "/x")
    assert (
        find_enclosing_folder("/w/sub/a", folders) == "/w"
        and find_enclosing_folder("/w", folders) == "/w"
        and find_enclosing_folder("/x/", ("/x",)) == "/x"
    )
    assert find_enclosing_folder("/wx", folders) == "" and find_enclosing_folder("/", folders) == ""
    assert find_enclosing_folder("/anything", ("/",)) == "/"
