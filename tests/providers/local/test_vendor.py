"""The payload for models that read slowly, and the rows that make `local/…` known."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from palinurus.clock import SystemClock
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.messages import UserMessage
from palinurus.core.types.model import ModelRequest, ModelSpec, Prompt
from palinurus.core.types.tool import ToolSpec
from palinurus.providers import NATIVE_MODELS, VENDORS, load_row
from palinurus.providers.local.model import LocalModel
from palinurus.providers.local.weights import WEIGHTS, list_pulled, locate_weights
from palinurus.providers.vendors.local import VENDOR
from palinurus.providers.wire.completions import WIRE
from palinurus.tools.collect import make_builtin_tools


def body(*tools: ToolSpec, **changes: object) -> dict[str, object]:
    info = ModelSpec(ModelRef("local", "x"), "local", max_tokens=64)
    request = msgspec.structs.replace(ModelRequest(info, Prompt("p"), (UserMessage("hi"),), tools), **changes)
    return VENDOR.shape(WIRE.encode(request), request)


def test_the_answer_is_bounded_and_calm() -> None:
    made = body()
    assert made["max_tokens"] == 64
    assert made["temperature"] == 0.2
    assert made["return_progress"] is True
    assert "model" not in made
    assert body(max_tokens=5, temperature=0.9)["max_tokens"] == 5
    assert body(max_tokens=5, temperature=0.9)["temperature"] == 0.9


def test_tools_are_told_in_few_words() -> None:
    specs = tuple(t.spec for t in make_builtin_tools().values())
    short, long = body(*specs)["tools"], [msgspec.to_builtins(s) for s in specs]
    assert len(msgspec.json.encode(short)) < 0.6 * len(msgspec.json.encode(long))
    for tool, spec in zip(short, specs, strict=True):  # type: ignore[call-overload]
        told = tool["function"]
        assert told["name"] == spec.name
        kept, required = set(told["parameters"]["properties"]), set(spec.parameters.get("required", ()))
        assert required <= kept <= set(spec.parameters["properties"])
        assert len(kept) == (len(required) or 1)
        assert told["parameters"].get("required") == spec.parameters.get("required")
        assert "description" not in str(told["parameters"])


def test_such_models_are_told_the_rules_and_no_style() -> None:
    assert VENDOR.prompt is not None
    told = VENDOR.prompt(ModelSpec(ModelRef("local", "x"), "local"))
    assert len(told.prefix) < 250
    assert told.tool_call_style == told.interaction_style == told.execution_bias == ""


def test_the_tables_know_it() -> None:
    assert load_row(VENDORS, "local") is VENDOR
    assert isinstance(load_row(NATIVE_MODELS, "local")("", SystemClock()), LocalModel)
    assert {m.id for m in VENDOR.models} == set(WEIGHTS)


def test_which_files_are_there(tmp_path: Path) -> None:
    assert list_pulled(str(tmp_path)) == ()
    os.makedirs(tmp_path / "models")
    for name in ("b.gguf", "a.gguf", ".c.partial", ".d.gguf", "a.gguf.wrong"):
        (tmp_path / "models" / name).touch()
    assert list_pulled(str(tmp_path)) == ("a", "b")
    assert locate_weights(str(tmp_path), "a") == str(tmp_path / "models" / "a.gguf")
    assert locate_weights(str(tmp_path), "../a") is None
    assert locate_weights(str(tmp_path), "") is None
