"""Every parameter that OpenAI's own client knows: it reaches the model's request, or is refused by name, or is a wish
about a hosted service that changes no answer. One that comes with a newer client fails here until it is decided."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running
from flow.test_http import WEATHER, sdk, served
from later import LaterModule
from palinurus.testing.model import ScriptedModel, call_tools, say

openai = LaterModule("openai")
openai_chat, openai_responses = (
    LaterModule("openai.resources.chat.completions"),
    LaterModule("openai.resources.responses"),
)

FORM = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
CALL = {"self", "extra_headers", "extra_query", "extra_body", "timeout"}
# parameter -> a value, and what the model's request then holds
REACHED: dict[str, tuple[Any, Any]] = {
    "max_tokens": (50, lambda r: r.max_tokens == 50),
    "max_completion_tokens": (60, lambda r: r.max_tokens == 60),
    "temperature": (0.3, lambda r: r.temperature == 0.3),
    "top_p": (0.7, lambda r: r.top_p == 0.7),
    "stop": (["END"], lambda r: r.stop == ("END",)),
    "seed": (11, lambda r: r.seed == 11),
    "tools": ([{"type": "function", "function": WEATHER}], lambda r: "weather" in {tool.name for tool in r.tools}),
    "response_format": (
        {"type": "json_schema", "json_schema": {"name": "f", "schema": FORM}},
        lambda r: '"a"' in str(r.schema) + r.prompt.text + str(r.messages) or r.schema == FORM,
    ),
}
REFUSED: dict[str, Any] = {
    "n": 2,
    "logprobs": True,
    "top_logprobs": 3,
    "logit_bias": {"50256": -100},
    "presence_penalty": 0.5,
    "frequency_penalty": 0.5,
    "functions": [{"name": "f"}],
    "function_call": "auto",
    "modalities": ["text", "audio"],
    "audio": {"voice": "alloy", "format": "wav"},
    "prediction": {"type": "content", "content": "x"},
    "web_search_options": {},
    "tool_choice": "required",
    "verbosity": "low",
    "moderation": {"model": "omni-moderation-latest"},
}
ELSEWHERE = {"messages", "model", "stream", "stream_options", "user", "reasoning_effort", "parallel_tool_calls"}
WISHES = {
    *("metadata", "store", "service_tier", "safety_identifier"),
    *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
}
OTHERS = {"top_k": 20, "min_p": 0.1, "repetition_penalty": 1.2}  # of other servers with this API


def test_each_parameter_of_the_client_is_decided() -> None:
    known = set(inspect.signature(openai_chat.Completions.create).parameters) - CALL
    assert known == set(REACHED) | set(REFUSED) | ELSEWHERE | WISHES
    asked = set(inspect.signature(openai_responses.Responses.create).parameters) - CALL
    assert asked == {
        *("input", "model", "instructions", "stream", "previous_response_id", "conversation", "background", "user"),
        *("max_output_tokens", "temperature", "reasoning", "text", "tools", "top_p", "parallel_tool_calls", "include"),
        *("stream_options", "truncation", *WISHES),
        # refused by name
        *("tool_choice", "top_logprobs", "max_tool_calls", "access_programs", "context_management", "image"),
        *("moderation", "prompt"),
    }


async def test_what_is_taken_reaches_the_model_and_the_rest_is_refused(tmp_path: Path) -> None:
    model = ScriptedModel([say('{"a": 1}')], repeat=True)
    async with running(tmp_path / "h", model) as app, served(app) as gateway, sdk(gateway) as client:
        said: Any = [{"role": "user", "content": "hi"}]
        for name, (value, holds) in REACHED.items():
            await client.chat.completions.create(model="openclaw", messages=said, **{name: value})
            assert holds(model.requests[-1]), name
        count = len(model.requests)
        for name, value in REFUSED.items():
            with pytest.raises(openai.BadRequestError) as refused:
                await client.chat.completions.create(model="openclaw", messages=said, **{name: value})
            assert refused.value.param == name and refused.value.code == "unsupported_parameter"
        for name, value in OTHERS.items():
            with pytest.raises(openai.BadRequestError, match=name):
                await client.chat.completions.create(model="openclaw", messages=said, extra_body={name: value})
        for odd in ({"text": {"verbosity": "low"}}, {"max_tool_calls": 1}, {"tool_choice": "required"}):
            with pytest.raises(openai.BadRequestError):
                await client.responses.create(model="openclaw", input="hi", **odd)
        assert len(model.requests) == count  # nothing that was refused was asked


async def test_one_call_at_a_time_where_the_client_wants_it(tmp_path: Path) -> None:
    both = call_tools(("weather", {"city": "Rome"}), ("weather", {"city": "Oslo"}))
    model = ScriptedModel([both, both, say("Done.")])
    async with running(tmp_path / "h", model) as app, served(app) as gateway, sdk(gateway) as client:
        said: Any = [{"role": "user", "content": "weather?"}]
        tools: Any = [{"type": "function", "function": WEATHER}]
        asked = {"model": "openclaw", "messages": said, "tools": tools}
        first = (await client.chat.completions.create(**asked, parallel_tool_calls=False)).choices[0].message
        (call,) = first.tool_calls
        assert json.loads(call.function.arguments) == {"city": "Rome"}
        assert len((await client.chat.completions.create(**asked)).choices[0].message.tool_calls) == 2
        said += [first.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "sunny"}]
        assert (await client.chat.completions.create(**asked)).choices[0].message.content == "Done."
