"""What is on disk of a running command, so that a gateway that was killed can say what it knows: nothing is guessed.

A record is there before the command is, and goes when its session has been told of the end. A crash in between is
mended at the next start: the notice has a key, and one key makes one message.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Container

import msgspec

from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.store.records import RecordStore

log = logging.getLogger(__name__)

KIND = "process"
MARK_VARIABLE = "PALINURUS_CALL"
GRACE = 0.5  # seconds between SIGTERM and SIGKILL when the time is up
NOBODY = Inbound(Target("unknown"), Sender(""), "", "", 0, push=False)


def make_mark() -> str:
    """A value of MARK_VARIABLE, found in the environment of every descendant."""
    return secrets.token_hex(12)


class CommandRecord(msgspec.Struct, frozen=True):
    """`notice` "" while it runs, then what its session is to be told. `background` False: the call that started it
    still waits, and its turn explains itself."""

    id: str
    mark: str
    session: str
    agent: str
    command: str
    at: int
    asker: Inbound = NOBODY
    background: bool = False
    notify: bool = False
    notice: str = ""
    node: str = ""  # of a fleet: on whose machine it runs


class CommandRecords:
    """Writes return when they are on disk. Without a store nothing is kept. In a fleet: those of one node."""

    def __init__(self, store: RecordStore | None = None, node: str = "") -> None:
        self._store = store
        self._node = node

    async def put(self, record: CommandRecord) -> None:
        if self._store is not None:
            record = msgspec.structs.replace(record, node=self._node)
            await self._store.put_record(KIND, record.mark, msgspec.json.encode(record))

    async def drop(self, mark: str) -> None:
        if self._store is not None:
            await self._store.put_record(KIND, mark, None)

    async def all(self) -> list[CommandRecord]:
        """Of this node, those that can be read."""
        return [record for record in await self._read() if record.node == self._node]

    async def list_lost(self, alive: Container[str]) -> list[CommandRecord]:
        """Of other nodes that are not alive."""
        return [
            record for record in await self._read() if record.node not in ("", self._node) and record.node not in alive
        ]

    async def _read(self) -> list[CommandRecord]:
        """What cannot be read is dropped with a line in the log."""
        found = []
        for row in await self._store.list_records(KIND) if self._store is not None else ():
            try:
                found.append(msgspec.json.decode(row.data, type=CommandRecord))
            except msgspec.DecodeError as exc:
                log.error("the record of command %s cannot be read: %s", row.key, exc)
                await self.drop(row.key)
        return found
