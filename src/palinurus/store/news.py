"""What other nodes do with the state they share, as `Store.watch` tells it: after the commit, and never what the node
itself did. One node alone hears nothing.

News make things quick; the truth is in the store. Whoever hears some looks there, and may hear the same twice. A store
over a network, which can lose some, has to look itself and tell again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

import msgspec

log = logging.getLogger(__name__)

NewsKind: TypeAlias = Literal[
    "queued",  # key: a message that waits (again); detail: its lane
    "waiting",  # key: a lane in which something waits; told again and again by a store that can lose news
    "taken",  # key: a message that waited and runs now
    "absorbed",  # key: a message that waited; detail: the one whose run it is part of now
    "moved",  # key: a session whose waiting messages have changed places
    "stopped",  # key: a message that runs and shall not; detail: the note it ends with
    "unsaid",  # key: a message that was stopped, whose node is gone: who hears this, and nobody else, tells of it
    "ended",  # key: a message whose outcome is on disk; detail: its lane
    "replies",  # key: a channel for which replies wait
    "record",  # key: a kind of records; detail: the record that was written or removed
    "released",  # key: what somebody alone did, and does no more
    "drain",  # key: a node that is to finish what it runs, and to go
]


class StoreNews(msgspec.Struct, frozen=True):
    """One change. `session` is that of a message."""

    what: NewsKind
    key: str = ""
    session: str = ""
    detail: str = ""


NewsListener: TypeAlias = Callable[[StoreNews], None]


class NodeBus(Protocol):
    """Says things to the other nodes that are there now, quickly and in order. Nothing is kept, any may be lost."""

    def send(self, said: bytes) -> None:
        """JSON. Returns at once."""
        ...

    def listen(self, heard: Callable[[str, bytes], None], again: Callable[[], None]) -> None:
        """Hear what others say (their name, what they said) from now on. `again`: something may have been missed."""
        ...

    async def close(self) -> None: ...


def hand_news(listener: NewsListener, news: StoreNews) -> None:
    """Tell one of them. What goes wrong there is logged."""
    try:
        listener(news)
    except Exception:  # border: whoever cannot hear must not keep others from their results
        log.exception("news of the store could not be heard")
