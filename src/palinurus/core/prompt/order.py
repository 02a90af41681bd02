"""The order of the sections, the modes each appears in, and the cache boundary. A new section is a new row.

Above the boundary only what `Fixed` holds can be said (the types see to it). Approvals and Silent Replies follow the
chat, so they stand below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from palinurus.core.prompt import chat, conduct, context, place, runtime, skills, tooling
from palinurus.core.prompt.facts import Facts, Fixed, Mode

ALL: frozenset[Mode] = frozenset(("full", "minimal", "none"))
RUN: frozenset[Mode] = frozenset(("full", "minimal"))
FULL: frozenset[Mode] = frozenset(("full",))


class Stable(NamedTuple):
    name: str
    make: Callable[[Fixed], str]
    modes: frozenset[Mode] = RUN


class Live(NamedTuple):
    name: str
    make: Callable[[Facts], str]
    modes: frozenset[Mode] = RUN


# Above the boundary: byte-equal from turn to turn.
STABLE: tuple[Stable, ...] = (
    Stable("identity", conduct.identity, ALL),
    Stable("tooling", tooling.tooling),
    Stable("delegation", tooling.delegation, FULL),
    Stable("interaction_style", conduct.interaction),
    Stable("tool_call_style", conduct.style),
    Stable("execution_bias", conduct.bias, FULL),
    Stable("provider_prefix", conduct.prefix, ALL),
    Stable("safety", conduct.safety),
    Stable("control", conduct.control),
    Stable("skills", skills.skills),
    Stable("skill_workshop", skills.workshop),
    Stable("memory", place.memory, FULL),
    Stable("self_update", conduct.update, FULL),
    Stable("aliases", place.aliases, FULL),
    Stable("clock", place.clock),
    Stable("workspace", place.workspace),
    Stable("docs", place.docs, FULL),
    Stable("sandbox", place.sandbox),
    Stable("senders", place.senders, FULL),
    Stable("time", place.when),
    Stable("bootstrap_pending", context.pending, FULL),
    Stable("bootstrap_notice", context.notice),
    Stable("workspace_files", context.announced),
    Stable("directives", chat.directives, FULL),
    Stable("reasoning_format", chat.reasoning_format),
    Stable("context", context.project),
)

# Below: may differ between chats and turns.
LIVE: tuple[Live, ...] = (
    Live("silent", chat.silent, FULL),
    Live("dynamic_context", context.dynamic),
    Live("embed", chat.embed),
    Live("messaging", chat.messaging, FULL),
    Live("approvals", chat.approvals),
    Live("voice", chat.voice, FULL),
    Live("extra", chat.extra),
    Live("reactions", chat.reactions),
    Live("provider_suffix", chat.suffix),
    Live("heartbeats", chat.heartbeats, FULL),
    Live("runtime", runtime.runtime),
)
