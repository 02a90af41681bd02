"""Answers in a form, through the whole program: what a client asks for is what it gets, however sloppy the model, or it
is told that it cannot be had. With the stock SDK."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pydantic
import pytest

from flow.test_app import running
from flow.test_http import sdk, served
from later import LaterModule
from palinurus.core.structured import TRIES
from palinurus.core.types.messages import AssistantMessage, TextBlock, UserMessage
from palinurus.core.types.model import ModelEvent, ModelRequest, StopSignal, StreamDone, TextDelta
from palinurus.testing.model import ScriptedModel, call_tools, say

openai = LaterModule("openai")


class Boat(pydantic.BaseModel):
    name: str
    length: float
    sails: list[str]


GOOD = {"name": "Argo", "length": 28.5, "sails": ["main", "jib"]}
TEXT = json.dumps(GOOD)
SCHEMA = {"type": "json_schema", "json_schema": {"name": "boat", "schema": Boat.model_json_schema()}}
ASK: list[Any] = [{"role": "user", "content": "a boat"}]
MISTAKES = (
    "I would love to help with that!",
    json.dumps({**GOOD, "length": "long"}),
    json.dumps({"name": "Argo"}),
    TEXT[:-3],
    TEXT.replace('"', "'"),
    "[1, 2, 3]",
    "```json\n" + TEXT.replace("28.5", "null") + "\n```",
    "NO_REPLY",
)
DRESSED = (
    TEXT,
    f"```json\n{TEXT}\n```",
    f"Here it is: {TEXT} Fair winds!",
    f"<think>[1] or [2]?</think>{TEXT}",
    f"\n {TEXT}\n",
)


class SloppyModel:
    """Makes up to TRIES mistakes before each right answer, which it dresses up."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._left = 0
        self.asked = 0

    async def stream(self, request: ModelRequest, stop: StopSignal) -> AsyncIterator[ModelEvent]:
        self.asked += 1
        if isinstance(last := request.messages[-1], UserMessage) and "[Palinurus]" not in last.text:
            self._left = self._random.randint(0, TRIES)
        text = self._random.choice(MISTAKES if self._left else DRESSED)
        self._left -= 1
        yield TextDelta(text)
        yield StreamDone(AssistantMessage((TextBlock(text),), provider="fake", model="m"))


async def test_a_sloppy_model_answers_in_form_a_hundred_times(tmp_path: Path) -> None:
    """W27: `response_format` was dropped, and clients got prose."""
    model = SloppyModel(7)
    async with running(tmp_path / "h", model) as app, served(app) as gateway, sdk(gateway) as client:  # type: ignore[arg-type]
        for turn in range(50):
            chat = await client.chat.completions.parse(model="openclaw", messages=ASK, response_format=Boat)
            assert chat.choices[0].message.parsed == Boat(**GOOD), turn
            response = await client.responses.parse(model="openclaw", input="a boat", text_format=Boat)
            assert response.output_parsed == Boat(**GOOD), turn
    assert model.asked > 200  # it was made to try again


@pytest.mark.parametrize("kind", ["json_object", "json_schema"])
async def test_a_stream_carries_the_form_and_nothing_else(tmp_path: Path, kind: str) -> None:
    form: Any = SCHEMA if kind == "json_schema" else {"type": "json_object"}
    model = ScriptedModel([call_tools(("ls", {})), say("Let me see…"), say(f"Here: {TEXT}")])
    async with running(tmp_path / "h", model) as app, served(app) as gateway, sdk(gateway) as client:
        frames = await client.chat.completions.create(
            model="openclaw", messages=ASK, response_format=form, stream=True, extra_headers={"Idempotency-Key": "k"}
        )
        text = "".join([frame.choices[0].delta.content or "" async for frame in frames if frame.choices])
        again = await client.chat.completions.create(
            model="openclaw", messages=ASK, response_format=form, extra_headers={"Idempotency-Key": "k"}
        )
    assert text == TEXT == again.choices[0].message.content
    told = model.requests[-1].messages[-1]
    assert isinstance(told, UserMessage) and "it holds no JSON" in told.text
    said = model.requests[0].prompt.volatile
    assert "one JSON value" in said and ("sails" in said) is (kind == "json_schema")
    assert model.requests[0].prompt.stable == model.requests[2].prompt.stable


async def test_a_model_that_never_gets_it_right_is_an_error_and_not_an_answer(tmp_path: Path) -> None:
    model = ScriptedModel([say("no")], repeat=True)
    async with running(tmp_path / "h", model) as app, served(app) as gateway, sdk(gateway) as client:
        with pytest.raises(openai.APIStatusError, match="had the form that was asked for"):
            await client.chat.completions.create(model="openclaw", messages=ASK, response_format=SCHEMA)  # type: ignore[arg-type]
    assert len(model.requests) == TRIES + 1


REFUSED: list[dict[str, Any]] = [
    {"response_format": {"type": "xml"}},
    {"response_format": {"type": "json_schema"}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"if": {}}}}},
    {"n": 2}, {"logprobs": True}, {"top_logprobs": 3}, {"logit_bias": {"5": 1}}, {"presence_penalty": 1.0},
    {"frequency_penalty": 0.5}, {"modalities": ["text", "audio"]}, {"tool_choice": "required"},
    {"stop": [""]}, {"stop": list("abcde")}, {"top_p": 0}, {"functions": [{"name": "f"}]},
    {"prediction": {"type": "content", "content": "x"}}, {"web_search_options": {}, "audio": {"voice": "x"}},
]  # fmt: skip


@pytest.mark.parametrize("extra", REFUSED, ids=lambda one: next(iter(one)))
async def test_what_cannot_be_had_is_refused(tmp_path: Path, extra: dict[str, Any]) -> None:
    model = ScriptedModel([say("hi")])
    async with running(tmp_path / "h", model) as app, served(app) as gateway, sdk(gateway) as client:
        with pytest.raises(openai.BadRequestError) as told:
            await client.chat.completions.create(model="openclaw", messages=ASK, extra_body=extra)
    assert told.value.code in ("unsupported_parameter", "unsupported_schema", "invalid_value") and not model.requests


async def test_what_says_nothing_is_taken_and_what_the_wire_has_is_handed_on(tmp_path: Path) -> None:
    """W27: `top_p`, `stop` and `seed` were dropped."""
    model = ScriptedModel([say("hi")], repeat=True)
    async with running(tmp_path / "h", model) as app, served(app) as gateway, sdk(gateway) as client:
        await client.chat.completions.create(
            model="openclaw", messages=ASK, n=1, logprobs=False, presence_penalty=0, tool_choice="auto",
            response_format={"type": "text"}, top_p=0.5, stop="END", seed=7, temperature=0.1,
        )  # fmt: skip
        await client.responses.create(model="openclaw", input="hi", top_p=0.25)
        for extra in ({"top_logprobs": 2}, {"max_tool_calls": 1}, {"include": ["message.output_text.logprobs"]}):
            with pytest.raises(openai.BadRequestError):
                await client.responses.create(model="openclaw", input="hi", extra_body=extra)
    first, second = model.requests
    assert (first.top_p, first.stop, first.seed, first.temperature) == (0.5, ("END",), 7, 0.1)
    assert second.top_p == 0.25


async def test_a_model_that_cannot_be_told_is_not_asked(tmp_path: Path) -> None:
    anthropic = {
        "baseUrl": "http://127.0.0.1:9", "apiKey": "k", "api": "anthropic-messages", "models": [{"id": "m"}],
    }  # fmt: skip
    models = {"providers": {"fake": anthropic}}
    model = ScriptedModel([say("hi")])
    async with running(tmp_path / "h", model, models=models) as app, served(app) as gateway, sdk(gateway) as client:
        with pytest.raises(openai.BadRequestError, match="cannot be asked for seed"):
            await client.chat.completions.create(model="openclaw", messages=ASK, seed=1, stop=["x"])
    assert not model.requests
