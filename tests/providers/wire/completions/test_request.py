"""Requests as Chat Completions bodies: exact shapes, determinism, and the official types as judge."""

from __future__ import annotations

import functools
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
from palinurus.core.types.model import ModelRequest, Prompt
from palinurus.providers.wire.completions import build_path, encode
from providers.kit import LS, READ, info, request

params = LaterModule("openai.types.chat.completion_create_params")

PNG = ImageBlock("aGk=", "image/png")


@functools.cache
def judge() -> TypeAdapter[Any]:
    return TypeAdapter(params.CompletionCreateParamsStreaming)


def body(asked: ModelRequest) -> dict[str, Any]:
    """As it goes over the line; the official client's types must accept it."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(encode(asked)))
    judge().validate_python(plain)
    return plain


def talk(**changes: Any) -> ModelRequest:
    return request(
        UserMessage("look"),
        AssistantMessage((TextBlock("ok"), ToolCall("c1", "read", {"path": "ä"}), ToolCall("c2", "ls", {}))),
        ToolResult("c1", "read", (TextBlock("hello"),)),
        ToolResult("c2", "ls", ()),
        AssistantMessage((TextBlock("done"),)),
        UserMessage((TextBlock("and"), PNG)),
        **changes,
    )


def test_conversation() -> None:
    got = body(talk(tools=(READ, LS)))
    assert got["messages"] == [
        {"role": "system", "content": "You are a test.\n\nNow."},
        {"role": "user", "content": "look"},
        {
            "role": "assistant",
            "content": "ok",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path":"ä"}'}},
                {"id": "c2", "type": "function", "function": {"name": "ls", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "hello"},
        {"role": "tool", "tool_call_id": "c2", "content": "(no output)"},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "and\n[an image was here; this model cannot see images]"},
    ]
    assert got["tools"][0]["function"] == {"name": "read", "description": "Read a file", "parameters": READ.parameters}
    assert got["stream"] is True and got["stream_options"] == {"include_usage": True}
    assert set(got) == {"model", "messages", "stream", "stream_options", "tools"}


def test_images_for_models_that_see() -> None:
    asked = request(
        UserMessage((TextBlock("see"), PNG)),
        AssistantMessage((ToolCall("c", "read", {}), ToolCall("d", "read", {}))),
        ToolResult("c", "read", (PNG,)),
        ToolResult("d", "read", (TextBlock("t"), PNG)),
        model=info(vision=True),
    )
    got = body(asked)["messages"]
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert got[1]["content"] == [{"type": "text", "text": "see"}, url]
    assert [m["role"] for m in got] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert got[3]["content"] == "(see the attached image)" and got[4]["content"] == "t"
    assert got[5]["content"][1:] == [url, url]


def test_settings_reach_the_body() -> None:
    model = info(params={"temperature": 0.2, "maxTokens": 99, "topP": 0.5, "extraBody": {"seed": 7}})
    got = body(request(model=model))
    assert (got["temperature"], got["max_tokens"], got["top_p"], got["seed"]) == (0.2, 99, 0.5, 7)
    got = body(request(model=model, temperature=0.0, max_tokens=5, tools=(LS,), tool_choice="required"))
    assert (got["temperature"], got["max_tokens"], got["tool_choice"]) == (0.0, 5, "required")


@pytest.mark.parametrize(
    ("compat", "check"),
    [
        (
            {"maxTokensField": "max_completion_tokens"},
            lambda b: b["max_completion_tokens"] == 5 and "max_tokens" not in b,
        ),
        ({"supportsUsageInStreaming": False}, lambda b: "stream_options" not in b),
        ({"supportsDeveloperRole": True}, lambda b: b["messages"][0]["role"] == "developer"),
        ({"supportsStore": True}, lambda b: b["store"] is False),
        ({}, lambda b: b["messages"][0]["role"] == "system" and "store" not in b and b["max_tokens"] == 5),
    ],
)
def test_compat(compat: dict[str, Any], check: Any) -> None:
    assert check(body(request(model=info(compat=compat, reasoning=True), max_tokens=5)))


def test_tools_are_not_sent_to_models_without() -> None:
    assert "tools" not in body(request(tools=(LS,), model=info(tools=False)))


def test_result_names_and_nine_letter_ids_by_compat() -> None:
    got = body(talk(model=info(compat={"requiresToolResultName": True, "requiresMistralToolIds": True})))["messages"]
    ids = [c["id"] for c in got[2]["tool_calls"]]
    assert all(len(i) == 9 and i.isalnum() for i in ids)
    assert [got[3]["tool_call_id"], got[4]["tool_call_id"]] == ids
    assert got[3]["name"] == "read"


def test_foreign_ids_are_made_fit_the_same_way_every_time() -> None:
    long = "call_abc|fc_" + "0" * 80
    asked = request(
        UserMessage("x"), AssistantMessage((ToolCall(long, "ls", {}),)), ToolResult(long, "ls", (TextBlock("y"),))
    )
    first, second = body(asked)["messages"], body(asked)["messages"]
    ident = first[2]["tool_calls"][0]["id"]
    assert ident == first[3]["tool_call_id"] == second[3]["tool_call_id"]
    assert len(ident) <= 40 and "|" not in ident
    other = request(UserMessage("x"), AssistantMessage((ToolCall(long + "1", "ls", {}),)))
    assert body(other)["messages"][2]["tool_calls"][0]["id"] != ident


def thought(**where: str) -> AssistantMessage:
    place = {"api": "openai-completions", "provider": "p", "model": "m", **where}
    return AssistantMessage((ThinkingBlock("hm", "reasoning_content"), ToolCall("c", "ls", {})), **place)


def test_reasoning_goes_back_only_to_its_own_route_and_only_in_the_running_turn() -> None:
    result = ToolResult("c", "ls", (TextBlock("y"),))
    assert body(request(UserMessage("x"), thought(), result))["messages"][2]["reasoning_content"] == "hm"
    assert "reasoning_content" not in body(request(UserMessage("x"), thought(model="other"), result))["messages"][2]
    assert (
        "reasoning_content" not in body(request(UserMessage("x"), thought(), result, UserMessage("z")))["messages"][2]
    )
    kept = info(compat={"keepReasoning": True})
    assert (
        body(request(UserMessage("x"), thought(), result, UserMessage("z"), model=kept))["messages"][2][
            "reasoning_content"
        ]
        == "hm"
    )
    text = info(compat={"requiresThinkingAsText": True})
    assert body(request(UserMessage("x"), thought(), result, model=text))["messages"][2]["content"] == "hm"


def test_signatures_of_others_never_leave() -> None:
    foreign = AssistantMessage(
        (ThinkingBlock("secret thought", "EqQBsig"), TextBlock("hi")), api="anthropic-messages", provider="a"
    )
    assert b"EqQBsig" not in msgspec.json.encode(encode(request(UserMessage("x"), foreign)))
    assert b"secret thought" not in msgspec.json.encode(encode(request(UserMessage("x"), foreign)))


def test_empty_messages_are_left_out() -> None:
    got = body(
        request(
            UserMessage("x"),
            AssistantMessage(()),
            AssistantMessage((ThinkingBlock("only", "reasoning"),)),
            prompt=Prompt(""),
        )
    )
    assert [m["role"] for m in got["messages"]] == ["user"]


def test_the_beginning_of_the_body_does_not_change_with_the_next_turn() -> None:
    before = encode(talk())["messages"]
    after = encode(request(*talk().messages, AssistantMessage((TextBlock("fine"),)), UserMessage("next")))["messages"]
    assert after[: len(before)] == before


def test_path() -> None:
    assert build_path(request()) == "/chat/completions"
    assert build_path(request(model=info(base_url="http://x/chat/completions/"))) == ""
