"""All sub-agents there are, in memory and on disk. Knows who belongs to whom; starts and stops nothing."""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Any, Literal, TypeAlias

import msgspec

from palinurus.core.types.inbound import NO_OPTIONS, Inbound
from palinurus.errors import StateError
from palinurus.store.port import Store
from palinurus.store.records import Records

# The states of a sub-agent on disk:
#
# new ──► open ──► ended ──► told
#  ▲        │
#  └─steer──┘         each arrow is one write; what a crash left is taken up where it stands

log = logging.getLogger(__name__)

KIND = "child"
State: TypeAlias = Literal["new", "open", "ended", "told"]
Outcome: TypeAlias = Literal["ok", "error", "timeout", "killed", "stopped"]
_SPACE = uuid.UUID("2b1f4a0c-7a52-4f0e-9a43-6a1d2c0f9be1")


class SubagentRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One sub-agent. `item` is the inbox row whose end is its end; it moves on when one of its own children reports."""

    id: str  # run id
    parent: str  # key of the session that started it
    session: str  # its own key
    task: str
    asker: Inbound  # whose message it serves, without content: where its result goes, and with whose rights
    made: int
    state: State
    text: str = ""  # what it is told in this round: the task, or what it was steered with
    call: str = ""  # the tool call that asked for it
    depth: int = 1
    label: str = ""
    model: str = ""
    timeout: float = 0.0  # seconds of one run; 0 = the agent's
    delete: bool = False  # its session goes when its result has been told
    source: str = ""  # where untrusted content came from that its parent had seen
    folder: str = ""  # its attachments, absolute
    round: int = 0  # how often it was steered
    runs: int = 0  # messages of this round that ran
    item: str = ""
    started: int = 0
    ended: int = 0
    outcome: Outcome | None = None
    note: str = ""  # why it failed
    killed: bool = False
    quiet: bool = False  # nobody is told of its end
    tells: int = 0  # how often its parent's queue dropped the result
    node: str = ""  # in a fleet: who follows it

    @property
    def name(self) -> str:
        """For people and models: the label, else the beginning of the task."""
        line = " ".join((self.label or self.task)[:400].split())
        return line if len(line) <= 60 else f"{line[:59]}…"

    @property
    def active(self) -> bool:
        """Is it still at work? What the limits count."""
        return self.state in ("new", "open")


def identify_turn(inbound: Inbound) -> str:
    """Identifies the message that a turn answers, also after a restart."""
    target = inbound.target
    return f"{target.channel}/{target.account}/{inbound.event}/{inbound.at}"


def make_run_id(parent: str, asker: Inbound, call: str, task: str) -> str:
    """The same call of the same turn is the same sub-agent, however often it is made."""
    return str(uuid.uuid5(_SPACE, "\n".join((parent, identify_turn(asker), call, task))))


def strip_content(inbound: Inbound) -> Inbound:
    """Who and where, without what was said."""
    return msgspec.structs.replace(inbound, text="", images=(), reply_to="", options=NO_OPTIONS)


class SubagentRegistry:
    """Memory changes at once, the disk follows in the same order."""

    def __init__(self, store: Store) -> None:
        self._records = Records(store, KIND, SubagentRecord)
        self._all: dict[str, SubagentRecord] = {}
        self._sessions: dict[str, str] = {}  # session key -> id
        self._turn = asyncio.Lock()  # changes reach the disk in the order in which they were made

    async def load(self) -> list[SubagentRecord]:
        """What was on disk at the start. Raises StateError kinds."""
        found = list((await self._records.all()).values())
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
        await self._records.put(child.id, child)

    async def change(self, ident: str, **changes: Any) -> SubagentRecord:
        """The child as it is now. A disk that cannot be written is logged: every step may be done again."""
        child = self._all[ident] = msgspec.structs.replace(self._all[ident], **changes)
        try:
            async with self._turn:
                await self._records.update(
                    ident, lambda kept: msgspec.structs.replace(kept, **changes) if kept is not None else child
                )
        except StateError as exc:
            log.error("sub-agent %s: its record cannot be written: %s", ident, exc.message)
        return child

    async def reread(self, ident: str) -> None:
        """Another node has changed it. Raises StateError kinds."""
        child = await self._records.get(ident)
        if child is not None:
            self.reserve(child)
        elif (gone := self._all.pop(ident, None)) is not None:
            self._sessions.pop(gone.session, None)

    async def drop(self, ident: str) -> None:
        """Forget it. Raises StateError kinds."""
        child = self._all.pop(ident, None)
        if child is not None:
            self._sessions.pop(child.session, None)
        await self._records.drop(ident)

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
