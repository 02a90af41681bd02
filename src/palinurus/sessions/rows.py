"""A session as lists show it: the gateway's rows, `pal sessions --json`, the sessions tool. Pure."""

from __future__ import annotations

from typing import Any

from palinurus.core.levels.thinking import ThinkingRow as Levels
from palinurus.core.types.keys import SessionKey, SessionKind
from palinurus.core.types.model import ModelSpec
from palinurus.sessions.record import SessionRecord

# Shown as the row has them, left out where it does not.
_SHOWN = (
    "label", "pinned", "tags", "displayName", "channel", "groupId", "subject", "systemSent", "abortedLastRun",
    "thinkingLevel", "fastMode", "verboseLevel", "traceLevel", "reasoningLevel", "elevatedLevel", "permissionMode",
    "sendPolicy",
    "responseUsage", "queueMode", "groupActivation", "estimatedCostUsd", "status", "startedAt", "endedAt", "runtimeMs",
    "parentSessionKey", "spawnedBy", "spawnDepth", "lastChannel", "lastTo", "lastAccountId", "lastThreadId",
    "compactionCount", "sessionStartedAt", "lastInteractionAt", "folder",
)  # fmt: skip
_LISTED: dict[SessionKind, str] = {"direct": "other"}
_GROUPS = {"group": "group", "channel": "channel", "room": "channel"}


def name_session_kind(key: SessionKey) -> str:
    """For lists that people filter: main, group, cron, hook, subagent, acp, other."""
    return _LISTED.get(key.kind, key.kind)


def name_chat_type(key: SessionKey) -> str:
    """direct, group or channel."""
    found = [_GROUPS[part] for part in key.rest.split(":")[1:2] if part in _GROUPS]
    return found[0] if found and key.kind == "group" else "direct"


def make_session_row(
    record: SessionRecord, key: SessionKey, model: ModelSpec | None = None, levels: Levels | None = None, path: str = ""
) -> dict[str, Any]:
    """The row of one session. `model` and `levels` are those of the model it would use now; `path` its transcript.

    `kind` is the wire's: direct, group or global.
    """
    shown: dict[str, Any] = {
        "key": str(key),
        "kind": "global" if key.rest == "global" else "group" if key.kind == "group" else "direct",
        "agentId": key.agent,
        "sessionId": record.sessionId,
        "updatedAt": record.updatedAt or None,
        "chatType": record.chatType or name_chat_type(key),
        "modelProvider": record.modelProvider or (model.ref.provider if model else None),
        "model": record.model or (model.ref.model if model else None),
        "contextTokens": record.contextTokens or (model.context_window if model else None),
        "inputTokens": record.inputTokens or 0,
        "outputTokens": record.outputTokens or 0,
        "totalTokens": record.totalTokens,
        "totalTokensFresh": record.totalTokens is not None and record.totalTokensFresh is not False,
    }
    if record.modelOverride or record.providerOverride:
        shown["modelOverride"] = record.modelOverride
        shown["providerOverride"] = record.providerOverride
    if levels is not None:
        shown["thinkingLevels"] = list(levels.thinkingLevels)
        shown["thinkingOptions"] = list(levels.thinkingOptions)
        shown["thinkingDefault"] = levels.thinkingDefault
    if record.lastChannel:
        shown["deliveryContext"] = _delivery(record)
    if path:
        shown["transcriptPath"] = path
    if record.archived:
        shown["archived"] = True
    known = {name: value for name in _SHOWN if (value := getattr(record, name)) is not None}
    return {**{name: value for name, value in shown.items() if value is not None or name == "updatedAt"}, **known}


def _delivery(record: SessionRecord) -> dict[str, Any]:
    parts = {
        "channel": record.lastChannel,
        "to": record.lastTo,
        "accountId": record.lastAccountId,
        "threadId": record.lastThreadId,
    }
    return {name: value for name, value in parts.items() if value}
