"""How far the estimate of tokens is off, per model: learned from the counts in transcripts, kept as one small record.

A kill -9 loses at most the last measures; they are found again in the transcript when the session goes on.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from palinurus.core.history.tokens import CalibrationTable, find_measures
from palinurus.core.types.keys import ModelRef
from palinurus.errors import StateError
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import Store

log = logging.getLogger(__name__)

KIND, KEY = "calibration", "tokens"
_RECENT = 60  # messages looked at in a session that this process has not seen


class TokenCalibration:
    """One per store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: CalibrationTable | None = None
        self._learned: dict[str, int] = {}  # path of a transcript -> how many of its messages have been learned from
        self._saving: asyncio.Task[None] | None = None

    async def learn(self, transcript: Transcript, model: ModelRef) -> float:
        """Take in what is new in this transcript; returns what estimates for `model` are to be multiplied with."""
        if self._known is None:
            self._known = await read_calibration(self._store)
        messages = transcript.messages()
        start = min(self._learned.get(transcript.path, max(len(messages) - _RECENT, 0)), len(messages))
        self._learned[transcript.path] = len(messages)
        now = self._known.after(find_measures(messages, start))
        if now is not self._known:
            self._known = now
            if self._saving is None or self._saving.done():
                self._saving = asyncio.ensure_future(self._save())  # nobody waits for it: see above
        return now.scale(str(model))

    async def _save(self) -> None:
        try:
            saved = None
            while saved is not self._known and self._known is not None:
                saved = self._known
                await self._store.put_record(KIND, KEY, msgspec.json.encode(saved))
        except StateError as exc:
            log.warning("what was learned of token counts is not kept: %s", exc.message)


async def read_calibration(store: Store) -> CalibrationTable:
    """What is on record; nothing if there is none, or it cannot be read."""
    row = await store.get_record(KIND, KEY)
    try:
        return msgspec.json.decode(row.data, type=CalibrationTable) if row else CalibrationTable()
    except msgspec.MsgspecError:
        return CalibrationTable()
