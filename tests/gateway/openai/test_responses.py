"""Responses requests: what is taken and refused, what an id says, and that OpenAI's own client reads the answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from gateway.host import TOKEN, Catalog, FakeHost, settings, words
from later import LaterModule, open_openai
from palinurus.core.types.inbound import EarlierMessage
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import ToolCall
from palinurus.core.types.model import ModelFailure
from palinurus.gateway.http import HttpFault
from palinurus.gateway.openai.completions import OpenAiRequest
from palinurus.gateway.openai.responses import (
    find_response_event,
    find_response_session,
    make_conversation_id,
    make_response_id,
    parse_response_request,
)
from palinurus.gateway.server import GatewayServer

openai = LaterModule("openai")

SETTINGS, CATALOG = settings(), Catalog()


def ask(headers: dict[str, str] | None = None, **body: Any) -> OpenAiRequest | HttpFault:
    body.setdefault("input", "hi")
    return parse_response_request(json.dumps(body).encode(), headers or {}, SETTINGS, CATALOG, 5)


def good(headers: dict[str, str] | None = None, **body: Any) -> OpenAiRequest:
    found = ask(headers, **body)
    assert isinstance(found, OpenAiRequest), found
    return found


@pytest.fixture
async def client(server: GatewayServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with open_openai(server.port, TOKEN) as made:
        yield made


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"no_such": 1}, "unknown_parameter"),
        ({"text": {"format": {"type": "json_schema"}}}, "unsupported_parameter"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "item_not_found"),
        ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "unsupported_content"),
        ({"input": []}, "invalid_value"),
        ({"input": [{"role": "assistant", "content": "x"}]}, "invalid_value"),
        ({"tools": [{"type": "web_search"}]}, "unsupported_parameter"),
        ({"previous_response_id": "resp_other"}, "previous_response_not_found"),
        ({"model": "gpt-4"}, "model_not_found"),
        ({"max_output_tokens": -1}, "invalid_value"),
    ],
)
def test_bodies_that_are_refused(body: dict[str, Any], code: str) -> None:
    found = ask(**body)
    assert isinstance(found, HttpFault) and found.code == code


def test_an_unknown_key_is_named() -> None:
    found = ask(no_such=1)
    assert isinstance(found, HttpFault) and (found.status, found.message) == (400, "Unrecognized key: no_such")


def test_input_items_become_one_conversation() -> None:
    asked = good(
        instructions="be brief",
        input=[
            {"role": "user", "content": "weather?"},
            {"type": "reasoning", "id": "r", "summary": []},
            {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Rome"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        ],
    )
    assert asked.inbound.text == "[result of weather]\nsunny"
    assert asked.inbound.options.system == "be brief"
    assert list(asked.inbound.options.context) == [
        EarlierMessage("user", "weather?"),
        EarlierMessage("assistant", calls=(ToolCall("c1", "weather", {"city": "Rome"}),)),
    ]
    assert asked.inbound.options.results == (EarlierMessage("tool", "sunny", call="c1", name="weather"),)


def test_an_id_leads_back_to_its_session() -> None:
    for key in ("agent:main:main", "agent:work:openai:ä b", "agent:main:telegram:group:-100-5"):
        event = good().inbound.event
        made = make_response_id(key, event)
        assert find_response_session(made) == SessionKey(*key.split(":", 2)[1:]) and find_response_event(made) == event
        assert good(previous_response_id=made).inbound.session == key and good().inbound.event != event
        assert good(conversation=make_conversation_id(key)).inbound.session == key


def test_a_key_of_the_clients_makes_the_same_response() -> None:
    first, again = (good({"Idempotency-Key": "k"}).inbound.event for _ in range(2))
    assert first == again != good({"Idempotency-Key": "l"}).inbound.event


@given(st.text(max_size=80))
@examples(max_examples=200)
def test_other_ids_lead_nowhere(text: str) -> None:
    for written in (text, "resp_" + text, "resp_" + text + "-" + "a" * 16):
        found = find_response_session(written)
        assert found is None or ":" in str(found)


@given(
    st.binary(max_size=60)
    | st.recursive(
        st.none() | st.text(),
        lambda s: (
            st.lists(s) | st.dictionaries(st.sampled_from(["input", "type", "role", "content", "model", "tools"]), s)
        ),
        max_leaves=8,
    )
    .map(json.dumps)
    .map(str.encode)
)
@examples(max_examples=200)
def test_nothing_breaks_the_reader(data: bytes) -> None:
    assert isinstance(parse_response_request(data, {}, SETTINGS, CATALOG, 5), OpenAiRequest | HttpFault)


async def test_the_sdk_reads_a_whole_response_and_goes_on(client: openai.AsyncOpenAI, host: FakeHost) -> None:
    first = await client.responses.create(model="openclaw", input="hello", instructions="be kind")
    assert (first.output_text, first.status) == ("Hello", "completed")
    assert first.usage is not None and (first.usage.input_tokens, first.usage.output_tokens) == (16, 7)
    second = await client.responses.create(model="openclaw", input="more", previous_response_id=first.id)
    assert second.id != first.id and host.seen[0].session == host.seen[1].session


async def test_the_sdk_reads_a_stream(client: openai.AsyncOpenAI) -> None:
    kinds, text = [], ""
    async with client.responses.stream(model="openclaw", input="hello") as stream:
        async for event in stream:
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                text += event.delta
        final = await stream.get_final_response()
    assert text == final.output_text == "Hello"
    assert [k for k in kinds if not k.endswith("delta")] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


async def test_a_failed_run_ends_the_stream_as_failed(http: aiohttp.ClientSession, host: FakeHost) -> None:
    host.script = lambda inbound: words("par", end="error", failure=ModelFailure("overloaded", "busy"))
    host.outcome = "failed"
    async with http.post("/v1/responses", json={"input": "x", "stream": True}) as answer:
        text = await answer.text()
    assert "event: response.failed" in text and '"code":"provider_overloaded"' in text
    assert text.endswith("data: [DONE]\n\n") and "response.completed" not in text


async def test_it_can_be_switched_off(http: aiohttp.ClientSession, host: FakeHost) -> None:
    host.settings = settings(responses=False)
    async with http.post("/v1/responses", json={"input": "x"}) as answer:
        assert answer.status == 404
