"""Asking a person before something happens: what is asked, and what they said. Values and the port only.

What was shown is what runs: whoever asks puts all that decides the effect into the `Ask`, and checks it again
before acting.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import msgspec

Decision: TypeAlias = Literal["allow-once", "allow-always", "deny"]


class Ask(msgspec.Struct, frozen=True, omit_defaults=True):
    """One question. `binding` is what the effect depends on besides the text (inode, mtime, cwd handle, …)."""

    kind: Literal["exec", "tool"]
    agent: str
    session: str
    run: str
    call: str
    tool: str
    title: str  # one line for people
    command: str = ""  # the exact text that would run
    argv: tuple[str, ...] = ()
    cwd: str = ""
    host: str = "gateway"
    security: str = ""
    ask: str = ""
    binary: str = ""  # resolved path
    env: tuple[str, ...] = ()  # names only
    binding: dict[str, str] = {}
    taint: tuple[str, ...] = ()  # where untrusted content of this turn came from
    why: str = ""  # which rule wants the question
    warning: str = ""
    allowed: tuple[Decision, ...] = ("allow-once", "allow-always", "deny")
    timeout: float = 1800.0


class Told(msgspec.Struct, frozen=True):
    """The answer. `decision` None: nobody answered in time, or nobody can be asked; `by` says who or why."""

    decision: Decision | None
    by: str = ""
    id: str = ""

    @property
    def allowed(self) -> bool:
        return self.decision in ("allow-once", "allow-always")


class Approver(Protocol):
    """Who puts questions to people."""

    async def ask(self, ask: Ask) -> Told:
        """Durable while it waits; answered once, also after a restart (then the asking run is gone and the answer
        serves the next try of the same thing). Raises nothing but CancelledError."""
        ...
