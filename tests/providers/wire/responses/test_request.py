"""Bodies of the Responses API: history rules, tools, the Codex variant, the SDK's own types as judge."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pydantic import TypeAdapter

from later import LaterModule
from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from palinurus.core.types.model import Prompt
from palinurus.providers.wire.history import NO_IMAGE
from palinurus.providers.wire.responses import CODEX, WIRE, build_history, make_call_id, parse_text_signature
from providers.kit import READ, info, request

types = LaterModule("openai.types.responses")

API = "openai-responses"
REASONING = msgspec.json.encode(
    {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "opaque"}
).decode()


def model(**changes: Any) -> Any:
    return info(API, reasoning=True, **changes)


def said(*blocks: Any, api: str = API, name: str = "m") -> AssistantMessage:
    return AssistantMessage(blocks, api, "p", name)


def test_the_body() -> None:
    asked = request(UserMessage("hi"), model=model(), tools=(READ,), max_tokens=5, session="s" * 80, tool_choice="any")
    body = WIRE.encode(asked)
    assert body["input"][0] == {"role": "developer", "content": "You are a test.\n\nNow."}
    assert body["input"][1] == {"role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    assert (body["model"], body["stream"], body["store"]) == ("m", True, False)
    assert body["max_output_tokens"] == 16
    assert body["prompt_cache_key"] == "s" * 64
    assert body["tools"][0]["name"] == "read" and body["tools"][0]["strict"] is False
    assert body["tool_choice"] == "required"
    assert WIRE.path(asked) == "/responses"


def test_system_role_and_temperature_for_models_that_do_not_reason() -> None:
    body = WIRE.encode(request(model=info(API), temperature=0.3))
    assert body["input"][0]["role"] == "system"
    assert body["temperature"] == 0.3
    assert "temperature" not in WIRE.encode(request(model=model(), temperature=0.3))
    plain = model(compat={"supportsDeveloperRole": False})
    assert WIRE.encode(request(model=plain))["input"][0]["role"] == "system"


def test_the_codex_variant() -> None:
    asked = request(model=model(), tools=(READ,), max_tokens=50, temperature=1)
    body = CODEX.encode(asked)
    assert body["instructions"] == "You are a test.\n\nNow."
    assert [i["role"] for i in body["input"]] == ["user"]
    assert body["store"] is False and body["tool_choice"] == "auto" and body["parallel_tool_calls"] is True
    assert "max_output_tokens" not in body and "temperature" not in body
    assert CODEX.path(asked) == "/codex/responses"
    assert CODEX.encode(request(model=model(), prompt=Prompt("")))["instructions"]


@pytest.mark.parametrize("choice", [{"type": "function", "function": {"name": "read"}}, {"name": "read"}])
def test_a_pinned_tool(choice: dict[str, Any]) -> None:
    body = WIRE.encode(request(model=model(), tools=(READ,), tool_choice=choice))
    assert body["tool_choice"] == {"type": "function", "name": "read"}


def test_reasoning_goes_back_only_to_its_route() -> None:
    blocks = (ThinkingBlock("t", REASONING), TextBlock("a", '{"v":1,"id":"msg_1"}'), ToolCall("c|fc_1", "read", {}))
    same = build_history(request(said(*blocks), model=model()))
    assert [i["type"] for i in same] == ["reasoning", "message", "function_call"]
    assert (same[1]["id"], same[2]["id"]) == ("msg_1", "fc_1")
    for other in (said(*blocks, api="anthropic-messages"), said(*blocks, name="another")):
        items = build_history(request(other, model=model()))
        assert [i["type"] for i in items] == ["message", "function_call"]
        assert all("id" not in i for i in items)


@pytest.mark.parametrize(
    "signature",
    [None, "", "EqRk-anthropic", "{}", "[1]", '{"type":"reasoning","id":"rs"}', '{"type":"x","encrypted_content":"e"}'],
)
def test_reasoning_the_provider_could_not_read_is_left_out(signature: str | None) -> None:
    items = build_history(request(said(ThinkingBlock("t", signature), TextBlock("a")), model=model()))
    assert [i["type"] for i in items] == ["message"]


def test_reasoning_that_led_to_nothing_is_left_out() -> None:
    (only,) = build_history(request(UserMessage("q"), said(ThinkingBlock("t", REASONING)), model=model()))
    assert only["role"] == "user"
    items = build_history(request(said(TextBlock("a"), ThinkingBlock("t", REASONING)), model=model()))
    assert [i["type"] for i in items] == ["message"]


@pytest.mark.parametrize(
    ("raw", "sent"),
    [("call_1|fc_1", "call_1"), ("call_1", "call_1"), ("toolu_01-x", "toolu_01-x")],
)
def test_call_ids_that_fit_stay(raw: str, sent: str) -> None:
    assert make_call_id(raw) == sent


@pytest.mark.parametrize("raw", ["x" * 200, "spaced id", "ünïcode", "|fc_only", "a:b"])
def test_call_ids_that_do_not_fit_are_made_to_and_stay_paired(raw: str) -> None:
    call = said(ToolCall(raw, "read", {"path": "ü"}))
    items = build_history(request(call, ToolResult(raw, "read", (TextBlock("out"),)), model=model()))
    assert items[0]["call_id"] == items[1]["call_id"]
    assert 0 < len(items[0]["call_id"]) <= 64
    assert set(items[0]["call_id"]) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def test_images() -> None:
    shot = ImageBlock("QUJD", "image/png")
    user = UserMessage((TextBlock("see"), shot))
    result = ToolResult("c", "read", (TextBlock("file"), shot))
    seen = build_history(request(user, result, model=model(vision=True)))
    assert seen[0]["content"][1]["image_url"] == "data:image/png;base64,QUJD"
    assert seen[1]["output"][1]["type"] == "input_image"
    blind = build_history(request(user, result, model=model()))
    assert blind[0]["content"][1] == {"type": "input_text", "text": NO_IMAGE}
    assert blind[1]["output"][1] == {"type": "input_text", "text": NO_IMAGE}


def test_an_empty_result_says_so() -> None:
    assert build_history(request(ToolResult("c", "read", ()), model=model()))[0]["output"] == "(no output)"


def test_the_sdks_types_accept_the_input() -> None:
    messages = (
        UserMessage((TextBlock("q"), ImageBlock("QUJD", "image/png"))),
        said(ThinkingBlock("t", REASONING), TextBlock("a", "msg_7"), ToolCall("c1|fc_1", "read", {"path": "x"})),
        ToolResult("c1|fc_1", "read", (TextBlock("out"), ImageBlock("QUJD", "image/png"))),
        UserMessage("and?"),
    )
    items = WIRE.encode(request(*messages, model=model(vision=True)))["input"]
    TypeAdapter(types.ResponseInputParam).validate_python(items)


@pytest.mark.parametrize(
    ("signature", "ident", "phase"),
    [
        ("msg_1", "msg_1", ""),
        ('{"v":1,"id":"msg_2","phase":"final_answer"}', "msg_2", "final_answer"),
        ('{"id":7}', "", ""),
        ("{broken", "", ""),
        ("other", "", ""),
        (None, "", ""),
    ],
)
def test_text_signatures(signature: str | None, ident: str, phase: str) -> None:
    assert parse_text_signature(signature) == (ident, phase)
