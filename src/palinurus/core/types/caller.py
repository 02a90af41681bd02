"""Who asks, and with which rights: one value for every face (HTTP, WebSocket, hooks, the command line), and the one
rule that says what it may. Rights come from a credential's record; no address, header or word of a request adds any.

A message carries them on as its `Sender` (`make_sender` in core/types/inbound.py), so that what is decided later, by a
chat command or a tool, asks the same rule.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal, TypeAlias

import msgspec

Role: TypeAlias = Literal["operator", "node"]

READ: Final = "operator.read"
WRITE: Final = "operator.write"
ADMIN: Final = "operator.admin"
APPROVALS: Final = "operator.approvals"
PAIRING: Final = "operator.pairing"
NODE: Final = "node"  # for the role node; no operator scope opens it
SCOPES: Final = frozenset({READ, WRITE, ADMIN, APPROVALS, PAIRING})


def has_scope(scopes: Collection[str], needed: str | None) -> bool:
    """Whether somebody with `scopes` may do what needs `needed`. Admin opens all operator scopes, write opens read."""
    if needed is None:
        return True
    if needed == NODE:
        return False
    return needed in scopes or ADMIN in scopes or (needed == READ and WRITE in scopes)


class Caller(msgspec.Struct, frozen=True):
    """A verified caller. `how` is what proved it: token, password, device, proxy, hook, none (the config asks for
    nothing), local (the program itself)."""

    id: str  # owner, device:ID, a proxy's user, hook:NAME
    scopes: frozenset[str] = frozenset()
    how: str = "none"
    role: Role = "operator"
    device: str = ""  # "" = no device identity
    address: str = ""

    def may(self, needed: str | None) -> bool:
        """Whether it may do what needs `needed`. A node may do what is for nodes, and nothing else."""
        return needed == NODE if self.role == NODE else has_scope(self.scopes, needed)

    def explain_refusal(self, needed: str | None) -> str:
        """The gate of every face: why it may not do what needs `needed`; "" if it may."""
        if self.may(needed):
            return ""
        return f"unauthorized role: {self.role}" if NODE in (needed, self.role) else f"missing scope: {needed}"


NOBODY: Final = Caller("nobody")
