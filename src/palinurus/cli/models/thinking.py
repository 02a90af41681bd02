"""`pal models thinking REF`: which levels a model offers, which is its default, and what each one sends.

Nothing is sent. The fields are those of the body a live call with that level has, found by building it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import msgspec

from palinurus.agent.plan.levels import ask_level
from palinurus.cli.args import CommandParser, load_settings, to_json
from palinurus.config.settings import AgentSettings
from palinurus.core.levels import resolve, spellings, thinking
from palinurus.core.levels.resolve import ThinkingDecision
from palinurus.core.types.messages import UserMessage
from palinurus.core.types.model import ModelFailure, ModelRequest, ModelSpec, Prompt
from palinurus.core.types.tool import ToolSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor
from palinurus.errors import BadRequest, NotFound
from palinurus.providers import FALLBACK_VENDORS, NATIVE_MODELS, PROGRAM_API, WIRES, load_row
from palinurus.providers.catalog import Catalog
from palinurus.providers.probe import probe_ollama
from palinurus.providers.wire import ModelWire, build_vendor_headers, compose_body

# A call as an agent makes it: with a prompt, a message and a tool. None of the three is shown.
_TOOL = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
_SILENT = "the provider takes no instruction for this level; the model decides"
_UNSHOWN = frozenset({"messages", "system", "input", "contents", "tools", "instructions", "toolConfig"})


def run_models_thinking(argv: list[str]) -> int:
    """Print the table. Returns 0; raises NotFound, BadRequest, ConfigError."""
    parser = CommandParser("models thinking", "Thinking levels of a model, and what each of them sends.")
    parser.add_argument("ref", nargs="?", default="", help="provider/model, id or alias (default: the default model)")
    parser.add_argument("--json", action="store_true", help="for programs")
    asked = parser.parse_args(argv)
    catalog = Catalog(load_settings(os.environ).settings, os.environ, ollama=asyncio.run(probe_ollama()))
    told = describe_thinking(catalog, asked.ref)
    if asked.json:
        sys.stdout.write(to_json(told, pretty=True) + "\n")
    else:
        sys.stdout.write(format_thinking(told) + "\n")
    return 0


def describe_thinking(catalog: Catalog, ref: str) -> dict[str, Any]:
    """All there is to say about one model's thinking. Raises NotFound, BadRequest."""
    agent = catalog.settings.agents[catalog.settings.default_agent]
    found = catalog.find(ref, agent) if ref else catalog.default(agent)
    if isinstance(found, ModelFailure):
        raise NotFound(found.message.partition("; `pal models`")[0], fix="`pal models` lists what can be used")
    vendor = catalog.rules(found.ref.provider)
    offered = thinking.find_thinking_profile(found, vendor)
    decision = _decided(found, vendor, agent)
    return {
        "model": str(found.ref),
        "name": found.name,
        "api": found.api,
        "reasoning": found.reasoning,
        "default": thinking.choose_default_level(found, offered),
        "level": decision.level,
        "reason": decision.reason,
        "levels": list_level_payloads(found, vendor, offered),
        "others": {
            level: _other(level, found, offered)
            for level in spellings.THINKING_LEVELS
            if level not in thinking.list_level_ids(offered)
        },
    }


def _decided(model: ModelSpec, vendor: Vendor, agent: AgentSettings) -> ThinkingDecision:
    """What a new session of the default agent gets."""
    return resolve.resolve_thinking(model, ask_level(agent, model), vendor)


def list_level_payloads(model: ModelSpec, vendor: Vendor, offered: ThinkingProfile) -> list[dict[str, Any]]:
    """Each level with its label and the fields it adds to a request. Raises BadRequest for an api nobody speaks."""
    wire: ModelWire | None = load_row(WIRES, model.api)
    if wire is None and model.api not in (*NATIVE_MODELS, PROGRAM_API):
        raise BadRequest(f"{model.ref} has the unknown api {model.api!r}", fix=f"use one of {', '.join(WIRES)}")
    default = thinking.choose_default_level(model, offered)
    sent = {level.id: _sent(model, level.id, wire, vendor) if wire else ({}, {}) for level in offered.levels}
    plain: dict[str, Any] = {}
    if wire is not None and not offered.keep:
        still = msgspec.structs.replace(model, reasoning=False)
        plain = _sent(still, "off", wire, vendor)[0]
    same = {k for k, v in plain.items() if all(body.get(k) == v for body, _ in sent.values())}
    headers = [h for _, h in sent.values()]
    out: list[dict[str, Any]] = []
    for level in offered.levels:
        body, extra = sent[level.id]
        row: dict[str, Any] = {
            "id": level.id,
            "label": level.display_name,
            "default": level.id == default,
            "sends": {k: v for k, v in body.items() if k not in same},
        }
        own = {k: v for k, v in extra.items() if any(h.get(k) != v for h in headers)}
        if own:
            row["headers"] = own
        if level.id != "off" and sent[level.id] == sent.get("off", ({}, {})):
            row["note"] = _SILENT
        out.append(row)
    return out


def _sent(model: ModelSpec, level: str, wire: ModelWire, vendor: Vendor) -> tuple[dict[str, Any], dict[str, str]]:
    """What the vendor makes of a body because of this level, and the vendor's headers."""
    request = ModelRequest(model, Prompt("prompt"), (UserMessage("hello"),), (_TOOL,), level=level)
    common = load_row(FALLBACK_VENDORS, "custom")
    before, after = wire.encode(request), compose_body(request, wire, vendor, common)
    headers = build_vendor_headers(request, vendor, common)
    return {k: v for k, v in diff_bodies(before, after).items() if k not in _UNSHOWN}, headers


def diff_bodies(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """What `after` has that `before` has not, or has otherwise; objects are compared inside."""
    out: dict[str, Any] = {}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            inner = diff_bodies(old, value)
            if inner:
                out[key] = inner
        elif key not in before or value != old:
            out[key] = value
    return out


def _other(level: str, model: ModelSpec, offered: ThinkingProfile) -> dict[str, str]:
    got = thinking.remap_level(level, offered)
    return {"becomes": got, "reason": thinking.explain_unsupported_level(level, model, offered)}


def format_thinking(told: dict[str, Any]) -> str:
    """The table for people."""
    lines = [f"{told['model']}  {told['name']}  ({told['api']})"]
    lines.append(f"default: {told['level']} ({told['reason']})")
    wide = max(len(row["label"]) for row in told["levels"])
    for row in told["levels"]:
        mark = "*" if row["default"] else " "
        sends = str(msgspec.json.encode(row["sends"]), "utf-8") if row["sends"] else "nothing"
        more = f"  headers {str(msgspec.json.encode(row['headers']), 'utf-8')}" if "headers" in row else ""
        note = f"  ({row['note']})" if "note" in row else ""
        lines.append(f"{mark} {row['label'].ljust(wide)}  {sends}{more}{note}")
    moved = [f"{level} -> {other['becomes']}" for level, other in told["others"].items()]
    if moved:
        lines.append(f"not offered, but stored for another model: {', '.join(moved)}")
    return "\n".join(lines)
