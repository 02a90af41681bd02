"""Untrusted content in a turn: where it came from, and what then needs a person's word. Pure.

A source is a word for its kind and perhaps what exactly it was: "web https://a.example/x", "file notes.md". A taint is
the sources a model has seen. Content the model has seen decides what it asks for next, so the taint of a call is that
of everything before it; what is contained by the kernel may go on, what reaches further is asked about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from palinurus.core.policy.shell import parse_command
from palinurus.core.types.approval import TaintRules
from palinurus.core.types.messages import AssistantMessage, Message, ToolResult, UserMessage

Taint = tuple[str, ...]

MAX_SOURCE_DETAIL = 80  # characters of what exactly a source was
KEPT = 16  # sources of one taint; every kind is among them
LOCAL = frozenset(("file", "command"))  # from the machine's own files
# Not the owner; what they may use at all is the policy's business. A client reads what its gateway lets it, also here.
PEOPLE = frozenset(("member", "group", "stranger", "client"))

# What a tool's results hold that nobody of ours wrote. "memory" counts only where it was written under taint.
TOOL_SOURCES: dict[str, str] = {
    "read": "file", "grep": "file", "find": "file", "ls": "file", "image": "file", "pdf": "file",
    "exec": "command", "process": "command", "web_fetch": "web", "web_search": "web", "browser": "web",
    "sessions_list": "session", "sessions_history": "session", "sessions_send": "session",
    "memory_search": "memory", "memory_get": "memory",
}  # fmt: skip
# Failures of these come with words from outside.
_TALKATIVE = frozenset(("web", "session"))

# What reaches beyond the session, by tool: what the person is asked. Actions that only look are free.
EFFECTS: dict[str, str] = {
    "sessions_send": "send a message to another session",
    "sessions_spawn": "start another agent",
    "subagents": "steer another agent",
    "message": "send a message",
    "cron": "change scheduled jobs",
    "gateway": "change the gateway",
    "browser": "act in the browser",
    "canvas": "show something on a canvas",
    "nodes": "act on another device",
}
FREE: dict[str, frozenset[str]] = {
    "cron": frozenset(("list", "status", "runs", "get")),
    "gateway": frozenset(("config.get", "config.schema", "config.schema.lookup")),
    "subagents": frozenset(("list", "info", "log")),
    "message": frozenset(("read", "search", "list")),
    "nodes": frozenset(("status", "list", "describe")),
}
INHERITED = frozenset(("sessions_spawn", "subagents"))  # those it starts get its taint, and no other rights
FETCHING = ("web_fetch", "image", "pdf", "message")
_ADDRESSES = ("url", "image", "images", "pdf", "pdfs", "media")

_SHAPING = frozenset((
    "agents.md", "soul.md", "identity.md", "user.md", "tools.md", "bootstrap.md", "boot.md", "memory.md",
    "heartbeat.md",
))  # fmt: skip
_URL_LETTER = re.compile(r"[\w%~+=&?#@:/.-]")
# Programs that fetch what a project declares and run its tests. With anything that looks like an address they are not.
_DEVELOPING: dict[str, frozenset[str] | None] = {
    "pytest": None, "make": None, "tox": None, "nox": None, "mvn": None, "gradle": None, "ctest": None, "cmake": None,
    "git": frozenset(("fetch", "pull", "push", "status", "log", "diff", "add", "commit", "checkout", "switch", "show")),
    "pip": frozenset(("install", "list", "show")), "uv": frozenset(("sync", "run", "pip", "lock", "add")),
    "npm": frozenset(("install", "ci", "test", "run", "start")), "pnpm": frozenset(("install", "test", "run", "dev")),
    "yarn": frozenset(("install", "test", "run", "dev")),
    "cargo": frozenset(("build", "test", "fetch", "run", "check")),
    "go": frozenset(("build", "test", "mod", "vet", "run")), "bundle": frozenset(("install", "exec")),
}  # fmt: skip
_PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?")
_MODULES = frozenset(("pytest", "unittest", "pip", "mypy", "tox", "nox"))
_ADDRESS = re.compile(r"://|@.*:|^-c$|--(?:index-url|extra-index-url|registry|upload-pack|receive-pack|exec)\b|^-[if]$")


# sources


def get_source_kind(source: str) -> str:
    """The word before what exactly it was."""
    return source.partition(" ")[0]


def name_source(tool: str, given: str, origin: str, about: str, *, failed: bool = False) -> str:
    """Where a result came from: `given` by the tool itself, else by its name; `origin` is the plugin it belongs to.

    "" for our own words. `failed`: the tool raised, and said so in words of ours.
    """
    word = given or (f"plugin:{origin}" if origin else TOOL_SOURCES.get(tool, ""))
    if not word or (failed and not origin and get_source_kind(word) not in _TALKATIVE) or word == "memory":
        return ""
    detail = " ".join(about.split())[:MAX_SOURCE_DETAIL]
    return f"{word} {detail}" if detail and " " not in word else word


def join_taint(taint: Taint, new: Iterable[str]) -> Taint:
    """With the new ones; of many, the first of each kind stay, then the oldest."""
    merged = dict.fromkeys((*taint, *(one for one in new if one)))
    if len(merged) <= KEPT:
        return tuple(merged)
    first = dict.fromkeys(
        next(s for s in merged if get_source_kind(s) == k) for k in dict.fromkeys(map(get_source_kind, merged))
    )
    return tuple(dict.fromkeys((*first, *merged)))[: max(KEPT, len(first))]


def collect_taint(messages: Iterable[Message]) -> Taint:
    """What these messages bring along."""
    return join_taint((), (m.source for m in messages if isinstance(m, (UserMessage, ToolResult))))


def is_from_outside(taint: Taint) -> bool:
    """Did any of it come from beyond this machine's files and the people who may write to the agent?"""
    return any(get_source_kind(one) not in LOCAL and get_source_kind(one) not in PEOPLE for one in taint)


# effects


def is_reason_to_ask(rules: TaintRules, tool: str, taint: Taint) -> bool:
    """Is the taint a reason to ask about this tool?"""
    return bool(taint) and rules.enabled and tool not in rules.allow


def describe_effect(tool: str, args: Mapping[str, Any], here: tuple[str, str], taint: Taint, *, foreign: bool) -> str:
    """What a call would do beyond the session, in words; "" for nothing that is asked about here.

    `here` is the chat of the turn (channel, to): answering there is no message to others. `foreign`: a plugin's tool
    that has effects.
    """
    words = EFFECTS.get(tool) or (f"use {tool}, which has effects outside" if foreign else "")
    action = str(args.get("action") or "").strip().lower()
    if not words or action in FREE.get(tool, ()) or (tool in INHERITED and not is_from_outside(taint)):
        return ""
    if tool == "message":
        channel, to = (str(args.get(name) or "").strip() for name in ("channel", "target"))
        to = to or str(args.get("to") or "").strip()
        many = args.get("targets") or args.get("accountId")
        if action in ("", "send", "react") and not many and channel in ("", here[0]) and to in ("", here[1]):
            return ""
    return words


def list_addresses(tool: str, args: Mapping[str, Any]) -> tuple[str, ...]:
    """The web addresses a call would open."""
    if tool not in FETCHING:
        return ()
    given: list[Any] = []
    for name in _ADDRESSES:
        value = args.get(name)
        given += value if isinstance(value, list) else [value]
    return tuple(v.strip() for v in given if isinstance(v, str) and v.strip().lower().startswith(("http:", "https:")))


def may_leak(url: str, messages: Sequence[Message], rules: TaintRules) -> bool:
    """Could the address tell its host something from this conversation?

    Not if a person of ours or a page gave it letter by letter: who wrote it down did not know what we know. What
    commands print and what is in files does not count, as the model writes those itself.
    """
    try:
        host = (urlsplit(url).hostname or "").lower().rstrip(".")
    except ValueError:
        return True
    if any(host == one or host.endswith(f".{one}") for one in rules.hosts):
        return False
    bare = re.sub(r"(?i)^https?://", "", url)
    forms = {url, url.rstrip("/"), bare, bare.rstrip("/")} - {""}
    asked = {c.id: str(c.arguments) for m in messages if isinstance(m, AssistantMessage) for c in m.calls}
    for message in messages:
        if isinstance(message, UserMessage) and not message.source:
            if any(_stands(form, message.text) for form in forms):
                return False
        elif isinstance(message, ToolResult) and get_source_kind(message.source) == "web":
            own = asked.get(message.toolCallId, "")
            if any(_stands(form, message.text) and form not in own for form in {url, url.rstrip("/")}):
                return False
    return True


def _stands(text: str, where: str) -> bool:
    """Does it stand there as a whole, not as the beginning of something longer?"""
    at = where.find(text)
    while at >= 0:
        rest = where[at + len(text) : at + len(text) + 2]
        if not rest or not _URL_LETTER.match(rest) or (rest[0] in ".:?" and not _URL_LETTER.match(rest[1:])):
            return True
        if rest == "/" or (rest[0] == "/" and not _URL_LETTER.match(rest[1:])):
            return True
        at = where.find(text, at + 1)
    return False


def is_shaping_file(relative: str) -> bool:
    """Is it one of the files that make the agent what it is? `relative` to its workspace, links followed."""
    parts = [part.casefold() for part in relative.split("/") if part not in ("", ".")]
    if not parts or ".." in parts:
        return False
    if len(parts) == 1:
        return parts[0] in _SHAPING
    return (
        (parts[0] == "memory" and parts[-1].endswith(".md"))
        or parts[0] == "skills"
        or parts[:2] == [".agents", "skills"]
    )


def is_memory_note(relative: str) -> bool:
    """Is it a note that is found again only by looking, and not shown to every run?"""
    return is_shaping_file(relative) and "/" in relative.strip("/")


def may_use_network(command: str, taint: Taint, rules: TaintRules) -> bool:
    """May the command keep the network its sandbox gives it? With content from outside none may; with the machine's own
    files those that build, test and share a project, as long as they name no address."""
    if not is_reason_to_ask(rules, "exec:network", taint):
        return True
    if is_from_outside(taint):
        return False
    parsed = parse_command(command)
    return bool(parsed.segments) and all(_developing(one.argv) for one in parsed.segments)


def _developing(argv: tuple[str, ...]) -> bool:
    if any(_ADDRESS.search(word) for word in argv):
        return False
    if _PYTHON.fullmatch(argv[0]):
        return len(argv) > 2 and argv[1] == "-m" and argv[2] in _MODULES
    if argv[0] in ("cd", "echo", "ls", "cat", "true"):
        return True
    if argv[0] not in _DEVELOPING:
        return False
    actions = _DEVELOPING[argv[0]]
    return actions is None or (len(argv) > 1 and argv[1] in actions)
