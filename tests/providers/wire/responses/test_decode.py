"""Responses streams: signatures, usage, ends, errors, servers that send less, the official SDK beside us."""

from __future__ import annotations

import json
from typing import Any

import pytest

from later import LaterModule
from palinurus.core.types.messages import AssistantMessage, TextBlock, ThinkingBlock, UserMessage
from palinurus.core.types.model import ModelEvent, StreamDone, StreamFailed
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.wire import to_sse_event
from palinurus.providers.wire.responses import ResponsesDecoder, build_history
from providers.kit import decoded, info, recorded, request

openai = LaterModule("openai")
httpx2 = LaterModule("httpx2")

API = "openai-responses"


def run(*pieces: bytes) -> list[ModelEvent]:
    return decoded(ResponsesDecoder, pieces, request(model=info(API)))


def stream(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(e).encode() + b"\n\n" for e in events)


def message(events: list[ModelEvent]) -> AssistantMessage:
    last = events[-1]
    assert isinstance(last, StreamDone | StreamFailed)
    return last.message


def completed(**fields: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"status": "completed", **fields}}


def test_usage_without_what_came_from_the_cache() -> None:
    assert message(run(recorded("responses/tools.sse"))).usage == TokenUsage(176, 96, 1024, 0, 1296)


def test_signatures_go_back_as_the_items_they_were() -> None:
    said = message(run(recorded("responses/tools.sse")))
    thought, text = said.content[0], said.content[1]
    assert isinstance(thought, ThinkingBlock) and isinstance(text, TextBlock)
    assert thought.thinking == "Plan: read both — café ☕.\n\nThen answer."
    items = build_history(request(UserMessage("q"), said, model=info(API)))
    assert [i.get("type") for i in items] == [None, "reasoning", "message", "function_call", "function_call"]
    assert items[1]["encrypted_content"] == "gAAAAB-opaque==" and items[1]["id"] == "rs_1"
    assert len(items[1]["summary"]) == 2
    assert (items[2]["id"], items[2]["phase"]) == ("msg_1", "commentary")
    assert [(i["call_id"], i["id"]) for i in items[3:]] == [("call_a", "fc_1"), ("call_b", "fc_2")]


def test_the_official_sdk_reads_the_same() -> None:
    body = recorded("responses/tools.sse")

    def answer(asked: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, content=body, headers={"content-type": "text/event-stream"})

    with httpx2.Client(transport=httpx2.MockTransport(answer)) as http:
        client = openai.OpenAI(api_key="k", base_url="http://127.0.0.1:1/v1", http_client=http)
        events = list(client.responses.create(model="m", input="hi", stream=True))
    final = events[-1].response
    ours = message(run(body))
    assert final.output_text == ours.text
    calls = [item for item in final.output if item.type == "function_call"]
    assert [(c.name, json.loads(c.arguments)) for c in calls] == [(c.name, c.arguments) for c in ours.calls]
    assert final.usage.total_tokens == ours.usage.totalTokens


OUTPUT = [
    {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"},
    {"type": "message", "id": "msg_9", "content": [{"type": "output_text", "text": "Hi"}]},
    {"type": "function_call", "id": "fc_9", "call_id": "c", "name": "ls", "arguments": "{}"},
]


@pytest.mark.parametrize(
    "data",
    [
        stream(completed(output=OUTPUT)),
        stream(
            *[{"type": "response.output_item.done", "output_index": i, "item": o} for i, o in enumerate(OUTPUT)],
            completed(),
        ),
        to_sse_event(json.dumps({"object": "response", "status": "completed", "output": OUTPUT}, indent=1).encode()),
        stream(
            {"type": "response.output_text.delta", "item_id": "msg_9", "delta": "H"},
            *[{"type": "response.output_item.done", "item": o} for o in OUTPUT],
            completed(),
        ),
    ],
    ids=["only the end", "only whole items", "not streamed", "no indices"],
)
def test_servers_that_send_less(data: bytes) -> None:
    said = message(run(data))
    assert said.text == "Hi"
    assert [c.id for c in said.calls] == ["c|fc_9"]
    assert any(isinstance(b, ThinkingBlock) and b.thinkingSignature for b in said.content)


@pytest.mark.parametrize(
    ("response", "stop"),
    [
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"status": "completed"}, "stop"),
    ],
)
def test_stop_reasons(response: dict[str, Any], stop: str) -> None:
    kind = "response.incomplete" if stop == "length" else "response.completed"
    delta = {"type": "response.output_text.delta", "output_index": 0, "delta": "x"}
    assert message(run(stream(delta, {"type": kind, "response": response}))).stopReason == stop


@pytest.mark.parametrize(
    ("event", "kind", "words"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow down"}, "rate_limit", "slow down"),
        ({"type": "error", "error": {"type": "server_error", "message": "oops"}}, "server", "oops"),
        (
            {"type": "response.failed", "response": {"error": {"code": "context_length_exceeded", "message": "long"}}},
            "overflow",
            "long",
        ),
        ({"type": "response.failed", "response": {"error": None}}, "server", ""),
        ({"error": {"message": "invalid key", "code": "invalid_api_key"}}, "auth", "invalid key"),
        (completed(incomplete_details={"reason": "content_filter"}), "refused", "filter"),
        ({"type": "response.completed", "response": {"status": "cancelled"}}, "server", "cancel"),
    ],
)
def test_errors_inside_a_stream(event: dict[str, Any], kind: str, words: str) -> None:
    delta = {"type": "response.output_text.delta", "output_index": 0, "delta": "half"}
    last = run(stream(delta, event))[-1]
    assert isinstance(last, StreamFailed)
    assert (last.failure.kind, last.failure.partial) == (kind, True)
    assert words in last.failure.message
    assert last.message.text == "half"


def test_duplicate_and_out_of_order_events_do_no_harm() -> None:
    call = {"type": "function_call", "id": "fc", "call_id": "c", "name": "ls", "arguments": '{"a":1}'}
    done = {"type": "response.output_item.done", "output_index": 5, "item": call}
    late = {"type": "response.function_call_arguments.delta", "output_index": 5, "delta": "}}}}"}
    early = {"type": "response.function_call_arguments.delta", "output_index": 5, "delta": '{"a"'}
    text = {"type": "response.output_text.delta", "output_index": 5, "delta": "not text"}
    said = message(run(stream(early, text, done, done, late, completed(), completed())))
    assert [(c.name, c.arguments, c.invalid) for c in said.calls] == [("ls", {"a": 1}, None)]
    assert said.text == ""


def test_arguments_that_are_no_json_are_marked() -> None:
    call = {"type": "function_call", "id": "fc", "call_id": "c", "name": "ls", "arguments": '{"a":'}
    said = message(run(stream({"type": "response.output_item.done", "output_index": 0, "item": call}, completed())))
    assert said.calls[0].invalid and said.calls[0].arguments == {}
