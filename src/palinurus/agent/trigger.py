"""Turns that nobody wrote for (jobs, heartbeats, wakes): what their messages' options ask of a run.

The options come from the program only; no face hands them on from outside.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

from palinurus.agent.offer import ToolOffer
from palinurus.agent.plan import RunLimits
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.messages import TextBlock, ToolResult, UserMessage

TRIGGER = "trigger"


class MessagePreface(Protocol):
    """What a session is told before the message itself. `source`: whose words they are (taint)."""

    @property
    def text(self) -> str: ...

    @property
    def source(self) -> str: ...


Opening: TypeAlias = tuple[UserMessage | ToolResult, ...]
# (session key, inbox id) -> what is to be told with that message.
Tell: TypeAlias = Callable[[str, str], Awaitable[MessagePreface]]


def is_triggered(inbound: Inbound) -> bool:
    """Did the program begin this turn? Then it leaves no trace of where the person was last."""
    return inbound.system and TRIGGER in inbound.options


def get_directives(inbound: Inbound) -> dict[str, str]:
    """Those of a configured prompt; they were parsed where it was read."""
    given = inbound.options.get("inline") if is_triggered(inbound) else None
    return {str(key): str(value) for key, value in given.items()} if isinstance(given, dict) else {}


def limit_timeout(limits: RunLimits, options: Mapping[str, Any]) -> RunLimits:
    """With a time limit of its own, if that is shorter."""
    wanted = options.get("timeoutSeconds") if TRIGGER in options else None
    if not isinstance(wanted, int | float) or not 0 < wanted < limits.timeout:
        return limits
    return msgspec.structs.replace(limits, timeout=float(wanted))


def restrict_tools(offer: ToolOffer, options: Mapping[str, Any]) -> ToolOffer:
    """With the tools a job names and no others; it gets none that it would not have had."""
    wanted = options.get("toolsAllow") if TRIGGER in options else None
    if not wanted:
        return offer
    tools = {name: tool for name, tool in offer.tools.items() if name in wanted}
    return offer._replace(tools=tools, specs=tuple(tool.spec for tool in tools.values()))


def prepend_preface(opening: Opening, told: MessagePreface) -> Opening:
    """The opening message with what is told before it."""
    last = opening[-1] if opening else None
    if not told.text or not isinstance(last, UserMessage):
        return opening
    source = ", ".join(dict.fromkeys(word for word in (told.source, last.source) if word))
    return (*opening[:-1], UserMessage((TextBlock(told.text + "\n\n"), *last.blocks), last.timestamp, source))
