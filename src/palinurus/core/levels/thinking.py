"""Which thinking levels a model offers, in rank order, and what to do with one it does not offer.

`find_thinking_profile` is the one function that menus, validation, the CLI, gateway rows and the request builder ask.
Knows no vendor: a vendor's opinion comes in as its profile function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import msgspec

from palinurus.core.levels import spellings
from palinurus.core.types.model import ModelSpec
from palinurus.core.types.vendor import ThinkingLevel, ThinkingProfile, Vendor

# adaptive is equal to medium: this is what sends a stored adaptive to medium elsewhere
LEVEL_RANKS: dict[str, int] = dict(zip(spellings.THINKING_LEVELS, (0, 10, 20, 30, 30, 40, 60, 70), strict=True))
BASE_LEVELS: tuple[str, ...] = ("off", "minimal", "low", "medium", "high")
OFF_PROFILE = ThinkingProfile((ThinkingLevel("off"),), "off")

# Asked for the most a model can do: they become the most it offers, whatever its rank.
_TOP = frozenset({"xhigh", "max"})


def make_profile(
    levels: Iterable[str | ThinkingLevel], default: str | None = None, *, keep: bool = False
) -> ThinkingProfile:
    """Build a profile: duplicates keep the last, sorted by rank, unknown ids and a default not offered are dropped."""
    given = (ThinkingLevel(lv) if isinstance(lv, str) else lv for lv in levels)
    found = {lv.id: lv for lv in given}
    known = (lv for lv in found.values() if lv.id in LEVEL_RANKS)
    ordered = sorted(known, key=lambda lv: (LEVEL_RANKS[lv.id], lv.id != "medium"))
    return ThinkingProfile(tuple(ordered), default if default in found else None, keep)


def make_base_profile(model: ModelSpec) -> ThinkingProfile:
    """What a model offers when its vendor has no opinion: the five plain levels, and xhigh or max if the catalog
    entry lists them in compat.supportedReasoningEfforts."""
    efforts = read_efforts(model)
    return _extend_base(tuple([lv for lv in ("xhigh", "max") if lv in efforts]))


@cache
def _extend_base(extra: tuple[str, ...]) -> ThinkingProfile:
    return make_profile((*BASE_LEVELS, *extra))


def read_efforts(model: ModelSpec) -> tuple[str, ...]:
    """compat.supportedReasoningEfforts as canonical words; () when it is not set or not a list of words."""
    listed = model.compat.get("supportedReasoningEfforts")
    if not isinstance(listed, (list, tuple)):
        return ()
    return tuple(word.strip().lower() for word in listed if isinstance(word, str) and word.strip())


def read_budget(model: ModelSpec, *levels: str) -> int | None:
    """Tokens to think with, from params.thinkingBudgets (level -> tokens): of the first of these levels it names."""
    given = model.params.get("thinkingBudgets")
    found = [given.get(level) for level in levels] if isinstance(given, dict) else []
    return next((count for count in found if type(count) is int and count > 0), None)


def adapt_plugin_profile(
    xhigh: Callable[[ModelSpec], bool | None] | None = None,
    binary: Callable[[ModelSpec], bool | None] | None = None,
    start: Callable[[ModelSpec], str | None] | None = None,
) -> Callable[[ModelSpec], ThinkingProfile]:
    """A profile function out of the three hooks older plugins have: supportsXHighThinking, isBinaryThinking and
    resolveDefaultThinkingLevel. A hook that returns None has no opinion."""

    def made(model: ModelSpec) -> ThinkingProfile:
        first = start(model) if start is not None else None
        if binary is not None and binary(model):
            return make_profile(("off", ThinkingLevel("low", "on")), first)
        extra = ("xhigh",) if xhigh is not None and xhigh(model) else ()
        return make_profile((*make_base_profile(model).levels, *extra), first)

    return made


def find_thinking_profile(model: ModelSpec, vendor: Vendor | None = None) -> ThinkingProfile:
    """The levels of one model: the vendor's opinion if it has one, else the base; only off for a model that is known
    not to reason, unless the vendor insists."""
    offered = vendor.profile(model) if vendor is not None and vendor.profile is not None else make_base_profile(model)
    if model.reasoning is False and not offered.keep:
        return OFF_PROFILE
    return offered if offered.levels else OFF_PROFILE


def can_think(model: ModelSpec, level: str) -> bool:
    """May thinking fields be sent? Where nobody knows whether the model reasons, only if somebody asked for it."""
    return model.reasoning or (model.reasoning is None and level not in ("off", "none", ""))


def list_level_ids(offered: ThinkingProfile) -> tuple[str, ...]:
    """Canonical ids, in rank order."""
    return tuple([lv.id for lv in offered.levels])


def list_level_labels(offered: ThinkingProfile) -> tuple[str, ...]:
    """What people see in menus and error texts."""
    return tuple(lv.display_name for lv in offered.levels)


def is_offered(level: str, offered: ThinkingProfile) -> bool:
    """Is this canonical level offered?"""
    return any(lv.id == level for lv in offered.levels)


def parse_level(text: str, offered: ThinkingProfile) -> str | None:
    """The canonical level a typed word means for this model: its own labels first, then the common words."""
    low = text.strip().lower()
    for level in offered.levels:
        if level.label and level.label.lower() == low:
            return level.id
    return spellings.parse_thinking(text)


def remap_level(level: str, offered: ThinkingProfile) -> str:
    """The offered level for one that may not be: itself; else the nearest below; else the nearest above; else off.

    xhigh and max mean "as much as there is" and become the largest offered.
    """
    if is_offered(level, offered):
        return level
    active = [lv.id for lv in offered.levels if lv.id != "off"]
    if not active:
        return "off"
    if level in _TOP:
        return active[-1]
    rank = LEVEL_RANKS.get(level, LEVEL_RANKS["medium"])
    below = [lv for lv in active if LEVEL_RANKS[lv] <= rank]
    if not below:
        return active[0]
    top = LEVEL_RANKS[below[-1]]
    return next(lv for lv in below if LEVEL_RANKS[lv] == top)


def choose_default_level(model: ModelSpec, offered: ThinkingProfile) -> str:
    """The level when nobody asks for one: the vendor's, else medium or its nearest for a model that reasons."""
    if offered.default is not None:
        return offered.default
    return remap_level("medium", offered) if model.reasoning or offered.keep else remap_level("off", offered)


class ThinkingRow(msgspec.Struct, frozen=True):
    """What gateway rows and pickers show of one model."""

    thinkingLevels: tuple[dict[str, str], ...]
    thinkingOptions: tuple[str, ...]
    thinkingDefault: str


def make_thinking_row(model: ModelSpec, vendor: Vendor | None = None) -> ThinkingRow:
    """thinkingLevels (id and label), thinkingOptions (labels), thinkingDefault of one model."""
    offered = find_thinking_profile(model, vendor)
    return ThinkingRow(
        tuple({"id": lv.id, "label": lv.display_name} for lv in offered.levels),
        list_level_labels(offered),
        choose_default_level(model, offered),
    )


# --- texts ----------------------------------------------------------------------------------------------------


def explain_unsupported_level(level: str, model: ModelSpec, offered: ThinkingProfile) -> str:
    """For a level that exists, but not on this model."""
    labels = ", ".join(list_level_labels(offered))
    return f'Thinking level "{level}" is not supported for {model.ref}. Use one of: {labels}.'


def explain_remapped_level(old: str, new: str, model: ModelSpec) -> str:
    """For a stored level that a model switch changed."""
    return f"Thinking level set to {new} ({old} not supported for {model.ref})."


def check_level(raw: Any, model: ModelSpec, offered: ThinkingProfile) -> tuple[str | None, str]:
    """Validate a typed level: (canonical id, "") or (None, the text that says which ones there are)."""
    level = parse_level(raw, offered) if isinstance(raw, str) else None
    if level is None:
        labels = ", ".join(("default", *list_level_labels(offered)))
        return None, f'Unrecognized thinking level "{str(raw)[:64]}". Valid levels: {labels}.'
    if not is_offered(level, offered):
        return None, explain_unsupported_level(level, model, offered)
    return level, ""
