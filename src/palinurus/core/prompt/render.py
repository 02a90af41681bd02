"""Facts -> Prompt. Pure; the same facts give the same bytes. The stable half is kept for facts seen before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from palinurus.core.prompt.facts import PromptFacts, StableFacts, select_stable_facts
from palinurus.core.prompt.order import LIVE_SECTIONS, STABLE_SECTIONS
from palinurus.core.types.model import Prompt, PromptPart

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
