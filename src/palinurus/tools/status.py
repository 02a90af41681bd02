"""session_status: the time, and what a session uses; sets or clears the session's model. Made for a `Status`."""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

import msgspec

from palinurus.core.status import SessionCard, render_session_card
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.tools.paths import shorten_path

CLEAR = "default"


class SessionStatusPort(Protocol):
    """Who knows about sessions. `caller` is the session that asks: what it may not see does not exist for it."""

    async def card(self, caller: str, session: str) -> SessionCard | None:
        """None if there is no such session, or the caller may not see it."""
        ...

    async def set_model(self, caller: str, session: str, model: str | None) -> str:
        """Choose the session's model (alias, id or provider/model), or with None take the choice back. From the
        next message on. Returns the model that now applies; raises ToolFailure with why it cannot be."""
        ...


def make_status_tool(status: SessionStatusPort) -> dict[str, Tool]:
    """The tool, by its name."""
    tool = msgspec.structs.replace(_TOOL, run=partial(_status, status))
    return {tool.name: tool}


async def _status(status: SessionStatusPort, ctx: ToolContext, sessionKey: str = "", model: str = "") -> ToolOutput:
    """Raises ToolFailure."""
    session = sessionKey.strip()
    session = ctx.session if session in ("", "current") else session
    before = await status.card(ctx.session, session)
    if before is None:
        raise ToolFailure(f"no session {shorten_path(session)} that can be seen from here")
    wanted, done = model.strip(), ""
    if wanted and not ctx.trusted:
        raise ToolFailure("the model of a session is chosen by people who are trusted; the sender of this turn is not")
    if wanted:
        now = await status.set_model(ctx.session, session, None if wanted.lower() == CLEAR else wanted)
        cleared = wanted.lower() == CLEAR
        done = f"Model choice cleared; {now} applies" if cleared else f"Model set to {now}"
        done += " from the next message on.\n\n"
    card = await status.card(ctx.session, session) or before
    return make_output(done + render_session_card(card), _details(card))


def _details(card: SessionCard) -> dict[str, Any]:
    """Without the zone object, which no file can hold."""
    names = (name for name in card.__struct_fields__ if name != "zone")
    return {name: getattr(card, name) for name in names}


async def _no_status(ctx: ToolContext, **_: Any) -> ToolOutput:
    raise ToolFailure("nobody knows about sessions here")


def _asked(args: dict[str, Any]) -> str:
    return shorten_path(str(args.get("model") or args.get("sessionKey") or ""))


_TOOL = Tool(
    name="session_status",
    description=(
        "The current date and time, this session's model, token usage and cost. With `model` it chooses the model of "
        f"this session; `{CLEAR}` takes the choice back."
    ),
    parameters={
        "type": "object",
        "properties": {
            "sessionKey": {"type": "string", "description": "Another session; this one if left out"},
            "model": {"type": "string", "description": f"Model to use from now on, or `{CLEAR}`"},
        },
    },
    run=_no_status,
    effect="idempotent",
    summary=_asked,
    aliases={"session_key": "sessionKey", "session": "sessionKey"},
)
