"""What follows when a reply could not be shown. Pure: one table, asked by `deliver.py`.

A remedy changes how the same row is sent, at once; what remains is waiting, looking, or giving up. A part that is
given up does not hold the later ones back: most of an answer is worth more than none of it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import msgspec

from palinurus.core.types.channel import SendFailure, SendTrouble
from palinurus.core.types.outbound import Reply

Then: TypeAlias = Literal[
    "again",  # later
    "look",  # is it there? Otherwise once more at most
    "plain",  # at once, without formatting
    "smaller",  # at once, in smaller pieces
    "bare",  # at once, the names of the files instead of the files
    "hold",  # the account takes nothing now; nothing is lost by waiting
    "never",
]

TABLE: dict[SendTrouble, Then] = {
    "down": "again",
    "cut": "look",
    "limited": "hold",
    "markup": "plain",
    "long": "smaller",
    "media": "bare",
    "signed_out": "hold",
    "blocked": "never",
    "gone": "never",
    "refused": "never",
}
WAITS = (1.0, 5.0, 30.0, 120.0, 600.0, 3600.0)  # seconds before the next try
HOLD = 60.0  # seconds between two looks at an account that nobody has signed in
LIMITED = 5.0  # seconds when the platform limits us and does not say how long
DAY = 86_400_000  # milliseconds after which what was held is not news any more


class SendShape(NamedTuple):
    """How a row is sent."""

    plain: bool = False
    bare: bool = False
    small: bool = False  # in pieces


def find_remedy(trouble: SendTrouble, how: SendShape, reply: Reply) -> SendShape | None:
    """What to try at once; None if there is nothing (left) to try."""
    then = TABLE[trouble]
    if then == "plain" and not (how.plain or reply.plain):
        return how._replace(plain=True)
    if then == "bare" and reply.media and not how.bare:
        return how._replace(bare=True)
    if then == "smaller" and not how.small and len(reply.text) > 1:
        return how._replace(small=True)
    return None


def shape_reply(reply: Reply, how: SendShape) -> Reply:
    """The reply as it is to be sent, but for its length."""
    if how.bare and reply.media:
        names = "\n".join(f"📎 {_name(source)}" for source in reply.media)
        text = f"{reply.text}\n\n{names}".strip()
        reply = msgspec.structs.replace(reply, text=text, media=(), voice=False)
    return msgspec.structs.replace(reply, plain=True) if how.plain else reply


def _name(source: str) -> str:
    """An address as it is; of a file its name only: where it lies is nobody's business."""
    return source if "://" in source else source.rstrip("/").rsplit("/", 1)[-1]


class RetryPlan(NamedTuple):
    """When a row is tried again; `wait` None: never."""

    wait: float | None
    chat: bool = True  # only its chat waits; False: the whole account


def plan_retry(result: SendFailure, attempts: int, age: int) -> RetryPlan:
    """What becomes of a row for which there is no remedy; `age` in milliseconds, `attempts` with this one."""
    then = TABLE[result.trouble]
    if then in ("plain", "smaller", "bare", "never"):
        return RetryPlan(None)
    if then == "hold":
        usual = HOLD if result.trouble == "signed_out" else LIMITED
        wait = result.retry_after if result.retry_after is not None else usual
        everybody = result.everywhere or result.trouble == "signed_out"
        return RetryPlan(wait if age < DAY else None, not everybody)
    if attempts > len(WAITS):
        return RetryPlan(None)
    usual = WAITS[min(attempts, len(WAITS)) - 1]
    return RetryPlan(result.retry_after if result.retry_after is not None else usual)
