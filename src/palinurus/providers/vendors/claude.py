"""The Claude family, whoever serves it: thinking profile, and the thinking fields of the Messages API.

Shared by every vendor that proxies these models. Knows model ids, no vendor.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingProfile
from palinurus.patterns import compile_late
from palinurus.providers.wire.history import read_sampling

INTERLEAVED = "interleaved-thinking-2025-05-14"
SAMPLING = frozenset({"temperature", "top_p", "topP"})  # refused beside thinking, and by the newest models at all
BUDGETS: dict[str, int] = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384}
LEAST_BUDGET = 1024  # the API refuses less
DEFAULT_OUTPUT = 32_000

_NAME = compile_late(r"(opus|sonnet|haiku)-(\d{1,2})(?:-(\d{1,2}))?(?!\d)")
_EFFORT: dict[str, str] = {"minimal": "low", "adaptive": "high"}


class ClaudeFamily(msgspec.Struct, frozen=True):
    """What matters of a model id. `fable` always thinks; `latest` is 4.7 and later; `adaptive` 4.6 and later."""

    fable: bool
    latest: bool
    adaptive: bool


def parse_family(model_id: str) -> ClaudeFamily:
    """Read an id in any spelling: dots or dashes, routing prefixes, dates, regions."""
    name = model_id.strip().lower().replace(".", "-").replace("@", "-")
    if "claude-fable-5" in name:
        return ClaudeFamily(True, True, True)
    found = _NAME.search(name)
    if found is None:
        return ClaudeFamily(False, False, "mythos" in name)
    kind, version = found[1], (int(found[2]), int(found[3] or 0))
    latest = version >= ((4, 7) if kind == "opus" else (5, 0))
    return ClaudeFamily(False, latest, latest or version >= (4, 6))


def is_claude(model_id: str) -> bool:
    return "claude" in model_id.lower()


def resolve_claude_profile(model_id: str, *, max: bool = True) -> ThinkingProfile:
    """The levels of a Claude model. `max`: does this vendor offer it on the 4.6 generation?"""
    kind = parse_family(model_id)
    if kind.fable:
        return thinking.make_profile((*thinking.BASE_LEVELS, "xhigh", "adaptive", "max"), "high", keep=True)
    if kind.latest:
        return thinking.make_profile((*thinking.BASE_LEVELS, "xhigh", "adaptive", "max"), "off")
    if kind.adaptive:
        return thinking.make_profile((*thinking.BASE_LEVELS, "adaptive", *(("max",) if max else ())), "adaptive")
    return thinking.make_profile(thinking.BASE_LEVELS)


def can_claude_reason(model_id: str) -> bool:
    """Can a model the catalog does not list think? All since 3.7 can."""
    name = model_id.lower().replace(".", "-")
    return is_claude(name) and not re.search(r"claude-(instant|2|3-(5|haiku|opus|sonnet))", name)


def choose_claude_effort(level: str, model_id: str) -> str:
    """output_config.effort of an adaptive model."""
    kind = parse_family(model_id)
    if level == "xhigh":
        return "xhigh" if kind.latest else "high"
    if level == "max":
        return "max" if kind.adaptive else "high"
    return _EFFORT.get(level, level)


def will_think(request: ModelRequest) -> bool:
    """Will this call think?"""
    fable = parse_family(request.model.ref.model).fable
    return fable or (request.model.reasoning is not False and request.level not in ("off", "none", ""))


def compute_budget(request: ModelRequest, budgets: dict[str, int] = BUDGETS) -> tuple[int, int]:
    """(max_tokens, budget_tokens) of a call to a model with budgets; budget 0 when there is no room for one. What
    the config says goes before `budgets`; levels above those have the budget of high."""
    model, level = request.model, request.level if request.level in budgets else "high"
    given = thinking.read_budget(model, request.level, level)
    wanted = budgets[level] if given is None else max(given, LEAST_BUDGET)
    most = min(_output(request) + wanted, model.max_tokens)
    if most <= wanted:
        wanted = most - LEAST_BUDGET
    return most, wanted if wanted >= LEAST_BUDGET else 0


def _output(request: ModelRequest) -> int:
    return read_sampling(request).max_tokens or min(request.model.max_tokens, DEFAULT_OUTPUT)


def build_thinking_fields(request: ModelRequest, budgets: dict[str, int] = BUDGETS) -> dict[str, Any]:
    """`thinking` and `output_config` (and `max_tokens` where a budget needs room); {} for models that cannot."""
    model = request.model
    kind = parse_family(model.ref.model)
    if kind.fable:
        word = choose_claude_effort(request.level, model.ref.model) if request.level != "off" else "high"
        return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": word}}
    if not thinking.can_think(model, request.level):
        return {}
    if not will_think(request):
        return {"thinking": {"type": "disabled"}}
    if kind.adaptive:
        return {
            "thinking": {"type": "adaptive"},
            "output_config": {"effort": choose_claude_effort(request.level, model.ref.model)},
        }
    most, room = compute_budget(request, budgets)
    if not room:
        return {"thinking": {"type": "disabled"}}
    return {"thinking": {"type": "enabled", "budget_tokens": room}, "max_tokens": most}


def shape_claude_body(body: dict[str, Any], request: ModelRequest, budgets: dict[str, int] = BUDGETS) -> dict[str, Any]:
    """A Messages body with its thinking fields, and without what the API refuses beside them."""
    found = build_thinking_fields(request, budgets)
    if found.get("thinking", {}).get("type") == "enabled" and lacks_thoughts(body):
        found = {"thinking": {"type": "disabled"}}
    shaped = {**body, **found}
    on = shaped.get("thinking", {}).get("type") in ("adaptive", "enabled")
    if on or parse_family(request.model.ref.model).latest:
        shaped = {key: value for key, value in shaped.items() if key not in SAMPLING}
    if not on:
        return shaped
    choice = shaped.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") not in ("auto", "none"):
        shaped["tool_choice"] = {"type": "auto"}  # thinking and a forced tool exclude each other
    return drop_prefill(shaped)


def lacks_thoughts(body: dict[str, Any]) -> bool:
    """Is a tool round under way that began without thoughts, such as another model's? A budget is refused in there:
    the API wants the answer that called to begin with its thinking block. The next round can think again."""
    messages = body.get("messages") or []
    if len(messages) < 2 or not any("toolResult" in b or b.get("type") == "tool_result" for b in _blocks(messages[-1])):
        return False
    first = next(iter(_blocks(messages[-2])), {})
    return "reasoningContent" not in first and first.get("type") not in ("thinking", "redacted_thinking")


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def drop_prefill(body: dict[str, Any]) -> dict[str, Any]:
    """Without assistant messages at the tail: a prefilled answer and thinking exclude each other."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return body
    end = len(messages)
    while end > 1 and messages[end - 1].get("role") == "assistant":
        end -= 1
    return {**body, "messages": messages[:end]} if end < len(messages) else body


def build_claude_headers(request: ModelRequest) -> dict[str, str]:
    """The beta header that lets models with budgets think between tool calls."""
    name = request.model.ref.model
    if will_think(request) and not parse_family(name).adaptive:
        return {"anthropic-beta": INTERLEAVED}
    return {}


def resolve_model_profile(model: ModelSpec) -> ThinkingProfile:
    """The vendor hook for hosts that offer everything."""
    return resolve_claude_profile(model.ref.model)
