"""The hook points: one table. A new point is a new row.

kind: observe = run in parallel, errors logged, result ignored; modify = one after another, higher priority first,
merged; guard = modify that fails closed; claim = modify that ends with the first `handled`; sync = modify without
awaiting. How two answers become one is said per field, in `results`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

PointKind: TypeAlias = Literal["observe", "modify", "guard", "claim", "sync"]
# last: a later handler's value replaces an earlier one's. first: the highest priority's stays. join: all, a blank
# line between each two. final: true ends the calling of handlers, false means nothing.
MergeRule: TypeAlias = Literal["last", "first", "join", "final"]

NOTHING: Mapping[str, MergeRule] = {}
MAX_DEADLINE = 600.0  # seconds a deadline from the config may have


class HookPoint(NamedTuple):
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
        f"provider, model, systemPrompt, prompt, historyMessages, imagesCount, tools, {_RUN}", {}, True,
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
