"""Does a model call tools, and how? What a probe found, remembered in `models/capabilities.json`."""

from __future__ import annotations

import os
from typing import Any, Literal, TypeAlias

import msgspec

from palinurus.core.types.model import ModelSpec
from palinurus.files import write_whole_file
from palinurus.providers.local.weights import locate_models

Calls: TypeAlias = Literal["structured", "text", "none", "unknown"]

FILE = "capabilities.json"
_MOST = 1_000_000


class ModelCapabilities(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a probe found. `unknown`: the model could not be asked; `problem` says why."""

    calls: Calls = "unknown"
    exact: bool = False  # the argument was the one asked for
    asked: int = 0  # wall clock, ms
    problem: str = ""


def load_capabilities(home: str) -> dict[str, ModelCapabilities]:
    """What is known, by model ref. A file that cannot be read counts as empty."""
    try:
        with open(os.path.join(locate_models(home), FILE), "rb") as stream:
            return msgspec.json.decode(stream.read(_MOST), type=dict[str, ModelCapabilities])
    except (OSError, msgspec.DecodeError, ValueError):
        return {}


def save_capabilities(home: str, info: ModelSpec, found: ModelCapabilities) -> None:
    """Keep it: whole or not at all. Raises OSError."""
    os.makedirs(locate_models(home), mode=0o700, exist_ok=True)
    known: dict[str, Any] = {**load_capabilities(home), str(info.ref): found}
    data = msgspec.json.format(msgspec.json.encode(known), indent=2) + b"\n"
    write_whole_file(os.path.join(locate_models(home), FILE), data, follow=True)


def writes_calls(info: ModelSpec, local: bool, known: ModelCapabilities | None = None) -> bool:
    """May this model's text hold calls? compat.textToolCalls decides; else a probe; else small local models may."""
    told = info.compat.get("textToolCalls")
    if isinstance(told, bool):
        return told
    if known is not None and known.calls in ("structured", "text"):
        return known.calls == "text"
    return info.api in ("local", "ollama") or (info.api == "openai-completions" and local)
