"""The words around messages that are put together, or were dropped. Pure."""

from __future__ import annotations

import msgspec

from palinurus.core.levels.parse import parse_directives
from palinurus.core.types.inbound import Inbound

TITLE = "[Queued messages while agent was busy]"
OVERFLOW = "[Queue overflow] Dropped {count} message(s) due to cap."


def tell_overflow(count: int, lines: tuple[str, ...]) -> str:
    """What the model is told of messages that were dropped; "" if there are none."""
    return "\n".join((OVERFLOW.format(count=count), *(f"- {line}" for line in lines))) if count else ""


def strip_directives(inbound: Inbound) -> Inbound:
    """The message without its directives, where they are such."""
    if "/" not in inbound.text or not inbound.sender.trusted:
        return inbound
    parsed = parse_directives(inbound.text)
    return msgspec.structs.replace(inbound, text=parsed.rest) if parsed.rest.strip() else inbound


def prepend_note(inbound: Inbound, note: str) -> Inbound:
    """The message with a note before its text."""
    return msgspec.structs.replace(inbound, text=f"{note}\n\n{inbound.text}") if note else inbound


def number_first(inbound: Inbound, note: str = "") -> Inbound:
    """The first of several messages that make one turn."""
    head = f"{TITLE}\n\n{note}\n\n" if note else f"{TITLE}\n\n"
    return msgspec.structs.replace(inbound, text=head + _block(inbound, 1), signed=True)


def number_further(inbound: Inbound, number: int) -> Inbound:
    """The others, numbered from 2."""
    return msgspec.structs.replace(inbound, text=_block(inbound, number), signed=True)


def _block(inbound: Inbound, number: int) -> str:
    who = inbound.sender.name or inbound.sender.id if inbound.kind != "direct" else ""
    return f"---\nQueued #{number}{f' (from {who})' if who else ''}\n{inbound.text}"
