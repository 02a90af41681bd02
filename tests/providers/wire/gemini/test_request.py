"""Bodies of the Gemini API: turns, ids, signatures, pictures."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
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
from palinurus.providers.wire.gemini import UNSIGNED, WIRE, build_contents, make_call_id
from palinurus.providers.wire.history import NO_IMAGE, OPENING
from providers.kit import READ, info, request

API = "google-generative-ai"
SHOT = ImageBlock("QUJD", "image/png")


def model(name: str = "gemini-3-pro", **changes: Any) -> Any:
    return info(API, ref=ModelRef("google", name), **changes)


def said(*blocks: Any, name: str = "gemini-3-pro") -> AssistantMessage:
    return AssistantMessage(blocks, API, "google", name)


def test_the_body() -> None:
    asked = request(
        UserMessage("hi"), model=model(), tools=(READ,), max_tokens=9, temperature=0.5, tool_choice="required"
    )
    body = WIRE.encode(asked)
    assert body["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]
    assert body["systemInstruction"] == {"parts": [{"text": "You are a test.\n\nNow."}]}
    declared = body["tools"][0]["functionDeclarations"][0]
    assert (declared["name"], declared["parametersJsonSchema"]) == ("read", READ.parameters)
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}
    assert body["generationConfig"] == {"maxOutputTokens": 9, "temperature": 0.5}
    assert WIRE.path(asked) == "/models/gemini-3-pro:streamGenerateContent?alt=sse"


def test_the_model_in_the_path_is_quoted_once() -> None:
    assert WIRE.path(request(model=model("models/a b?c"))) == "/models/a%20b%3Fc:streamGenerateContent?alt=sse"


def test_a_pinned_tool() -> None:
    body = WIRE.encode(request(model=model(), tools=(READ,), tool_choice={"function": {"name": "read"}}))
    assert body["toolConfig"]["functionCallingConfig"] == {"mode": "ANY", "allowedFunctionNames": ["read"]}


def test_a_history_that_starts_with_the_model_gets_a_tiny_user_turn() -> None:
    turns = build_contents(request(said(TextBlock("hello")), model=model()))
    assert turns[0] == {"role": "user", "parts": [{"text": OPENING}]}
    assert turns[1]["role"] == "model"


def test_signatures_of_this_route_go_back() -> None:
    blocks = (ThinkingBlock("t", "c2ln"), TextBlock("a", "dGV4dA=="), ToolCall("c1", "read", {}, "Y2FsbA=="))
    (_, turn) = build_contents(request(UserMessage("q"), said(*blocks), model=model()))
    assert turn["parts"] == [
        {"thought": True, "text": "t", "thoughtSignature": "c2ln"},
        {"text": "a", "thoughtSignature": "dGV4dA=="},
        {"functionCall": {"id": "c1", "name": "read", "args": {}}, "thoughtSignature": "Y2FsbA=="},
    ]


def test_foreign_signatures_and_thoughts_do_not() -> None:
    blocks = (
        ThinkingBlock("t", "c2ln"),
        TextBlock("a", "dGV4dA=="),
        ToolCall("c1", "read", {}, "Y2FsbA=="),
        ToolCall("c2", "ls", {}),
    )
    (_, turn) = build_contents(request(UserMessage("q"), said(*blocks, name="other"), model=model()))
    assert turn["parts"][0] == {"text": "a"}
    assert [p.get("thoughtSignature") for p in turn["parts"]] == [None, UNSIGNED, None]
    (_, older) = build_contents(request(UserMessage("q"), said(*blocks, name="other"), model=model("gemini-2.5-pro")))
    assert all("thoughtSignature" not in p for p in older["parts"])


@pytest.mark.parametrize("signature", ["not base64!", "abc", "a b=", "ünï", "{}"])
def test_a_signature_that_is_no_base64_is_left_out(signature: str) -> None:
    (_, turn) = build_contents(request(UserMessage("q"), said(TextBlock("a", signature)), model=model()))
    assert turn["parts"] == [{"text": "a"}]


def test_results_follow_their_calls_in_one_turn_before_anything_else() -> None:
    history: tuple[Message, ...] = (
        UserMessage("q"),
        said(ToolCall("call_a|fc", "read", {}), ToolCall("call_b", "ls", {})),
        ToolResult("call_a|fc", "read", (TextBlock("A"), SHOT)),
        ToolResult("call_b", "ls", (TextBlock("no"),), isError=True),
        UserMessage("go on"),
    )
    turns = build_contents(request(*history, model=model(vision=True)))
    assert [t["role"] for t in turns] == ["user", "model", "user"]
    kinds = [next(iter(p)) for p in turns[2]["parts"]]
    assert kinds == ["functionResponse", "functionResponse", "inlineData", "text"]
    called = [p["functionCall"]["id"] for p in turns[1]["parts"]]
    answered = [p["functionResponse"] for p in turns[2]["parts"][:2]]
    assert [a["id"] for a in answered] == called and all(i.isalnum() for i in called)
    assert [a["response"] for a in answered] == [{"output": "A"}, {"error": "no"}]
    blind = build_contents(request(*history, model=model()))
    assert NO_IMAGE in blind[2]["parts"][0]["functionResponse"]["response"]["output"]


@given(st.lists(st.sampled_from("uact"), max_size=12))
@settings(max_examples=60, deadline=None)
def test_turns_always_alternate_and_start_with_the_user(kinds: list[str]) -> None:
    made: dict[str, Message] = {
        "u": UserMessage("q"),
        "a": said(TextBlock("x")),
        "c": said(ThinkingBlock("only thinking", None)),
        "t": ToolResult("i", "read", ()),
    }
    turns = build_contents(request(*(made[k] for k in kinds), model=model()))
    assert turns[0]["role"] == "user"
    assert all(a["role"] != b["role"] for a, b in itertools.pairwise(turns))
    assert all(t["parts"] for t in turns)


def test_ids_are_letters_and_digits_and_stay_distinct() -> None:
    raw = ["call_1", "call-1", "call1", "x" * 100, "ü"]
    made = [make_call_id(r) for r in raw]
    assert all(i.isascii() and i.isalnum() and len(i) <= 64 for i in made)
    assert len(set(made)) == len(raw) and make_call_id("call1") == "call1"
