"""What the prompt has to know about a channel: one row each. Config may widen or narrow it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

ReactionLevel = Literal["", "minimal", "extensive"]


class ChannelSurface(msgspec.Struct, frozen=True):
    """`approvals`: the channel itself asks for approvals, with buttons or cards."""

    buttons: bool = False
    approvals: bool = False
    reactions: ReactionLevel = ""

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The words of the runtime line."""
        names = {"inlineButtons": self.buttons, "approvals": self.approvals, "reactions": bool(self.reactions)}
        return tuple(name for name, there in names.items() if there)


SURFACES: dict[str, ChannelSurface] = {
    "telegram": ChannelSurface(buttons=True, approvals=True, reactions="minimal"),
    "signal": ChannelSurface(reactions="minimal"),
    "discord": ChannelSurface(buttons=True, approvals=True),
    "slack": ChannelSurface(buttons=True, approvals=True),
    "webchat": ChannelSurface(approvals=True),
}
_LEVELS: dict[str, ReactionLevel] = {"off": "", "ack": "", "minimal": "minimal", "extensive": "extensive"}


def find_surface(channel: str, config: Mapping[str, Any]) -> ChannelSurface:
    """The row of a channel, overlaid with `reactionLevel` and `capabilities` of its config."""
    found = SURFACES.get(channel, ChannelSurface())
    level = config.get("reactionLevel")
    if isinstance(level, str) and level in _LEVELS:
        found = msgspec.structs.replace(found, reactions=_LEVELS[level])
    wanted = config.get("capabilities")
    if isinstance(wanted, list):
        found = msgspec.structs.replace(found, buttons="inlineButtons" in wanted)
    elif isinstance(wanted, Mapping) and "inlineButtons" in wanted:
        found = msgspec.structs.replace(found, buttons=wanted["inlineButtons"] not in ("off", False))
    return found
