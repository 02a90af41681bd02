"""Sessions and their messages as clients get them: rows, defaults, the projected history. Reads; changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from palinurus.config.settings import AgentSettings
from palinurus.core.levels.resolve import LevelRequest, resolve_fast_mode
from palinurus.core.spoken import read_spoken
from palinurus.core.stream.answer import read_answer
from palinurus.core.text import cut_line
from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.core.types.messages import AssistantMessage, ImageBlock, TextBlock, ToolCall, ToolResult, UserMessage
from palinurus.errors import StateBroken
from palinurus.gateway.rpc import MethodError
from palinurus.inbox.commands.command import CommandContext
from palinurus.services.facts import find_levels, find_session_model
from palinurus.sessions.entries import CompactionEntry, MessageEntry, TranscriptEntry, to_millis
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.rows import make_session_row
from palinurus.sessions.transcript import Transcript

BYTES = 6 * 1024 * 1024  # of one history
CUT = "\n...(truncated)..."
PREVIEW = 160


class SessionSnapshot(msgspec.Struct, frozen=True):
    """A session as it stands on disk; `record` None: it has not begun."""

    key: SessionKey
    record: SessionRecord | None
    agent: AgentSettings


class SessionReader:
    """For the methods of the gateway."""

    def __init__(self, program: CommandContext) -> None:
        self._program = program
        self.shown: Callable[[str], Sequence[object]] = lambda session: ()  # runs that clients are shown, on any node

    def is_running(self, session: str) -> bool:
        """Does the session have a run, here or where we see it?"""
        return self._program.inbox.running(session) or bool(self.shown(session))

    def key(self, text: str, agent: str | None = None) -> SessionKey:
        """The canonical key. Raises MethodError for what cannot be one, or an agent that does not exist."""
        settings = self._program.settings
        default = agent or settings.default_agent
        rest = settings.session.main_key if text.strip().lower() == "main" else text
        found = parse_session_key(rest, default)
        if found is None:
            raise MethodError(f"invalid session key: {text[:80]}")
        if found.agent not in settings.agents:
            raise MethodError(f'unknown agent id "{found.agent}"')
        return SessionKey(found.agent, found.rest)

    async def load(self, key: SessionKey) -> SessionSnapshot:
        """The session behind a key."""
        stored = await self._program.store.session(str(key))
        return SessionSnapshot(key, _record(stored.data) if stored else None, self._program.settings.agents[key.agent])

    async def find_row(self, session: str) -> dict[str, Any] | None:
        """The row of a session; None if it has not begun."""
        key = self._known(session)
        seen = await self.load(key) if key is not None else None
        return self.row(seen) if seen is not None and seen.record is not None else None

    def row(self, seen: SessionSnapshot) -> dict[str, Any]:
        """With what the model it would use now offers."""
        record = seen.record or SessionRecord(sessionId="")
        model = find_session_model(self._program.catalog, seen.agent, record)
        shown = make_session_row(record, seen.key, model, find_levels(self._program, seen.agent, model))
        shown["modelProvider"], shown["model"] = model.ref.provider, model.ref.model
        shown["origin"] = {"provider": record.lastChannel or "webchat", "surface": "webchat", "chatType": "direct"}
        shown["agentRuntime"] = {"id": "palinurus", "source": "implicit"}
        shown["hasActiveRun"] = self.is_running(str(seen.key))
        shown.setdefault("systemSent", seen.record is not None)
        shown.setdefault("abortedLastRun", False)
        if seen.record is None:
            shown["updatedAt"] = None
            shown.pop("sessionId", None)
        if shown["hasActiveRun"]:
            shown["status"] = "running"
        return shown

    def defaults(self, agent: AgentSettings) -> dict[str, Any]:
        """What a session of this agent has that changed nothing."""
        model = self._program.catalog.default(agent)
        return {
            "modelProvider": model.ref.provider,
            "model": model.ref.model,
            "contextTokens": agent.context_tokens or model.context_window,
            "fastMode": resolve_fast_mode(model, LevelRequest(agent=agent.fast_default)).mode or "off",
            "verboseLevel": agent.verbose_default,
            "reasoningLevel": agent.reasoning_default,
            **msgspec.to_builtins(find_levels(self._program, agent, model)),
        }

    async def load_all(self, agent: str | None = None) -> list[SessionSnapshot]:
        """All sessions on disk, newest first; those of agents that are gone are left out."""
        agents = self._program.settings.agents
        found = []
        for stored in await self._program.store.sessions(agent):
            key, record = parse_session_key(stored.key), _record(stored.data)
            if key is not None and key.agent in agents and record is not None:
                found.append(SessionSnapshot(key, record, agents[key.agent]))
        return found

    async def transcript(self, seen: SessionSnapshot) -> Transcript | None:
        """Its transcript; None before its first message."""
        if seen.record is None:
            return None
        return await self._program.transcripts.load(seen.record.path(seen.key.agent), seen.agent.workspace)

    async def open(self, key: SessionKey) -> tuple[SessionSnapshot, Transcript | None]:
        """The session behind a key, and its transcript."""
        seen = await self.load(key)
        return seen, await self.transcript(seen)

    async def read(self, session: str) -> tuple[SessionRecord | None, Transcript | None]:
        """The session's record and its transcript; None and None if it has not begun."""
        key = self._known(session)
        if key is None:
            return None, None
        seen, transcript = await self.open(key)
        return seen.record, transcript

    def _known(self, session: str) -> SessionKey | None:
        key = parse_session_key(session)
        return key if key is not None and key.agent in self._program.settings.agents else None


def _record(data: bytes) -> SessionRecord | None:
    try:
        return SessionRecord.decode(data)
    except StateBroken:
        return None


def list_visible_entries(transcript: Transcript) -> list[MessageEntry | CompactionEntry]:
    """What people see of the current path; the number of a line is its place here, from 1."""
    return [entry for entry in transcript.path_to_leaf() if isinstance(entry, MessageEntry | CompactionEntry)]


def project_history(
    transcript: Transcript, limit: int | None = None, chars: int | None = None, before: int | None = None
) -> list[dict[str, Any]]:
    """The messages on the current path, projected, the last `limit` of them (of those before number `before`);
    nothing that compaction left out of the model's sight is missing here. Texts longer than `chars` are cut, and the
    whole is kept under 6 MiB."""
    shown = list_visible_entries(transcript)
    shown = shown[: before - 1] if before is not None else shown
    first = max(0, len(shown) - limit) if limit is not None else 0
    made = [project_entry(entry, first + at + 1, chars) for at, entry in enumerate(shown[first:])]
    size = 0
    for at in range(len(made) - 1, -1, -1):
        size += len(msgspec.json.encode(made[at]))
        if size > BYTES:
            return made[at + 1 :]
    return made


def mark_run(message: dict[str, Any], run: str) -> None:
    """Say which run a message belongs to: newer pages know by it what they sent and what they saw live."""
    message["__openclaw"]["runId"] = run
    if message["role"] == "user":
        message["idempotencyKey"] = f"{run}:user"


def project_entry(entry: TranscriptEntry, seq: int, chars: int | None = None) -> dict[str, Any]:
    """One transcript line as clients read it. Calls stand beside an assistant's text, not in it."""
    ours = {"id": entry.id, "seq": seq, "recordTimestampMs": to_millis(entry.timestamp)}
    if isinstance(entry, CompactionEntry):
        text = {"type": "text", "text": entry.summary}
        made = {"role": "system", "kind": "compaction", "content": [text], "timestamp": to_millis(entry.timestamp)}
        return {**made, "tokensBefore": entry.tokensBefore, "__openclaw": ours}
    assert isinstance(entry, MessageEntry)
    message = entry.message
    maker: Callable[[Any, Callable[[str], str]], dict[str, Any]] = _SHOWN[type(message)]
    return {**maker(message, lambda text: _cut(text, chars)), "__openclaw": ours, "item": entry.item}


def _cut(text: str, chars: int | None) -> str:
    return text if chars is None or len(text) <= chars else text[:chars] + CUT


def _block(block: TextBlock | ImageBlock, cut: Callable[[str], str]) -> dict[str, Any]:
    if isinstance(block, TextBlock):
        return {"type": "text", "text": cut(block.text)}
    return {"type": "image", "mimeType": block.mimeType, "data": block.data}


def _user(message: UserMessage, cut: Callable[[str], str]) -> dict[str, Any]:
    blocks = [_block(block, cut) for block in message.blocks]
    plain = len(blocks) == 1 and blocks[0]["type"] == "text"
    made = {"role": "user", "content": blocks[0]["text"] if plain else blocks, "timestamp": message.timestamp}
    spoken = read_spoken(message)  # ours: whose words these are
    if message.source:
        made["source"] = message.source
    if spoken.program:
        return {**made, "program": spoken.program}
    return {**made, "spoken": cut(spoken.words)} if spoken.words != message.text else made


def _assistant(message: AssistantMessage, cut: Callable[[str], str]) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = []
    for block in message.content:
        if isinstance(block, TextBlock):
            if text := read_answer(block.text).text:
                blocks.append({"type": "text", "text": cut(text)})
        elif not isinstance(block, ToolCall) and block.thinking:
            blocks.append({"type": "thinking", "thinking": cut(block.thinking)})
    made: dict[str, Any] = {
        "role": "assistant",
        "content": blocks,
        "api": message.api,
        "provider": message.provider,
        "model": message.model,
        "usage": msgspec.to_builtins(message.usage),
        "stopReason": message.stopReason,
        "timestamp": message.timestamp,
    }
    if message.calls:
        made["toolCalls"] = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in message.calls]
    if message.errorMessage:
        made["errorMessage"] = message.errorMessage
    return made


def _result(message: ToolResult, cut: Callable[[str], str]) -> dict[str, Any]:
    made = {
        "role": "toolResult",
        "toolCallId": message.toolCallId,
        "toolName": message.toolName,
        "content": [_block(block, cut) for block in message.content],
        "isError": message.isError,
        "timestamp": message.timestamp,
    }
    if message.source:
        made["source"] = message.source  # ours: where words in it came from
    return {**made, "details": message.details} if message.details is not None else made


_SHOWN: dict[type, Callable[[Any, Callable[[str], str]], dict[str, Any]]] = {
    UserMessage: _user,
    AssistantMessage: _assistant,
    ToolResult: _result,
}


def preview_last_message(shown: Sequence[MessageEntry | CompactionEntry]) -> str:
    """The newest words of either side, short; "" if there are none."""
    spoken = (
        e
        for e in reversed(shown)
        if isinstance(e, MessageEntry) and isinstance(e.message, UserMessage | AssistantMessage)
    )
    return next((cut_line(text, PREVIEW) for entry in spoken if (text := _preview(project_entry(entry, 0)))), "")


def _preview(message: dict[str, Any]) -> str:
    return str(message.get("program") or message.get("spoken") or extract_text(message))


def extract_text(message: dict[str, Any]) -> str:
    """The text of a projected message."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content)
