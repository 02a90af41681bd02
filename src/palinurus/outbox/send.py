"""One message to the platform, with what can be done about it at once: plain instead of formatted, smaller pieces,
names instead of files. In the place of a draft where there is one.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable
from typing import Literal, TypeAlias

import msgspec

from palinurus.clock import Clock
from palinurus.config.sections.channels import SendRetrySettings
from palinurus.core.types.channel import Channel, DeleteAction, EditAction, SendFailure, SendReceipt, SendTrouble
from palinurus.core.types.outbound import Reply
from palinurus.outbox.parts import ChannelFit, cut_text
from palinurus.store.port import OutboxRow

# What follows when a reply could not be shown. Pure: one table, asked by `deliver.py`.
#
# A remedy changes how the same row is sent, at once; what remains is waiting, looking, or giving up. A part that is
# given up does not hold the later ones back: most of an answer is worth more than none of it.

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


class SendShape(msgspec.Struct, frozen=True):
    """How a row is sent."""

    plain: bool = False
    bare: bool = False
    small: bool = False  # in pieces


def find_remedy(trouble: SendTrouble, how: SendShape, reply: Reply) -> SendShape | None:
    """What to try at once; None if there is nothing (left) to try."""
    then = TABLE[trouble]
    if then == "plain" and not (how.plain or reply.plain):
        return msgspec.structs.replace(how, plain=True)
    if then == "bare" and reply.media and not how.bare:
        return msgspec.structs.replace(how, bare=True)
    if then == "smaller" and not how.small and len(reply.text) > 1:
        return msgspec.structs.replace(how, small=True)
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


class RetryPlan(msgspec.Struct, frozen=True):
    """When a row is tried again; `wait` None: never."""

    wait: float | None
    chat: bool = True  # only its chat waits; False: the whole account


def plan_retry(result: SendFailure, attempts: int, age: int, own: SendRetrySettings | None = None) -> RetryPlan:
    """What becomes of a row for which there is no remedy; `age` in milliseconds, `attempts` with this one. `own`: what
    the account says of it."""
    then = TABLE[result.trouble]
    if then in ("plain", "smaller", "bare", "never"):
        return RetryPlan(None)
    if then == "hold":
        usual = HOLD if result.trouble == "signed_out" else LIMITED
        wait = result.retry_after if result.retry_after is not None else usual
        everybody = result.everywhere or result.trouble == "signed_out"
        return RetryPlan(wait if age < DAY else None, not everybody)
    waits = own.wait(attempts, random.random()) if own else dict(enumerate(WAITS, 1)).get(attempts)
    return RetryPlan(waits if waits is None or result.retry_after is None else result.retry_after)


class RowTimes:
    """How old rows are and when they may be tried again, by the clock that is never set. What the wall clock says of a
    row is believed once, when it is first seen."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, tuple[float, float]] = {}  # id -> stored, may be tried; monotonic
        self._tried: dict[str, int] = {}  # id -> of its tries those after which it only had to wait

    def see(self, rows: list[OutboxRow]) -> None:
        """These are the rows there are now."""
        now, here = self._clock.now(), self._clock.monotonic()
        for row in rows:
            wait = min(max(0, row.due - now) / 1000, WAITS[-1])  # more is a clock that was set
            self._known.setdefault(row.id, (here - max(0, now - row.at) / 1000, here + wait))
        self._known = {row.id: self._known[row.id] for row in rows}
        self._tried = {ident: held for ident, held in self._tried.items() if ident in self._known}

    def age(self, row: OutboxRow) -> int:
        """Milliseconds."""
        return int((self._clock.monotonic() - self._get(row)[0]) * 1000)

    def wait(self, row: OutboxRow) -> float:
        """Seconds before it may be tried."""
        return self._get(row)[1] - self._clock.monotonic()

    def tries(self, row: OutboxRow) -> int:
        """How often it was tried, without those times when it only had to wait."""
        return row.attempts - self._tried.get(row.id, 0)

    def delay(self, row: OutboxRow, seconds: float, *, held: bool = False) -> None:
        """It was tried and may be again after `seconds`; `held`: the platform only had it wait."""
        self._known[row.id] = (self._get(row)[0], self._clock.monotonic() + seconds)
        self._tried[row.id] = self._tried.get(row.id, 0) + held

    def is_stale(self, row: OutboxRow) -> bool:
        """Is it too old to be news? Never before it was tried by this process: a start's clock may be wrong."""
        return row.id in self._tried and self.age(row) > DAY

    def _get(self, row: OutboxRow) -> tuple[float, float]:
        return self._known.get(row.id, (self._clock.monotonic(), 0.0))


log = logging.getLogger(__name__)

FIXED = ("gone", "refused", "blocked")  # a draft that cannot be edited any more
SMALLEST = 16  # characters that are not cut any further
PATIENCE = 120.0  # seconds that a call may take; files are slow


class OutgoingMessage(msgspec.Struct, frozen=True):
    """`draft`: the message of ours whose place it takes. `again`: it was tried before, parts of it may be there."""

    reply: Reply
    draft: str = ""
    again: bool = False


class MessageSender:
    """For one channel. Remembers the pieces of a message that were shown, until it is `over`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._shown: dict[str, dict[str, str]] = {}  # by client id: piece -> message id

    def over(self, client_id: str) -> None:
        """No piece of it is sent any more."""
        self._shown.pop(client_id, None)

    async def send(self, message: OutgoingMessage) -> SendReceipt | SendFailure:
        """Show it, or say why it cannot be."""
        how, draft = SendShape(), message.draft
        while True:
            reply = shape_reply(message.reply, how)
            if draft and (reply.media or how.small):  # no edit makes that of it
                await self._remove(reply, draft)
                draft = ""
            if not draft:
                done = await (self._pieced(reply, message.again) if how.small else _in_time(self._channel.send(reply)))
            else:
                edit = EditAction(draft, reply.text, reply.buttons, reply.plain)
                done = await _in_time(self._channel.act(reply.target, edit))
            if isinstance(done, SendReceipt):
                return SendReceipt(draft) if draft else done
            if draft and done.trouble in FIXED:
                await self._remove(reply, draft)
                draft = ""
                continue
            better = find_remedy(done.trouble, how, reply)
            if better is None:
                return done
            how = better

    async def _remove(self, reply: Reply, draft: str) -> None:
        """Before the new message is sent: afterwards nobody would know that the draft is still there."""
        if "delete" in self._channel.abilities.acts:
            await _in_time(self._channel.act(reply.target, DeleteAction(draft)))

    async def _pieced(self, reply: Reply, again: bool) -> SendReceipt | SendFailure:
        """In pieces, which get smaller as long as the platform finds them too long. Those that were shown stay."""
        shown = self._shown.setdefault(reply.client_id, {})
        todo, number = self._smaller(reply, reply.text), 1
        while todo:
            piece = _piece(reply, todo[0], number, last=len(todo) == 1)
            if piece.client_id not in shown:
                found = await self._channel.find(piece) if again else None
                done = found or await _in_time(self._channel.send(piece))
                if isinstance(done, SendFailure):
                    if done.trouble != "long" or len(todo[0]) <= SMALLEST:
                        return done
                    todo[:1] = self._smaller(piece, todo[0])
                    continue
                shown[piece.client_id] = done.message_id
            todo, number = todo[1:], number + 1
        return SendReceipt(next(iter(shown.values()), ""))

    def _smaller(self, reply: Reply, text: str) -> list[str]:
        abilities = self._channel.abilities
        fit = ChannelFit(abilities)
        half = max(1, min(fit.size(text, plain=reply.plain), fit.most) // 2)
        return cut_text(text, ChannelFit(abilities, half), plain=reply.plain)


def _piece(reply: Reply, text: str, number: int, *, last: bool) -> Reply:
    return msgspec.structs.replace(
        reply,
        text=text,
        client_id=f"{reply.client_id}.s{number}",
        reply_to=reply.reply_to if number == 1 else "",
        media=reply.media if last else (),
        voice=reply.voice and last,
        buttons=reply.buttons if last else (),
    )


async def _in_time(work: Awaitable[SendReceipt | SendFailure]) -> SendReceipt | SendFailure:
    try:
        async with asyncio.timeout(PATIENCE):
            return await work
    except TimeoutError:
        return SendFailure(f"no answer within {PATIENCE:g} s", "cut")
    except Exception:  # border: a channel that breaks its promise is one that may or may not have sent it
        log.exception("a channel raised")
        return SendFailure("the channel failed; the log says why", "cut")
