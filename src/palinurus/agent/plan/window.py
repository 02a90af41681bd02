"""What a session's history and its tools' results may take of a model's window: settings and a message -> rules."""

from __future__ import annotations

import asyncio
import logging
import os
from functools import partial

import msgspec

from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.history import truncate
from palinurus.core.history.fit import HistoryLimits, find_turn_limit
from palinurus.core.history.images import Budget
from palinurus.core.history.tokens import CalibrationTable, find_measures
from palinurus.core.types.inbound import Inbound, Route
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.model import ModelSpec
from palinurus.core.types.tool import ToolSettings
from palinurus.errors import StateError
from palinurus.sessions.files import RESULT_INFIX
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import Store
from palinurus.taping import ask_taped

# How far the estimate of tokens is off, per model: learned from the counts in transcripts, kept as one small record.
#
# A kill -9 loses at most the last measures; they are found again in the transcript when the session goes on.

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
        return await ask_taped("scale", partial(self._learn, transcript, model), float)

    async def _learn(self, transcript: Transcript, model: ModelRef) -> float:
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


def resolve_window(agent: AgentSettings, model: ModelSpec) -> int:
    """Tokens: what the model has, or less where the config says so."""
    return min(agent.context_tokens or model.context_window, model.context_window)


def resolve_history_rules(
    settings: Settings, agent: AgentSettings, model: ModelSpec, inbound: Inbound, route: Route
) -> HistoryLimits:
    """The rules for one run."""
    room = resolve_window(agent, model)
    context = settings.context
    return HistoryLimits(
        window=room,
        turns=find_turn_limit(route.key, context.turns, inbound.target.channel, inbound.sender.id),
        result_chars=truncate.limit_result_chars(room, context.results(agent.id)),
        pruning=context.pruning,
        images=Budget() if model.vision else None,
    )


def limit_tool_results(tools: ToolSettings, rules: HistoryLimits, home: str, transcript: str) -> ToolSettings:
    """The tools' settings with the room for a result, and where whole ones are kept: beside the transcript."""
    kept = os.path.join(home, transcript) + RESULT_INFIX
    return msgspec.structs.replace(tools, result_chars=rules.result_chars, results=kept)
