"""Amazon Bedrock: Claude, Nova and others through the Converse API, signed with AWS credentials."""

from __future__ import annotations

import re
from typing import Any

from palinurus.core.levels import thinking
from palinurus.core.types.model import ModelRequest, ModelSpec
from palinurus.core.types.vendor import SigningVariables, ThinkingProfile, Vendor, VendorModel, make_thinking_model
from palinurus.patterns import compile_late
from palinurus.providers.vendors import claude

_POINT = {"cachePoint": {"type": "default"}}
_CACHES = compile_late(r"claude-(3-7|sonnet-|opus-|haiku-|fable|mythos)|nova-")


def resolve_bedrock_profile(model: ModelSpec) -> ThinkingProfile:
    """Claude's levels; of the 4.6 generation only Opus has max here."""
    name = model.ref.model
    if not claude.is_claude(name):
        return thinking.make_base_profile(model)
    return claude.resolve_claude_profile(name, max="opus" in name.lower())


def shape_bedrock_body(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """additionalModelRequestFields: thinking and effort, or a budget with the beta that goes with it. Off: nothing."""
    name = request.model.ref.model
    body = _cached(body, request)
    if not claude.is_claude(name):
        return body
    found = claude.build_thinking_fields(request)
    most = found.pop("max_tokens", None)
    kind = found.get("thinking", {}).get("type")
    off = kind == "disabled" or (kind == "enabled" and claude.lacks_thoughts(body))
    if off or not claude.will_think(request):
        return _configure(body) if claude.parse_family(name).latest else body
    if not claude.parse_family(name).adaptive:
        found["anthropic_beta"] = [claude.INTERLEAVED]
    more = {**body.get("additionalModelRequestFields", {}), **found}
    shaped = _configure({**body, "additionalModelRequestFields": more}, most)
    tools = shaped.get("toolConfig")
    if isinstance(tools, dict) and "auto" not in tools.get("toolChoice", {"auto": {}}):
        shaped["toolConfig"] = {**tools, "toolChoice": {"auto": {}}}  # thinking and a forced tool exclude each other
    return claude.drop_prefill(shaped)


def _configure(body: dict[str, Any], most: int | None = None) -> dict[str, Any]:
    """Without temperature and topP, and with room for `most` tokens."""
    kept = {key: value for key, value in body.get("inferenceConfig", {}).items() if key not in claude.SAMPLING}
    rest = {key: value for key, value in body.items() if key != "inferenceConfig"}
    kept |= {"maxTokens": most} if most else {}
    return {**rest, "inferenceConfig": kept} if kept else rest


def _cached(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """Cache points after the stable prompt and after the last user turn, for the models that know them."""
    if not _CACHES.search(request.model.ref.model.lower()) or request.model.params.get("cacheRetention") == "none":
        return body
    shaped = dict(body)
    if shaped.get("system"):
        shaped["system"] = [shaped["system"][0], _POINT, *shaped["system"][1:]]
    messages = shaped.get("messages")
    if messages and messages[-1].get("role") == "user":
        shaped["messages"] = [*messages[:-1], {**messages[-1], "content": [*messages[-1]["content"], _POINT]}]
    return shaped


def can_bedrock_reason(model_id: str) -> bool:
    return claude.can_claude_reason(model_id) or bool(re.search(r"deepseek[.-]r1|gpt-oss|nova-2", model_id.lower()))


VENDOR = Vendor(
    id="amazon-bedrock",
    name="Amazon Bedrock",
    api="bedrock-converse-stream",
    base_url="https://bedrock-runtime.us-east-1.amazonaws.com",
    keys=("AWS_BEARER_TOKEN_BEDROCK",),
    models=(
        make_thinking_model("us.anthropic.claude-sonnet-4-6", "Claude Sonnet 4.6 (Bedrock)"),
        make_thinking_model("us.anthropic.claude-opus-4-8", "Claude Opus 4.8 (Bedrock)", most=128_000),
        make_thinking_model("us.anthropic.claude-opus-4-7", "Claude Opus 4.7 (Bedrock)", most=128_000),
        make_thinking_model("us.anthropic.claude-opus-4-6-v1", "Claude Opus 4.6 (Bedrock)", most=128_000),
        make_thinking_model("us.anthropic.claude-haiku-4-5-20251001-v1:0", "Claude Haiku 4.5 (Bedrock)"),
        VendorModel("amazon.nova-pro-v1:0", "Nova Pro", vision=True, context_window=300_000, max_tokens=10_000),
    ),
    profile=resolve_bedrock_profile,
    shape=shape_bedrock_body,
    aliases=("bedrock", "aws-bedrock"),
    signing=SigningVariables(
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        ("AWS_REGION", "AWS_DEFAULT_REGION"),
        region="us-east-1",
    ),
    reasons=can_bedrock_reason,
)
