"""Small durable records of one kind as typed values: an approval, a pairing, a job. The one way to keep one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import msgspec

from palinurus.patterns import decode_late
from palinurus.store.port import ANY_RECORD, StoreRecord

log = logging.getLogger(__name__)

T = TypeVar("T")


class RecordStore(Protocol):
    """The part of the store that keeps records."""

    async def put_record(self, kind: str, key: str, data: bytes | None, *, expect: bytes | None = ANY_RECORD) -> bool:
        """See `store.port.Store`."""
        ...

    async def get_record(self, kind: str, key: str) -> StoreRecord | None:
        """See `store.port.Store`."""
        ...

    async def list_records(self, kind: str) -> list[StoreRecord]:
        """See `store.port.Store`."""
        ...


class Records(Generic[T]):
    """Records of `kind`, each a JSON value of `shape`. One that cannot be read is logged and passed over, never
    removed. Everything here raises StateError kinds."""

    def __init__(self, store: RecordStore, kind: str, shape: type[T]) -> None:
        self._store = store
        self._kind = kind
        self._decoder = decode_late(shape)  # of most kinds no start reads a single one

    async def get(self, key: str) -> T | None:
        """None if there is none, or none that can be read."""
        row = await self._store.get_record(self._kind, key)
        return None if row is None else self._decode(row)

    async def all(self) -> dict[str, T]:
        """By key."""
        found = ((row.key, self._decode(row)) for row in await self._store.list_records(self._kind))
        return {key: value for key, value in found if value is not None}

    async def put(self, key: str, value: T) -> None:
        """On disk when this returns."""
        await self._store.put_record(self._kind, key, msgspec.json.encode(value))

    async def swap(self, key: str, old: T | None, new: T | None) -> bool:
        """Replace `old` (None: there is none) by `new` (None: remove it). False if it is another meanwhile."""
        before, after = (None if one is None else msgspec.json.encode(one) for one in (old, new))
        return await self._store.put_record(self._kind, key, after, expect=before)

    async def update(self, key: str, change: Callable[[T | None], T | None]) -> T | None:
        """Write what `change` makes of the record (None: there is none, it shall be none). If somebody else writes it
        meanwhile, `change` is asked again with theirs. Returns what was written."""
        while True:
            row = await self._store.get_record(self._kind, key)
            made = change(None if row is None else self._decode(row))
            data = None if made is None else msgspec.json.encode(made)
            if await self._store.put_record(self._kind, key, data, expect=None if row is None else row.data):
                return made

    async def drop(self, key: str) -> None:
        """Removed when this returns, if it was there."""
        await self._store.put_record(self._kind, key, None)

    def _decode(self, row: StoreRecord) -> T | None:
        try:
            return self._decoder.decode(row.data)
        except msgspec.DecodeError as exc:
            log.error("record %s/%s cannot be read: %s", row.kind, row.key, exc)
            return None
