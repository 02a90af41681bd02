"""Whose runs are recorded, and where their tapes go. What writes a tape is loaded with the first one.

A session that is recorded apart from the setting `record.enabled` is a record of the store. Tapes are written beside
the run, after its end is on disk: a kill in between leaves a run without one.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import palinurus
from palinurus.abort import Abort
from palinurus.agent.fingerprint import RequestPiece
from palinurus.agent.ports import CacheLook, find_run_lane
from palinurus.config.sections.session import RecordSettings
from palinurus.core.types.channel import Channel
from palinurus.core.types.model import Model, ModelEvent, ModelRequest, StopSignal
from palinurus.errors import BadRequest
from palinurus.late import load_part
from palinurus.plugins.hooks import HOOK_POINTS, Hooks
from palinurus.store.port import Store
from palinurus.store.records import Records
from palinurus.tasks import TaskSet

if TYPE_CHECKING:
    from palinurus.agent.tapes.play import TapePlayer
    from palinurus.agent.tapes.record import RunTape
    from palinurus.agent.turn import ClaimedMessage

log = logging.getLogger(__name__)

VERSION = 1  # of tapes
TAPE_END = ".jsonl.gz"
ALL = "*"  # every session that says nothing itself
LISTED = 20
KIND = "record"  # of the store: session -> whether its runs are recorded


class TapedModel:
    """The model of runs. Of one that has a lane every call goes through it."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def stream(self, request: ModelRequest, stop: StopSignal) -> AsyncIterator[ModelEvent]:
        """As the model itself."""
        lane = find_run_lane()
        return self._model.stream(request, stop) if lane is None else lane.stream(request, stop, self._model)


class TapeDeck:
    """One per program. `begin` a tape with a run, `keep` it when the run's end is on disk."""

    def __init__(
        self,
        home: str,
        rules: RecordSettings,
        store: Store,
        hooks: Hooks,
        channels: Mapping[str, Channel],
        look: CacheLook,
        secrets: tuple[str, ...] = (),
    ) -> None:
        self.home = home
        self.rules = rules
        self.sessions: dict[str, bool] = {}
        self._records: Records[bool] = Records(store, KIND, bool)
        self._hooks = hooks
        self._channels = channels
        self._look = look
        self._secrets = secrets
        self.tokens: Callable[[], tuple[str, ...]] = tuple  # of sign-ins: these change
        self.windows: Callable[[], Mapping[str, int]] = dict
        self.ollama: Callable[[], tuple[str, ...]] = tuple  # models that a probe has found
        self._writing = TaskSet("a tape")
        self.player: TapePlayer | None = None  # of a replay: serves its one run
        self.played: RunTape | None = None

    async def load(self) -> None:
        self.sessions = await self._records.all()

    async def choose(self, session: str, on: bool | None) -> None:
        """Record a session's runs or not, whatever the setting says; None: as it says. On disk when this returns."""
        if on is None:
            await self._records.drop(session)
            self.sessions.pop(session, None)
        else:
            await self._records.put(session, on)
            self.sessions[session] = on

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no tape holds."""
        return (*self.tokens(), *self._secrets)

    def is_recorded(self, session: str) -> bool:
        return self.sessions.get(session, self.sessions.get(ALL, self.rules.enabled))

    def describe(self) -> dict[str, object]:
        """What is recorded, and which tapes there are, the newest last."""
        why = "pal record" if ALL in self.sessions else f"record.enabled is {str(self.rules.enabled).lower()}"
        folder = os.path.join(self.home, "tapes")
        names = sorted(entry.name for entry in os.scandir(folder)) if os.path.isdir(folder) else []
        kept = [name for name in names if name.endswith(TAPE_END) and not name.startswith(".")]
        return {
            "on": self.is_recorded(""),
            "why": why,
            "sessions": {key: on for key, on in self.sessions.items() if key != ALL},
            "folder": folder,
            "count": len(kept),
            "bytes": sum(os.path.getsize(os.path.join(folder, name)) for name in kept),
            "tapes": [name.removesuffix(TAPE_END) for name in kept[-LISTED:]],
        }

    def begin(self, message: ClaimedMessage, abort: Abort) -> RunTape | None:
        """The tape of a run that begins; None: it is not recorded."""
        if self.player is None and not self.is_recorded(message.claim.session):
            return None
        claim = message.claim
        tape: RunTape = load_part("tape")(
            load_part("tape-head")(
                v=VERSION,
                program=palinurus.__version__,
                item=claim.id,
                at=claim.at,
                home=self.home,
                claim=type(claim)(claim.id, claim.session, claim.lane, b"", claim.at, claim.attempts),
                inbound=message.inbound,
                route=message.route,
                inline=message.inline,
                typed=message.typed,
                points=tuple(point for point in HOOK_POINTS if self._hooks.has(point)),
                channels={name: channel.abilities for name, channel in self._channels.items()},
                ollama=self.ollama(),
                windows=self.windows(),
            ),
            abort,
            self.find_pieces,
            self.player,
        )
        return tape

    def find_pieces(self, session: str) -> Sequence[RequestPiece] | None:
        """What was seen of a session's last request."""
        found = self._look(session)
        return found.pieces if found is not None else None

    def keep(self, tape: RunTape) -> None:
        """Write it, beside whatever comes next."""
        if self.player is not None:
            self.played = tape
        elif tape.whole:
            self._writing.start(asyncio.to_thread(self._write, tape))
        elif tape.broken:
            log.warning("message %s: its run is not on tape: %s", tape.head.item, tape.broken)

    def _write(self, tape: RunTape) -> None:
        item = tape.head.item
        try:
            load_part("tape-write")(self.home, item, tape.encode(self.secrets))
        except (OSError, BadRequest) as exc:
            log.warning("message %s: its run is not on tape: %s", item, exc)

    def thin(self, before: float) -> int:
        """Tapes go with their messages, and the oldest where there is no room."""
        if not os.path.isdir(os.path.join(self.home, "tapes")):
            return 0
        gone: int = load_part("tape-thin")(self.home, before, self.rules.room)
        return gone

    async def close(self) -> None:
        await self._writing.settle()
