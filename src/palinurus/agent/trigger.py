"""Turns that nobody wrote for (jobs, heartbeats, wakes): what their messages' options ask of a run.

The options come from the program only; no face hands them on from outside.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

from palinurus.agent.offer import Offer
from palinurus.agent.plan import Limits
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.messages import TextBlock, ToolResult, UserMessage

TRIGGER = "trigger"


class Told(Protocol):
    """What a session is told before the message itself. `source`: whose words they are (taint)."""

    @property
    def text(self) -> str: ...

    @property
    def source(self) -> str: ...


Opening: TypeAlias = tuple[UserMessage | ToolResult, ...]
# (session key, inbox id) -> what is to be told with that message.
Tell: TypeAlias = Callable[[str, str], Awaitable[Told]]


def triggered(inbound: Inbound) -> bool:
    """Did the program begin this turn? Then it leaves no trace of where the person was last."""
    return inbound.system and TRIGGER in inbound.options


def directives(inbound: Inbound) -> dict[str, str]:
    """Those of a configured prompt; they were parsed where it was read."""
    given = inbound.options.get("inline") if triggered(inbound) else None
    return {str(key): str(value) for key, value in given.items()} if isinstance(given, dict) else {}


def limited(limits: Limits, options: Mapping[str, Any]) -> Limits:
    """With a time limit of its own, if that is shorter."""
    wanted = options.get("timeoutSeconds") if TRIGGER in options else None
    if not isinstance(wanted, int | float) or not 0 < wanted < limits.timeout:
        return limits
    return msgspec.structs.replace(limits, timeout=float(wanted))


def only(offer: Offer, options: Mapping[str, Any]) -> Offer:
    """With the tools a job names and no others; it gets none that it would not have had."""
    wanted = options.get("toolsAllow") if TRIGGER in options else None
    if not wanted:
        return offer
    tools = {name: tool for name, tool in offer.tools.items() if name in wanted}
    return offer._replace(tools=tools, specs=tuple(tool.spec for tool in tools.values()))


def prefaced(opening: Opening, told: Told) -> Opening:
    """The opening message with what is told before it."""
    last = opening[-1] if opening else None
    if not told.text or not isinstance(last, UserMessage):
        return opening
    source = ", ".join(dict.fromkeys(word for word in (told.source, last.source) if word))
    return (*opening[:-1], UserMessage((TextBlock(told.text + "\n\n"), *last.blocks), last.timestamp, source))
