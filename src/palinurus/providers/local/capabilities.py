"""Does a model call tools, and how? What a probe found, remembered in `models/capabilities.json`."""

from __future__ import annotations

import os
from typing import Any, Literal, TypeAlias, cast

import msgspec

from palinurus.core.types.model import ModelSpec
from palinurus.files import write_whole_file
from palinurus.patterns import compile_late
from palinurus.providers.local.weights import locate_models

Calls: TypeAlias = Literal["structured", "text", "none", "unknown"]
# native: the provider's own calls; text: also what is written as a call; json: one action a turn (core/calls/actions)
CallForm: TypeAlias = Literal["native", "text", "json"]
SMALL = 4.0  # billions of parameters from which on a model can be trusted with tools
_SIZE = compile_late(r"(?<![\w.])(\d+(?:\.\d+)?)(b|m)(?![a-z])")

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


def choose_call_form(info: ModelSpec, local: bool, known: ModelCapabilities | None = None) -> CallForm:
    """How this model asks for tools. `compat.calls` decides, then `compat.textToolCalls`, then what a probe found;
    else models that run here may write calls as text, and those below four billion parameters write actions."""
    told, texts = info.compat.get("calls"), info.compat.get("textToolCalls")
    if told in ("native", "text", "json"):
        return cast(CallForm, told)
    if isinstance(texts, bool):
        return "text" if texts else "native"
    if known is not None and known.calls in ("structured", "text"):
        return "text" if known.calls == "text" else "native"
    if info.api not in ("local", "ollama") and not (info.api == "openai-completions" and local):
        return "native"
    size = _SIZE.search(info.ref.model.lower())
    billions = float(size[1]) / (1000 if size[2] == "m" else 1) if size else SMALL
    return "json" if billions < SMALL else "text"
