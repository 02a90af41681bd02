"""A run's speaker with all that goes on around what it says: a draft that grows, typing, a reaction. Decides nothing
itself; feeds each of them with the run's events.
"""

from __future__ import annotations

from collections.abc import Callable

from palinurus.core.types.events import RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.outbound import Reply
from palinurus.outbox.drafts import LiveDraft, LiveDrafts
from palinurus.outbox.pace import BlockPacer
from palinurus.outbox.parts import FittingSpeaker
from palinurus.outbox.presence import RunPresence
from palinurus.outbox.preview import DraftPreview


class LiveSpeaker:
    """A speaker around the run's own. `fit` shortens a draft to what the channel takes."""

    def __init__(
        self, inner: FittingSpeaker, inbound: Inbound, item: str, drafts: LiveDrafts, pace: BlockPacer
    ) -> None:
        self._inner = inner
        self._inbound = inbound
        self._item = item
        self._drafts = drafts
        self._pace = pace
        self._draft: LiveDraft | None = None
        self.presence: RunPresence | None = None
        self.preview: DraftPreview | None = None
        self.fit: Callable[[str], str] = str

    def feed(self, event: RunEvent) -> tuple[Reply, ...]:
        if self.presence is not None:
            self.presence.feed(event)
        fresh = self.preview is not None and self.preview.feed(event)
        now = self._inner.feed(event)
        if now and self.preview is not None:  # the first of them takes the draft's place
            self.preview.begin()
            self._draft = None
        elif fresh:
            self._grow()
        return now

    def close(self) -> tuple[Reply, ...]:
        replies = self._inner.close()
        if not replies:
            self._drafts.drop(self._item)
        if self.presence is not None:
            self.presence.close()
        self._pace.end(self._inbound.target)
        return replies

    def _grow(self) -> None:
        if self._draft is None or self._draft.over:
            self._draft = self._drafts.open(self._item, self._inbound.target, self._inner.asked)
        if self._draft is not None and self.preview is not None:
            preview = self.preview
            self._draft.touch(lambda: self.fit(preview.now()))
