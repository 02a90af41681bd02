"""The note about walls: only when a command ran into one."""

from __future__ import annotations

import pytest

from palinurus.core.types.sandbox import SandboxSpec
from palinurus.tools.commands.exec import explain_refusal

SOME = SandboxSpec("landlock", connect=((443, 443),))


@pytest.mark.parametrize(
    ("cell", "code", "text", "says"),
    [
        (SOME, 1, "cat: x: Permission denied", "$TMPDIR"),
        (SOME, 1, "Error: EACCES: mkdir", "443"),
        (SandboxSpec("landlock", connect=()), 1, "Operation not permitted", "no network"),
        (SandboxSpec("docker"), 1, "Read-only file system", "container"),
    ],
)
def test_said(cell: SandboxSpec, code: int, text: str, says: str) -> None:
    assert says in explain_refusal(cell, code, text)


@pytest.mark.parametrize(
    ("cell", "code", "text"),
    [(SOME, 0, "Permission denied"), (SOME, 1, "No such file"), (SandboxSpec(), 1, "Permission denied")],
)
def test_not_said(cell: SandboxSpec, code: int, text: str) -> None:
    assert explain_refusal(cell, code, text) == ""
