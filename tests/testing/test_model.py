import asyncio

import pytest

from palinurus.abort import Abort
from palinurus.core.types.model import (
    CallDelta,
    CallStart,
    ModelFailure,
    StreamDone,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
)
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, fail, hold_at, make_request, say


async def run(model, request=None, stop=None):
    return [event async for event in model.stream(request or make_request("hi"), stop or Abort())]


async def test_text_comes_in_pieces_and_ends_with_the_whole():
    events = await run(ScriptedModel([say("hello world", thinking="hm")], chunk=4))
    assert [e.text for e in events[:-1]] == ["hm", "hell", "o wo", "rld"]
    assert isinstance(events[0], ThinkingDelta)
    last = events[-1]
    assert isinstance(last, StreamDone) and last.message.text == "hello world" and last.message.stopReason == "stop"


async def test_calls_have_ids_of_their_own_and_their_arguments_join_to_json():
    model = ScriptedModel([call_tools(("read", {"path": "a"}), ("ls", {})), call_tools(("ls", {}))])
    first, second = await run(model), await run(model)
    message = first[-1].message
    assert [(c.name, c.arguments) for c in message.calls] == [("read", {"path": "a"}), ("ls", {})]
    assert message.stopReason == "toolUse"
    assert "".join(e.json for e in first if isinstance(e, CallDelta) and e.index == 0) == '{"path":"a"}'
    ids = [e.id for e in first + second if isinstance(e, CallStart)]
    assert len(set(ids)) == 3


async def test_failures_are_values_with_what_had_arrived():
    model = ScriptedModel([fail("rate_limit"), fail("cut", after="half an ans"), ModelFailure("auth", "no")])
    early, late, bare = await run(model), await run(model), await run(model)
    assert len(early) == 1 and early[0].failure.kind == "rate_limit" and not early[0].failure.partial
    assert late[-1].failure.partial and late[-1].message.text == "half an ans"
    assert late[-1].message.stopReason == "error"
    assert bare[-1].failure.kind == "auth"


async def test_a_step_may_depend_on_the_request_and_requests_are_kept():
    model = ScriptedModel([lambda request: f"you said {request.messages[-1].text}"])
    events = await run(model, make_request("ping"))
    assert events[-1].message.text == "you said ping" and model.requests[0].messages[0].text == "ping"


async def test_asking_beyond_the_script_fails_unless_the_last_step_repeats():
    model = ScriptedModel([say("one")])
    await run(model)
    assert isinstance((await run(model))[-1], StreamFailed) and model.steps_left == 0
    again = ScriptedModel([say("one")], repeat=True)
    assert [(await run(again))[-1].message.text for _ in range(3)] == ["one"] * 3


async def test_abort_ends_a_stream_that_stands_at_a_gate():
    gate, stop = StreamGate(), Abort()
    task = asyncio.create_task(run(ScriptedModel([hold_at(say("abcdefgh"), gate, before=2)], chunk=2), stop=stop))
    await gate.wait_reached()
    assert not task.done()
    stop.set("user")
    events = await task
    assert [e.text for e in events[:-1]] == ["ab", "cd"]
    assert events[-1].failure.kind == "aborted" and events[-1].message.text == "abcd"
    assert isinstance(events[0], TextDelta)


async def test_an_open_gate_lets_the_rest_through():
    gate = StreamGate()
    gate.open()
    assert (await run(ScriptedModel([hold_at(say("ab"), gate, before=0)])))[-1].message.text == "ab"


async def test_a_cancel_from_elsewhere_passes_through():
    gate = StreamGate()
    task = asyncio.create_task(run(ScriptedModel([hold_at(say("ab"), gate)])))
    await gate.wait_reached()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
