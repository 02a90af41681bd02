"""Untrusted content in a turn: where it came from, and what then needs a person's word. Pure.

A source is a word for its kind and perhaps what exactly it was: "web https://a.example/x", "file notes.md". A taint is
the sources a model has seen. Content the model has seen decides what it asks for next, so the taint of a call is that
of everything before it; what is contained by the kernel may go on, what reaches further is asked about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from palinurus.core.policy.spoken import AGREED, get_typed, has_pasted, is_owners
from palinurus.core.types.approval import TaintRules
from palinurus.core.types.messages import AssistantMessage, Message, ToolCall, ToolResult, UserMessage
from palinurus.patterns import compile_late

Taint = tuple[str, ...]

MAX_SOURCE_DETAIL = 80  # characters of what exactly a source was
KEPT = 16  # sources of one taint; every kind is among them
PASTED = "pasted"
# The machine's own files, what a project's code prints, and what the owner pasted into a message.
LOCAL = frozenset(("file", "command", "network", PASTED))
SILENT = "silent"  # of a command that has printed nothing yet: the words are the program's, not yet anybody's
# Results of tools that no outsider writes into; what we made of a conversation; what the owner read and agreed to.
OWN = "own"  # of what the program says itself: it may quote the model, and is nobody's order
OURS = frozenset(("", OWN, "summary", AGREED, SILENT))
SEPARATOR = "\n"  # between the sources of one text
# Not the owner; what they may use at all is the policy's business. A client reads what its gateway lets it, also here.
PEOPLE = frozenset(("member", "group", "stranger", "client"))

# What a tool's results hold that nobody of ours wrote. "memory" counts only where it was written under taint.
TOOL_SOURCES: dict[str, str] = {
    "read": "file", "grep": "file", "find": "file", "ls": "file", "image": "file", "pdf": "file",
    "exec": "command", "process": "command", "web_fetch": "web", "web_search": "web", "browser": "web",
    "sessions_list": "session", "sessions_history": "session", "sessions_send": "session",
    "session_search": "session",
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
    "nodes": "act on another device",
}
FREE: dict[str, frozenset[str]] = {
    "cron": frozenset(("list", "status", "runs", "get")),
    "gateway": frozenset(("config.get", "config.schema", "config.schema.lookup")),
    "subagents": frozenset(("list", "info", "log")),
    "message": frozenset(("read", "search", "list")),
    "nodes": frozenset(("status", "describe", "pending", "reject", "approve", "run")),  # the last two ask themselves
}
INHERITED = frozenset(("sessions_spawn", "subagents"))  # those it starts get its taint, and no other rights
PAGES = frozenset(("web_fetch", "web_search", "browser"))  # whose results nobody of ours can have written
MAX_CHOICES = 8  # addresses offered by pages that are opened unasked after one message of the owner
FETCHING = ("web_fetch", "image", "image_generate", "pdf", "message", "browser")  # it asks about the rest itself
_ADDRESSES = ("url", "targetUrl", "image", "images", "pdf", "pdfs", "media")

_URL_LETTER = compile_late(r"[\w%~+=&?#@:/.-]")


# sources


def write_sources(taint: Iterable[str]) -> str:
    """Several sources as one text, for where a message or a job keeps its own."""
    return SEPARATOR.join(dict.fromkeys(one for one in taint if one))


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


def collect_taint(messages: Iterable[Message], before: Taint = ()) -> Taint:
    """What these messages bring along, besides what was there before them: as if all had been looked at together."""
    said = (m.source or _find_unsaid(m) for m in messages if isinstance(m, (UserMessage, ToolResult)))
    return join_taint(
        before, (one for text in said for one in text.split(SEPARATOR) if get_source_kind(one) not in OURS)
    )


def _find_unsaid(message: UserMessage | ToolResult) -> str:
    """Where words come from that say nothing of it: pasted ones, and results that another program wrote down."""
    if isinstance(message, UserMessage):
        return PASTED if has_pasted(message) else ""
    return "" if message.isError else name_source(message.toolName, "", "", "")


def pair_results(messages: Sequence[Message]) -> Iterator[tuple[ToolCall | None, ToolResult]]:
    """Every result with its call. Ids are what providers make them, and some begin anew with each answer."""
    calls: dict[str, ToolCall] = {}
    for message in messages:
        if isinstance(message, AssistantMessage):
            calls.update((call.id, call) for call in message.calls)
        elif isinstance(message, ToolResult):
            yield calls.get(message.toolCallId), message


def is_from_outside(taint: Taint) -> bool:
    """Did any of it come from beyond this machine's files and the people who may write to the agent?"""
    return any(get_source_kind(one) not in LOCAL | PEOPLE for text in taint for one in text.split(SEPARATOR))


def order_sources(taint: Taint) -> Taint:
    """For people: what came from outside first, and what the agent's own commands printed only where nothing else is
    there. Questions that name every `ls` are answered without being read."""
    ranked = sorted(taint, key=lambda one: not is_from_outside((one,)))
    return tuple(one for one in ranked if get_source_kind(one) != "command") or tuple(ranked)


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
    if tool not in FETCHING or (tool == "browser" and args.get("action") not in ("open", "navigate")):
        return ()
    given: list[Any] = []
    for name in _ADDRESSES:
        value = args.get(name)
        given += value if isinstance(value, list) else [value]
    return tuple(v.strip() for v in given if isinstance(v, str) and v.strip().lower().startswith(("http:", "https:")))


def may_leak(url: str, messages: Sequence[Message], rules: TaintRules) -> bool:
    """Could the address tell its host something from this conversation?

    Not if a person of ours or a page gave it letter by letter: who wrote it down did not know what we know. What
    commands print and what is in files does not count, as the model writes those itself; and a page's links only a few
    times, since which one is opened is something told as well.
    """
    try:
        host = (urlsplit(url).hostname or "").lower().rstrip(".")
    except ValueError:
        return True
    if any(host == one or host.endswith(f".{one}") for one in rules.hosts):
        return False
    bare = re.sub(r"(?i)^https?://", "", url)
    forms = {url, url.rstrip("/"), bare, bare.rstrip("/")} - {""}
    if any(_stands(form, text) for text in _list_said(messages) for form in forms):
        return False
    for call, message in pair_results(messages):
        if message.toolName in PAGES:
            own = str(call.arguments) if call else ""
            if any(_stands(form, message.text) and form not in own for form in {url, url.rstrip("/")}):
                return _choose_rank(url, messages) >= MAX_CHOICES
    return True


def _list_said(messages: Sequence[Message]) -> list[str]:
    return [get_typed(m) for m in messages if is_owners(m)]


def _choose_rank(url: str, messages: Sequence[Message]) -> int:
    """How many other addresses that the owner did not give were opened before this one since the owner spoke: which of
    a page's links is chosen tells its author something each time."""
    start = max((at for at, message in enumerate(messages) if is_owners(message)), default=0)
    said = _list_said(messages)
    opened = dict.fromkeys(
        address
        for message in messages[start:]
        if isinstance(message, AssistantMessage)
        for call in message.calls
        for address in list_addresses(call.name, call.arguments)
        if not any(_stands(address, text) for text in said)
    )
    return next((rank for rank, address in enumerate(opened) if address == url), len(opened))


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
