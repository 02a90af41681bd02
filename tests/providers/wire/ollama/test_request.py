"""Bodies of Ollama's chat."""

from __future__ import annotations

from typing import Any

from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from palinurus.providers.wire.history import NO_IMAGE
from palinurus.providers.wire.ollama import MOST_CONTEXT, WIRE
from providers.kit import READ, info, request

SHOT = ImageBlock("QUJD", "image/png")


def model(**changes: Any) -> Any:
    return info("ollama", **changes)


def sent(*messages: Any, **changes: Any) -> list[dict[str, Any]]:
    return WIRE.encode(request(*messages, model=model(**changes)))["messages"][1:]


def test_the_body() -> None:
    params = {"keep_alive": "5m", "top_p": 0.9, "num_ctx": 99_000, "unrelated": 1}
    asked = request(UserMessage("hi"), model=model(params=params), tools=(READ,), max_tokens=7, temperature=0.1)
    body = WIRE.encode(asked)
    assert body["messages"][0] == {"role": "system", "content": "You are a test.\n\nNow."}
    assert body["options"] == {"num_ctx": 99_000, "top_p": 0.9, "num_predict": 7, "temperature": 0.1}
    assert body["tools"][0]["function"]["name"] == "read"
    assert (body["stream"], body["keep_alive"]) == (True, "5m")
    assert WIRE.path(asked) == "/api/chat"


def test_the_context_is_asked_for_but_not_beyond_reason() -> None:
    assert WIRE.encode(request(model=model(context_window=8000)))["options"]["num_ctx"] == 8000
    assert WIRE.encode(request(model=model(context_window=1_000_000)))["options"]["num_ctx"] == MOST_CONTEXT


def test_no_tools_when_none_may_be_called() -> None:
    assert "tools" not in WIRE.encode(request(model=model(), tools=(READ,), tool_choice="none"))


def test_calls_results_and_thinking() -> None:
    call = ToolCall("c", "read", {"path": "x"})
    own = AssistantMessage((ThinkingBlock("hm"), TextBlock("a"), call), "ollama", "p", "m")
    answer, result = sent(own, ToolResult("c", "read", (TextBlock("out"),)))
    assert answer == {
        "role": "assistant",
        "content": "a",
        "thinking": "hm",
        "tool_calls": [{"function": {"name": "read", "arguments": {"path": "x"}}}],
    }
    assert result == {"role": "tool", "content": "out", "tool_name": "read"}
    foreign = AssistantMessage((ThinkingBlock("hm"), call), "other", "p", "m")
    assert "thinking" not in sent(foreign)[0]
    assert sent(UserMessage("q"), AssistantMessage((ThinkingBlock("hm"),), "ollama", "p", "m")) == [
        {"role": "user", "content": "q"}
    ]


def test_images() -> None:
    user = UserMessage((TextBlock("see"), SHOT))
    assert sent(user, vision=True) == [{"role": "user", "content": "see", "images": ["QUJD"]}]
    assert sent(user) == [{"role": "user", "content": f"see\n{NO_IMAGE}"}]
    shown = sent(ToolResult("c", "shot", (SHOT,)), vision=True)
    assert [m["role"] for m in shown] == ["tool", "user"] and shown[1]["images"] == ["QUJD"]
