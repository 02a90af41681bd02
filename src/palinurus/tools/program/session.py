"""sessions_list, sessions_history, sessions_send: looking at other sessions and writing to them. Made for a `Reach`.

What may be seen is the port's to decide: what a session may not see does not exist for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

import msgspec

from palinurus.core.status import SessionCard, render_session_card
from palinurus.core.types.messages import TextBlock
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.tools.files.paths import shorten_path

# session_status: the time, and what a session uses; sets or clears the session's model. Made for a `Status`.

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


def _status_asked(args: dict[str, Any]) -> str:
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
    summary=_status_asked,
    aliases={"session_key": "sessionKey", "session": "sessionKey"},
)


KINDS = ("main", "group", "cron", "hook", "subagent", "acp", "other")
WAIT = 30.0  # seconds for an answer when nobody says
LONGEST = 600.0
TOTAL = 80_000  # bytes of a history
ROWS = 200


class SessionFilter(msgspec.Struct, frozen=True):
    """Which sessions."""

    kinds: tuple[str, ...] = ()
    limit: int = 50
    active_minutes: int = 0  # 0 = whenever
    messages: int = 0  # last messages of each to show
    label: str = ""
    agent: str = ""
    search: str = ""
    titles: bool = False
    last: bool = False


class SessionHistory(msgspec.Struct, frozen=True):
    """What was said in a session, oldest first, without secrets and pictures."""

    session: str
    messages: tuple[dict[str, Any], ...]
    older: bool = False  # there is more before them
    cut: bool = False  # texts were shortened
    blanked: bool = False  # secrets were taken out


class SessionMessage(msgspec.Struct, frozen=True):
    """A message to another session. `event` makes it one message however often it is handed over."""

    caller: str
    event: str
    text: str
    session: str = ""
    label: str = ""
    agent: str = ""
    wait: float = WAIT


class SessionsPort(Protocol):
    """Who reaches sessions. `caller` is the key of the session that asks."""

    async def sessions(self, caller: str, wanted: SessionFilter) -> list[dict[str, Any]]: ...

    async def history(self, caller: str, session: str, limit: int, tools: bool) -> SessionHistory | None:
        """None: there is no such session, or the caller may not see it."""
        ...

    async def send(self, letter: SessionMessage) -> dict[str, Any]:
        """What became of it: status ok, accepted, timeout, error or forbidden, with the reply or the reason."""
        ...


def make_session_tools(reach: SessionsPort) -> dict[str, Tool]:
    """The three tools, by name."""
    runs: dict[str, Callable[..., Awaitable[ToolOutput]]] = {
        "sessions_list": _list,
        "sessions_history": _history,
        "sessions_send": _send,
    }
    return {tool.name: msgspec.structs.replace(tool, run=partial(runs[tool.name], reach)) for tool in _TOOLS}


async def _list(reach: SessionsPort, ctx: ToolContext, **args: Any) -> ToolOutput:
    wanted = SessionFilter(
        kinds=tuple(args.get("kinds") or ()),
        limit=args.get("limit") or SessionFilter().limit,
        active_minutes=args.get("activeMinutes") or 0,
        messages=args.get("messageLimit") or 0,
        label=args.get("label") or "",
        agent=args.get("agentId") or "",
        search=args.get("search") or "",
        titles=bool(args.get("includeDerivedTitles")),
        last=bool(args.get("includeLastMessage")),
    )
    rows = await reach.sessions(ctx.session, wanted)
    body: dict[str, Any] = {"count": len(rows), "sessions": rows}
    while len(_json(body)) > ctx.settings.result_chars - 200 and rows:  # a cut in the middle would be no JSON any more
        rows = rows[:-1]
        body = {**body, "sessions": rows, "leftOut": body["count"] - len(rows)}
    return _said(body)


async def _history(
    reach: SessionsPort, ctx: ToolContext, sessionKey: str, limit: int = 200, includeTools: bool = False
) -> ToolOutput:
    """Raises ToolFailure."""
    heard = await reach.history(ctx.session, _own(ctx, sessionKey), limit, includeTools)
    if heard is None:
        raise ToolFailure(f"no session {shorten_path(sessionKey)} that can be seen from here")
    room = min(TOTAL, ctx.settings.result_chars - 400)
    sizes = [len(_json(message)) + 2 for message in heard.messages]
    first = len(sizes)
    while first and sum(sizes[first - 1 :]) <= room:
        first -= 1
    kept = heard.messages[first:]
    body = {
        "sessionKey": heard.session,
        "messages": list(kept),
        "truncated": heard.older or first > 0,
        "contentTruncated": heard.cut,
        "contentRedacted": heard.blanked,
        "bytes": len(msgspec.json.encode(kept)),
    }
    return _said(body)


async def _send(reach: SessionsPort, ctx: ToolContext, message: str, **args: Any) -> ToolOutput:
    """Raises ToolFailure."""
    session, label = str(args.get("sessionKey") or "").strip(), str(args.get("label") or "").strip()
    if not message.strip():
        raise ToolFailure("message is empty")
    if bool(session) == bool(label):
        raise ToolFailure("say to whom: either sessionKey or label")
    wait = args.get("timeoutSeconds")
    letter = SessionMessage(
        ctx.session,
        f"{ctx.run}:{ctx.call}",
        message,
        session,
        label,
        str(args.get("agentId") or "").strip(),
        WAIT if wait is None else float(wait),
    )
    body = await reach.send(letter)
    return msgspec.structs.replace(_said(body), is_error=body["status"] in ("error", "forbidden"))


def _own(ctx: ToolContext, session: str) -> str:
    return ctx.session if session.strip() in ("", "current") else session.strip()


def _said(body: dict[str, Any]) -> ToolOutput:
    """What other sessions hold was written by others."""
    return ToolOutput((TextBlock(_json(body)),), body, source="session")


def _json(body: Any) -> str:
    return msgspec.json.encode(body).decode()


async def _nobody(ctx: ToolContext, **_: Any) -> ToolOutput:
    raise ToolFailure("nobody knows about sessions here")


def _asked(args: dict[str, Any]) -> str:
    return shorten_path(str(args.get("sessionKey") or args.get("label") or args.get("search") or ""))


def _text(words: str) -> dict[str, Any]:
    return {"type": "string", "description": words}


def _count(words: str, least: int = 1, most: int | None = None) -> dict[str, Any]:
    bounds = {"minimum": least} if most is None else {"minimum": least, "maximum": most}
    return {"type": "integer", "description": words, **bounds}


def _flag(words: str) -> dict[str, Any]:
    return {"type": "boolean", "description": words}


_SESSION = {"session_key": "sessionKey", "session": "sessionKey", "key": "sessionKey"}
_TOOLS: tuple[Tool, ...] = (
    Tool(
        name="sessions_list",
        description="List the sessions that can be seen from here, the newest first.",
        parameters={
            "type": "object",
            "properties": {
                "kinds": {
                    "type": "array",
                    "items": {"type": "string", "enum": list(KINDS)},
                    "description": "Only these kinds",
                },
                "limit": _count("At most this many (50)", 1, ROWS),
                "activeMinutes": _count("Only those with something said in the last minutes"),
                "messageLimit": _count("Show the last messages of each (0)", 0, 20),
                "label": _text("Only the one with this label"),
                "agentId": _text("Only those of this agent"),
                "search": _text("Only those with this in key, label or title"),
                "includeDerivedTitles": _flag("Show what each began with"),
                "includeLastMessage": _flag("Show the last message of each"),
            },
        },
        run=_nobody,
        effect="pure",
        summary=_asked,
    ),
    Tool(
        name="sessions_history",
        description="Read what was said in another session. Secrets and pictures are left out.",
        parameters={
            "type": "object",
            "properties": {
                "sessionKey": _text("As sessions_list gave it"),
                "limit": _count("At most this many messages, the newest (200)", 1, 1000),
                "includeTools": _flag("Tool calls and their results, too"),
            },
            "required": ["sessionKey"],
        },
        run=_nobody,
        effect="pure",
        summary=_asked,
        aliases=_SESSION,
    ),
    Tool(
        name="sessions_send",
        description=(
            "Send a message to another session, by key or label, and wait for its answer. With timeoutSeconds 0 it is "
            "only handed over."
        ),
        parameters={
            "type": "object",
            "properties": {
                "sessionKey": _text("To whom; as sessions_list gave it"),
                "label": _text("To whom, by label, instead of sessionKey"),
                "agentId": _text("With label: of this agent"),
                "message": _text("What to say"),
                "timeoutSeconds": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": LONGEST,
                    "description": f"How long to wait for an answer ({WAIT:g})",
                },
            },
            "required": ["message"],
        },
        run=_nobody,
        effect="effect",
        summary=_asked,
        aliases={**_SESSION, "text": "message", "timeout": "timeoutSeconds"},
    ),
)
