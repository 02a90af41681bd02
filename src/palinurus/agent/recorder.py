"""What a run has to remember: messages become transcript lines here, durable when `flush` returns.

The loop decides when that must be; the last lines of a turn are left for `settle`, which writes them in the
step that ends it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from palinurus.clock import Clock
from palinurus.core.types.card import CARD, CallCard
from palinurus.core.types.messages import AssistantMessage, Message
from palinurus.sessions.entries import CompactionEntry
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import RunClaim, Store, TraceStep, TranscriptLine, UsageRow


class RunRecorder:
    """The open page of one run."""

    def __init__(
        self,
        store: Store,
        claim: RunClaim,
        transcript: Transcript,
        clock: Clock,
        absorbed: Callable[[tuple[str, ...]], None],
        price: Callable[[Message], UsageRow | None] | None = None,
    ) -> None:
        self._store = store
        self._claim = claim
        self._transcript = transcript
        self._clock = clock
        self._tell = absorbed
        self._lines: list[TranscriptLine] = []
        self._absorbed: list[str] = []
        self._steps: list[TraceStep] = []
        self._price = price
        self._spent: list[UsageRow] = []

    def add(self, message: Message, *, absorb: tuple[str, ...] = (), called: bool = False) -> None:
        """Remember a message, and that waiting messages became part of this run with it. `called`: what it cost was
        told with `call`."""
        self._lines.extend(self._transcript.add(message, self._claim.id, self._clock.now()))
        self._absorbed.extend(absorb)
        if not called:
            self._spend(message, 0)

    def call(self, answer: AssistantMessage, card: CallCard) -> None:
        """Remember one try of a model, also one that gave nothing: its line of the ledger and its card."""
        self._spend(answer, card.ms)
        self.step(CARD, msgspec.json.encode(card).decode())

    def _spend(self, message: Message, ms: int) -> None:
        if self._price is not None and (spent := self._price(message)) is not None:
            self._spent.append(msgspec.structs.replace(spent, ms=ms) if ms else spent)

    def put(self, entry: CompactionEntry) -> None:
        """Remember a compaction; what was added before it comes before it."""
        entry = msgspec.structs.replace(entry, item=self._claim.id)
        self._lines.extend(self._transcript.add_entry(entry, self._clock.now()))

    def step(self, what: str, detail: str) -> None:
        """A line for `pal trace`, written with the next flush."""
        self._steps.append(TraceStep(self._claim.id, self._clock.now(), what, detail))

    @property
    def absorbing(self) -> bool:
        """Do messages that were steered in wait to be written down?"""
        return bool(self._absorbed)

    async def flush(self) -> None:
        """Return when all that was added is on disk. If it fails, nothing is forgotten: the next flush tries again."""
        if not (self._lines or self._absorbed or self._steps or self._spent):
            return
        lines, absorbed, steps, spent = self._lines, self._absorbed, self._steps, self._spent
        self._lines, self._absorbed, self._steps, self._spent = [], [], [], []
        try:
            await self._store.append(self._claim, lines, absorb=absorbed, steps=steps, spent=spent)
        except BaseException:
            self._lines[:0], self._absorbed[:0], self._steps[:0], self._spent[:0] = lines, absorbed, steps, spent
            raise
        if absorbed:
            self._tell(tuple(absorbed))

    def unwritten_lines(self) -> tuple[TranscriptLine, ...]:
        """The lines not yet on disk, for the settlement."""
        return tuple(self._lines)

    def unwritten_costs(self) -> tuple[UsageRow, ...]:
        """What these lines cost, for the settlement."""
        return tuple(self._spent)

    def unwritten_steps(self) -> tuple[TraceStep, ...]:
        """The last steps, for the settlement."""
        return tuple(self._steps)
