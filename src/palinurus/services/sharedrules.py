"""exec-approvals.json, the same on all nodes of a fleet: what one node adds to it, or a person writes into it there,
the others have a moment later. The file stays what is read; its content is a record of the store, too.

Two nodes that change it at once both count: rules that either added are there, rules that either removed are not. At
kill -9 between the file and the record the next start finds them different and the record counts; the rule that was
being added was allowed once, and is asked about again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from typing import Any

import msgspec

from palinurus.clock import Clock
from palinurus.errors import StateError
from palinurus.files import read_plain_file, write_whole_file
from palinurus.store.port import Store
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

KIND, KEY = "rules", "exec-approvals"
LOOK = 1.0  # seconds between two looks whether the file has changed
BYTES = 4 << 20
BROKEN = False  # what a file holds that cannot be read
_USES = frozenset({"lastUsedAt", "lastUsedCommand", "lastResolvedPath"})  # of this machine: nobody else need know


class SharedRules:
    """`reread` when another node has changed them."""

    def __init__(self, store: Store, clock: Clock, file: str) -> None:
        self._store = store
        self._clock = clock
        self._file = file
        self._known: Any = None  # what file and record last agreed on, without uses
        self._state: tuple[int, int, int] | None = None
        self._turn = asyncio.Lock()
        self._tasks = TaskSet("the rules for commands of all nodes")

    async def start(self) -> None:
        """The fleet's rules count; those of a machine that joins with others of its own are put aside. Raises
        StateError kinds."""
        async with self._turn:
            ours = await asyncio.to_thread(self._read)
            kept = await self._store.get_record(KIND, KEY)
            if kept is not None:
                theirs = msgspec.json.decode(kept.data)
                if ours is not None and (ours is BROKEN or _strip(ours) != theirs):
                    aside = f"{self._file}.before-fleet"
                    log.warning("%s differed from the fleet's and lies in %s", self._file, aside)
                    with contextlib.suppress(OSError):
                        os.replace(self._file, aside)
                await self._take(theirs)
            elif not await self._publish(ours):
                await self._join()  # another was quicker, or there is nothing to tell
        self._tasks.start(self._look())

    async def close(self) -> None:
        await self._tasks.close()

    async def reread(self, key: str) -> None:
        """Another node has changed them. Raises StateError kinds."""
        async with self._turn:
            await self._join()

    async def _look(self) -> None:
        while True:
            await self._clock.sleep(LOOK)
            if self._stat() == self._state:
                continue
            try:
                async with self._turn:
                    await self._join()
            except StateError as exc:
                log.warning("rules for commands could not be told to the other nodes: %s", exc.message)

    async def _join(self) -> None:
        """What changed here and what changed there, in both places."""
        for _ in range(10):
            state = self._stat()
            ours = await asyncio.to_thread(self._read)
            kept = await self._store.get_record(KIND, KEY)
            theirs = msgspec.json.decode(kept.data) if kept is not None else None
            if ours is BROKEN or (ours is None and theirs is None):
                self._state = state  # broken: commands are denied here until a person mends it
                return
            mine = _strip(ours)
            merged = theirs if mine is None else mine if theirs is None else merge_rules(self._known, mine, theirs)
            if merged == theirs or await self._publish(merged, kept.data if kept is not None else None):
                if merged != mine:
                    await self._take(merged)
                self._known, self._state = merged, self._stat() if merged != mine else state
                return

    async def _publish(self, rules: Any, expect: bytes | None = None) -> bool:
        if rules is None or rules is BROKEN:
            return False
        told = _strip(rules)
        done = await self._store.put_record(KIND, KEY, msgspec.json.encode(told), expect=expect)
        self._known = told if done else self._known
        return done

    async def _take(self, rules: Any) -> None:
        data = msgspec.json.format(msgspec.json.encode(rules), indent=2) + b"\n"
        await asyncio.to_thread(write_whole_file, self._file, data)
        self._known, self._state = rules, self._stat()

    def _read(self) -> Any:
        """None: there is no file."""
        try:
            found = msgspec.json.decode(read_plain_file(self._file, BYTES))
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError):
            return BROKEN
        return found if isinstance(found, dict) else BROKEN

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._file)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def _strip(value: Any) -> Any:
    """Without what says when a rule was used."""
    if isinstance(value, dict):
        return {key: _strip(one) for key, one in value.items() if key not in _USES}
    return [_strip(one) for one in value] if isinstance(value, list) else value


def merge_rules(base: Any, ours: Any, theirs: Any) -> Any:
    """Both changes of `base`; where both changed the same value, theirs."""
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    if isinstance(ours, dict) and isinstance(theirs, dict):
        before = base if isinstance(base, dict) else {}
        made = {key: merge_rules(before.get(key), ours.get(key), theirs.get(key)) for key in {**theirs, **ours}}
        return {key: one for key, one in made.items() if one is not None}
    if isinstance(ours, list) and isinstance(theirs, list):
        old = base if isinstance(base, list) else []
        kept = [one for one in theirs if one in ours or one not in old]
        return [*kept, *(one for one in ours if one not in old and one not in kept)]
    return theirs
