"""An editor that offers its own hands to a session: the text of files as its person sees it, and a terminal."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

# read: what is on its screen, saved or not. write: by way of its buffer. terminal: where its person sees a command.
EditorAbility: TypeAlias = Literal["read", "write", "terminal"]
EditorAction: TypeAlias = Literal["read", "write", "start", "wait", "kill"]
NEEDS: dict[EditorAction, EditorAbility] = {
    "read": "read",
    "write": "write",
    "start": "terminal",
    "wait": "terminal",
    "kill": "terminal",
}


class EditorOrder(msgspec.Struct, frozen=True):
    """One thing that the editor of a session is asked for."""

    session: str
    action: EditorAction
    params: dict[str, Any]


class EditorAnswer(msgspec.Struct, frozen=True):
    """What it said. `gone`: it said nothing, so nobody knows whether it was done."""

    ok: bool
    told: dict[str, Any] = {}
    why: str = ""
    gone: bool = False


class EditorPort(Protocol):
    """The editors that are connected."""

    def offers(self, session: str, ability: EditorAbility) -> bool:
        """Is one there that does this, and did it answer the last time?"""
        ...

    def ask(self, order: EditorOrder, seconds: float) -> Awaitable[EditorAnswer]:
        """Its answer, or that none came in time. Whoever is cancelled here has nothing more to expect."""
        ...

    def hold(self, roots: tuple[str, ...]) -> AbstractContextManager[None]:
        """While it is open, no contained command changes these folders: an editor follows links that we would not."""
        ...
