"""Facts -> Prompt. Pure; the same facts give the same bytes. The stable half is kept for facts seen before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from palinurus.core.prompt.facts import Facts, Fixed, fixed
from palinurus.core.prompt.order import LIVE, STABLE
from palinurus.core.types.model import Prompt, PromptPart

GAP = "\n\n"  # between sections, and between the two halves


def render(facts: Facts) -> Prompt:
    """The prompt in its two halves, with the size of every section; the cache boundary lies between the halves."""
    stable, parts = _stable(fixed(facts))
    made = [(row.name, row.make(facts)) for row in LIVE if facts.mode in row.modes]
    return Prompt(stable, _joined(made), parts + _parts(made, stable=False))


def report(facts: Facts) -> list[tuple[str, int, bool]]:
    """(section, characters, above the boundary?) of every section that is there, in order."""
    return [(part.name, part.chars, part.stable) for part in render(facts).parts]


@lru_cache(maxsize=64)
def _stable(facts: Fixed) -> tuple[str, tuple[PromptPart, ...]]:
    made = [(row.name, row.make(facts)) for row in STABLE if facts.mode in row.modes]
    return _joined(made), _parts(made, stable=True)


def _joined(made: Iterable[tuple[str, str]]) -> str:
    return GAP.join(text for _, text in made if text)


def _parts(made: Iterable[tuple[str, str]], *, stable: bool) -> tuple[PromptPart, ...]:
    return tuple(PromptPart(name, len(text), stable) for name, text in made if text)


def changed(prompt: Prompt, changes: Mapping[str, Any]) -> Prompt:
    """The prompt after a before_prompt_build hook: `systemPrompt` replaces it, `prependSystemContext` and
    `appendSystemContext` go around it. For compatibility; a provider's own words are a `Contribution`.
    """
    replaced, before, after = (
        str(changes.get(name) or "").strip() for name in ("systemPrompt", "prependSystemContext", "appendSystemContext")
    )
    if replaced:
        prompt = Prompt(replaced, "", (PromptPart("hook", len(replaced), True),))
    if before:
        text = f"{before}{GAP}{prompt.stable}"
        part = PromptPart("hook_before", len(before), True)
        prompt = msgspec.structs.replace(prompt, stable=text, parts=(part, *prompt.parts))
    if after:
        text = f"{prompt.volatile}{GAP}{after}" if prompt.volatile else after
        part = PromptPart("hook_after", len(after), False)
        prompt = msgspec.structs.replace(prompt, volatile=text, parts=(*prompt.parts, part))
    return prompt


def around(text: str, changes: Mapping[str, Any]) -> str:
    """A user's text after a before_prompt_build hook: `prependContext` and `appendContext` go around it."""
    parts = (str(changes.get("prependContext") or ""), text, str(changes.get("appendContext") or ""))
    return GAP.join(part for part in parts if part)
