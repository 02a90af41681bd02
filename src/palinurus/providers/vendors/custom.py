"""Any provider that only the config knows, and the house rules for servers that speak a common protocol.

`compat` of the catalog entry decides: supportsReasoningEffort, supportedReasoningEfforts, reasoningEffortMap,
thinkingFormat. Vendors without rules of their own use `profile` and `shape` from here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import ThinkingLevel, ThinkingProfile, Vendor
from palinurus.providers.vendors import claude, efforts

Body: TypeAlias = dict[str, Any]

ON = ThinkingLevel("low", "on")
BINARY = thinking.make_profile(("off", ON), "off")
ALWAYS = thinking.make_profile((ON,), "low")  # cannot be switched off


def is_thinking(request: ModelRequest) -> bool:
    """Is thinking on for this call?"""
    return request.level not in ("off", "none", "")


def is_named(model_id: str, *starts: str) -> bool:
    """Does the id, without routing prefix and release date, begin with one of these?"""
    return efforts.strip_model_id(model_id).startswith(starts)


def match_profile(
    profile: ThinkingProfile, *starts: str, otherwise: ThinkingProfile | None = None
) -> Callable[[ModelSpec], ThinkingProfile]:
    """A vendor's `profile`: this one for models named so, else `otherwise`, else the base levels."""

    def choose(model: ModelSpec) -> ThinkingProfile:
        return profile if is_named(model.ref.model, *starts) else otherwise or thinking.make_base_profile(model)

    return choose


def omit_fields(body: Body, *names: str) -> Body:
    """The body without these."""
    return {key: value for key, value in body.items() if key not in names}


# --- thinkingFormat: how a Chat Completions server wants to be told -------------------------------------------


def add_nested_effort(body: Body, request: ModelRequest) -> Body:
    """`reasoning: {effort}`."""
    effort = efforts.choose_effort(request.level, request.model)
    return {**body, "reasoning": {"effort": effort}} if effort else body


def add_thinking_flag(body: Body, request: ModelRequest) -> Body:
    """`enable_thinking`."""
    return {**body, "enable_thinking": is_thinking(request)}


def add_template_flag(body: Body, request: ModelRequest) -> Body:
    """`chat_template_kwargs.enable_thinking`."""
    before = body.get("chat_template_kwargs")
    kwargs = {**(before if isinstance(before, dict) else {}), "enable_thinking": is_thinking(request)}
    return {**body, "chat_template_kwargs": kwargs}


def add_reasoning_flag(body: Body, request: ModelRequest) -> Body:
    """`reasoning: {enabled}`."""
    return {**body, "reasoning": {"enabled": is_thinking(request)}}


def add_thinking_type(body: Body, request: ModelRequest) -> Body:
    """`thinking: {type}`."""
    return {**body, "thinking": {"type": "enabled" if is_thinking(request) else "disabled"}}


FORMATS: dict[str, Callable[[Body, ModelRequest], Body]] = {
    "openai": efforts.add_completions_effort,
    "openrouter": add_nested_effort,
    "qwen": add_thinking_flag,
    "qwen-chat-template": add_template_flag,
    "together": add_reasoning_flag,
    "deepseek": add_thinking_type,
    "zai": add_thinking_type,
}
# Formats that only know on and off.
_SWITCHES = frozenset({"qwen", "qwen-chat-template", "together", "deepseek", "zai"})


def shape_completions(body: Body, request: ModelRequest) -> Body:
    """Thinking fields of a Chat Completions body, in the format the catalog entry names."""
    if not thinking.can_think(request.model, request.level):
        return body
    word = request.model.compat.get("thinkingFormat")
    return FORMATS.get(word if isinstance(word, str) else "openai", efforts.add_completions_effort)(body, request)


SHAPES: dict[str, Callable[[Body, ModelRequest], Body]] = {
    "openai-completions": shape_completions,
    "openai-responses": efforts.add_responses_effort,
    "openai-codex-responses": efforts.add_responses_effort,
    "anthropic-messages": claude.shape_claude_body,
}


def shape_custom_body(body: Body, request: ModelRequest) -> Body:
    """Thinking fields by the API the model is reached through."""
    rule = SHAPES.get(request.model.api)
    return rule(body, request) if rule else body


def resolve_custom_profile(model: ModelSpec) -> ThinkingProfile:
    """Claude's levels behind the Messages API; on and off for formats that know no more; else the base levels and
    what compat.supportedReasoningEfforts adds."""
    if model.api == "anthropic-messages":
        return claude.resolve_model_profile(model)
    if model.compat.get("thinkingFormat") in _SWITCHES and not thinking.read_efforts(model):
        return BINARY
    if model.api in ("openai-responses", "openai-codex-responses"):
        return efforts.resolve_effort_profile(model)
    return thinking.make_base_profile(model)


def build_custom_headers(request: ModelRequest) -> dict[str, str]:
    """What the API asks for beside the key."""
    return claude.build_claude_headers(request) if request.model.api == "anthropic-messages" else {}


VENDOR = Vendor(
    id="custom",
    name="Custom provider",
    api="openai-completions",
    base_url="",
    profile=resolve_custom_profile,
    shape=shape_custom_body,
    headers=build_custom_headers,
)
