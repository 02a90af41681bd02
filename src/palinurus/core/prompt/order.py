"""The order of the sections, the modes each appears in, and the cache boundary. A new section is a new row.

Above the boundary only what `Fixed` holds can be said (the types see to it). Approvals and Silent Replies follow the
chat, so they stand below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from palinurus.core.prompt import chat, conduct, context, place, runtime, skills, tooling
from palinurus.core.prompt.facts import PromptFacts, PromptMode, StableFacts

ALL: frozenset[PromptMode] = frozenset(("full", "minimal", "none"))
RUN: frozenset[PromptMode] = frozenset(("full", "minimal"))
FULL: frozenset[PromptMode] = frozenset(("full",))


class StableSection(NamedTuple):
    name: str
    make: Callable[[StableFacts], str]
    modes: frozenset[PromptMode] = RUN


class LiveSection(NamedTuple):
    name: str
    make: Callable[[PromptFacts], str]
    modes: frozenset[PromptMode] = RUN


# Above the boundary: byte-equal from turn to turn.
STABLE_SECTIONS: tuple[StableSection, ...] = (
    StableSection("identity", conduct.write_identity, ALL),
    StableSection("tooling", tooling.write_tooling),
    StableSection("delegation", tooling.write_delegation, FULL),
    StableSection("interaction_style", conduct.write_interaction_style),
    StableSection("tool_call_style", conduct.write_tool_style),
    StableSection("execution_bias", conduct.write_execution_bias, FULL),
    StableSection("provider_prefix", conduct.write_provider_prefix, ALL),
    StableSection("safety", conduct.write_safety),
    StableSection("control", conduct.write_control),
    StableSection("skills", skills.write_skills),
    StableSection("skill_workshop", skills.write_skill_workshop),
    StableSection("memory", place.write_memory_recall, FULL),
    StableSection("self_update", conduct.write_self_update, FULL),
    StableSection("aliases", place.write_model_aliases, FULL),
    StableSection("clock", place.write_clock_hint),
    StableSection("workspace", place.write_workspace),
    StableSection("docs", place.write_docs, FULL),
    StableSection("sandbox", place.write_sandbox),
    StableSection("senders", place.write_authorized_senders, FULL),
    StableSection("time", place.write_time_zone),
    StableSection("bootstrap_pending", context.write_bootstrap_pending, FULL),
    StableSection("bootstrap_notice", context.write_bootstrap_notice),
    StableSection("workspace_files", context.write_workspace_files),
    StableSection("directives", chat.write_directives, FULL),
    StableSection("reasoning_format", chat.write_reasoning_format),
    StableSection("context", context.write_project_context),
)

# Below: may differ between chats and turns.
LIVE_SECTIONS: tuple[LiveSection, ...] = (
    LiveSection("silent", chat.write_silent_replies, FULL),
    LiveSection("dynamic_context", context.write_dynamic_context),
    LiveSection("embed", chat.write_embed),
    LiveSection("messaging", chat.write_messaging, FULL),
    LiveSection("approvals", chat.write_approvals),
    LiveSection("voice", chat.write_voice, FULL),
    LiveSection("extra", chat.write_extra_context),
    LiveSection("reactions", chat.write_reactions),
    LiveSection("provider_suffix", chat.write_provider_suffix),
    LiveSection("heartbeats", chat.write_heartbeats, FULL),
    LiveSection("runtime", runtime.write_runtime),
)
