"""What one model call was made of: the card that is kept of it with its run. Values only.

A card is written with the call's line of the ledger, in the same step, and goes when the run's trace goes. What is as
it was in the call before (sections, tools) is not said again: `CallCard.following` fills it in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import msgspec

from palinurus.patterns import decode_late

CARD = "card"  # the trace step that holds one
EVIDENCE = "evidence"  # the one that holds what of an answer nothing bore out


class CardSection(msgspec.Struct, frozen=True, array_like=True):
    """One section of the prompt."""

    name: str
    bytes: int
    stable: bool


class CallCard(msgspec.Struct, frozen=True, omit_defaults=True):
    """One try of a model. Times in milliseconds."""

    number: int  # of the run's calls, from 1
    at: int  # when it was sent
    model: str
    model_why: str  # who chose it
    level: str
    level_why: str  # which layer decided it, in words
    level_asked: str = ""  # what was asked for, if the model does not have that
    fast: bool = False
    sections: tuple[CardSection, ...] | None = None  # None: those of the call before
    stable: str = ""  # hash of the part of tools and prompt that stays between turns
    tools: tuple[str, ...] | None = None  # offered; None: those of the call before
    hidden: dict[str, str] | None = None  # kept away, each with by whom; None: as in the call before
    messages: int = 0
    kept: int = 0  # bytes that begin as the request before did
    total: int = 0
    broke: str = ""  # the first difference to the request before, if one broke the prefix
    taint: tuple[str, ...] = ()  # what of the conversation came from outside
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost: float | None = None  # US dollars; None: no price is known
    ms: int = 0
    first: int | None = None  # until its first word
    stopped: str = ""  # why it ended, as the model says
    failure: str = ""  # kind and message
    purpose: str = ""  # what else it was for: it is no step of the run

    def following(self, before: CallCard | None) -> CallCard:
        """With what it leaves unsaid, from the call before it."""
        if before is None:
            return self
        names = ("sections", "tools", "hidden")
        unsaid = {name: getattr(before, name) for name in names if getattr(self, name) is None}
        return msgspec.structs.replace(self, **unsaid) if unsaid else self

    def without(self, before: CallCard | None) -> CallCard:
        """Without what is as in the call before it, which is whole."""
        if before is None:
            return self
        same = {name: None for name in ("sections", "tools", "hidden") if getattr(self, name) == getattr(before, name)}
        return msgspec.structs.replace(self, **same) if same else self


_decoder = decode_late(CallCard)


def read_cards(details: Iterable[str]) -> list[CallCard]:
    """Cards as they stand in a trace, oldest first, each whole. One that cannot be read (another version's) is left
    out."""
    made: list[CallCard] = []
    for text in details:
        try:
            card = _decoder.decode(text)
        except msgspec.DecodeError:
            continue
        made.append(card.following(made[-1] if made else None))
    return made


class UnprovenClaim(msgspec.Struct, frozen=True):
    """A claim that what happened does not bear out."""

    kind: str  # tests, files, messages, jobs, done
    said: str
    fact: str


class EvidenceFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of one check, in the trace of the message. `asked`: it was sent back to the model."""

    claims: tuple[UnprovenClaim, ...]
    asked: bool = False


def read_findings(details: Iterable[str]) -> list[EvidenceFinding]:
    """As they stand in a trace; one that cannot be read is left out."""
    found = []
    for text in details:
        with contextlib.suppress(msgspec.DecodeError):
            found.append(msgspec.json.decode(text, type=EvidenceFinding))
    return found
