"""Reasoning efforts of the GPT family and of servers that speak its protocols: which a model takes, which to send.

Shared by the vendors whose models take `reasoning.effort` or `reasoning_effort`. Knows model ids and config
compat, no vendor.
"""

from __future__ import annotations

import re
from typing import Any

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile
from palinurus.patterns import compile_late

_DATE = compile_late(r"-\d{4}-\d{2}-\d{2}$")
_NEW = r"gpt-(5\.([2-9]|\d{2,})|([6-9]|\d{2,})(\.\d+)?)"  # GPT-5.2 and everything after it

# First match wins.
_EFFORTS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = tuple(
    (compile_late(pattern), tuple(words.split()))
    for pattern, words in (
        (r"gpt-5\.1-codex-mini", "medium"),
        (r"gpt-5\.1-codex-max", "none medium high xhigh"),
        (r"(gpt-\d+(\.\d+)?.*-)?codex.*", "low medium high xhigh"),
        (r"gpt-5-pro", "high"),
        (_NEW + r"-pro", "medium high xhigh"),
        (_NEW + r"(-.*)?", "none low medium high xhigh"),
        (r"gpt-5\.1(-.*)?", "none low medium high"),
        (r"gpt-5(-mini|-nano)?", "minimal low medium high"),
        (r".*", "low medium high"),
    )
)
# What to try, in order, when the level itself is not taken.
_INSTEAD: dict[str, tuple[str, ...]] = {
    "max": ("xhigh", "high"),
    "xhigh": ("high",),
    "adaptive": ("medium",),
    "low": ("medium",),
    "minimal": ("low", "medium"),
}


def strip_model_id(model_id: str) -> str:
    """The id without routing prefix and release date, in lower case."""
    return _DATE.sub("", model_id.strip().lower().rpartition("/")[2])


def list_efforts(model: ModelSpec) -> tuple[str, ...]:
    """The efforts a model takes: exactly what compat lists, else by its id."""
    if model.compat.get("supportsReasoningEffort") is False:
        return ()
    if model.compat.get("supportedReasoningEfforts") is not None:
        return thinking.read_efforts(model)
    name = strip_model_id(model.ref.model)
    return next(words for pattern, words in _EFFORTS if pattern.fullmatch(name))


def choose_effort(level: str, model: ModelSpec, taken: tuple[str, ...] | None = None) -> str | None:
    """The effort to send for a level; None: send nothing. `off` gives "none" where a model takes that."""
    taken = list_efforts(model) if taken is None else taken
    mapped = model.compat.get("reasoningEffortMap")
    if isinstance(mapped, dict) and isinstance(mapped.get(level), str):
        level = mapped[level]
    if level in ("off", "none"):
        return "none" if "none" in taken else None
    for word in (level, *_INSTEAD.get(level, ())):
        if word in taken:
            return word
    return next((word for word in taken if word != "none"), None)


def resolve_effort_profile(model: ModelSpec) -> ThinkingProfile:
    """The base levels, and xhigh (max) where the model takes that effort."""
    return extend_profile(list_efforts(model))


def extend_profile(taken: tuple[str, ...]) -> ThinkingProfile:
    """The base levels, and xhigh and max where they are efforts that are taken."""
    return thinking.make_profile((*thinking.BASE_LEVELS, *(lv for lv in ("xhigh", "max") if lv in taken)))


def add_effort(body: dict[str, Any], request: ModelRequest, taken: tuple[str, ...] | None = None) -> dict[str, Any]:
    """`reasoning_effort`, if there is a word for the level."""
    word = choose_effort(request.level, request.model, taken)
    return {**body, "reasoning_effort": word} if word else body


def add_responses_effort(body: dict[str, Any], request: ModelRequest, *, none: bool = True) -> dict[str, Any]:
    """`reasoning` and `include` of the Responses API. `none` False: the endpoint refuses effort "none"."""
    if not thinking.can_think(request.model, request.level):
        return body
    effort = choose_effort(request.level, request.model)
    if effort is None or effort == "none":
        return {**body, "reasoning": {"effort": "none"}} if effort and none else body
    if effort == "minimal" and any(tool.name == "web_search" for tool in request.tools):
        effort = "low"  # the API refuses web search at minimal effort
    return {**body, "reasoning": {"effort": effort, "summary": "auto"}, "include": ["reasoning.encrypted_content"]}


def add_completions_effort(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """`reasoning_effort` of Chat Completions, for models that reason and take one."""
    model = request.model
    if not thinking.can_think(model, request.level) or model.compat.get("supportsReasoningEffort") is False:
        return body
    if request.tools and strip_model_id(model.ref.model).startswith("gpt-5.4-mini"):
        return body  # it refuses the pair of tools and an effort
    return add_effort(body, request)
