"""The hook points (one table; a new point is a new row) and how they are called.

`modify` awaits handlers in order and merges, `modify_sync` does so for the one place that cannot wait, `observe` starts
them and goes on.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from palinurus.core.levels.thinking import ThinkingRow
from palinurus.taping import ask_taped, ask_taped_now, find_lane
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

# observe: run in parallel, errors logged, result ignored. modify: one after another, higher priority first, merged as
# `results` says for each field. guard: modify that fails closed. claim: modify that ends with the first `handled`.
# sync: modify without awaiting.
PointKind: TypeAlias = Literal["observe", "modify", "guard", "claim", "sync"]
# last: a later handler's value replaces an earlier one's. first: the highest priority's stays. join: all, a blank
# line between each two. final: true ends the calling of handlers, false means nothing.
MergeRule: TypeAlias = Literal["last", "first", "join", "final"]

NOTHING: Mapping[str, MergeRule] = {}
MAX_DEADLINE = 600.0  # seconds a deadline from the config may have
TRACED = 256  # sessions whose trace lines are kept
LINES = 20  # of each


class HookPoint(msgspec.Struct, frozen=True):
    kind: PointKind
    deadline: float  # seconds a handler may take
    about: str  # when it is called
    gets: str = ""  # what the event holds
    results: Mapping[str, MergeRule] = NOTHING
    conversation: bool = False  # sees what people and the model say: plugins need the owner's leave


_MODEL: dict[str, MergeRule] = {"modelOverride": "first", "providerOverride": "first"}
_PROMPT: dict[str, MergeRule] = {
    "systemPrompt": "first",
    "prependContext": "join",
    "appendContext": "join",
    "prependSystemContext": "join",
    "appendSystemContext": "join",
}
PROMPT_FIELDS = frozenset(_PROMPT)
_CLAIM: dict[str, MergeRule] = {"handled": "final", "reply": "last", "reason": "last"}
_BLOCK: dict[str, MergeRule] = {"block": "final", "blockReason": "last"}
_RUN = "runId, sessionKey, agentId"
_SESSION = "sessionId, sessionKey, agentId"

HOOK_POINTS: dict[str, HookPoint] = {
    "gateway_start": HookPoint("observe", 30, "the program has started", "port"),
    "gateway_stop": HookPoint("observe", 30, "the program is about to stop", "reason"),
    "message_received": HookPoint(
        "observe", 30, "a message is on disk", "from, content, timestamp, messageId, channel, sessionKey"
    ),
    "inbound_claim": HookPoint(
        "claim", 15, "before a message's turn: answer it without the agent",
        "content, channel, senderId, isGroup, commandAuthorized, sessionKey, agentId", _CLAIM, True,
    ),
    "command": HookPoint(
        "observe", 30, "a person typed a command", "name, args, channel, senderId, sessionKey, agentId"
    ),
    "session_start": HookPoint("observe", 30, "a session begins", f"{_SESSION}, resumedFrom"),
    "session_end": HookPoint("observe", 30, "a session is over", f"{_SESSION}, reason, nextSessionId"),
    "before_reset": HookPoint("observe", 30, "before /new or /reset", f"{_SESSION}, reason, messages"),
    "before_model_resolve": HookPoint(
        "modify", 15, "before the model of a turn is chosen", "prompt, attachments, sessionKey, agentId", _MODEL, True
    ),
    "agent:bootstrap": HookPoint(
        "modify", 15, "before workspace files go into the prompt", "workspaceDir, bootstrapFiles, sessionKey, agentId",
        {"bootstrapFiles": "last"},
    ),
    "before_agent_start": HookPoint(
        "modify", 15, "the older form of before_prompt_build", f"prompt, messages, {_RUN}",
        _PROMPT,
    ),
    "before_prompt_build": HookPoint("modify", 15, "before the first model call of a turn",
                                 f"prompt, messages, {_RUN}", _PROMPT),
    "before_agent_run": HookPoint(
        "guard", 15, "the last gate before the agent works",
        f"prompt, systemPrompt, channelId, senderId, senderIsOwner, {_RUN}",
        {**_BLOCK, "outcome": "last", "reason": "last", "message": "last"}, True,
    ),
    "before_agent_reply": HookPoint(
        "claim", 15, "before the model is asked: answer in its place", f"cleanedBody, {_RUN}", _CLAIM, True
    ),
    "llm_input": HookPoint(
        "observe", 30, "a request goes to a model",
        f"provider, model, systemPrompt, prompt, historyMessages, imagesCount, tools, toolDefinitions, {_RUN}",
        {}, True,
    ),
    "llm_output": HookPoint(
        "observe", 30, "a model has answered or failed",
        f"provider, model, assistantTexts, lastAssistant, usage, error, {_RUN}", {}, True,
    ),
    "before_tool_call": HookPoint(
        "guard", 30, "before a tool runs", f"toolName, toolCallId, params, {_RUN}",
        {**_BLOCK, "params": "last", "requireApproval": "first"},
    ),
    "after_tool_call": HookPoint(
        "observe", 30, "a tool has run", f"toolName, toolCallId, params, result, error, durationMs, {_RUN}"
    ),
    "tool_result_persist": HookPoint(
        "sync", 1, "a tool's result is written to the transcript", f"toolName, toolCallId, message, {_RUN}",
        {"message": "last"},
    ),
    "before_compaction": HookPoint("observe", 30, "before a conversation is made shorter", "messageCount, sessionKey"),
    "after_compaction": HookPoint("observe", 30, "after that", "messageCount, compactedCount, sessionKey"),
    "agent_end": HookPoint("observe", 30, "a run is over and on disk", f"messages, success, error, durationMs, {_RUN}",
                       {}, True),
    "message_sending": HookPoint(
        "modify", 15, "before a reply goes to its channel", "to, channel, content",
        {"content": "last", "cancel": "final", "cancelReason": "last"},
    ),
    "message_sent": HookPoint(
        "observe", 30, "a reply arrived, or never will", "to, content, success, messageId, error"
    ),
    "webhook": HookPoint(
        "modify", 15, "a webhook's request was let in", "name, payload, headers, message",
        {"message": "last", "skip": "final"},
    ),
    "subagent_spawned": HookPoint(
        "observe", 30, "a sub-agent was started",
        "childSessionKey, agentId, label, mode, requester, runId, resolvedModel",
    ),
    "subagent_ended": HookPoint(
        "observe", 30, "a sub-agent has ended", "targetSessionKey, targetKind, runId, reason, outcome, error"
    ),
    "cron_changed": HookPoint(
        "observe", 30, "a job was added, updated or removed, has started or has finished",
        "action, jobId, job; when it has finished: status, summary, runId, runAtMs", {}, True,
    ),
}  # fmt: skip


class HookHandler(msgspec.Struct, frozen=True):
    call: Callable[[dict[str, Any]], Any]
    priority: int
    owner: str
    deadline: float


class Hooks:
    """The registry. Handlers get the payload as a dict and return a dict of changes, or None."""

    def __init__(self) -> None:
        self._handlers: dict[str, list[HookHandler]] = {}
        self._running = TaskSet("a hook")
        self._traces: dict[str, deque[str]] = {}
        self.resource_changed: Callable[[str], None] = lambda uri: None  # a plugin's, for who listens by MCP
        self.find_policy: Callable[[str, str], ThinkingRow] | None = None  # (provider, model), for plugins

    def on(
        self,
        point: str,
        call: Callable[[dict[str, Any]], Any],
        *,
        priority: int = 0,
        owner: str = "",
        deadline: float | None = None,
    ) -> None:
        """Register. Raises KeyError for a point that does not exist."""
        longest = min(deadline or HOOK_POINTS[point].deadline, MAX_DEADLINE)
        handlers = self._handlers.setdefault(point, [])
        handlers.append(HookHandler(call, priority, owner, longest))
        handlers.sort(key=lambda h: -h.priority)  # stable: ties keep registration order

    def has(self, point: str) -> bool:
        return point in self._handlers

    async def modify(self, point: str, payload: dict[str, Any]) -> dict[str, Any]:
        """The merged changes; later handlers see earlier ones. Nobody is asked after `block`, `cancel`, `handled`.

        A handler of a guard point that raises or is late blocks; of other points it is skipped with a log line.
        """
        if point not in self._handlers:
            return {}
        return await ask_taped(f"hook {point}", lambda: self._ask_all(point, payload), dict[str, Any])

    async def _ask_all(self, point: str, payload: dict[str, Any]) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        for handler in self._handlers.get(point, ()):
            try:
                result = handler.call({**payload, **changes})
                if inspect.isawaitable(result):
                    result = await asyncio.wait_for(result, handler.deadline)
                final = merge_answer(point, changes, result)
            except Exception as exc:  # noqa: BLE001 - border: a hook's failure is a value
                why = _failure(point, handler, exc)
                if HOOK_POINTS[point].kind == "guard":
                    return {**changes, "block": True, "blockReason": f"hook {point} failed: {why}"}
                continue
            if final:
                break
        return changes

    def modify_sync(self, point: str, payload: dict[str, Any]) -> dict[str, Any]:
        """As `modify`, for a point that is called where nothing may wait. A handler that is async is skipped."""
        if point not in self._handlers:
            return {}
        return ask_taped_now(f"hook {point}", lambda: self._ask_all_now(point, payload), dict[str, Any])

    def _ask_all_now(self, point: str, payload: dict[str, Any]) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        for handler in self._handlers.get(point, ()):
            try:
                result = handler.call({**payload, **changes})
                if inspect.isawaitable(result):
                    if inspect.iscoroutine(result):
                        result.close()
                    raise TypeError("this point is synchronous; an async handler cannot change anything")
                if merge_answer(point, changes, result):
                    break
            except Exception as exc:  # noqa: BLE001 - border: a hook's failure is a value
                _failure(point, handler, exc)
        return changes

    def observe(self, point: str, payload: dict[str, Any]) -> None:
        """Start all handlers, wait for none. Of a run that is played from a tape nobody hears."""
        if point not in self._handlers or ((lane := find_lane()) is not None and lane.plays):
            return
        for handler in self._handlers[point]:
            self._running.start(self._one(point, handler, payload))

    async def _one(self, point: str, handler: HookHandler, payload: dict[str, Any]) -> None:
        try:
            result = handler.call(dict(payload))
            if inspect.isawaitable(result):
                await asyncio.wait_for(result, handler.deadline)
        except Exception as exc:  # noqa: BLE001 - border: an observer's failure is its own
            _failure(point, handler, exc)

    def trace(self, session: str, owner: str, line: str) -> None:
        """A plugin's word on what it did, for people who switched /trace on. The newest few are kept, in memory."""
        if session not in self._traces and len(self._traces) >= TRACED:
            self._traces.pop(next(iter(self._traces)))
        self._traces.setdefault(session, deque(maxlen=LINES)).append(f"{owner}: {line}")

    def list_trace(self, session: str) -> tuple[str, ...]:
        """The lines of plugins for this session, oldest first."""
        return tuple(self._traces.get(session, ()))

    async def drain(self) -> None:
        """Wait for observers that are still running (each has its deadline)."""
        await self._running.settle()


def merge_answer(point: str, changes: dict[str, Any], result: Any) -> bool:
    """Put one handler's answer into `changes` by the point's rules. True: nobody else is asked.

    Raises TypeError for an answer that is neither None nor a mapping.
    """
    if result is None:
        return False
    if not isinstance(result, Mapping):
        raise TypeError(f"a handler returns a dict or None, not {type(result).__name__}")
    if HOOK_POINTS[point].kind == "claim" and not result.get("handled"):
        return False
    rules, final = HOOK_POINTS[point].results, False
    if result.get("outcome") == "block" and "outcome" in rules:  # the other way to say it
        result = {"blockReason": result.get("reason"), **result, "block": True}
    frozen = "requireApproval" in changes  # what a person will be asked about does not change any more
    for name, value in result.items():
        rule: MergeRule | None = rules.get(name)
        if rule is None:
            log.warning("hook %s: %r means nothing there and is ignored", point, name)
        elif value is None or (rule == "final" and not value) or (frozen and name == "params"):
            continue
        elif rule == "join":
            changes[name] = "\n\n".join(text for text in (changes.get(name, ""), str(value)) if text)
        elif rule != "first" or name not in changes:
            changes[name] = value
            final = final or rule == "final"
    return final


def _failure(point: str, handler: HookHandler, exc: Exception) -> str:
    late = isinstance(exc, TimeoutError)
    why = f"no answer within {handler.deadline:g} s" if late and not str(exc) else str(exc) or type(exc).__name__
    log.warning("hook %s of %s failed: %s", point, handler.owner or "?", why)
    return why
