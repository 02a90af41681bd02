"""Which sessions a session sees, and messages from one to another. Implements `SessionsPort` and `AgentsPort` of
`tools.program` over the store, the transcripts and the dispatcher.

Such a message is one like any other: on disk before anybody is told, once, answered by a turn of its own. It carries
none of the sender's rights.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from palinurus.agent.plan.sandbox import is_sandboxed
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.core.types.inbound import Inbound, Sender, Target, TurnOptions
from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from palinurus.errors import PalinurusError, StateBroken
from palinurus.providers.redact import blank_secrets, redact_strings
from palinurus.services.inbox import InboxPort
from palinurus.sessions import search as searches
from palinurus.sessions.entries import to_iso
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.rows import make_session_row, name_chat_type, name_session_kind
from palinurus.sessions.transcript import Transcripts
from palinurus.store.port import Store
from palinurus.tools.program.session import SessionFilter, SessionFinds, SessionHistory, SessionMessage
from palinurus.tools.program.subagents import AgentListing

# What one session is shown of another's conversation: no secrets, no pictures, no thoughts, long texts cut. Pure.

LONGEST = 4_000  # characters of one text


class HistoryCleaner:
    """Makes messages fit to be shown; `cut` and `blanked` say what was done to any of them."""

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        self._secrets = secrets
        self.cut = False
        self.blanked = False

    def messages(self, messages: Iterable[Message], *, tools: bool) -> list[dict[str, Any]]:
        """In their order. Messages of which nothing is left are left out."""
        made = (self._message(message, tools) for message in messages if tools or not isinstance(message, ToolResult))
        return [message for message in made if message["content"]]

    def text(self, text: str, limit: int = LONGEST) -> str:
        """The text as it may be shown."""
        clean = blank_secrets(text, self._secrets)
        self.blanked = self.blanked or clean != text
        if len(clean) <= limit:
            return clean
        self.cut = True
        return f"{clean[:limit]}… ({len(clean) - limit} more characters)"

    def _message(self, message: Message, tools: bool) -> dict[str, Any]:
        role = {AssistantMessage: "assistant", ToolResult: "toolResult"}.get(type(message), "user")
        blocks = message.content if isinstance(message, AssistantMessage | ToolResult) else message.blocks
        shown: dict[str, Any] = {"role": role, "content": self._blocks(blocks, tools)}
        if isinstance(message, ToolResult):
            shown |= {"toolName": message.toolName, "isError": message.isError}
        return {**shown, "timestamp": message.timestamp}

    def _blocks(self, blocks: Sequence[Any], tools: bool) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = []
        for block in blocks:
            if isinstance(block, TextBlock) and block.text.strip():
                made.append({"type": "text", "text": self.text(block.text)})
            elif isinstance(block, ImageBlock):
                made.append({"type": "image", "mimeType": block.mimeType, "omitted": True})
            elif isinstance(block, ToolCall) and tools:
                made.append({"type": "toolCall", "name": block.name, "arguments": self._arguments(block.arguments)})
        return made

    def _arguments(self, arguments: dict[str, Any]) -> Any:
        clean = redact_strings(arguments, self._secrets)
        self.blanked = self.blanked or clean != arguments
        written = msgspec.json.encode(clean).decode()
        return clean if len(written) <= LONGEST else self.text(written)


_DEPTH = 8  # sessions that started each other
_SHOWN = (
    "key", "agentId", "sessionId", "label", "displayName", "updatedAt", "modelProvider", "model", "contextTokens",
    "totalTokens", "thinkingLevel", "status", "spawnedBy", "lastChannel", "lastTo",
)  # fmt: skip
TITLE, LAST = 60, 200  # characters
_SPARE = 5  # times as much is looked for as is shown: some of it may not be seen from there


class _Seen(msgspec.Struct, frozen=True):
    key: SessionKey
    record: SessionRecord


class SessionDirectory:
    """One per program."""

    def __init__(
        self, settings: Settings, store: Store, transcripts: Transcripts, clock: Clock, inbox: InboxPort
    ) -> None:
        self._settings = settings
        self._store = store
        self._transcripts = transcripts
        self._clock = clock
        self._inbox = inbox
        keys = [provider.api_key for provider in settings.providers.values()]
        keys += [settings.gateway.token, settings.gateway.password, *settings.env.values()]
        self._secrets = tuple(key.reveal() for key in keys if key)

    # agents

    def agents(self, caller: str) -> tuple[bool, list[AgentListing]]:
        """Itself, and those its sub-agents may be."""
        known = self._settings.agents
        allowed = self._settings.reach.spawn.get(caller, ())
        anyone = "*" in allowed
        names = dict.fromkeys((caller, *(sorted(known) if anyone else [name for name in allowed if name != "*"])))
        return anyone, [AgentListing(n, known[n].name if n in known else n, n in known) for n in names]

    # looking

    async def sessions(self, caller: str, wanted: SessionFilter) -> list[dict[str, Any]]:
        """The newest first."""
        found: list[dict[str, Any]] = []
        since = self._clock.now() - wanted.active_minutes * 60_000 if wanted.active_minutes else 0
        for seen in (await self._visible(caller)).values():
            if not _fits(seen, wanted) or (seen.record.updatedAt or 0) < since:
                continue
            shown = await self._row(seen, wanted)
            if _matches(shown, wanted.search):
                found.append(shown)
            if len(found) >= wanted.limit:
                break
        return found

    async def history(self, caller: str, session: str, limit: int, tools: bool) -> SessionHistory | None:
        """None if the caller may not see it."""
        seen = await self._one(caller, session)
        if seen is None:
            return None
        cleaner = HistoryCleaner(self._secrets)
        messages = cleaner.messages(await self._said(seen), tools=tools)
        older = len(messages) > limit
        return SessionHistory(str(seen.key), tuple(messages[-limit:]), older, cleaner.cut, blanked=cleaner.blanked)

    async def search(self, caller: str, query: str, limit: int, days: int) -> SessionFinds:
        """The newest first, of all sessions of the agent: only the owner's own turns have this tool, as they have the
        owner's memory (docs/decisions/0094). Sandboxed sessions and visibility "self" see no more than elsewhere."""
        since = self._clock.now() - days * 86_400_000 if days else 0
        asked = searches.parse_query(query, None, since, limit=limit * _SPARE)
        if not asked.terms:
            return SessionFinds(note="there is no word to look for")
        seen = await self._visible(caller, recall=True)
        found = await asyncio.to_thread(searches.search_transcripts, self._settings.home, asked)
        keys = searches.map_transcript_keys(await self._store.sessions())
        cleaner, hits = HistoryCleaner(self._secrets), list[dict[str, Any]]()
        for hit in found.hits:
            key = keys.get(hit.path.partition(".jsonl")[0], "")
            if key in seen and len(hits) < limit:
                hits.append(
                    {"sessionKey": key, "who": hit.who, "at": to_iso(hit.at), "text": cleaner.text(hit.text, LAST * 2)}
                )
        return SessionFinds(tuple(hits), found.note)

    async def _row(self, seen: _Seen, wanted: SessionFilter) -> dict[str, Any]:
        whole = make_session_row(seen.record, seen.key)
        shown = {name: whole[name] for name in _SHOWN if whole.get(name) is not None}
        shown["kind"] = name_session_kind(seen.key)
        if not (wanted.messages or wanted.titles or wanted.last or wanted.search):
            return shown
        cleaner = HistoryCleaner(self._secrets)
        said = await self._said(seen)
        if wanted.titles or wanted.search:
            first = next((m.text for m in said if isinstance(m, UserMessage) and m.text.strip()), "")
            shown["derivedTitle"] = cleaner.text(" ".join(first.split()), TITLE)
        if wanted.last and said:
            shown["lastMessage"] = cleaner.text(said[-1].text, LAST)
        if wanted.messages:
            shown["messages"] = cleaner.messages(said, tools=False)[-wanted.messages :]
        return shown

    async def _said(self, seen: _Seen) -> tuple[Message, ...]:
        transcript = await self._transcripts.load(seen.record.path(seen.key.agent))
        return transcript.messages()

    # writing

    async def send(self, message: SessionMessage) -> dict[str, Any]:
        """Hands the message over, and waits for the answer as long as it says."""
        seen = await self._addressed(message)
        if seen is None:
            who = message.session or message.label
            rule = f"tools.sessions.visibility is {self._settings.reach.visibility}"
            return {"status": "forbidden", "error": f"no session {who[:120]} that can be reached from here ({rule})"}
        key = str(seen.key)
        if key == message.caller:
            return {"status": "error", "sessionKey": key, "error": "this is the session that is speaking"}
        inbound = self._inbound(message, seen)
        try:
            accepted = await self._inbox.submit(inbound)
        except PalinurusError as exc:
            return {"status": "error", "sessionKey": key, "error": exc.message}
        body: dict[str, Any] = {"runId": accepted.id, "status": "accepted", "sessionKey": key}
        if inbound.push:
            body["delivery"] = {"status": "pending", "mode": "announce"}
        if message.wait <= 0:
            return body
        try:
            async with asyncio.timeout(message.wait):
                ended = await self._inbox.wait(accepted.id)
        except TimeoutError:
            return {**body, "status": "timeout", "error": f"no answer within {message.wait:g} s; it goes on"}
        if ended.outcome in ("answered", "silent"):
            return {**body, "status": "ok", "reply": ended.note if ended.outcome == "answered" else ""}
        return {**body, "status": "error", "error": ended.note or str(ended.outcome)}

    def _inbound(self, message: SessionMessage, seen: _Seen) -> Inbound:
        """Its answer also goes to the chat that the session is about, if there is one."""
        record = seen.record
        told = record.lastChannel in self._settings.channels and bool(record.lastTo)
        thread = str(record.lastThreadId or "")
        where = Target(record.lastChannel or "", record.lastTo or "", record.lastAccountId or "default", thread)
        return Inbound(
            where if told else Target("session"),
            Sender(message.caller),
            event=f"session:{message.event}",
            text=f"[Message from the session {message.caller}]\n{message.text}",
            at=self._clock.now(),
            kind="direct" if name_chat_type(seen.key) == "direct" else "group",
            session=str(seen.key),
            options=TurnOptions(queue="followup"),
            system=True,
            push=told,
            source=f"session {message.caller}",
            shared=message.shared,
            outsider=message.outsider,
        )

    async def _addressed(self, message: SessionMessage) -> _Seen | None:
        if message.session:
            return await self._one(message.caller, message.session)
        for seen in (await self._visible(message.caller)).values():
            if seen.record.label == message.label and message.agent.lower() in ("", seen.key.agent):
                return seen
        return None

    # who sees whom

    async def _one(self, caller: str, session: str) -> _Seen | None:
        start = parse_session_key(caller)
        key = parse_session_key(session, start.agent if start else self._settings.default_agent)
        return (await self._visible(caller)).get(str(key)) if key else None

    async def _visible(self, caller: str, *, recall: bool = False) -> dict[str, _Seen]:
        start = parse_session_key(caller)
        if start is None or start.agent not in self._settings.agents:
            return {}
        every: dict[str, _Seen] = {}
        for stored in await self._store.sessions():
            key = parse_session_key(stored.key)
            try:
                record = SessionRecord.decode(stored.data)
            except StateBroken:
                continue
            if key is not None and key.agent in self._settings.agents:
                every[stored.key] = _Seen(key, record)
        return {name: seen for name, seen in every.items() if self._sees(start, seen, every, recall=recall)}

    def _sees(self, start: SessionKey, seen: _Seen, every: Mapping[str, _Seen], *, recall: bool) -> bool:
        rules, mode = self._settings.reach, self._settings.reach.visibility
        mode = "agent" if recall and mode == "tree" else mode
        if (
            is_sandboxed(self._settings.agents[start.agent], start)
            and rules.boxed.get(start.agent) != "all"
            and mode != "self"
        ):
            mode = "tree"
        if str(seen.key) == str(start):
            return True
        if mode == "self":
            return False
        if _started(str(start), seen, every):
            return True
        if mode == "tree":
            return False
        return start.agent == seen.key.agent or (mode == "all" and rules.joins(start.agent, seen.key.agent))


def _started(caller: str, seen: _Seen, every: Mapping[str, _Seen]) -> bool:
    """Did the caller start it, or one that did?"""
    at: _Seen | None = seen
    for _ in range(_DEPTH):
        above = at.record.spawnedBy if at else None
        if above == caller:
            return True
        at = every.get(above) if above else None
        if at is None:
            return False
    return False


def _fits(seen: _Seen, wanted: SessionFilter) -> bool:
    return (
        (not wanted.kinds or name_session_kind(seen.key) in wanted.kinds)
        and (not wanted.label or seen.record.label == wanted.label)
        and wanted.agent.strip().lower() in ("", seen.key.agent)
    )


def _matches(shown: Mapping[str, Any], search: str) -> bool:
    low = search.strip().lower()
    fields = (shown.get(name) for name in ("key", "label", "displayName", "derivedTitle"))
    return not low or any(low in str(field).lower() for field in fields if field)
