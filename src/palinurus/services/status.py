"""What a session's card says, and choosing its model, for the session_status tool. Implements `tools.status.Status`.

A session sees itself and those it started; the rest does not exist for it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec

from palinurus.agent.plan.levels import ask_level
from palinurus.clock import Clock
from palinurus.config.settings import AgentSettings, Settings
from palinurus.config.zones import find_zone
from palinurus.core.levels.resolve import resolve_thinking
from palinurus.core.status import SessionCard, choose_clock_hours
from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.core.types.tool import ToolFailure
from palinurus.errors import StateBroken
from palinurus.providers.catalog import Catalog
from palinurus.services.facts import change_record, find_meant_model, find_session_model
from palinurus.sessions.record import SessionRecord
from palinurus.store.port import Store

_DEPTH = 8  # sessions that started each other


class VisibleSession(msgspec.Struct, frozen=True):
    key: SessionKey
    record: SessionRecord
    agent: AgentSettings


class SessionStatusReader:
    """Reads the store; `set_model` writes the session's row, as /model does."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        catalog: Catalog,
        clock: Clock,
        environ: Mapping[str, str],
        running: Callable[[str], bool],
    ) -> None:
        self._settings = settings
        self._store = store
        self._catalog = catalog
        self._clock = clock
        self._locale = environ.get("LC_ALL") or environ.get("LC_TIME") or environ.get("LANG") or ""
        self._running = running

    async def card(self, caller: str, session: str) -> SessionCard | None:
        """None if there is no such session, or the caller may not see it."""
        seen = await self._seen(caller, session)
        if seen is None:
            return None
        record, agent = seen.record, seen.agent
        model = find_session_model(self._catalog, agent, record)
        asked = ask_level(agent, model, record.thinkingLevel)
        spent = await self._store.list_usage(0, str(seen.key))
        priced = [entry.cost for entry in spent if entry.cost is not None]
        tz = find_zone(agent.user_timezone)
        return SessionCard(
            session=str(seen.key),
            model=str(model.ref),
            now=self._clock.now(),
            zone=tz or datetime.fromtimestamp(self._clock.now() / 1000).astimezone().tzinfo,
            zone_name=agent.user_timezone if tz else "",
            hours=choose_clock_hours(agent.time_format, self._locale),
            chosen=record.modelOverride is not None,
            thinking=resolve_thinking(model, asked, self._catalog.rules(model.ref.provider)).level,
            used=record.totalTokens,
            window=agent.context_tokens or model.context_window,
            input=sum(entry.input for entry in spent),
            output=sum(entry.output for entry in spent),
            cache_read=sum(entry.cache_read for entry in spent),
            cache_write=sum(entry.cache_write for entry in spent),
            calls=len(spent),
            cost=sum(priced) if priced else None,
            unpriced=len(spent) - len(priced),
            state="running" if self._running(str(seen.key)) else "idle",
        )

    async def set_model(self, caller: str, session: str, model: str | None) -> str:
        """Raises ToolFailure."""
        seen = await self._seen(caller, session)
        if seen is None:
            raise ToolFailure("no such session")
        found = find_meant_model(self._catalog, seen.agent, model or "default")
        if isinstance(found, str):
            raise ToolFailure(found)
        own = model is not None
        changes = {
            "providerOverride": found.ref.provider if own else None,
            "modelOverride": found.ref.model if own else None,
            "modelOverrideSource": "user" if own else None,
            "authProfileOverride": None,
            "authProfileOverrideSource": None,
        }
        made = change_record(seen.record, changes, self._clock.now()).row(seen.key)
        if not await self._store.save_session(made, expect=None):  # it is there: the rest of it is not ours
            data = msgspec.json.encode({**changes, "updatedAt": made.updated})
            await self._store.touch(msgspec.structs.replace(made, data=data))
        return str(found.ref)

    async def _seen(self, caller: str, session: str) -> VisibleSession | None:
        start = parse_session_key(caller)
        key = parse_session_key(session, start.agent if start else self._settings.default_agent)
        agent = self._settings.agents.get(key.agent) if key else None
        record = await self._record(str(key)) if key else None
        if record is None and key is not None and key == start and await self._store.session(caller) is None:
            record = SessionRecord.fresh(key, self._clock.now(), str(uuid.uuid4()))  # its first message is to come
        if key is None or agent is None or record is None:
            return None
        above, at = record, str(key)
        for _ in range(_DEPTH):
            if at == caller:
                return VisibleSession(key, record, agent)
            at = above.spawnedBy or ""
            parent = await self._record(at) if at else None
            if parent is None:
                return None
            above = parent
        return None

    async def _record(self, key: str) -> SessionRecord | None:
        row = await self._store.session(key)
        try:
            return SessionRecord.decode(row.data) if row else None
        except StateBroken:
            return None
