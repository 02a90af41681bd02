"""Reading sessions: lists, rows, previews, and following what happens in them."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from palinurus.gateway.rows import Seen, history, last, lines, plain, short, title
from palinurus.gateway.rpc import ALL_SESSIONS, READ, Call, Method, Params, RpcError, Word, session_topic
from palinurus.gateway.scene import Scene, scene

Label = Annotated[str, Meta(min_length=1, max_length=512)]


class List(Params, frozen=True):
    limit: Annotated[int, Meta(ge=1)] = 100
    offset: Annotated[int, Meta(ge=0)] = 0
    active_minutes: Annotated[int, Meta(ge=1)] | None = None
    include_global: bool | None = None
    include_unknown: bool | None = None
    configured_agents_only: bool | None = None
    include_derived_titles: bool = False
    include_last_message: bool = False
    label: Label | None = None
    spawned_by: Word | None = None
    agent_id: Word | None = None
    search: str = ""


class Keyed(Params, frozen=True):
    key: Word
    agent_id: Word | None = None


class Preview(Params, frozen=True):
    keys: list[Word]
    limit: Annotated[int, Meta(ge=1)] = 12
    max_chars: Annotated[int, Meta(ge=20)] = 240


class Describe(Params, frozen=True):
    key: Word
    include_derived_titles: bool | None = None
    include_last_message: bool | None = None


class Resolve(Params, frozen=True):
    key: Word | None = None
    session_id: Word | None = None
    label: Label | None = None
    agent_id: Word | None = None
    spawned_by: Word | None = None
    include_global: bool | None = None
    include_unknown: bool | None = None


class Get(Keyed, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200


async def listed(call: Call, asked: List) -> dict[str, Any]:
    """Newest first, a page of them."""
    here = scene(call)
    found = [seen for seen in await here.rows.load_all(asked.agent_id) if _wanted(here, seen, asked)]
    page = found[asked.offset : asked.offset + asked.limit]
    rows = []
    for seen in page:
        row = here.rows.row(seen)
        if asked.include_derived_titles or asked.include_last_message:
            await _described(here, seen, row, asked)
        rows.append(row)
    more = asked.offset + len(page) < len(found)
    agents = here.desk.settings.agents
    default = agents.get(asked.agent_id or "") or agents[here.desk.settings.default_agent]
    return {
        "ts": here.desk.clock.now(),
        "path": "state.db",
        "count": len(rows),
        "totalCount": len(found),
        "limitApplied": asked.limit,
        "nextOffset": asked.offset + len(page) if more else None,
        "hasMore": more,
        "defaults": here.rows.defaults(default),
        "sessions": rows,
    }


def _wanted(here: Scene, seen: Seen, asked: List) -> bool:
    record, needle = seen.record, asked.search.strip().lower()
    assert record is not None
    since = here.desk.clock.now() - (asked.active_minutes or 0) * 60_000
    if asked.active_minutes is not None and record.updatedAt < since:
        return False
    if asked.label is not None and record.label != asked.label:
        return False
    if asked.spawned_by is not None and record.spawnedBy != asked.spawned_by:
        return False
    names = (str(seen.key), record.label, record.displayName, record.subject, record.sessionId)
    return not needle or any(needle in (name or "").lower() for name in names)


async def _described(here: Scene, seen: Seen, row: dict[str, Any], asked: List) -> None:
    transcript = await here.rows.transcript(seen)
    shown = lines(transcript) if transcript is not None else []
    if asked.include_derived_titles and not row.get("label"):
        row["derivedTitle"] = title(shown) or row["key"]
    if asked.include_last_message and (text := last(shown)):
        row["lastMessagePreview"] = text


async def preview(call: Call, asked: Preview) -> dict[str, Any]:
    """The last few words of several sessions."""
    here = scene(call)
    found = []
    for name in asked.keys[:64]:
        seen = await here.rows.load(here.rows.key(name))
        transcript = await here.rows.transcript(seen)
        messages = history(transcript, 4 * asked.limit, asked.max_chars) if transcript is not None else []
        items = [{"role": m["role"], "text": short(plain(m), asked.max_chars)} for m in messages if plain(m)]
        shown = [item for item in items if item["role"] in ("user", "assistant")]
        found.append({"key": name, "status": "ok" if seen.record else "missing", "items": shown[-asked.limit :]})
    return {"ts": here.desk.clock.now(), "previews": found}


async def describe(call: Call, asked: Describe) -> dict[str, Any]:
    """One row."""
    here = scene(call)
    return {"session": await here.rows.find_row(str(here.rows.key(asked.key)))}


async def resolve(call: Call, asked: Resolve) -> dict[str, Any]:
    """The key behind a key, a session id or a label."""
    here = scene(call)
    if asked.key is not None:
        seen = await here.rows.load(here.rows.key(asked.key, asked.agent_id))
        if seen.record is not None:
            return {"ok": True, "key": str(seen.key)}
        raise RpcError(f"No session found: {asked.key}")
    for seen in await here.rows.load_all(asked.agent_id):
        record = seen.record
        assert record is not None
        if asked.session_id is not None and record.sessionId == asked.session_id:
            return {"ok": True, "key": str(seen.key)}
        if asked.label is not None and record.label == asked.label:
            return {"ok": True, "key": str(seen.key)}
    raise RpcError(f"No session found: {asked.session_id or asked.label}")


async def get(call: Call, asked: Get) -> dict[str, Any]:
    """Its messages."""
    here = scene(call)
    seen = await here.rows.load(here.rows.key(asked.key, asked.agent_id))
    transcript = await here.rows.transcript(seen)
    return {"messages": history(transcript, asked.limit) if transcript is not None else []}


async def subscribe(call: Call, asked: None) -> dict[str, Any]:
    """Hear of every session from now on."""
    call.gateway.follow(call.client.conn, ALL_SESSIONS)
    return {"subscribed": True}


async def unsubscribe(call: Call, asked: None) -> dict[str, Any]:
    """… and no more."""
    call.gateway.unfollow(call.client.conn, ALL_SESSIONS)
    return {"subscribed": False}


async def watch(call: Call, asked: Keyed) -> dict[str, Any]:
    """Hear of one session's messages."""
    key = str(scene(call).rows.key(asked.key, asked.agent_id))
    call.gateway.follow(call.client.conn, session_topic(key))
    return {"subscribed": True, "key": key}


async def unwatch(call: Call, asked: Keyed) -> dict[str, Any]:
    """… and no more."""
    key = str(scene(call).rows.key(asked.key, asked.agent_id))
    call.gateway.unfollow(call.client.conn, session_topic(key))
    return {"subscribed": False, "key": key}


METHODS: tuple[Method, ...] = (
    Method("sessions.list", READ, List, listed),
    Method("sessions.preview", READ, Preview, preview),
    Method("sessions.describe", READ, Describe, describe),
    Method("sessions.resolve", READ, Resolve, resolve, listed=False),
    Method("sessions.get", READ, Get, get, listed=False),
    Method("sessions.subscribe", READ, None, subscribe),
    Method("sessions.unsubscribe", READ, None, unsubscribe),
    Method("sessions.messages.subscribe", READ, Keyed, watch),
    Method("sessions.messages.unsubscribe", READ, Keyed, unwatch),
)
