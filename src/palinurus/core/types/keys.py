"""Session keys and model refs: parsed once, at the border, into types.

Grammar (lower-cased except opaque ids):
    agent:<agentId>:<rest>
    rest = main | direct:<peer> | <channel>[:<account>]:direct:<peer> | <channel>:group:<id>[:topic:<t>]
         | <channel>:channel:<id>[:thread:<t>] | <channel>:room:<id> | subagent:<uuid>[:subagent:<uuid>]*
         | cron:<job>[:run:<id>] | hook:<uuid> | acp:<uuid> | explicit:<id>
Parts that come from outside (peer ids and the like) go through `escape_key_part`, so that no two peers share a key.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, TypeAlias

import msgspec

from palinurus.patterns import compile_late

SessionKind: TypeAlias = Literal["main", "direct", "group", "subagent", "cron", "hook", "acp", "other"]

_AGENT = compile_late(r"[a-z0-9][a-z0-9_-]{0,63}")
_PLAIN = compile_late(r"[A-Za-z0-9_.@+=#!-]+")
_ESCAPED = compile_late(r"%([0-9a-f]{1,6})\.")
_REQUEST = compile_late(r"openai:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BAD = compile_late(r"[\x00-\x1f\x7f/\\]")
MAX_KEY = 512


class SessionKey(msgspec.Struct, frozen=True):
    """`agent` and the rest. `str()` gives the stored form."""

    agent: str
    rest: str

    def __str__(self) -> str:
        return f"agent:{self.agent}:{self.rest}"

    @property
    def depth(self) -> int:
        """0 for a person's session, n for the n-th level of sub-agents."""
        return f":{self.rest}".count(":subagent:")

    @property
    def kind(self) -> SessionKind:
        return _find_kind(self.rest)

    @property
    def unnamed(self) -> bool:
        """Was it made up for an HTTP request that named no session?"""
        return _REQUEST.fullmatch(self.rest) is not None

    @property
    def lane(self) -> str:
        """Which pool of slots a run of this session takes one from."""
        return {"subagent": "subagent", "cron": "cron"}.get(self.kind, "main")


_HEADS: dict[str, SessionKind] = {"main": "main", "cron": "cron", "hook": "hook", "acp": "acp", "direct": "direct"}


@lru_cache(512)  # eighteen times a turn
def _find_kind(rest: str) -> SessionKind:
    segments = rest.split(":")
    if "subagent" in segments[:-1]:
        return "subagent"
    if segments[0] in _HEADS:
        return _HEADS[segments[0]]
    if "direct" in segments[:3]:
        return "direct"
    if len(segments) > 2 and segments[1] in ("group", "channel", "room"):
        return "group"
    return "other"


def parse_agent_id(text: str) -> str | None:
    """The id in its stored form, or None if it cannot be one."""
    low = text.strip().lower()
    return low if _AGENT.fullmatch(low) else None


def escape_key_part(raw: str) -> str:
    """A foreign id as one key segment. Distinct inputs give distinct outputs; ordinary ids stay as they are."""
    if _PLAIN.fullmatch(raw):
        return raw
    return "~" + "".join(c if _PLAIN.fullmatch(c) else f"%{ord(c):x}." for c in raw)


def unescape_key_part(part: str) -> str:
    """The id that `escape_key_part` made it of."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), part[1:]) if part.startswith("~") else part


@lru_cache(512)  # five times a turn
def parse_session_key(text: str, default_agent: str = "main") -> SessionKey | None:
    """Parse a stored or typed key; a bare word is a session of the default agent. None if it cannot be one."""
    text = text.strip()
    if not text or len(text) > MAX_KEY or _BAD.search(text):
        return None
    if not text.lower().startswith("agent:"):
        agent = parse_agent_id(default_agent)
        return SessionKey(agent, text) if agent else None
    _, head, *rest = text.split(":", 2)
    agent = parse_agent_id(head)
    if agent is None or not rest or not rest[0]:
        return None
    return SessionKey(agent, rest[0])


class ModelRef(msgspec.Struct, frozen=True):
    """`provider/model`; the model id may itself contain slashes."""

    provider: str
    model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"


def parse_model_ref(text: str) -> ModelRef | None:
    """Split on the first slash. None when there is no provider or no model."""
    provider, slash, model = text.strip().partition("/")
    return ModelRef(provider.strip().lower(), model.strip()) if slash and provider.strip() and model.strip() else None
