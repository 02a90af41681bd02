"""Does a model call tools? Asked once, kept on disk."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from palinurus.core.types.model import ModelSpec
from palinurus.providers.local.capabilities import (
    ModelCapabilities,
    choose_call_form,
    load_capabilities,
    save_capabilities,
)
from palinurus.providers.local.probe import probe_tool_calls
from palinurus.testing.model import ScriptedModel, call_tools, fail, make_model_info, say

TEXT = '```json\n{"name": "open_box", "arguments": {"code": 4711}}\n```'


@pytest.mark.parametrize(
    ("step", "found"),
    [
        (call_tools(("open_box", {"code": "4711"})), ModelCapabilities("structured", True, 5)),
        (call_tools(("open_box", {"code": "1"})), ModelCapabilities("structured", False, 5)),
        (say(TEXT), ModelCapabilities("text", True, 5)),
        (say("You should use open_box(4711)."), ModelCapabilities("none", False, 5)),
        (call_tools(("other", {})), ModelCapabilities("none", False, 5)),
        (fail("network", "nobody is there"), ModelCapabilities("unknown", False, 5, "nobody is there")),
        (
            fail("format", "this model does not support tools"),
            ModelCapabilities("none", False, 5, "this model does not support tools"),
        ),
    ],
)
async def test_what_a_model_does(step: object, found: ModelCapabilities) -> None:
    model = ScriptedModel([step])  # type: ignore[list-item]
    assert await probe_tool_calls(model, msgspec.structs.replace(make_model_info(), tools=False), now=5) == found
    assert [t.name for t in model.requests[0].tools] == ["open_box"]
    assert model.steps_left == 0


def test_it_is_remembered(tmp_path: Path) -> None:
    assert load_capabilities(str(tmp_path)) == {}
    save_capabilities(str(tmp_path), make_model_info(), ModelCapabilities("text", True, 1))
    save_capabilities(str(tmp_path), make_model_info(model="two"), ModelCapabilities("none"))
    assert load_capabilities(str(tmp_path)) == {
        "fake/model": ModelCapabilities("text", True, 1),
        "fake/two": ModelCapabilities("none"),
    }
    assert (tmp_path / "models" / "capabilities.json").stat().st_mode & 0o777 == 0o600
    (tmp_path / "models" / "capabilities.json").write_text("{torn")
    assert load_capabilities(str(tmp_path)) == {}


def test_whose_text_is_read() -> None:
    def model(api: str, **compat: object) -> ModelSpec:
        return msgspec.structs.replace(make_model_info(api), compat=compat)

    form = choose_call_form
    assert form(model("local"), False) == form(model("ollama"), False) == "text"
    assert (form(model("openai-completions"), True), form(model("openai-completions"), False)) == ("text", "native")
    assert form(model("anthropic-messages"), True) == "native"
    assert form(model("openai-completions", textToolCalls=True), False) == "text"
    assert form(model("local", textToolCalls=False), True) == "native"
    assert form(model("ollama"), True, ModelCapabilities("structured")) == "native"
    assert form(model("anthropic-messages"), False, ModelCapabilities("text")) == "text"
    assert form(model("anthropic-messages", calls="json"), False) == "json"


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("qwen2.5:1.5b", "json"),
        ("llama3.2:3b", "json"),
        ("smollm2:135m", "json"),
        ("Qwen2.5-0.5B-Instruct", "json"),
        ("qwen3:8b", "text"),
        ("mixtral-8x7b", "text"),
        ("llama-4-scout-17b-16e", "text"),
        ("gpt-oss:20b", "text"),
        ("mistral", "text"),
    ],
)
def test_small_models_write_actions(name: str, form: str) -> None:
    assert choose_call_form(make_model_info("ollama", model=name), True) == form
    assert choose_call_form(make_model_info("openai-completions", model=name), False) == "native"
