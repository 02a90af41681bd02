"""All sub-agents there are, in memory and on disk. Knows who belongs to whom; starts and stops nothing."""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from palinurus.errors import StateError
from palinurus.inbox.children.record import SubagentRecord, SubagentRows

log = logging.getLogger(__name__)


class SubagentRegistry:
    """Memory changes at once, the disk follows in the same order."""

    def __init__(self, rows: SubagentRows) -> None:
        self._rows = rows
        self._all: dict[str, SubagentRecord] = {}
        self._sessions: dict[str, str] = {}  # session key -> id

    async def load(self) -> list[SubagentRecord]:
        """What was on disk at the start. Raises StateError kinds."""
        found = await self._rows.all()
        for child in found:
            self.reserve(child)
        return found

    def reserve(self, child: SubagentRecord) -> None:
        """From now on it counts."""
        self._all[child.id] = child
        self._sessions[child.session] = child.id

    async def write(self, child: SubagentRecord) -> None:
        """Put it on disk. Raises StateError kinds."""
        self.reserve(child)
        await self._rows.put(child)

    async def change(self, ident: str, **changes: Any) -> SubagentRecord:
        """The child as it is now. A disk that cannot be written is logged: every step may be done again."""
        child = self._all[ident] = msgspec.structs.replace(self._all[ident], **changes)
        try:
            await self._rows.put(child)
        except StateError as exc:
            log.error("sub-agent %s: its record cannot be written: %s", ident, exc.message)
        return child

    async def drop(self, ident: str) -> None:
        """Forget it. Raises StateError kinds."""
        child = self._all.pop(ident, None)
        if child is not None:
            self._sessions.pop(child.session, None)
        await self._rows.drop(ident)

    def get(self, ident: str) -> SubagentRecord | None:
        return self._all.get(ident)

    def at(self, session: str) -> SubagentRecord | None:
        """The one whose session this is."""
        return self._all.get(self._sessions.get(session, ""))

    def every(self) -> list[SubagentRecord]:
        return list(self._all.values())

    def of(self, parent: str) -> list[SubagentRecord]:
        """Those that a session started, oldest first."""
        return sorted((c for c in self._all.values() if c.parent == parent), key=lambda c: (c.made, c.id))

    def active(self, parent: str) -> int:
        return sum(c.active for c in self._all.values() if c.parent == parent)

    def below(self, parent: str) -> list[SubagentRecord]:
        """Those that a session started, and those that they started, and so on."""
        found: list[SubagentRecord] = []
        for child in self.of(parent):
            found += [child, *self.below(child.session)]
        return found
