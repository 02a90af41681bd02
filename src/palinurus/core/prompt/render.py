"""Facts -> Prompt. Pure; the same facts give the same bytes. The stable half is kept for facts seen before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from palinurus.core.prompt import bootstrap, capabilities, chat, conduct, environment
from palinurus.core.prompt.facts import PromptFacts, PromptMode, StableFacts, select_stable_facts
from palinurus.core.types.model import Prompt, PromptPart

# The order of the sections, the modes each appears in, and the cache boundary. A new section is a new row.
#
# Above the boundary only what `Fixed` holds can be said (the types see to it). Approvals and Silent Replies follow the
# chat, so they stand below.

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
    StableSection("tooling", capabilities.write_tooling),
    StableSection("delegation", capabilities.write_delegation, FULL),
    StableSection("interaction_style", conduct.write_interaction_style),
    StableSection("tool_call_style", conduct.write_tool_style),
    StableSection("execution_bias", conduct.write_execution_bias, FULL),
    StableSection("provider_prefix", conduct.write_provider_prefix, ALL),
    StableSection("safety", conduct.write_safety),
    StableSection("control", conduct.write_control),
    StableSection("skills", capabilities.write_skills),
    StableSection("skill_workshop", capabilities.write_skill_workshop),
    StableSection("memory", environment.write_memory_recall, FULL),
    StableSection("self_update", conduct.write_self_update, FULL),
    StableSection("aliases", environment.write_model_aliases, FULL),
    StableSection("clock", environment.write_clock_hint),
    StableSection("workspace", environment.write_workspace),
    StableSection("docs", environment.write_docs, FULL),
    StableSection("sandbox", environment.write_sandbox),
    StableSection("senders", environment.write_authorized_senders, FULL),
    StableSection("time", environment.write_time_zone),
    StableSection("bootstrap_pending", bootstrap.write_bootstrap_pending, FULL),
    StableSection("bootstrap_notice", bootstrap.write_bootstrap_notice),
    StableSection("workspace_files", bootstrap.write_workspace_files),
    StableSection("directives", chat.write_directives, FULL),
    StableSection("reasoning_format", chat.write_reasoning_format),
    StableSection("context", bootstrap.write_project_context),
)

# Below: may differ between chats and turns.
LIVE_SECTIONS: tuple[LiveSection, ...] = (
    LiveSection("silent", chat.write_silent_replies, FULL),
    LiveSection("dynamic_context", bootstrap.write_dynamic_context),
    LiveSection("embed", chat.write_embed),
    LiveSection("messaging", chat.write_messaging, FULL),
    LiveSection("approvals", chat.write_approvals),
    LiveSection("voice", chat.write_voice, FULL),
    LiveSection("extra", chat.write_extra_context),
    LiveSection("reactions", chat.write_reactions),
    LiveSection("provider_suffix", chat.write_provider_suffix),
    LiveSection("heartbeats", chat.write_heartbeats, FULL),
    LiveSection("runtime", environment.write_runtime),
)


SECTION_GAP = "\n\n"  # between sections, and between the two halves


def render_prompt(facts: PromptFacts) -> Prompt:
    """The prompt in its two halves, with the size of every section; the cache boundary lies between the halves."""
    stable, parts = _stable(select_stable_facts(facts))
    made = [(row.name, row.make(facts)) for row in LIVE_SECTIONS if facts.mode in row.modes]
    return Prompt(stable, _joined(made), parts + _parts(made, stable=False))


def report_sections(facts: PromptFacts) -> list[tuple[str, int, bool]]:
    """(section, characters, above the boundary?) of every section that is there, in order."""
    return [(part.name, part.chars, part.stable) for part in render_prompt(facts).parts]


@lru_cache(maxsize=64)
def _stable(facts: StableFacts) -> tuple[str, tuple[PromptPart, ...]]:
    made = [(row.name, row.make(facts)) for row in STABLE_SECTIONS if facts.mode in row.modes]
    return _joined(made), _parts(made, stable=True)


def _joined(made: Iterable[tuple[str, str]]) -> str:
    return SECTION_GAP.join(text for _, text in made if text)


def _parts(made: Iterable[tuple[str, str]], *, stable: bool) -> tuple[PromptPart, ...]:
    return tuple(PromptPart(name, len(text), stable) for name, text in made if text)


def apply_prompt_changes(prompt: Prompt, changes: Mapping[str, Any]) -> Prompt:
    """The prompt after a before_prompt_build hook: `systemPrompt` replaces it, `prependSystemContext` and
    `appendSystemContext` go around it. For compatibility; a provider's own words are a `Contribution`.
    """
    replaced, before, after = (
        str(changes.get(name) or "").strip() for name in ("systemPrompt", "prependSystemContext", "appendSystemContext")
    )
    if replaced:
        prompt = Prompt(replaced, "", (PromptPart("hook", len(replaced), True),))
    if before:
        text = f"{before}{SECTION_GAP}{prompt.stable}"
        part = PromptPart("hook_before", len(before), True)
        prompt = msgspec.structs.replace(prompt, stable=text, parts=(part, *prompt.parts))
    if after:
        text = f"{prompt.volatile}{SECTION_GAP}{after}" if prompt.volatile else after
        part = PromptPart("hook_after", len(after), False)
        prompt = msgspec.structs.replace(prompt, volatile=text, parts=(*prompt.parts, part))
    return prompt


def wrap_user_text(text: str, changes: Mapping[str, Any]) -> str:
    """A user's text after a before_prompt_build hook: `prependContext` and `appendContext` go around it."""
    parts = (str(changes.get("prependContext") or ""), text, str(changes.get("appendContext") or ""))
    return SECTION_GAP.join(part for part in parts if part)
