"""Whole tool results in a fleet: kept beside the transcript as ever, and in the store for whichever node goes on.

At kill -9 between the file and the store the result is told on this node only; elsewhere it is "not kept".
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping

from palinurus.app.media import lay_out_file
from palinurus.errors import StateError
from palinurus.patterns import compile_late
from palinurus.store.shared import SharedBytes
from palinurus.tools.results import parse_handle

log = logging.getLogger(__name__)

_HANDLE = compile_late(r"result:([0-9a-f]{16})")
MOST = 8  # that are looked for in one result: it names one, what it quotes may name any
_LONGEST = 40  # characters of an argument that is a handle


class ResultFiles:
    """Implements `agent.ports.ResultCarrier`."""

    def __init__(self, store: SharedBytes) -> None:
        self._store = store

    async def bring(self, results: str, arguments: Mapping[str, object], /) -> None:
        words = [one for one in arguments.values() if isinstance(one, str) and len(one) <= _LONGEST]
        for file in [results + handle for word in words if (handle := parse_handle(word))]:
            try:
                data = None if os.path.exists(file) else await self._store.get_blob(os.path.basename(file))
                if data is not None:
                    await asyncio.to_thread(lay_out_file, file, data)
            except (StateError, OSError) as exc:
                log.warning("a whole tool result could not be brought: %s", exc)

    async def share(self, results: str, text: str, /) -> None:
        named = dict.fromkeys(found[1] for found, _ in zip(_HANDLE.finditer(text), range(MOST), strict=False))
        for file in [results + handle for handle in named if os.path.exists(results + handle)]:
            try:
                await self._store.put_blob(os.path.basename(file), await asyncio.to_thread(_read, file))
            except (StateError, OSError) as exc:
                log.warning("a whole tool result stays on this node: %s", exc)


def _read(file: str) -> bytes:
    with open(file, "rb") as data:
        return data.read()
