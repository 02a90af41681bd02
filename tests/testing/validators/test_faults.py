"""Each rule of each validator fires: a good body, broken in one way, is refused for that reason."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from palinurus.testing.validators import check_request
from palinurus.testing.validators.turns import check_gemini_signatures

SCHEMA = {"type": "object"}
GOOD: dict[str, dict[str, Any]] = {
    "anthropic-messages": {
        "model": "m",
        "max_tokens": 4096,
        "tools": [{"name": "read", "input_schema": SCHEMA}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "q"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "", "signature": "s"},
                    {"type": "tool_use", "id": "t1", "name": "read", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "r"}]},
                    {"type": "text", "text": "more"},
                ],
            },
        ],
    },
    "openai-completions": {
        "tools": [{"type": "function", "function": {"name": "read", "parameters": SCHEMA}}],
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "q"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "r"},
        ],
    },
    "openai-responses": {
        "tools": [{"type": "function", "name": "read", "parameters": SCHEMA}],
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "q"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"},
            {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "r"},
        ],
    },
    "google-generative-ai": {
        "tools": [{"functionDeclarations": [{"name": "read", "parametersJsonSchema": SCHEMA}]}],
        "contents": [
            {"role": "user", "parts": [{"text": "q"}]},
            {
                "role": "model",
                "parts": [{"functionCall": {"id": "a", "name": "read", "args": {}}, "thoughtSignature": "AAAA"}],
            },
            {"role": "user", "parts": [{"functionResponse": {"id": "a", "name": "read", "response": {"output": "r"}}}]},
        ],
    },
    "ollama": {
        "tools": [{"type": "function", "function": {"name": "read", "parameters": SCHEMA}}],
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "q"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"function": {"name": "read", "arguments": {}}}],
            },
            {"role": "tool", "content": "r", "tool_name": "read"},
        ],
    },
    "bedrock-converse-stream": {
        "toolConfig": {"tools": [{"toolSpec": {"name": "read", "description": "d", "inputSchema": {"json": SCHEMA}}}]},
        "messages": [
            {"role": "user", "content": [{"text": "q"}]},
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "t", "signature": "s"}}},
                    {"toolUse": {"toolUseId": "t1", "name": "read", "input": {}}},
                ],
            },
            {
                "role": "user",
                "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": "r"}], "status": "success"}}],
            },
        ],
    },
}


def at(*path: Any, put: Any) -> Callable[[dict[str, Any]], None]:
    def change(body: dict[str, Any]) -> None:
        node: Any = body
        for step in path[:-1]:
            node = node[step]
        if put is GONE:
            del node[path[-1]]
        else:
            node[path[-1]] = put

    return change


GONE = object()
M = "messages"
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml", "data": "aGk="}}
BROKEN: list[tuple[str, Callable[[dict[str, Any]], None], str]] = [
    ("anthropic-messages", at(M, 0, "content", 0, "text", put=" \n"), "non-whitespace"),
    ("anthropic-messages", at(M, 0, "content", put=[]), "non-empty content"),
    ("anthropic-messages", at(M, 0, "role", put="assistant"), "alternate"),
    ("anthropic-messages", at(M, 0, "content", 0, put=IMAGE), "media type"),
    ("anthropic-messages", at(M, 1, "content", 0, "signature", put=""), "signature"),
    ("anthropic-messages", at(M, 1, "content", 1, "id", put="call|1"), "does not match"),
    ("anthropic-messages", at(M, 1, "content", 1, "name", put="a b"), "does not match"),
    ("anthropic-messages", at(M, 1, "content", 1, "input", put="{}"), "dictionary"),
    ("anthropic-messages", at(M, 2, "content", 0, put=GONE), "immediately after"),
    ("anthropic-messages", at(M, 2, "content", 0, "tool_use_id", put="t2"), "immediately after"),
    ("anthropic-messages", at(M, 2, put=GONE), "without tool_result"),
    ("anthropic-messages", at(M, 2, "content", 0, "content", put=[{"type": "text", "text": ""}]), "non-empty"),
    ("anthropic-messages", at("tools", put=[]), "must define tools"),
    ("anthropic-messages", at("tools", 0, "input_schema", put={}), "type object"),
    ("anthropic-messages", at("max_tokens", put=0), "max_tokens"),
    ("anthropic-messages", at("thinking", put={"type": "enabled", "budget_tokens": 5000}), "budget_tokens"),
    ("openai-completions", at(M, 2, "tool_calls", 0, "id", put="x" * 41), "does not match"),
    ("openai-completions", at(M, 2, "tool_calls", 0, "function", "name", put="a.b"), "does not match"),
    ("openai-completions", at(M, 2, "tool_calls", 0, "function", "arguments", put="{"), "not JSON"),
    ("openai-completions", at(M, 2, "tool_calls", put=[]), "too short"),
    ("openai-completions", at(M, 2, "tool_calls", put=GONE), "content is required"),
    ("openai-completions", at(M, 3, "tool_call_id", put="c2"), "must follow"),
    ("openai-completions", at(M, 3, put=GONE), "without tool messages"),
    ("openai-completions", at(M, 3, put={"role": "user", "content": "x"}), "must be followed"),
    ("openai-completions", at(M, 1, "role", put="system"), "first message"),
    ("openai-completions", at(M, 1, "content", put=[{"type": "image_url", "image_url": {"url": "x"}}]), "image"),
    ("openai-responses", at("input", 3, put=GONE), "no tool output found"),
    ("openai-responses", at("input", 2, put=GONE), "no tool call found"),
    ("openai-responses", at("input", 1, put=GONE), "required reasoning item"),
    ("openai-responses", at("input", 2, "id", put="call_1"), "begins with 'fc'"),
    ("openai-responses", at("input", 1, "encrypted_content", put=""), "encrypted_content"),
    ("openai-responses", at("input", 2, "call_id", put="x" * 65), "does not match"),
    ("openai-responses", at("input", 3, put={"role": "user", "content": "x"}), "no tool output"),
    ("openai-responses", at("max_output_tokens", put=4), "at least 16"),
    ("google-generative-ai", at("contents", 2, "parts", put=[{"text": "x"}]), "number of function response"),
    ("google-generative-ai", at("contents", 2, "parts", 0, "functionResponse", "name", put="ls"), "do not answer"),
    ("google-generative-ai", at("contents", 1, "parts", 0, "thoughtSignature", put="not base64!"), "TYPE_BYTES"),
    ("google-generative-ai", at("contents", 0, "role", put="model"), "alternate"),
    ("google-generative-ai", at("contents", 0, "parts", 0, "text", put=""), "empty text"),
    ("google-generative-ai", at("contents", 0, "parts", put=[]), "at least one parts"),
    ("google-generative-ai", at("contents", 1, "parts", 0, "functionCall", "name", put="1st"), "does not match"),
    (
        "google-generative-ai",
        at("generationConfig", put={"thinkingConfig": {"thinkingLevel": "LOW", "thinkingBudget": 1}}),
        "exclude each other",
    ),
    ("ollama", at(M, 2, "tool_calls", 0, "function", "arguments", put="{}"), "must be an object"),
    ("ollama", at(M, 3, "tool_name", put="ls"), "nobody asked"),
    ("ollama", at(M, 3, put=GONE), "missing at the end"),
    ("ollama", at(M, 1, "content", put=None), "content must be text"),
    ("ollama", at(M, 1, "images", put=["?"]), "not base64"),
    ("bedrock-converse-stream", at(M, 0, "content", 0, "text", put=" "), "blank"),
    ("bedrock-converse-stream", at(M, 1, "content", 1, "toolUse", "toolUseId", put="a|b"), "does not match"),
    ("bedrock-converse-stream", at(M, 2, "content", put=[{"text": "x"}]), "expected toolResult"),
    ("bedrock-converse-stream", at(M, 2, "content", 0, "toolResult", "content", put=[]), "needs content"),
    ("bedrock-converse-stream", at("toolConfig", put=GONE), "toolConfig must be defined"),
    ("bedrock-converse-stream", at(M, 1, "content", 0, put={"text": "x", "image": 1}), "not a block"),
    (
        "bedrock-converse-stream",
        at(M, 1, "content", 0, put={"reasoningContent": {"reasoningText": {"text": "t"}}}),
        "text and signature",
    ),
]


@pytest.mark.parametrize("api", GOOD)
def test_a_good_body_is_accepted(api: str) -> None:
    assert check_request(api, GOOD[api]) == []


@pytest.mark.parametrize(("api", "change", "words"), BROKEN, ids=[f"{a}-{w}-{n}" for n, (a, _, w) in enumerate(BROKEN)])
def test_one_fault_is_named(api: str, change: Callable[[dict[str, Any]], None], words: str) -> None:
    body = copy.deepcopy(GOOD[api])
    change(body)
    assert any(words in fault for fault in check_request(api, body)), check_request(api, body)


def test_errors_hold_text_only() -> None:
    body = copy.deepcopy(GOOD["anthropic-messages"])
    result = body[M][2]["content"][0]
    result.update(is_error=True, content=[])
    assert any("cannot be empty" in fault for fault in check_request("anthropic-messages", body))
    result["content"] = [{**IMAGE, "source": {**IMAGE["source"], "media_type": "image/png"}}]  # type: ignore[dict-item]
    assert any("must be text" in fault for fault in check_request("anthropic-messages", body))


def test_a_budget_needs_thoughts_before_the_calls() -> None:
    body = copy.deepcopy(GOOD["anthropic-messages"])
    body["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    assert check_request("anthropic-messages", body) == []
    del body[M][1]["content"][0]
    assert any("must start with a thinking block" in fault for fault in check_request("anthropic-messages", body))


def test_what_single_vendors_add() -> None:
    body = copy.deepcopy(GOOD["openai-completions"])
    assert any("nine letters" in fault for fault in check_request("openai-completions", body, "mistral"))
    body["thinking"] = {"type": "enabled"}
    assert any("reasoning_content" in fault for fault in check_request("openai-completions", body, "deepseek"))
    body["tool_choice"] = "required"
    assert any("incompatible" in fault for fault in check_request("openai-completions", body, "moonshot"))
    codex = {**GOOD["openai-responses"], "store": False, "stream": True, "temperature": 1}
    assert check_request("openai-codex-responses", codex) == [
        "instructions are required",
        "unsupported parameter: temperature",
    ]


def test_gemini_3_wants_signatures_in_the_turn_that_goes_on() -> None:
    body = copy.deepcopy(GOOD["google-generative-ai"])
    assert check_gemini_signatures(body) == []
    del body["contents"][1]["parts"][0]["thoughtSignature"]
    assert check_gemini_signatures(body) == ["function call read is missing a thought_signature"]
    body["contents"] += [{"role": "model", "parts": [{"text": "a"}]}, {"role": "user", "parts": [{"text": "q"}]}]
    assert check_gemini_signatures(body) == []
