"""How a message wants to be treated while its session is busy: the words, and who decides. Pure.

The message itself (or its sender's directive) goes before the session, that before the channel, that before the
configuration. Knows nothing of what is waiting; see `queue.py` for that.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, cast, get_args

import msgspec

from palinurus.config.sections.session import QueueSettings
from palinurus.core.levels.spellings import QUEUE_WORDS
from palinurus.core.types.inbound import Inbound
from palinurus.patterns import decode_late

Mode: TypeAlias = Literal["steer", "followup", "collect", "interrupt"]
Drop: TypeAlias = Literal["old", "new", "summarize"]

# Channels whose sender waits for *this* message's own answer: never mixed with others, refused at once when full.
OWN_ANSWER: frozenset[str] = frozenset(("http",))


class QueuePolicy(msgspec.Struct, frozen=True):
    mode: Mode = "steer"
    debounce: float = 0.5  # seconds of quiet before collected messages run
    cap: int = 20
    drop: Drop = "summarize"
    burst: bool = False  # what comes in one go is one turn (messages.inbound)

    @property
    def hold(self) -> float:
        """Seconds of quiet before it runs."""
        return self.debounce if self.burst or self.mode == "collect" else 0.0


class QueueOverrides(msgspec.Struct, frozen=True):
    """What a session's record may say; values are checked when used."""

    queueMode: Any = None
    queueDebounceMs: Any = None
    queueCap: Any = None
    queueDrop: Any = None


NO_OVERRIDES = QueueOverrides()
_record = decode_late(QueueOverrides)


def parse_mode(word: object) -> Mode | None:
    """The mode a word means, or None."""
    flat = word.strip().lower().replace("-", "").replace("_", "") if isinstance(word, str) else ""
    return cast("Mode | None", QUEUE_WORDS.get(flat))


def read_overrides(record: bytes) -> QueueOverrides:
    """The queue's part of an encoded session record; nothing if that cannot be read."""
    try:
        return _record.decode(record)
    except (msgspec.DecodeError, RecursionError):
        return NO_OVERRIDES


def resolve_policy(
    inbound: Inbound, session: QueueOverrides, settings: QueueSettings, directive: str = ""
) -> QueuePolicy:
    """What applies to this message. `directive`: the mode that its text asks for."""
    options, channel = inbound.options, inbound.target.channel
    if channel in OWN_ANSWER:
        return QueuePolicy("followup", 0.0, settings.cap, "new")
    debounce = _first(options.queue_debounce_ms, session.queueDebounceMs)
    drop = options.queue_drop or session.queueDrop
    chosen: Mode = (
        parse_mode(directive)
        or parse_mode(options.queue)
        or parse_mode(session.queueMode)
        or parse_mode(settings.by_channel.get(channel))
        or parse_mode(settings.mode)
        or "steer"
    )
    if inbound.files and chosen != "interrupt":
        chosen = "followup"  # files are looked at before a turn begins: such a message has one of its own
    return QueuePolicy(
        chosen,
        settings.debounce_by_channel.get(channel, settings.debounce) if debounce is None else debounce / 1000,
        _first(options.queue_cap, session.queueCap, least=1) or settings.cap,
        cast("Drop", drop) if drop in get_args(Drop) else settings.drop,
    )


def find_burst_policy(inbound: Inbound, settings: QueueSettings) -> QueuePolicy | None:
    """What applies to a message that nothing is in the way of: None if it is run at once. In chats people write several
    in one go; a file, or whoever waits for the answer, is not kept waiting."""
    wait = settings.burst.by_channel.get(inbound.target.channel, settings.burst.wait)
    if not wait or inbound.system or inbound.files or not inbound.push or inbound.pressed:
        return None
    return QueuePolicy("steer", wait, settings.cap, settings.drop, burst=True)


def _first(*values: object, least: int = 0) -> int | None:
    return next((v for v in values if isinstance(v, int) and not isinstance(v, bool) and v >= least), None)
