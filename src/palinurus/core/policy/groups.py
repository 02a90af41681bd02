"""The names of tools: which there are, what else they are called, and which words stand for several of them.

Knows names only. A word in an allow or deny list is a tool, a group, a plugin's id or a pattern with `*`.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Protocol

MCP_ORIGIN = "bundle-mcp"
PLUGINS = "group:plugins"
NATIVE = "group:openclaw"

ALIASES: dict[str, str] = {"bash": "exec", "apply-patch": "apply_patch"}

# What reads, changes and runs on this machine; all other tools of ours are native ones.
BASE_TOOLS: tuple[str, ...] = ("read", "write", "edit", "apply_patch", "grep", "find", "ls", "exec", "process")

TOOL_GROUPS: dict[str, tuple[str, ...]] = {
    "group:fs": ("read", "write", "edit", "apply_patch"),
    "group:runtime": ("exec", "process", "code_execution"),
    "group:web": ("web_search", "web_fetch", "x_search"),
    "group:memory": ("memory_search", "memory_get"),
    "group:sessions": (
        "sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "sessions_yield", "subagents",
        "session_status", "session_search",
    ),
    "group:ui": ("browser", "canvas"),
    "group:automation": ("cron", "gateway", "heartbeat_respond"),
    "group:messaging": ("message",),
    "group:nodes": ("nodes",),
    "group:agents": ("agents_list", "get_goal", "create_goal", "update_goal", "update_plan", "skill_workshop"),
    "group:media": ("image", "image_generate", "music_generate", "video_generate", "tts"),
}  # fmt: skip

# Every tool of ours by name, built or not: an allow list that names one means it.
BUILTIN_TOOLS: frozenset[str] = frozenset(
    (*BASE_TOOLS, "pdf", *(name for group in TOOL_GROUPS.values() for name in group))
)

TOOL_PROFILES: dict[str, tuple[str, ...]] = {
    "minimal": ("session_status",),
    "messaging": ("sessions_list", "sessions_history", "sessions_send", "session_status", "message", MCP_ORIGIN),
    "coding": (
        *BASE_TOOLS, "code_execution", "web_search", "web_fetch", "x_search", "memory_search", "memory_get",
        "sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "sessions_yield", "subagents",
        "session_status", "session_search", "cron", "get_goal", "create_goal", "update_goal", "update_plan",
        "skill_workshop", "image", "image_generate", "music_generate", "video_generate", MCP_ORIGIN,
    ),
    "full": ("*",),
}  # fmt: skip

OWNER_TOOLS: frozenset[str] = frozenset(("cron", "gateway", "nodes"))  # besides what says so of itself

# Who may write may patch, unless that is denied. Who may not read may not search either: it shows the same text.
_ALLOWED_WITH = {"apply_patch": "write"}
_DENIED_WITH = {"grep": "read", "find": "read", "ls": "read"}


class PolicyTool(Protocol):
    """What policy asks of a tool."""

    @property
    def origin(self) -> str:
        """Whose it is: "" = ours, else the plugin's id; those of MCP servers are `bundle-mcp` or begin with it."""
        ...

    @property
    def owner(self) -> bool:
        """Is it for the owner only?"""
        ...

    @property
    def idle(self) -> str:
        """Why it can do nothing here yet, or ""."""
        ...

    @property
    def effect(self) -> str:
        """pure, idempotent or effect."""
        ...

    @property
    def missing(self) -> str:
        """What it needs and this machine does not have; "" for nothing."""
        ...


@lru_cache(4096)
def normalize_tool_name(word: str) -> str:
    """One spelling for a name: no width or case variants, no blanks around it, no alias."""
    plain = unicodedata.normalize("NFKC", word).strip().lower()
    return ALIASES.get(plain, plain)


@lru_cache(65536)
def matches_tool(word: str, name: str, origin: str) -> bool:
    """Does this word of a list stand for the tool?"""
    word = normalize_tool_name(word)
    if word in TOOL_GROUPS:
        return name in TOOL_GROUPS[word]
    if word == NATIVE:
        return not origin and name not in BASE_TOOLS
    if word == PLUGINS:
        return bool(origin)
    if origin and (word == origin.lower() or (word == MCP_ORIGIN and origin.startswith(MCP_ORIGIN))):
        return True
    if (
        origin.startswith(f"{MCP_ORIGIN}:")
        and word == origin[len(MCP_ORIGIN) + 1 :].lower()
        and word not in BUILTIN_TOOLS
    ):
        return True  # an MCP server's name stands for its tools
    return fnmatchcase(name.lower(), word.replace("[", "[[]").replace("?", "[?]"))


def allows_tool(words: Iterable[str], name: str, origin: str) -> bool:
    """Is the tool among them?"""
    also = _ALLOWED_WITH.get(name)
    return any(matches_tool(w, name, origin) or (also is not None and matches_tool(w, also, "")) for w in words)


def find_denying_word(words: Iterable[str], name: str, origin: str) -> str:
    """The first word that takes the tool away, or ""."""
    also = _DENIED_WITH.get(name)
    return next(
        (w for w in words if matches_tool(w, name, origin) or (also is not None and matches_tool(w, also, ""))), ""
    )


def is_explicit(word: str) -> bool:
    """Does it name tools or a group, rather than whatever matches?"""
    return "*" not in word


def remove_tool(words: Iterable[str], name: str, origin: str, tools: Mapping[str, PolicyTool]) -> tuple[str, ...]:
    """The list with the tool taken out: what stood for several stands for the others now."""
    every = {**dict.fromkeys(sorted(BUILTIN_TOOLS), ""), **{other: tool.origin for other, tool in tools.items()}}
    made: dict[str, None] = {}
    for word in words:
        if not find_denying_word((word,), name, origin):
            made[word] = None
            continue
        others = TOOL_GROUPS.get(normalize_tool_name(word)) or [
            n for n, whose in every.items() if matches_tool(word, n, whose)
        ]
        made.update(dict.fromkeys(n for n in others if n != name and not find_denying_word((n,), name, origin)))
    return tuple(made)


def names_builtin(word: str, tools: Mapping[str, PolicyTool] = {}) -> bool:
    """Does it stand for at least one tool of ours?"""
    return any(matches_tool(word, name, "") for name in BUILTIN_TOOLS) or any(
        matches_tool(word, name, "") for name, tool in tools.items() if not tool.origin
    )


def is_known_word(word: str, tools: Mapping[str, PolicyTool] = {}) -> bool:
    """Does it stand for anything?"""
    plain = normalize_tool_name(word)
    if plain in (NATIVE, PLUGINS, MCP_ORIGIN) or plain in TOOL_GROUPS:
        return True
    return names_builtin(word) or any(matches_tool(word, name, tool.origin) for name, tool in tools.items())


def suggest_word(word: str, more: Iterable[str] = ()) -> str:
    """The known word this one looks like, or ""."""
    words = [*BUILTIN_TOOLS, *TOOL_GROUPS, NATIVE, PLUGINS, MCP_ORIGIN, *ALIASES, *more]
    return next(iter(difflib.get_close_matches(normalize_tool_name(word)[:80], words, 1, 0.7)), "")


def find_smallest_profile(name: str, origin: str) -> str:
    """The smallest profile with the tool in it."""
    return next(profile for profile, words in TOOL_PROFILES.items() if allows_tool(words, name, origin))
