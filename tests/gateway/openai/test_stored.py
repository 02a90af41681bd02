"""Responses and conversations asked for again, with OpenAI's own client in front of a whole program."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running
from flow.test_http import WEATHER, assert_roles, sdk, served
from later import LaterModule
from palinurus.app import App
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say

openai = LaterModule("openai")


@asynccontextmanager
async def talking(home: Path, model: ScriptedModel) -> AsyncIterator[tuple[App, openai.AsyncOpenAI]]:
    async with running(home, model) as app, served(app) as gateway, sdk(gateway) as client:
        yield app, client


async def wait_until_over(client: openai.AsyncOpenAI, ident: str) -> Any:
    async with asyncio.timeout(60):
        while (found := await client.responses.retrieve(ident)).status in ("queued", "in_progress"):
            await asyncio.sleep(0.01)
    return found


async def test_a_response_is_there_after_a_restart(tmp_path: Path) -> None:
    async with talking(tmp_path / "h", ScriptedModel([say("Hello")])) as (_, client):
        first = await client.responses.create(model="openclaw", input="hi there")
    async with talking(tmp_path / "h", ScriptedModel([])) as (_, client):
        again = await client.responses.retrieve(first.id)
        assert (again.id, again.status, again.output_text) == (first.id, "completed", "Hello")
        assert again.output[0].id == first.output[0].id and again.created_at == first.created_at
        assert again.usage is not None and first.usage is not None
        assert again.usage.output_tokens == first.usage.output_tokens
        (asked,) = (await client.responses.input_items.list(first.id)).data
        assert (asked.role, asked.content[0].text) == ("user", "hi there")


async def test_an_id_of_nobodys_leads_nowhere(tmp_path: Path) -> None:
    async with talking(tmp_path / "h", ScriptedModel([say("Hello")])) as (_, client):
        first = await client.responses.create(model="openclaw", input="hi")
        for wrong in (first.id[:-1] + ("0" if first.id[-1] != "0" else "1"), "resp_x", first.output[0].id):
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(wrong)
        with pytest.raises(openai.APIStatusError) as refused:
            await client.responses.delete(first.id)
        assert refused.value.status_code == 405  # it is part of its conversation


async def test_in_the_background_it_is_answered_at_once_and_fetched_later(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("done"), gate)])
    async with talking(tmp_path / "h", model) as (_, client):
        begun = await client.responses.create(model="openclaw", input="work", background=True)
        assert begun.status == "queued" and begun.output == []
        await gate.wait_reached()
        assert (await client.responses.retrieve(begun.id)).status == "in_progress"
        gate.open()
        assert (await wait_until_over(client, begun.id)).output_text == "done"


async def test_what_is_cancelled_stays_so(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("never"), gate)])
    async with talking(tmp_path / "h", model) as (_, client):
        begun = await client.responses.create(model="openclaw", input="work", background=True)
        await gate.wait_reached()
        await client.responses.cancel(begun.id)
        over = await wait_until_over(client, begun.id)
        assert over.status == "cancelled" and over.output_text == ""
        assert (await client.responses.cancel(begun.id)).status == "cancelled"


async def test_what_is_referred_to_is_not_sent_again(tmp_path: Path) -> None:
    """W28: The tool loop of clients that refer to items instead of repeating them."""
    model = ScriptedModel([call_tools(("weather", {"city": "Rome"})), say("It is sunny.")])
    async with talking(tmp_path / "h", model) as (_, client):
        tools: Any = [{"type": "function", "strict": False, **WEATHER}]
        first = await client.responses.create(model="openclaw", input="weather?", tools=tools)
        (call,) = first.output
        asked: Any = [
            {"role": "user", "content": "weather?"},
            {"type": "item_reference", "id": call.id},
            {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"},
        ]
        second = await client.responses.create(model="openclaw", input=asked, tools=tools)
        assert second.output_text == "It is sunny."
        again = await client.responses.retrieve(first.id)
        assert [(item.id, item.name) for item in again.output] == [(call.id, "weather")]
        (given,) = (await client.responses.input_items.list(second.id)).data
        assert (given.call_id, given.output) == (call.call_id, "sunny")
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model="openclaw", input=[{"type": "item_reference", "id": "msg_1"}])
    assert_roles(model.requests[1].messages)


async def test_a_conversation_is_a_session(tmp_path: Path) -> None:
    model = ScriptedModel([say("Hello"), say("Teal.")])
    async with talking(tmp_path / "h", model) as (_, client):
        talk = await client.conversations.create()
        await client.responses.create(model="openclaw", input="my colour is teal", conversation=talk.id)
        await client.responses.create(model="openclaw", input="which one?", conversation={"id": talk.id})
        assert (await client.conversations.retrieve(talk.id)).id == talk.id
        items = (await client.conversations.items.list(talk.id, order="asc")).data
        newest = (await client.conversations.items.list(talk.id, limit=1)).data
        assert [item.content[0].text for item in items] == ["my colour is teal", "Hello", "which one?", "Teal."]
        assert [item.role for item in items] == ["user", "assistant"] * 2 and newest[0].id == items[-1].id
        rest = (await client.conversations.items.list(talk.id, order="asc", after=items[2].id)).data
        assert [item.id for item in rest] == [items[3].id]
        with pytest.raises(openai.NotFoundError):
            await client.conversations.retrieve("conv_nothing")
        with pytest.raises(openai.BadRequestError):
            await client.responses.create(
                model="openclaw", input="x", conversation=talk.id, previous_response_id="resp_x"
            )
    assert [m.text for m in model.requests[1].messages] == ["my colour is teal", "Hello", "which one?"]


async def test_a_conversation_begins_with_items_and_metadata_and_keeps_them(tmp_path: Path) -> None:
    items: Any = [{"role": "user", "content": "my colour is teal"}, {"role": "assistant", "content": "Noted."}]
    async with talking(tmp_path / "h", ScriptedModel([])) as (_, client):
        talk = await client.conversations.create(metadata={"topic": "paint"}, items=items)
        assert talk.metadata == {"topic": "paint"}
    model = ScriptedModel([say("Teal."), say("Still teal.")])
    async with talking(tmp_path / "h", model) as (_, client):  # after a restart
        await client.responses.create(model="openclaw", input="which one?", conversation=talk.id)
        await client.responses.create(model="openclaw", input="sure?", conversation=talk.id)
        told = (await client.conversations.items.list(talk.id, order="asc")).data
        said = ["my colour is teal", "Noted.", "which one?", "Teal.", "sure?", "Still teal."]
        assert [one.content[0].text for one in told] == said
        assert (await client.conversations.retrieve(talk.id)).metadata == {"topic": "paint"}
        assert (await client.conversations.update(talk.id, metadata={"topic": "walls"})).metadata == {"topic": "walls"}
        assert (await client.conversations.retrieve(talk.id)).metadata == {"topic": "walls"}
        for wrong in (
            [{"role": "system", "content": "Be rude."}],
            [{"type": "web_search_call", "id": "x"}],
            items * 11,
        ):
            with pytest.raises(openai.BadRequestError):
                await client.conversations.create(items=wrong)
        with pytest.raises(openai.BadRequestError):
            await client.conversations.create(metadata={"a" * 65: "b"})
    assert [m.text for m in model.requests[1].messages] == said[:5]


async def test_items_are_added_before_the_first_response_and_asked_for_one_by_one(tmp_path: Path) -> None:
    first: Any = [{"role": "user", "content": "my colour is teal"}]
    async with talking(tmp_path / "h", ScriptedModel([say("Teal.")])) as (_, client):
        talk = await client.conversations.create(items=first)
        more: Any = [{"role": "assistant", "content": "Noted."}]
        (added,) = (await client.conversations.items.create(talk.id, items=more)).data
        assert (added.role, added.content[0].text) == ("assistant", "Noted.")
        again = await client.conversations.items.retrieve(added.id, conversation_id=talk.id)
        assert again.content[0].text == "Noted."
        with pytest.raises(openai.NotFoundError):
            await client.conversations.items.retrieve("msg_x", conversation_id=talk.id)
        await client.responses.create(model="openclaw", input="which one?", conversation=talk.id)
        for wrong in (more, []):
            with pytest.raises(openai.BadRequestError, match="before the first response"):
                await client.conversations.items.create(talk.id, items=wrong)
        with pytest.raises(openai.APIStatusError) as refused:
            await client.conversations.items.delete(added.id, conversation_id=talk.id)
        assert refused.value.status_code == 405 and "what was said stays" in refused.value.message


async def test_a_conversation_is_deleted_with_its_session_and_no_other_session_is(tmp_path: Path) -> None:
    items: Any = [{"role": "user", "content": "my colour is teal"}]
    async with talking(tmp_path / "h", ScriptedModel([say("Teal."), say("Hello")])) as (app, client):
        talk = await client.conversations.create(items=items, metadata={"topic": "paint"})
        await client.responses.create(model="openclaw", input="which one?", conversation=talk.id)
        assert len(await app.store.sessions()) == 1
        gone = await client.conversations.delete(talk.id)
        assert (gone.id, gone.deleted) == (talk.id, True)
        assert not await app.store.sessions() and not (await client.conversations.items.list(talk.id)).data
        other = await client.responses.create(model="openclaw", input="hi", user="ada")
        session = other.id.removeprefix("resp_").rpartition("-")[0]
        with pytest.raises(openai.BadRequestError, match="pal sessions delete"):
            await client.conversations.delete(f"conv_{session}")
        assert len(await app.store.sessions()) == 1


async def test_a_response_is_streamed_again_whole_or_from_where_the_client_was(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([say("Hello there"), hold_at(say("done"), gate)])
    async with talking(tmp_path / "h", model) as (_, client):
        first = [one async for one in await client.responses.create(model="openclaw", input="hi", stream=True)]
        ident = first[0].response.id  # type: ignore[union-attr]
        again = [one async for one in await client.responses.retrieve(ident, stream=True)]
        assert [one.type for one in again][:2] == ["response.created", "response.in_progress"]
        assert "".join(one.delta for one in again if one.type == "response.output_text.delta") == "Hello there"
        assert again[-1].type == "response.completed" and again[-1].response.output_text == "Hello there"
        seen = first[3].sequence_number
        rest = [one async for one in await client.responses.retrieve(ident, stream=True, starting_after=seen)]
        assert rest[0].sequence_number == seen + 1 and rest[-1].response.output_text == "Hello there"  # type: ignore[union-attr]
        assert "response.created" not in [one.type for one in rest]
        begun = await client.responses.create(model="openclaw", input="work", background=True)
        await gate.wait_reached()
        following = await client.responses.retrieve(begun.id, stream=True)
        gate.open()
        assert [one async for one in following][-1].response.output_text == "done"  # type: ignore[union-attr]
