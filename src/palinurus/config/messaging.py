"""tools.message: where a turn may write besides the chat it answers. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from palinurus.config.schema import Config


class MessageToolRules(msgspec.Struct, frozen=True):
    """Other chats than the one a turn answers. What is no yes or no counts as not written."""

    within: bool = True  # crossContext.allowWithinProvider: on the same channel
    across: bool | None = None  # crossContext.allowAcrossProviders: to other channels; None: for the owner only
    broadcast: bool = True  # broadcast.enabled: several at once


def resolve_messaging(config: Config) -> MessageToolRules:
    """The settings."""
    section: dict[str, Any] = (config.tools.message if config.tools else None) or {}
    cross, many = (_section(section.get(name)) for name in ("crossContext", "broadcast"))
    usual = MessageToolRules()
    return MessageToolRules(
        bool(_flag(cross.get("allowWithinProvider"), usual.within)),
        _flag(cross.get("allowAcrossProviders"), _flag(section.get("allowCrossContextSend"), usual.across)),
        bool(_flag(many.get("enabled"), usual.broadcast)),
    )


def _section(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _flag(value: Any, usual: bool | None) -> bool | None:
    return value if isinstance(value, bool) else usual
