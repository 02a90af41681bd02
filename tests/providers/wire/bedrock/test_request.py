"""Bodies of Converse: turns, blank text, tools, pictures, signatures."""

from __future__ import annotations

import itertools
from typing import Any

import yarl
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.core.types.keys import ModelRef
from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from palinurus.core.types.model import Prompt
from palinurus.providers.wire.bedrock import WIRE, build_turns
from palinurus.providers.wire.history import EMPTY_MESSAGE, NO_IMAGE, OPENING
from providers.kit import READ, info, request

API = "bedrock-converse-stream"
NAME = "us.anthropic.claude-haiku-4-5-20251001-v1:0"


def model(**changes: Any) -> Any:
    return info(API, **{"ref": ModelRef("p", NAME), **changes})


def said(*blocks: Any, name: str = NAME) -> AssistantMessage:
    return AssistantMessage(blocks, API, "p", name)


def test_the_body() -> None:
    asked = request(
        UserMessage("hi"), model=model(), tools=(READ,), max_tokens=9, temperature=0.5, tool_choice="required"
    )
    body = WIRE.encode(asked)
    assert body["messages"] == [{"role": "user", "content": [{"text": "hi"}]}]
    assert body["system"] == [{"text": "You are a test."}, {"text": "Now."}]
    assert body["inferenceConfig"] == {"maxTokens": 9, "temperature": 0.5}
    spec = body["toolConfig"]["tools"][0]["toolSpec"]
    assert (spec["name"], spec["inputSchema"]) == ("read", {"json": READ.parameters})
    assert body["toolConfig"]["toolChoice"] == {"any": {}}
    assert WIRE.path(asked) == "/model/us.anthropic.claude-haiku-4-5-20251001-v1:0/converse-stream"
    assert "system" not in WIRE.encode(request(model=model(), prompt=Prompt("  ")))


def test_the_path_is_sent_as_it_is_signed() -> None:
    arn = "arn:aws:bedrock:us-east-1:1:inference-profile/us.model"
    url = "https://h.example" + WIRE.path(request(model=model(ref=ModelRef("p", arn))))
    assert "%2Fus.model" in url and str(yarl.URL(url)) == url


def test_a_history_with_calls_keeps_a_tool_configuration() -> None:
    asked = request(said(ToolCall("a", "gone", {})), ToolResult("a", "gone", ()), model=model())
    assert [t["toolSpec"]["name"] for t in WIRE.encode(asked)["toolConfig"]["tools"]] == ["gone"]
    assert "toolConfig" not in WIRE.encode(request(model=model()))


def test_results_follow_their_calls_and_ids_fit() -> None:
    raw = "call_a|fc_1"
    history: tuple[Message, ...] = (
        UserMessage("q"),
        said(TextBlock("a"), ToolCall(raw, "read", {"path": "x"}), ToolCall("b", "read", {})),
        ToolResult(raw, "read", (TextBlock(" "),)),
        ToolResult("b", "read", (TextBlock("no"),), isError=True),
        UserMessage("go on"),
    )
    _, second, third = build_turns(request(*history, model=model()))
    used = [b["toolUse"]["toolUseId"] for b in second["content"] if "toolUse" in b]
    results = [b["toolResult"] for b in third["content"] if "toolResult" in b]
    assert [r["toolUseId"] for r in results] == used and "|" not in used[0]
    assert [r["status"] for r in results] == ["success", "error"]
    assert results[0]["content"] == [{"text": "(no output)"}]
    assert third["content"][-1] == {"text": "go on"}


def test_thinking_goes_back_only_signed_and_only_to_its_route() -> None:
    blocks = (ThinkingBlock("t", "sig"), ThinkingBlock("", "opaque", True), ThinkingBlock("u", " "), TextBlock("a"))
    (_, turn) = build_turns(request(UserMessage("q"), said(*blocks), model=model()))
    assert turn["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "t", "signature": "sig"}}},
        {"reasoningContent": {"redactedContent": "opaque"}},
        {"text": "a"},
    ]
    (_, other) = build_turns(request(UserMessage("q"), said(*blocks, name="other"), model=model()))
    assert other["content"] == [{"text": "a"}]


def test_images() -> None:
    user = UserMessage((TextBlock("see"), ImageBlock("QUJD", "image/jpeg"), ImageBlock("QUJD", "image/tiff")))
    (turn,) = build_turns(request(user, model=model(vision=True)))
    assert turn["content"][1] == {"image": {"format": "jpeg", "source": {"bytes": "QUJD"}}}
    assert turn["content"][2] == {"text": NO_IMAGE}
    (blind,) = build_turns(request(user, model=model()))
    assert blind["content"][1] == {"text": NO_IMAGE}


@given(st.lists(st.sampled_from("ubaet"), max_size=12))
@settings(max_examples=60, deadline=None)
def test_turns_always_alternate_and_hold_no_blank_text(kinds: list[str]) -> None:
    made: dict[str, Message] = {
        "u": UserMessage("q"),
        "b": UserMessage("  "),
        "a": said(TextBlock("x")),
        "e": said(TextBlock(" "), ThinkingBlock("t", "sig")),
        "t": ToolResult("i", "read", (TextBlock(""),)),
    }
    found = build_turns(request(*(made[k] for k in kinds), model=model()))
    assert found[0]["role"] == "user"
    assert all(a["role"] != b["role"] for a, b in itertools.pairwise(found))
    for turn in found:
        assert turn["content"]
        assert all(block["text"].strip() for block in turn["content"] if "text" in block)


def test_placeholders() -> None:
    assert build_turns(request(said(TextBlock("hello")), model=model()))[0]["content"] == [{"text": OPENING}]
    assert build_turns(request(UserMessage(" "), model=model()))[0]["content"] == [{"text": EMPTY_MESSAGE}]
