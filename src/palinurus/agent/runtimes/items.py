"""Codex's thread items as tool calls: what each is called here, its arguments, its result. Pure; one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from palinurus.core.types.usage import TokenUsage

BAD = frozenset({"failed", "declined"})


class CodexItem(msgspec.Struct, frozen=True):
    """A sort of item. `source`: where untrusted content in its result came from."""

    name: Callable[[dict[str, Any]], str]
    args: Callable[[dict[str, Any]], dict[str, Any]]
    text: Callable[[dict[str, Any]], str]
    source: Callable[[dict[str, Any]], str] = lambda item: ""


def _command(item: dict[str, Any]) -> str:
    code = item.get("exitCode")
    said = str(item.get("aggregatedOutput") or "")
    return f"{said}\n(exit code {code})".strip() if code else said or str(item.get("status") or "")


def _changes(item: dict[str, Any]) -> list[dict[str, Any]]:
    found = item.get("changes")
    return [
        {"path": str(one.get("path") or ""), "diff": str(one.get("diff") or "")}
        for one in (found if isinstance(found, list) else ())
        if isinstance(one, dict)
    ]


def _mcp(item: dict[str, Any]) -> str:
    failed = item.get("error")
    if isinstance(failed, dict):
        return str(failed.get("message") or "failed")
    result = item.get("result")
    blocks = result.get("content") if isinstance(result, dict) else item.get("contentItems")
    found = blocks if isinstance(blocks, list) else []
    texts = [str(block["text"]) for block in found if isinstance(block, dict) and block.get("text")]
    return "\n".join(texts) or str(item.get("status") or "")


def _given(item: dict[str, Any]) -> dict[str, Any]:
    found = item.get("arguments")
    return found if isinstance(found, dict) else {}


TOOLS: dict[str, CodexItem] = {
    "commandExecution": CodexItem(
        lambda item: "exec",
        lambda item: {"command": str(item.get("command") or ""), "cwd": str(item.get("cwd") or "")},
        _command,
    ),
    "fileChange": CodexItem(
        lambda item: "apply_patch",
        lambda item: {"path": ", ".join(c["path"] for c in _changes(item)), "changes": _changes(item)},
        lambda item: str(item.get("status") or ""),
    ),
    "mcpToolCall": CodexItem(
        lambda item: f"{item.get('server')}__{item.get('tool')}",
        _given,
        _mcp,
        lambda item: f"mcp {item.get('server')}",
    ),
    "dynamicToolCall": CodexItem(lambda item: str(item.get("tool") or "tool"), _given, _mcp),
    "webSearch": CodexItem(
        lambda item: "web_search",
        lambda item: {"query": str(item.get("query") or "")},
        lambda item: "",
        lambda _: "web",
    ),
    "imageView": CodexItem(lambda item: "image", lambda item: {"path": str(item.get("path") or "")}, lambda item: ""),
}


def get_object(body: Any, name: str) -> dict[str, Any]:
    """The object of that name in an object; {} if there is none."""
    found = body.get(name) if isinstance(body, dict) else None
    return found if isinstance(found, dict) else {}


def get_thought(item: dict[str, Any]) -> str:
    """The text of a reasoning item."""
    lists = (item.get("summary"), item.get("content"))
    found = next((one for one in lists if isinstance(one, list) and one), [])
    return "\n\n".join(str(text) for text in found)


def has_failed(item: dict[str, Any]) -> bool:
    """Did what the item stands for go wrong?"""
    return str(item.get("status")) in BAD or bool(item.get("exitCode")) or item.get("success") is False


def parse_codex_usage(last: dict[str, Any]) -> TokenUsage:
    """From a TokenUsageBreakdown, whose inputTokens count what came from the cache too."""
    try:
        told = msgspec.convert(last, _Breakdown)
    except msgspec.ValidationError:
        return TokenUsage()
    fresh = max(0, told.inputTokens - told.cachedInputTokens - told.cacheWriteInputTokens)
    return TokenUsage(
        fresh,
        told.outputTokens,
        told.cachedInputTokens,
        told.cacheWriteInputTokens,
        totalTokens=told.inputTokens + told.outputTokens,
    )


class _Breakdown(msgspec.Struct, frozen=True):
    inputTokens: int = 0
    cachedInputTokens: int = 0
    cacheWriteInputTokens: int = 0
    outputTokens: int = 0
