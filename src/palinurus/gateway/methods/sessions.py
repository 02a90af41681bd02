"""Reading sessions: lists, rows, previews, and following what happens in them."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Annotated, Any, Literal

from msgspec import Meta

from palinurus.core.text import cut_line
from palinurus.gateway import rpc, views
from palinurus.gateway.context import MethodContext, SessionKeyParams, cut_page
from palinurus.gateway.rpc import GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.gateway.views import SessionSnapshot
from palinurus.sessions import search as searches
from palinurus.sessions.titles import derive_title

Label = Annotated[str, Meta(min_length=1, max_length=512)]


class SessionListParams(MethodParams, frozen=True):
    limit: Annotated[int, Meta(ge=1)] = 100
    offset: Annotated[int, Meta(ge=0)] = 0
    active_minutes: Annotated[int, Meta(ge=1)] | None = None
    include_global: bool | None = None
    include_unknown: bool | None = None
    configured_agents_only: bool | None = None
    include_derived_titles: bool = False
    include_last_message: bool = False
    label: Label | None = None
    spawned_by: NonEmpty | None = None
    agent_id: NonEmpty | None = None
    search: str = ""
    exclude_subagents: bool = False
    exclude_cron: bool = False
    include_requests: bool = False  # those of HTTP requests that named no session, too
    archived: Literal["no", "only", "all"] = "no"  # ours, as all that follows
    tag: str | None = None
    channel: str | None = None  # as `name_origin` says it
    pinned_first: bool = False
    include_facets: bool = False  # which tags and channels there are


class SessionSearchParams(MethodParams, frozen=True):
    query: NonEmpty
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    offset: Annotated[int, Meta(ge=0, le=10_000)] = 0  # ours: those before it were shown
    agent_id: NonEmpty | None = None


class SessionPreviewParams(MethodParams, frozen=True):
    keys: list[NonEmpty]
    limit: Annotated[int, Meta(ge=1)] = 12
    max_chars: Annotated[int, Meta(ge=20)] = 240


class SessionDescribeParams(MethodParams, frozen=True):
    key: NonEmpty
    include_derived_titles: bool | None = None
    include_last_message: bool | None = None


class SessionReference(MethodParams, frozen=True):
    key: NonEmpty
    slug: str | None = None  # of the title: of two sessions never the same key


class SessionResolveParams(MethodParams, frozen=True):
    key: NonEmpty | None = None
    session_id: NonEmpty | None = None
    label: Label | None = None
    agent_id: NonEmpty | None = None
    spawned_by: NonEmpty | None = None
    include_global: bool | None = None
    include_unknown: bool | None = None
    short_id: Annotated[str, Meta(pattern="^[0-9a-fA-F]{8,32}$")] | None = None  # as addresses of 2026.9's page end
    slug_hint: str | None = None
    reference: SessionReference | None = None
    allow_missing: bool = False


class SessionGetParams(SessionKeyParams, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200


async def list_sessions(call: MethodCall, asked: SessionListParams) -> dict[str, Any]:
    """Newest first, a page of them."""
    here = call.context
    every = await here.reader.load_all(asked.agent_id)
    found = [seen for seen in every if _wanted(here, seen, asked)]
    if asked.pinned_first:
        found.sort(key=lambda seen: not (seen.record and seen.record.pinned))
    page, after = cut_page(found, asked.offset, asked.limit)
    rows = []
    for seen in page:
        row = {**here.reader.row(seen), "from": name_origin(seen)}
        if asked.include_derived_titles or asked.include_last_message:
            await _described(here, seen, row, asked)
        rows.append(row)
    agents = here.program.settings.agents
    default = agents.get(asked.agent_id or "") or agents[here.program.settings.default_agent]
    return {
        "ts": here.program.clock.now(),
        "path": "state.db",
        "count": len(rows),
        "totalCount": len(found),
        "limitApplied": asked.limit,
        "nextOffset": after,
        "hasMore": after is not None,
        "defaults": here.reader.defaults(default),
        "sessions": rows,
        **(_count_facets(every) if asked.include_facets else {}),
    }


def name_origin(seen: SessionSnapshot) -> str:
    """Where a conversation takes place: a channel, or web, api, cron, hook, subagent, acp."""
    key, record = seen.key, seen.record
    if key.rest.startswith("openai:"):
        return "api"
    if key.kind in ("cron", "hook", "subagent", "acp"):
        return key.kind
    channel = (record.lastChannel or record.channel) if record is not None else None
    return "web" if channel in (None, "", "webchat") else str(channel)


def _count_facets(every: list[SessionSnapshot]) -> dict[str, Any]:
    """How many conversations each tag and each origin has, and how many are put away."""
    records = [seen.record for seen in every if seen.record is not None]
    return {
        "tags": dict(sorted(Counter(tag for record in records for tag in record.tags or ()).items())),
        "channels": dict(Counter(name_origin(seen) for seen in every).most_common()),
        "archivedCount": sum(1 for record in records if record.archived),
    }


def _wanted(here: MethodContext, seen: SessionSnapshot, asked: SessionListParams) -> bool:
    record, needle = seen.record, asked.search.strip().lower()
    assert record is not None
    since = here.program.clock.now() - (asked.active_minutes or 0) * 60_000
    if asked.active_minutes is not None and record.updatedAt < since:
        return False
    if asked.label is not None and record.label != asked.label:
        return False
    if asked.spawned_by is not None and record.spawnedBy != asked.spawned_by:
        return False
    if (asked.exclude_subagents and seen.key.kind == "subagent") or (asked.exclude_cron and seen.key.kind == "cron"):
        return False
    if not asked.include_requests and asked.channel != "api" and seen.key.unnamed:
        return False
    if asked.archived != "all" and record.archived != (asked.archived == "only"):
        return False
    if asked.tag is not None and asked.tag not in (record.tags or ()):
        return False
    if asked.channel is not None and name_origin(seen) != asked.channel:
        return False
    names = (str(seen.key), record.label, record.displayName, record.subject, record.sessionId)
    return not needle or any(needle in (name or "").lower() for name in names)


async def search_sessions(call: MethodCall, asked: SessionSearchParams) -> dict[str, Any]:
    """What was said, in any session: newest first, with the words around it."""
    program = call.context.program
    last = asked.offset + asked.limit
    query = searches.parse_query(asked.query, asked.agent_id, 0, last + 1)
    if not query.terms:
        return {"hits": [], "more": False, "note": "there is no word to look for"}
    found = await asyncio.to_thread(searches.search_transcripts, program.settings.home, query)
    keys = searches.map_transcript_keys(await program.store.sessions())
    hits = []
    for hit in found.hits[asked.offset : last]:
        key = keys.get(hit.path.partition(".jsonl")[0])
        hits.append({"key": key, "messageId": hit.entry, "role": hit.who, "at": hit.at, "text": hit.text})
    shown = [hit for hit in hits if hit["key"]]
    return {"hits": shown, "more": len(found.hits) > last, "note": found.note}


async def _described(here: MethodContext, seen: SessionSnapshot, row: dict[str, Any], asked: SessionListParams) -> None:
    transcript = await here.reader.transcript(seen)
    shown = views.list_visible_entries(transcript) if transcript is not None else []
    if asked.include_derived_titles and not row.get("label"):
        row["derivedTitle"] = derive_title(shown) or row["key"]
    if asked.include_last_message and (text := views.preview_last_message(shown)):
        row["lastMessagePreview"] = text


async def preview_sessions(call: MethodCall, asked: SessionPreviewParams) -> dict[str, Any]:
    """The last few words of several sessions."""
    here = call.context
    found = []
    for name in asked.keys[:64]:
        seen, transcript = await here.reader.open(here.reader.key(name))
        messages = views.project_history(transcript, 4 * asked.limit, asked.max_chars) if transcript is not None else []
        shown = [
            {"role": m["role"], "text": cut_line(text, asked.max_chars)}
            for m in messages
            if m["role"] in ("user", "assistant") and (text := views.extract_text(m))
        ]
        found.append({"key": name, "status": "ok" if seen.record else "missing", "items": shown[-asked.limit :]})
    return {"ts": here.program.clock.now(), "previews": found}


async def describe_session(call: MethodCall, asked: SessionDescribeParams) -> dict[str, Any]:
    """One row."""
    here = call.context
    return {"session": await here.reader.find_row(str(here.reader.key(asked.key)))}


async def resolve_session(call: MethodCall, asked: SessionResolveParams) -> dict[str, Any]:
    """The key behind a key, a session id, a label, or the beginning of the id that a key ends with."""
    here = call.context
    named = asked.key or (asked.reference.key if asked.reference is not None else None)
    if named is not None:
        seen = await here.reader.load(here.reader.key(named, asked.agent_id))
        found = [seen] if seen.record is not None else []
    else:
        found = [seen for seen in await here.reader.load_all(asked.agent_id) if _is_meant(seen, asked)]
    if not found and not asked.allow_missing:
        raise MethodError(f"No session found: {named or asked.session_id or asked.label or asked.short_id}")
    rows = [{"key": str(seen.key), "agentId": seen.key.agent} for seen in found]
    if asked.short_id is not None and len(rows) > 1:
        return {"ok": False, "candidates": rows[:10]}
    return {"ok": True, **rows[0]} if rows else {"ok": False}


def _is_meant(seen: SessionSnapshot, asked: SessionResolveParams) -> bool:
    assert seen.record is not None
    if asked.short_id is not None:
        ending = seen.key.rest.rpartition(":")[2].replace("-", "").lower()
        return len(ending) == 32 and ending.startswith(asked.short_id.lower())
    by_id = asked.session_id is not None and seen.record.sessionId == asked.session_id
    return by_id or (asked.label is not None and seen.record.label == asked.label)


async def get_session_messages(call: MethodCall, asked: SessionGetParams) -> dict[str, Any]:
    """Its messages."""
    _, transcript = await call.context.reader.open(asked.resolve(call))
    return {"messages": views.project_history(transcript, asked.limit) if transcript is not None else []}


async def subscribe_sessions(call: MethodCall, asked: None) -> dict[str, Any]:
    """Hear of every session from now on."""
    call.gateway.follow(call.client.conn, rpc.ALL_SESSIONS)
    return {"subscribed": True}


async def unsubscribe_sessions(call: MethodCall, asked: None) -> dict[str, Any]:
    """… and no more."""
    call.gateway.unfollow(call.client.conn, rpc.ALL_SESSIONS)
    return {"subscribed": False}


async def subscribe_messages(call: MethodCall, asked: SessionKeyParams) -> dict[str, Any]:
    """Hear of one session's messages."""
    key = str(asked.resolve(call))
    call.gateway.follow(call.client.conn, rpc.make_session_topic(key))
    return {"subscribed": True, "key": key}


async def unsubscribe_messages(call: MethodCall, asked: SessionKeyParams) -> dict[str, Any]:
    """… and no more."""
    key = str(asked.resolve(call))
    call.gateway.unfollow(call.client.conn, rpc.make_session_topic(key))
    return {"subscribed": False, "key": key}


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("sessions.list", rpc.READ, SessionListParams, list_sessions),
    GatewayMethod("sessions.search", rpc.READ, SessionSearchParams, search_sessions),
    GatewayMethod("sessions.preview", rpc.READ, SessionPreviewParams, preview_sessions),
    GatewayMethod("sessions.describe", rpc.READ, SessionDescribeParams, describe_session),
    GatewayMethod("sessions.resolve", rpc.READ, SessionResolveParams, resolve_session, listed=False),
    GatewayMethod("sessions.get", rpc.READ, SessionGetParams, get_session_messages, listed=False),
    GatewayMethod("sessions.subscribe", rpc.READ, None, subscribe_sessions),
    GatewayMethod("sessions.unsubscribe", rpc.READ, None, unsubscribe_sessions),
    GatewayMethod("sessions.messages.subscribe", rpc.READ, SessionKeyParams, subscribe_messages),
    GatewayMethod("sessions.messages.unsubscribe", rpc.READ, SessionKeyParams, unsubscribe_messages),
)
