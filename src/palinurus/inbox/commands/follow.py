"""A message that a command sends on: to the same session, from the same sender, once, however often it is tried."""

from __future__ import annotations

from typing import Any

import msgspec

from palinurus.core.types.inbound import Inbound
from palinurus.inbox.commands.desk import CommandCall


def make_followup(call: CommandCall, text: str, options: dict[str, Any] | None = None) -> Inbound:
    """The message; its event id comes from the command's own id, so a second try is a known duplicate."""
    return msgspec.structs.replace(
        call.inbound,
        text=text,
        event=f"follow:{call.claim.id}",
        session=str(call.key),
        agent=call.key.agent,
        options={**call.inbound.options, **(options or {})},
    )
