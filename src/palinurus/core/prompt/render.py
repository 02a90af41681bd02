"""Facts -> Prompt: the order of the sections, the modes each appears in, the cache boundary. Pure; the same facts give
the same bytes. The stable half is kept for facts seen before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec

from palinurus.core.prompt import bootstrap, capabilities, chat, conduct, environment
from palinurus.core.prompt.facts import PromptFacts, PromptMode, StableFacts, select_stable_facts
from palinurus.core.types.messages import TextBlock, UserMessage
from palinurus.core.types.model import Prompt, PromptPart
from palinurus.core.untrusted import ADDED_HEADING

ALL: frozenset[PromptMode] = frozenset(("full", "minimal", "none"))
RUN: frozenset[PromptMode] = frozenset(("full", "minimal"))
FULL: frozenset[PromptMode] = frozenset(("full",))
F = TypeVar("F", bound=StableFacts)


class PromptSection(msgspec.Struct, Generic[F], frozen=True):
    """A section and the modes it appears in. A new section is a new row of one of the tables."""

    name: str
    make: Callable[[F], str]
    modes: frozenset[PromptMode] = RUN


# Above the boundary: byte-equal from turn to turn. Only what `StableFacts` holds can be said; the types see to it.
STABLE_SECTIONS: tuple[PromptSection[StableFacts], ...] = (
    PromptSection("identity", conduct.write_identity, ALL),
    PromptSection("tooling", capabilities.write_tooling),
    PromptSection("delegation", capabilities.write_delegation, FULL),
    PromptSection("interaction_style", conduct.write_interaction_style),
    PromptSection("tool_call_style", conduct.write_tool_style),
    PromptSection("execution_bias", conduct.write_execution_bias, FULL),
    PromptSection("provider_prefix", conduct.write_provider_prefix, ALL),
    PromptSection("safety", conduct.write_safety),
    PromptSection("control", conduct.write_control),
    PromptSection("skills", capabilities.write_skills),
    PromptSection("skill_workshop", capabilities.write_skill_workshop),
    PromptSection("memory", environment.write_memory_recall, FULL),
    PromptSection("self_update", conduct.write_self_update, FULL),
    PromptSection("aliases", environment.write_model_aliases, FULL),
    PromptSection("clock", environment.write_clock_hint),
    PromptSection("workspace", environment.write_workspace),
    PromptSection("docs", environment.write_docs, FULL),
    PromptSection("sandbox", environment.write_sandbox),
    PromptSection("senders", environment.write_authorized_senders, FULL),
    PromptSection("time", environment.write_time_zone),
    PromptSection("bootstrap_pending", bootstrap.write_bootstrap_pending, FULL),
    PromptSection("bootstrap_notice", bootstrap.write_bootstrap_notice),
    PromptSection("workspace_files", bootstrap.write_workspace_files),
    PromptSection("directives", chat.write_directives, FULL),
    PromptSection("reasoning_format", chat.write_reasoning_format),
    PromptSection("context", bootstrap.write_project_context),
    PromptSection("project", bootstrap.write_project_files),
)

# Below: may differ between chats and turns. Approvals and Silent Replies follow the chat.
LIVE_SECTIONS: tuple[PromptSection[PromptFacts], ...] = (
    PromptSection("silent", chat.write_silent_replies, FULL),
    PromptSection("dynamic_context", bootstrap.write_dynamic_context),
    PromptSection("embed", chat.write_embed),
    PromptSection("messaging", chat.write_messaging, FULL),
    PromptSection("approvals", chat.write_approvals),
    PromptSection("voice", chat.write_voice, FULL),
    PromptSection("extra", chat.write_extra_context),
    PromptSection("reactions", chat.write_reactions),
    PromptSection("provider_suffix", chat.write_provider_suffix),
    PromptSection("inside", environment.write_inside),
    PromptSection("heartbeats", chat.write_heartbeats, FULL),
    PromptSection("runtime", environment.write_runtime),
)


KEPT = 4096  # characters of a chat's own text with which a prompt is kept
SECTION_GAP = "\n\n"  # between sections, and between the two halves


def render_prompt(facts: PromptFacts) -> Prompt:
    """The prompt in its two halves, with the size of every section; the cache boundary lies between the halves."""
    return _whole(facts) if len(facts.extra) <= KEPT else _render(facts)


def _render(facts: PromptFacts) -> Prompt:
    stable, parts = _stable(select_stable_facts(facts))
    live, more = _rendered(LIVE_SECTIONS, facts, stable=False)
    return Prompt(stable, live, parts + more)


def report_sections(facts: PromptFacts) -> list[tuple[str, int, bool]]:
    """(section, characters, above the boundary?) of every section that is there, in order."""
    return [(part.name, part.chars, part.stable) for part in render_prompt(facts).parts]


_whole = lru_cache(maxsize=16)(_render)  # one object for all sessions of an agent that are alike


@lru_cache(maxsize=64)
def _stable(facts: StableFacts) -> tuple[str, tuple[PromptPart, ...]]:
    return _rendered(STABLE_SECTIONS, facts, stable=True)


def _rendered(rows: Iterable[PromptSection[F]], facts: F, *, stable: bool) -> tuple[str, tuple[PromptPart, ...]]:
    made = [(row.name, row.make(facts)) for row in rows if facts.mode in row.modes]
    parts = tuple(PromptPart(name, len(text), stable) for name, text in made if text)
    return SECTION_GAP.join(text for _, text in made if text), parts


def apply_prompt_changes(prompt: Prompt, changes: Mapping[str, Any]) -> Prompt:
    """The prompt after a before_prompt_build hook: `systemPrompt` replaces it, `prependSystemContext` and
    `appendSystemContext` go around it. For compatibility; a provider's own words are a `PromptContribution`.
    """
    replaced, before, after = (
        str(changes.get(name) or "").strip() for name in ("systemPrompt", "prependSystemContext", "appendSystemContext")
    )
    if replaced:
        prompt = Prompt(replaced, "", (PromptPart("hook", len(replaced), True),))
    first = (PromptPart("hook_before", len(before), True),) if before else ()
    last = (PromptPart("hook_after", len(after), False),) if after else ()
    stable = f"{before}{SECTION_GAP}{prompt.stable}" if before else prompt.stable
    volatile = SECTION_GAP.join(text for text in (prompt.volatile, after) if text)
    return Prompt(stable, volatile, (*first, *prompt.parts, *last))


def surround_message(message: UserMessage, changes: Mapping[str, Any]) -> UserMessage:
    """A message after a before_prompt_build hook: `prependContext` and `appendContext` go around it, so that
    core/policy/spoken.py knows them from what the person wrote."""
    before, after = (str(changes.get(name) or "") for name in ("prependContext", "appendContext"))
    blocks = [TextBlock(f"{before}{SECTION_GAP}"), *message.blocks] if before else list(message.blocks)
    if after:
        at = max((n for n, block in enumerate(blocks) if isinstance(block, TextBlock)), default=len(blocks))
        text = "".join(block.text for block in blocks[at : at + 1] if isinstance(block, TextBlock))
        blocks[at : at + 1] = [TextBlock(f"{text}{SECTION_GAP}{ADDED_HEADING}\n{after}")]
    return msgspec.structs.replace(message, content=tuple(blocks)) if before or after else message
