import asyncio
import json
import sys

import aiohttp
import pytest

from later import LaterModule
from palinurus.testing.model import StreamGate, call_tools, fail, hold_at, say
from palinurus.testing.server import (
    ModelServer,
    cut_stream,
    read_script,
    refuse_connection,
    respond_html,
    respond_malformed,
    respond_status,
    slow_stream,
    split_stream,
    stall_stream,
)

openai = LaterModule("openai")
anthropic = LaterModule("anthropic")

ASK = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}


async def post(server, body=ASK, path="/chat/completions"):
    async with aiohttp.ClientSession() as http:
        async with http.post(server.url + path, json=body, headers={"x-test": "1"}) as response:
            return response.status, response.headers, await response.read()


async def test_the_openai_sdk_reads_text_calls_and_usage():
    async with ModelServer([call_tools(("ls", {"path": "ü"}), text="wait"), say("hello there")]) as server:
        client = openai.AsyncOpenAI(api_key="k", base_url=server.url)
        async with client.chat.completions.stream(**{k: v for k, v in ASK.items() if k != "stream"}) as stream:
            first = (await stream.get_final_completion()).choices[0]
        assert first.message.content == "wait" and first.finish_reason == "tool_calls"
        assert json.loads(first.message.tool_calls[0].function.arguments) == {"path": "ü"}
        whole = await client.chat.completions.create(model="m", messages=ASK["messages"])
        assert whole.choices[0].message.content == "hello there" and whole.usage.total_tokens == 15
        assert server.requests[0].headers["authorization"] == "Bearer k"
        await client.close()


async def test_the_anthropic_sdk_reads_thinking_text_and_calls():
    async with ModelServer([call_tools(("ls", {"a": 1}), text="look", thinking="hm"), say("done")]) as server:
        client = anthropic.AsyncAnthropic(api_key="k", base_url=server.url.removesuffix("/v1"))
        ask = {"model": "m", "max_tokens": 10, "messages": ASK["messages"]}
        async with client.messages.stream(**ask) as stream:
            message = await stream.get_final_message()
        assert [b.type for b in message.content] == ["thinking", "text", "tool_use"]
        assert message.content[2].input == {"a": 1} and message.stop_reason == "tool_use"
        assert (await client.messages.create(**ask)).content[0].text == "done"
        assert server.requests[0].api == "anthropic-messages"
        await client.close()


async def test_answers_that_are_not_the_protocol():
    steps = [
        respond_status(429, "{}", {"retry-after": "7"}),
        respond_html(),
        respond_malformed(),
        fail("overflow"),
        fail("cut", after="ab"),
    ]
    async with ModelServer(steps) as server:
        code, headers, _ = await post(server)
        assert (code, headers["retry-after"]) == (429, "7")
        code, headers, body = await post(server)
        assert code == 200 and "html" in headers["content-type"] and body.startswith(b"<!doctype")
        assert b"[[[" in (await post(server))[2]
        code, _, body = await post(server)
        assert code == 400 and b"too long" in body
        code, _, body = await post(server)
        assert code == 200 and b'"ab"' in body and b'"error"' in body and b"[DONE]" not in body
        assert len(server.requests) == 5 and server.requests[0].headers["x-test"] == "1"


async def test_connections_that_break():
    async with ModelServer([refuse_connection(), cut_stream(say("hello world"), 100)]) as server:
        for _ in range(2):
            with pytest.raises(aiohttp.ClientError):
                await post(server)


async def test_a_stalled_stream_sends_so_much_and_then_nothing_until_the_server_goes():
    async with ModelServer([stall_stream(say("hello"), 50)]) as server:
        async with aiohttp.ClientSession() as http:
            async with http.post(server.url + "/chat/completions", json=ASK) as response:
                assert len(await response.content.readexactly(50)) == 50
                assert server.open == 1
                await server.stop()
                with pytest.raises(aiohttp.ClientError):
                    await response.content.read()


async def test_pieces_pauses_and_gates_change_nothing_in_the_stream():
    gate = StreamGate()
    steps = [say("hello world"), split_stream(say("hello world"), 3), slow_stream(say("hello world"), 0.001)]
    async with ModelServer([*steps, hold_at(say("hello world"), gate)]) as server:
        bodies = [(await post(server))[2] for _ in range(3)]
        task = asyncio.create_task(post(server))
        await gate.wait_reached()
        gate.open()
        assert {*bodies, (await task)[2]} == {bodies[0]}


async def test_after_the_script_the_message_decides():
    async with ModelServer() as server:
        body = {**ASK, "stream": False, "messages": [{"role": "user", "content": "SAY yes"}]}
        assert json.loads((await post(server, body))[2])["choices"][0]["message"]["content"] == "yes"
        assert (await post(server, {}, "/nothing"))[0] == 404


async def test_as_a_process_of_its_own():
    argv = [sys.executable, "-m", "palinurus.testing.server", "--port", "0"]
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    try:
        url = (await process.stdout.readline()).decode().strip()
        async with aiohttp.ClientSession() as http, http.get(url + "/models") as response:
            assert response.status == 200
    finally:
        process.kill()
        await process.wait()


def test_a_script_file():
    script = read_script(b'[{"say": "a"}, {"status": 500, "body": "x"}, {"turn": {"text": "b"}, "cut": 3}]')
    assert script[0].text == "a" and script[1].body == b"x" and (script[2].turn.text, script[2].cut) == ("b", 3)


async def test_a_server_that_was_stopped_is_the_same_when_it_starts_again() -> None:
    server = ModelServer(default=stall_stream(say("never")))
    async with server:
        first = server.url
    async with server, aiohttp.ClientSession() as http:
        assert server.url == first
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                async with http.post(f"{server.url}/chat/completions", json={"stream": True, "messages": []}) as answer:
                    await answer.read()
