"""Requests as Messages bodies: exact shapes, cache marks, signatures, and the official types as judge."""

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
from palinurus.providers.wire.anthropic import build_headers, build_path, encode
from providers.kit import LS, READ, info, request

params = LaterModule("anthropic.types.message_create_params")

MODEL = info("anthropic-messages", base_url="https://a.example", vision=True)
MARK = {"type": "ephemeral"}
PNG = ImageBlock("aGk=", "image/png")


def ask(*messages: Any, **changes: Any) -> ModelRequest:
    return request(*messages, **{"model": MODEL, **changes})


@functools.cache
def judge() -> TypeAdapter[Any]:
    return TypeAdapter(params.MessageCreateParamsStreaming)


def body(asked: ModelRequest) -> dict[str, Any]:
    """As it goes over the line; the official client's types must accept it."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(encode(asked)))
    judge().validate_python(plain)
    return plain


def marks(value: Any) -> int:
    if isinstance(value, dict):
        return ("cache_control" in value) + sum(marks(v) for v in value.values())
    return sum(marks(v) for v in value) if isinstance(value, list) else 0


def own(*blocks: Any) -> AssistantMessage:
    return AssistantMessage(blocks, "anthropic-messages", "p", "m")


def test_conversation_with_marks() -> None:
    got = body(
        ask(
            UserMessage("look"),
            own(
                ThinkingBlock("hm", "sig"),
                TextBlock("ok"),
                ToolCall("t1", "read", {"path": "x"}),
                ToolCall("t2", "ls", {}),
            ),
            ToolResult("t1", "read", (TextBlock("hello"), PNG)),
            ToolResult("t2", "ls", (), isError=True),
            UserMessage("and"),
            tools=(READ, LS),
        )
    )
    assert got["system"] == [
        {"type": "text", "text": "You are a test.", "cache_control": MARK},
        {"type": "text", "text": "Now."},
    ]
    assert got["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "look", "cache_control": MARK}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "text", "text": "ok"},
                {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "x"}},
                {"type": "tool_use", "id": "t2", "name": "ls", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [
                        {"type": "text", "text": "hello"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
                    ],
                },
                {
                    "type": "tool_result",
                    "tool_use_id": "t2",
                    "content": [{"type": "text", "text": "(no output)"}],
                    "is_error": True,
                },
                {"type": "text", "text": "and", "cache_control": MARK},
            ],
        },
    ]
    assert got["tools"][-1] == {
        "name": "ls",
        "description": "List",
        "input_schema": LS.parameters,
        "cache_control": MARK,
    }
    assert marks(got) == 4  # the most the API takes
    assert (got["stream"], got["max_tokens"], got["model"]) == (True, 8192, "m")


@pytest.mark.parametrize(
    ("keep", "mark"), [("none", None), ("short", MARK), ("long", {"type": "ephemeral", "ttl": "1h"})]
)
def test_cache_retention(keep: str, mark: Any) -> None:
    got = body(ask(tools=(LS,), model=info("anthropic-messages", params={"cacheRetention": keep})))
    assert got["system"][0].get("cache_control") == mark
    assert got["tools"][0].get("cache_control") == mark
    assert got["messages"][0]["content"][-1].get("cache_control") == mark


def test_only_the_volatile_part_changes_before_the_messages() -> None:
    one, two = body(ask(prompt=Prompt("same", "a"))), body(ask(prompt=Prompt("same", "b")))
    assert one["system"][0] == two["system"][0] and one["system"][1] != two["system"][1]
    assert "system" not in body(ask(prompt=Prompt("", " ")))


def test_thinking_goes_back_only_where_it_came_from_and_only_signed() -> None:
    def kinds(message: AssistantMessage) -> list[str]:
        got = body(ask(UserMessage("x"), message, UserMessage("y")))["messages"]
        return [b["type"] for m in got if m["role"] == "assistant" for b in m["content"]]

    signed, redacted = ThinkingBlock("hm", "sig"), ThinkingBlock("", "opaque", True)
    assert kinds(own(signed, redacted, TextBlock("a"))) == ["thinking", "redacted_thinking", "text"]
    assert kinds(own(ThinkingBlock("hm", " "), ThinkingBlock("hm"), TextBlock("a"))) == ["text"]
    assert kinds(AssistantMessage((signed, redacted, TextBlock("a")), "anthropic-messages", "p", "other")) == ["text"]
    assert kinds(AssistantMessage((signed, TextBlock("a")), "openai-completions", "p", "m")) == ["text"]
    assert kinds(own(signed)) == []


def test_turns_alternate_and_begin_with_the_user() -> None:
    got = body(
        ask(
            AssistantMessage((TextBlock("a"),)),
            AssistantMessage((TextBlock("b"),)),
            UserMessage("c"),
            UserMessage("d"),
            UserMessage("  "),
        )
    )["messages"]
    assert [m["role"] for m in got] == ["user", "assistant", "user"]
    assert [b["text"] for b in got[1]["content"]] == ["a", "b"]
    assert [b["text"] for b in got[2]["content"]] == ["c", "d"]


def test_ids_are_made_fit() -> None:
    raw = "call_1|fc_" + "x" * 90
    got = body(ask(UserMessage("x"), own(ToolCall(raw, "ls", {})), ToolResult(raw, "ls", (TextBlock("y"),))))[
        "messages"
    ]
    ident = got[1]["content"][0]["id"]
    assert ident == got[2]["content"][0]["tool_use_id"] and len(ident) <= 64 and "|" not in ident


def test_images_the_model_or_the_api_cannot_take_become_words() -> None:
    for model, image in ((info("anthropic-messages"), PNG), (MODEL, ImageBlock("aGk=", "image/bmp"))):
        (block,) = body(ask(UserMessage((image,)), model=model))["messages"][0]["content"]
        assert block["type"] == "text" and "image" in block["text"]


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ({"type": "function", "function": {"name": "ls"}}, {"type": "tool", "name": "ls"}),
        ({"type": "tool", "name": "ls"}, {"type": "tool", "name": "ls"}),
    ],
)
def test_tool_choice(choice: Any, sent: Any) -> None:
    assert body(ask(tools=(LS,), tool_choice=choice))["tool_choice"] == sent


def test_limits_and_temperature() -> None:
    got = body(ask(model=info("anthropic-messages", max_tokens=64_000, params={"temperature": 0.3})))
    assert (got["max_tokens"], got["temperature"]) == (32_000, 0.3)
    assert body(ask(max_tokens=77))["max_tokens"] == 77
    assert "tools" not in body(ask(tools=(LS,), model=info("anthropic-messages", tools=False)))


def test_path_and_headers() -> None:
    assert build_path(ask()) == "/v1/messages"
    assert build_path(ask(model=info(base_url="http://x/v1"))) == "/messages"
    assert build_path(ask(model=info(base_url="http://x/v1/messages"))) == ""
    assert build_headers(ask()) == {"anthropic-version": "2023-06-01"}
