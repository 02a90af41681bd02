"""A small table that outlives the process, in one record: its last rows, the newest at the end."""

from __future__ import annotations

import json
from typing import Any

from palinurus.channels.kit import AccountMemo


class MemoTable:
    """At most `most` rows. Read once, then in memory; written whole when a row changes."""

    def __init__(self, memo: AccountMemo, key: str, most: int) -> None:
        self._memo = memo
        self._key = key
        self._most = most
        self._rows: dict[str, Any] | None = None

    async def rows(self) -> dict[str, Any]:
        if self._rows is None:
            kept = await self._memo.get(self._key)
            if self._rows is None:  # somebody else may have read it meanwhile
                self._rows = dict(json.loads(kept)) if kept else {}
        return self._rows

    async def put(self, name: str, value: Any) -> None:
        """On disk when this returns."""
        rows = await self.rows()
        rows.pop(name, None)
        rows[name] = value
        while len(rows) > self._most:
            rows.pop(next(iter(rows)))
        await self._memo.put(self._key, json.dumps(rows).encode())
