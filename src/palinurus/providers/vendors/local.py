"""Models that run inside the program's own runtime on this machine, from files `pal models pull` fetched.

They are small and read slowly, so the payload is kept short: a tool is told by its first sentence and the arguments
it must have. Told of others, they fill in everything they see; those they think of themselves are still understood.
"""

from __future__ import annotations

from typing import Any

from palinurus.core.levels import thinking
from palinurus.core.prompt.facts import PromptContribution
from palinurus.core.types.model import ModelRequest, ModelSpec, TokenPrice
from palinurus.core.types.vendor import Vendor, VendorModel

# compat: promptMode and toolNames are for whoever makes the prompt; calls for whoever writes and reads them.
_SHORT: dict[str, Any] = {
    "promptMode": "none",
    "toolNames": ["read", "write", "edit", "ls", "exec", "grep"],
    "calls": "json",
}
_RULES = "You are a helpful assistant. Answer briefly. Paths are relative to the workspace."
_SENTENCE = 80  # characters of a tool's description; arguments have none
_KEPT = ("type", "enum", "items", "properties", "required", "anyOf", "oneOf", "const")


def contribute_prompt(model: ModelSpec) -> PromptContribution:
    """What such a model needs to hear, and nothing about style."""
    return PromptContribution(prefix=_RULES, interaction_style="", tool_call_style="", execution_bias="", always=True)


def shape_local_body(body: dict[str, Any], request: ModelRequest) -> dict[str, Any]:
    """The body for the runtime: bounded answer, a calm hand, reading progress, short tools."""
    model = request.model
    out = {"temperature": 0.2, "max_tokens": model.max_tokens, **body, "return_progress": True, "cache_prompt": True}
    out.pop("model", None)
    tools = out.get("tools")
    if isinstance(tools, list):
        out["tools"] = [_short(tool) for tool in tools]
    return out


def _short(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    schema = function.get("parameters")
    told = {
        "name": function["name"],
        "description": _first(str(function.get("description") or ""), _SENTENCE),
        "parameters": _slim(_needed(schema) if isinstance(schema, dict) else {}, 0),
    }
    return {"type": "function", "function": told}


def _needed(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its required arguments only; the first one where none is required."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return schema
    kept = schema.get("required") or list(properties)[:1]
    return {**schema, "properties": {k: v for k, v in properties.items() if k in kept}}


def _slim(schema: Any, depth: int) -> Any:
    if not isinstance(schema, dict) or depth > 8:
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "properties" and isinstance(value, dict):
            out[key] = {name: _slim(inner, depth + 1) for name, inner in value.items()}
        elif key in _KEPT:
            out[key] = _slim(value, depth + 1)
    return out


def _first(text: str, most: int) -> str:
    """The first sentence, cut at a word."""
    text = text.split(". ")[0].split("\n")[0].rstrip(".")
    return text if len(text) <= most else text[:most].rpartition(" ")[0] or text[:most]


VENDOR = Vendor(
    id="local",
    name="On this machine",
    api="local",
    base_url="",
    keyless=True,
    models=(
        VendorModel(
            "qwen2.5-coder-1.5b",
            "Qwen2.5 Coder 1.5B Instruct (Q4_K_M)",
            context_window=8192,  # it can 32768; more costs memory and, on two cores, minutes
            max_tokens=1024,
            price=TokenPrice(),
            compat=_SHORT,
        ),
        VendorModel(
            "smollm2-135m",
            "SmolLM2 135M Instruct (Q4_1)",
            tools=False,
            context_window=4096,
            max_tokens=512,
            price=TokenPrice(),
            compat=_SHORT,
        ),
    ),
    profile=lambda model: thinking.OFF_PROFILE,
    shape=shape_local_body,
    prompt=contribute_prompt,
)


# The model inside the program: scripted, offline, no key.
BUILTIN = Vendor(
    id="builtin",
    name="Built in",
    api="builtin",
    base_url="",
    keyless=True,
    models=(VendorModel("demo", "Demo (scripted)", price=TokenPrice()),),
)
