"""Which thinking levels a model offers, in rank order, and what to do with one it does not offer.

`policy` is the one function that menus, validation, the CLI, gateway rows and the request builder ask.
Knows no vendor: a vendor's opinion comes in as its profile function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from palinurus.core.levels import words
from palinurus.core.types.model import ModelInfo
from palinurus.core.types.vendor import Level, Profile, Vendor

RANKS: dict[str, int] = {
    "off": 0,
    "minimal": 10,
    "low": 20,
    "medium": 30,
    "adaptive": 30,  # equal to medium: this is what sends a stored adaptive to medium elsewhere
    "high": 40,
    "xhigh": 60,
    "max": 70,
}
BASE: tuple[str, ...] = ("off", "minimal", "low", "medium", "high")
OFF = Profile((Level("off"),), "off")

# Asked for the most a model can do: they become the most it offers, whatever its rank.
_TOP = frozenset({"xhigh", "max"})


def profile(levels: Iterable[str | Level], default: str | None = None, *, keep: bool = False) -> Profile:
    """Build a profile: duplicates keep the last, sorted by rank, unknown ids and a default not offered are dropped."""
    found = {(lv.id if isinstance(lv, Level) else lv): (lv if isinstance(lv, Level) else Level(lv)) for lv in levels}
    ordered = sorted((lv for lv in found.values() if lv.id in RANKS), key=lambda lv: (RANKS[lv.id], lv.id != "medium"))
    return Profile(tuple(ordered), default if default in found else None, keep)


def base(model: ModelInfo) -> Profile:
    """What a model offers when its vendor has no opinion: the five plain levels, and xhigh or max if the catalog
    entry lists them in compat.supportedReasoningEfforts."""
    extra = [lv for lv in ("xhigh", "max") if lv in efforts(model)]
    return profile((*BASE, *extra))


def efforts(model: ModelInfo) -> tuple[str, ...]:
    """compat.supportedReasoningEfforts as canonical words; () when it is not set or not a list of words."""
    listed = model.compat.get("supportedReasoningEfforts")
    if not isinstance(listed, (list, tuple)):
        return ()
    return tuple(word.strip().lower() for word in listed if isinstance(word, str) and word.strip())


def adapted(
    xhigh: Callable[[ModelInfo], bool | None] | None = None,
    binary: Callable[[ModelInfo], bool | None] | None = None,
    start: Callable[[ModelInfo], str | None] | None = None,
) -> Callable[[ModelInfo], Profile]:
    """A profile function out of the three hooks older plugins have: supportsXHighThinking, isBinaryThinking and
    resolveDefaultThinkingLevel. A hook that returns None has no opinion."""

    def made(model: ModelInfo) -> Profile:
        first = start(model) if start is not None else None
        if binary is not None and binary(model):
            return profile(("off", Level("low", "on")), first)
        extra = ("xhigh",) if xhigh is not None and xhigh(model) else ()
        return profile((*base(model).levels, *extra), first)

    return made


def policy(model: ModelInfo, vendor: Vendor | None = None) -> Profile:
    """The levels of one model: the vendor's opinion if it has one, else the base; only off for a model that is known
    not to reason, unless the vendor insists."""
    offered = vendor.profile(model) if vendor is not None and vendor.profile is not None else base(model)
    if model.reasoning is False and not offered.keep:
        return OFF
    return offered if offered.levels else OFF


def can(model: ModelInfo, level: str) -> bool:
    """May thinking fields be sent? Where nobody knows whether the model reasons, only if somebody asked for it."""
    return model.reasoning or (model.reasoning is None and level not in ("off", "none", ""))


def ids(offered: Profile) -> tuple[str, ...]:
    """Canonical ids, in rank order."""
    return tuple(lv.id for lv in offered.levels)


def labels(offered: Profile) -> tuple[str, ...]:
    """What people see in menus and error texts."""
    return tuple(lv.display_name for lv in offered.levels)


def supported(level: str, offered: Profile) -> bool:
    """Is this canonical level offered?"""
    return any(lv.id == level for lv in offered.levels)


def named(text: str, offered: Profile) -> str | None:
    """The canonical level a typed word means for this model: its own labels first, then the common words."""
    low = text.strip().lower()
    for level in offered.levels:
        if level.label and level.label.lower() == low:
            return level.id
    return words.thinking(text)


def remap(level: str, offered: Profile) -> str:
    """The offered level for one that may not be: itself; else the nearest below; else the nearest above; else off.

    xhigh and max mean "as much as there is" and become the largest offered.
    """
    if supported(level, offered):
        return level
    active = [lv.id for lv in offered.levels if lv.id != "off"]
    if not active:
        return "off"
    if level in _TOP:
        return active[-1]
    rank = RANKS.get(level, RANKS["medium"])
    below = [lv for lv in active if RANKS[lv] <= rank]
    if not below:
        return active[0]
    top = RANKS[below[-1]]
    return next(lv for lv in below if RANKS[lv] == top)


def default(model: ModelInfo, offered: Profile) -> str:
    """The level when nobody asks for one: the vendor's, else medium or its nearest for a model that reasons."""
    if offered.default is not None:
        return offered.default
    return remap("medium", offered) if model.reasoning or offered.keep else remap("off", offered)


class Row(msgspec.Struct, frozen=True):
    """What gateway rows and pickers show of one model."""

    thinkingLevels: tuple[dict[str, str], ...]
    thinkingOptions: tuple[str, ...]
    thinkingDefault: str


def row(model: ModelInfo, vendor: Vendor | None = None) -> Row:
    """thinkingLevels (id and label), thinkingOptions (labels), thinkingDefault of one model."""
    offered = policy(model, vendor)
    return Row(
        tuple({"id": lv.id, "label": lv.display_name} for lv in offered.levels),
        labels(offered),
        default(model, offered),
    )


# --- texts ----------------------------------------------------------------------------------------------------


def unknown_text(raw: str, offered: Profile) -> str:
    """For a word that is no level at all."""
    return f'Unrecognized thinking level "{raw}". Valid levels: {", ".join(("default", *labels(offered)))}.'


def unsupported_text(level: str, model: ModelInfo, offered: Profile) -> str:
    """For a level that exists, but not on this model."""
    return f'Thinking level "{level}" is not supported for {model.ref}. Use one of: {", ".join(labels(offered))}.'


def remapped_text(old: str, new: str, model: ModelInfo) -> str:
    """For a stored level that a model switch changed."""
    return f"Thinking level set to {new} ({old} not supported for {model.ref})."


def check(raw: Any, model: ModelInfo, offered: Profile) -> tuple[str | None, str]:
    """Validate a typed level: (canonical id, "") or (None, the text that says which ones there are)."""
    level = named(raw, offered) if isinstance(raw, str) else None
    if level is None:
        return None, unknown_text(str(raw)[:64], offered)
    if not supported(level, offered):
        return None, unsupported_text(level, model, offered)
    return level, ""
