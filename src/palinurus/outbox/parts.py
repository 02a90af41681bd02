"""One reply -> messages that the channel takes: cut at natural points, each with its own stable id. Pure.

A reply is cut before its rows are stored, so each part has its own receipt. The first part keeps the reply's id, the
others are `id.p2`, `id.p3`, …; text, media and buttons stay in this order: buttons and media come with the last part,
so that nobody has to scroll up for them. Code fences are closed in one part and opened again in the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from palinurus.config.sections.channels import AccountSettings
from palinurus.core.format.render import measure_markdown, measure_plain
from palinurus.core.stream.chunk import BlockSettings, Chunker
from palinurus.core.types.channel import ChannelAbilities
from palinurus.core.types.events import RunEvent
from palinurus.core.types.outbound import Reply, ReplyBuilder

ReplyMode: TypeAlias = Literal["off", "first", "all"]
FENCE = "```"
DEEPEST = 6  # tries with smaller sizes before a text is cut by counting
LEAST = 24  # characters below which no natural point is looked for
SAFE = 6  # no character becomes more than so many by formatting


class ChannelFit(msgspec.Struct, frozen=True):
    """What one account takes. `limit`: textChunkLimit, 0 for the channel's own; `newline`: paragraphs one by one."""

    abilities: ChannelAbilities
    limit: int = 0
    newline: bool = False
    answers: ReplyMode = "off"
    lines: int = 0  # maxLinesPerMessage; 0: no limit

    @classmethod
    def of(cls, abilities: ChannelAbilities, account: AccountSettings) -> ChannelFit:
        """What an account of a channel takes."""
        return cls(abilities, account.limit, account.newline, account.reply_to, account.lines)

    @property
    def most(self) -> int:
        """The longest text, in the channel's unit."""
        own = max(1, self.abilities.limit)
        return min(self.limit, own) if self.limit > 0 else own

    def size(self, text: str, *, plain: bool) -> int:
        """How long the channel finds it."""
        return (measure_plain if plain else measure_markdown)(text, self.abilities)


def split_reply(reply: Reply, fit: ChannelFit) -> tuple[Reply, ...]:
    """The reply as messages, in order. None for one that says nothing."""
    buttons = reply.buttons if len(reply.buttons) <= fit.abilities.buttons else ()
    if not reply.text.strip():
        return (msgspec.structs.replace(reply, buttons=buttons),) if reply.media or reply.speak else ()
    texts = cut_text(reply.text, fit, plain=reply.plain)
    last = len(texts) - 1
    return tuple(
        msgspec.structs.replace(
            reply,
            text=text,
            client_id=reply.client_id if at == 0 else f"{reply.client_id}.p{at + 1}",
            reply_to=reply.reply_to if at == 0 or fit.answers == "all" else "",
            media=reply.media if at == last else (),
            voice=reply.voice and at == last,
            buttons=buttons if at == last else (),
        )
        for at, text in enumerate(texts)
    )


def cut_text(text: str, fit: ChannelFit, *, plain: bool = False) -> list[str]:
    """The text in pieces that fit. Nothing is lost but blanks where it was cut."""
    if fit.lines and text.count("\n") >= fit.lines:
        rest = msgspec.structs.replace(fit, lines=0)
        return [one for part in cut_lines(text, fit.lines) for one in cut_text(part, rest, plain=plain)]
    most = fit.most
    if not fit.newline and (len(text) * SAFE <= most or fit.size(text, plain=plain) <= most):
        return [text]
    return _cut(text, most, lambda piece: fit.size(piece, plain=plain), fit, deep=0)


def cut_lines(text: str, most: int) -> list[str]:
    """In pieces of at most `most` lines. A code fence that is cut is closed and opened again; that does not count."""
    made: list[str] = []
    here: list[str] = []
    count, fence = 0, ""
    for line in text.split("\n"):
        if count >= most and not (fence and line.strip() == FENCE):
            made.append("\n".join((*here, FENCE) if fence else here))
            here, count = [fence] if fence else [], 0
        here.append(line)
        count += 1
        if line.lstrip().startswith(FENCE):
            fence = "" if fence else line
    return [piece for piece in (*made, "\n".join(here)) if piece.strip()]


def _cut(text: str, size: int, measure: Callable[[str], int], fit: ChannelFit, deep: int) -> list[str]:
    made: list[str] = []
    for piece in _natural(text, size, newline=fit.newline and deep == 0):
        found = measure(piece)
        smaller = min(size, len(piece)) * fit.most // max(1, found) - 1
        if found <= fit.most:
            made.append(piece)
        elif deep < DEEPEST and smaller >= LEAST:
            made += _cut(piece, smaller, measure, fit, deep=deep + 1)
        else:
            made += _counted(piece, measure, fit.most)
    return made


def _natural(text: str, size: int, *, newline: bool) -> list[str]:
    chunker = Chunker(BlockSettings(1 if newline else max(1, size * 3 // 5), size))
    return [piece.rstrip() for piece in (*chunker.feed(text), *chunker.close())]


def _counted(text: str, measure: Callable[[str], int], most: int) -> list[str]:
    """By counting: for texts that hold nothing to cut at, or limits too small for a fence."""
    made, here = [], ""
    for char in text:
        if here and measure(here + char) > most:
            made.append(here)
            here = ""
        here += char
    return [piece for piece in (*made, here) if piece.strip()]


class FittingSpeaker:
    """A speaker whose replies fit the channel. `asked` is the message that the next reply is shown as an answer to: the
    first of the turn or every one, as replyToMode says; "" for none."""

    def __init__(self, inner: ReplyBuilder, fit: ChannelFit, asked: str = "") -> None:
        self._inner = inner
        self._fit = fit
        self.asked = asked if fit.abilities.replies and fit.answers != "off" else ""

    def feed(self, event: RunEvent) -> tuple[Reply, ...]:
        now = self._inner.feed(event)
        return self.fit_replies(now) if now else now

    def close(self) -> tuple[Reply, ...]:
        return self.fit_replies(self._inner.close())

    def fit_replies(self, replies: tuple[Reply, ...]) -> tuple[Reply, ...]:
        """The same as messages."""
        return tuple(part for reply in replies for part in split_reply(self._answering(reply), self._fit))

    def _answering(self, reply: Reply) -> Reply:
        if not self.asked or reply.reply_to or reply.kind == "tool":
            return reply
        asked, self.asked = self.asked, self.asked if self._fit.answers == "all" else ""
        return msgspec.structs.replace(reply, reply_to=asked)
