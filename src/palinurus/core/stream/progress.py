"""Lines about tools for people: what starts, what failed, and at `full` what came out. Bounded, one line each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from palinurus.core.stream.explain import explain_command, mask_secrets, shorten_line

Detail: TypeAlias = Literal["explain", "raw"]

OUTPUT = 3500  # characters of a tool's output in one bubble: below what the strictest channels take
FALLBACK = "🧩"

# tool -> emoji and the arguments worth showing, in that order, joined by a blank.
TOOLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "exec": ("🛠️", ()),
    "process": ("🧰", ("action", "sessionId")),
    "read": ("📖", ("path",)),
    "write": ("✍️", ("path",)),
    "edit": ("📝", ("path",)),
    "apply_patch": ("🩹", ("path",)),
    "ls": ("📁", ("path",)),
    "find": ("🔍", ("pattern", "path")),
    "grep": ("🔍", ("pattern", "path")),
    "web_search": ("🔎", ("query",)),
    "web_fetch": ("📄", ("url",)),
    "browser": ("🌐", ("action", "url")),
    "canvas": ("🖼️", ("action",)),
    "image": ("🖼️", ("image", "prompt")),
    "nodes": ("📱", ("action", "node")),
    "cron": ("⏰", ("action", "id")),
    "gateway": ("🔌", ("action",)),
    "message": ("✉️", ("action", "to")),
    "memory_search": ("🧠", ("query",)),
    "memory_get": ("🧠", ("path",)),
    "session_search": ("🧠", ("query",)),
    "session_status": ("📊", ("sessionKey",)),
    "sessions_list": ("🗂️", ()),
    "sessions_send": ("📨", ("sessionKey", "label")),
    "sessions_history": ("🧾", ("sessionKey",)),
    "sessions_spawn": ("🧑‍🔧", ("label", "task")),
    "subagents": ("🤖", ("action", "target")),
    "update_plan": ("🗺️", ()),
    "goals": ("🎯", ()),
}
_SAME = {"path": ("path", "file_path", "file"), "command": ("command", "cmd", "script")}
_ANY = ("path", "file_path", "url", "query", "pattern", "action", "name", "id", "to")


def write_tool_line(name: str, args: Mapping[str, Any], summary: str = "", detail: Detail = "explain") -> str:
    """The line of a tool that starts: `<emoji> <Label>: <detail>`, or without the colon if there is nothing to say."""
    return _line(f"{choose_emoji(name)} {write_tool_label(name)}", describe_arguments(name, args, summary, detail))


def write_failure_line(name: str, args: Mapping[str, Any], summary: str = "", detail: Detail = "explain") -> str:
    """The line of a tool that failed. The error itself is not in it."""
    head = f"⚠️ {choose_emoji(name)} {write_tool_label(name)} failed"
    return _line(head, describe_arguments(name, args, summary, detail))


def _line(head: str, told: str) -> str:
    return f"{head}: {told}" if told else head


def describe_arguments(name: str, args: Mapping[str, Any], summary: str, detail: Detail) -> str:
    """The words behind the label."""
    if name == "exec":
        command = _value(args, "command")
        told, raw = explain_command(command), shorten_line(command, 200)
        return f"{told}, {raw}" if detail == "raw" and raw not in told else told
    _, names = TOOLS.get(name, (FALLBACK, _ANY))
    picked = [v for v in (_value(args, n) for n in names) if v]
    return shorten_line(" ".join(picked if name in TOOLS else picked[:1]) or summary)


def choose_emoji(name: str) -> str:
    return TOOLS.get(name, (FALLBACK, ()))[0]


def write_tool_label(name: str) -> str:
    """`web_search` -> `Web Search`."""
    return " ".join(w[:1].upper() + w[1:] for w in re.split(r"[\s_]+", name[:64]) if w) or "Tool"


def write_tool_output(text: str, limit: int = OUTPUT) -> str:
    """A tool's output as a block of code, its beginning and end if it is long; "" if there is none.

    The fence is longer than any in the text, so that nothing in it can end the block.
    """
    text = mask_secrets(text if len(text) <= limit * 2 else text[:limit] + text[-limit:]).strip("\n")
    if not text.strip():
        return ""
    if len(text) > limit:
        text = f"{text[: limit * 2 // 3]}\n… cut …\n{text[-(limit // 3) :]}"
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * min(longest + 1, 64)
    return f"{fence}txt\n{text}\n{fence}"


def _value(args: Mapping[str, Any], name: str) -> str:
    for key in _SAME.get(name, (name,)):
        value = args.get(key)
        if isinstance(value, str | int | float) and str(value).strip():
            return str(value)
    return ""
