"""Who asked for which level, who wins, and why: thinking and fast mode.

The order of the tables is the order of precedence. Pure: elapsed time is handed in.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from palinurus.core.levels import spellings, thinking
from palinurus.core.types.model import ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor

FAST_AUTO_SECONDS = 60.0


class LevelRequest(msgspec.Struct, frozen=True):
    """What each layer says, as written; None where it says nothing. Field order is precedence."""

    inline: Any = None  # a directive in this very message
    session: Any = None  # the session row
    agent: Any = None  # agents.list[].thinkingDefault / fastModeDefault
    params: Any = None  # agents.defaults.models["p/m"].params.thinking / fastMode
    defaults: Any = None  # agents.defaults.thinkingDefault


_REASONS: dict[str, str] = {
    "inline": "directive in this message",
    "session": "session override",
    "agent": "agents.list[].thinkingDefault",
    "params": "agents.defaults.models[].params.thinking",
    "defaults": "agents.defaults.thinkingDefault",
    "provider": "provider default for the model",
    "catalog": "the model reasons and declares no default",
    "off": "the model does not reason",
    "unknown": "nothing says whether the model reasons",
}


class ThinkingDecision(msgspec.Struct, frozen=True):
    """A level and how it came about. `asked` is the level before it was fitted to what the model offers."""

    level: str
    source: str  # inline, session, agent, params, defaults, provider, catalog, off
    reason: str
    asked: str
    ignored: tuple[str, ...] = ()  # layers whose value is no level, and was passed over

    @property
    def remapped(self) -> bool:
        return self.level != self.asked


def resolve_thinking(model: ModelSpec, asked: LevelRequest, vendor: Vendor | None = None) -> ThinkingDecision:
    """The thinking level of one call, always one the model offers, with the layer that decided."""
    offered = thinking.find_thinking_profile(model, vendor)
    ignored: list[str] = []
    for source in LevelRequest.__struct_fields__:
        raw = getattr(asked, source)
        if raw is None or raw == "" or spellings.is_clear_word(raw):
            continue
        wanted = _params(raw) if source == "params" else _word(raw, offered)
        if wanted is None:
            ignored.append(f"{source}: {str(raw)[:40]!r} is no thinking level")
            continue
        got = thinking.remap_level(wanted, offered)
        reason = _REASONS[source]
        if got != wanted:
            reason += f"; {wanted} is not offered by {model.ref}"
        return ThinkingDecision(got, source, reason, wanted, ignored=tuple(ignored))
    got = thinking.choose_default_level(model, offered)
    source = "provider" if offered.default is not None and offered is not thinking.OFF_PROFILE else "catalog"
    if (got == "off" and source == "catalog") or offered is thinking.OFF_PROFILE:
        source = "off"
    why = "unknown" if source == "off" and model.reasoning is None else source
    return ThinkingDecision(got, source, _REASONS[why], got, ignored=tuple(ignored))


def _word(raw: Any, offered: ThinkingProfile) -> str | None:
    return thinking.parse_level(raw, offered) if isinstance(raw, str) else None


def _params(raw: Any) -> str | None:
    """params.thinking may also say false, "disabled" or "none"."""
    if raw is False or raw in ("disabled", "none"):
        return "off"
    return spellings.parse_thinking(raw)


# --- fast mode ------------------------------------------------------------------------------------------------


class FastMode(msgspec.Struct, frozen=True):
    """What is configured: on, off, auto, or None when nobody ever said anything (then no tier is sent)."""

    mode: str | None
    source: str  # inline, session, agent, params, off
    cutoff: float = FAST_AUTO_SECONDS

    def at(self, elapsed: float) -> bool | None:
        """Is a model call fast that starts `elapsed` seconds after its run? Asked anew for every call."""
        if self.mode is None:
            return None
        return elapsed < self.cutoff if self.mode == "auto" else self.mode == "on"

    @property
    def status(self) -> str:
        """The word for the status line: Fast, Fast:auto or nothing."""
        return {"on": "Fast", "auto": "Fast:auto"}.get(self.mode or "off", "")


def resolve_fast_mode(model: ModelSpec, asked: LevelRequest) -> FastMode:
    """The fast mode of a run: inline, session, agent default, model params, else never set.

    `asked.params` None means: look at the model's own params.fastMode.
    """
    cutoff = _seconds(model.params.get("fastAutoOnSeconds"))
    own = asked.params if asked.params is not None else model.params.get("fastMode")
    for source, raw in (("inline", asked.inline), ("session", asked.session), ("agent", asked.agent), ("params", own)):
        mode = spellings.parse_fast(raw) if raw is not None else None
        if mode is not None:
            return FastMode(mode, source, cutoff)
    return FastMode(None, "off", cutoff)


def _seconds(raw: Any) -> float:
    if isinstance(raw, bool) or not isinstance(raw, (int, float)) or not math.isfinite(raw) or raw < 0:
        return FAST_AUTO_SECONDS
    return float(raw)
