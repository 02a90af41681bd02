"""Run by the environment that has the real Agent SDK, with the path of `pal` as its argument: a JSON line a check.

Its checks are ordinary uses of the SDK; the words in capitals steer the scripted model (`palinurus.testing.markers`).
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    PermissionResultDeny,
    ProcessError,
    ResultError,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    query,
)

CLI = sys.argv[1]
READ = 'TOOL read {"path": "notes.txt"}\nSAY it says $RESULT'
WRITE = 'TOOL write {"path": "made.txt", "content": "x"}\nSAY done: $RESULT'


def options(**more: Any) -> ClaudeAgentOptions:
    return ClaudeAgentOptions(cli_path=CLI, **more)


async def collect(prompt: str, **more: Any) -> list[Any]:
    return [message async for message in query(prompt=prompt, options=options(**more))]


def result(messages: list[Any]) -> ResultMessage:
    (found,) = [one for one in messages if isinstance(one, ResultMessage)]
    return found


def blocks(messages: list[Any], kind: type) -> list[Any]:
    said = (
        one for one in messages if isinstance(one, (AssistantMessage, UserMessage)) and isinstance(one.content, list)
    )
    return [block for one in said for block in one.content if isinstance(block, kind)]


async def plain() -> None:
    messages = await collect("SAY land ho")
    first, told = messages[0], result(messages)
    assert isinstance(first, SystemMessage) and first.subtype == "init", first
    assert first.data["session_id"] == told.session_id and first.data["model"]
    assert [block.text for block in blocks(messages, TextBlock)] == ["land ho"]
    assert (told.subtype, told.is_error, told.result, told.num_turns) == ("success", False, "land ho", 1), told
    assert told.usage is not None and told.usage["output_tokens"] > 0 and told.permission_denials == []


async def tools() -> None:
    messages = await collect(READ)
    (call,), (given,) = blocks(messages, ToolUseBlock), blocks(messages, ToolResultBlock)
    assert (call.name, call.input) == ("read", {"path": "notes.txt"}) and given.tool_use_id == call.id
    assert "remember the milk" in str(given.content) and not given.is_error
    assert "remember the milk" in (result(messages).result or "") and result(messages).num_turns == 2


async def partial() -> None:
    events = [
        one.event for one in await collect("SAY a b c", include_partial_messages=True) if isinstance(one, StreamEvent)
    ]
    kinds = [event["type"] for event in events]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop", kinds
    texts = [event["delta"]["text"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(texts) == "a b c", texts


async def resume() -> None:
    first = result(await collect("SAY one"))
    again = result(await collect("SAY two", resume=first.session_id))
    last = result(await collect("SAY three", continue_conversation=True))
    assert first.session_id == again.session_id == last.session_id
    assert result(await collect("SAY other")).session_id != first.session_id


async def limits() -> None:
    try:
        messages = await collect(f"{READ}", max_turns=1)
        told = result(messages)
        assert told.subtype == "error_max_turns" and told.is_error, told
    except ResultError as exc:  # newer SDKs raise what the result says
        assert "model calls" in str(exc), exc
    messages = await collect(READ, disallowed_tools=["Read"])
    assert blocks(messages, ToolResultBlock)[0].is_error
    messages = await collect(WRITE, permission_mode="plan")
    assert "plan mode" in str(blocks(messages, ToolResultBlock)[0].content)
    assert [one["tool_name"] for one in result(messages).permission_denials or []] == ["write"]


async def structured() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    messages = await collect('SAY {"n": 5}', output_format={"type": "json_schema", "schema": schema})
    assert result(messages).structured_output == {"n": 5}, result(messages)


async def permission() -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    async def decide(name: str, given: dict[str, Any], context: Any) -> Any:
        asked.append((name, given))
        return PermissionResultAllow() if len(asked) == 1 else PermissionResultDeny(message="not twice")

    async with ClaudeSDKClient(options(can_use_tool=decide)) as client:
        await client.query(WRITE)
        first = [message async for message in client.receive_response()]
        await client.query(WRITE)
        second = [message async for message in client.receive_response()]
    assert asked == [("write", {"path": "made.txt", "content": "x"})] * 2, asked
    assert not blocks(first, ToolResultBlock)[0].is_error and not result(first).permission_denials
    assert blocks(second, ToolResultBlock)[0].is_error and len(result(second).permission_denials or []) == 1


async def interrupt() -> None:
    async with ClaudeSDKClient(options()) as client:
        await client.query('TOOL exec {"command": "sleep 60"}\nSAY too late')

        async def wait() -> list[Any]:
            found = []
            async for message in client.receive_response():
                found.append(message)
                if blocks([message], ToolUseBlock):
                    await client.interrupt()
            return found

        messages = await asyncio.wait_for(wait(), 30)
        assert result(messages).is_error and "too late" not in str(messages)
        await client.query("SAY still here")
        assert result([message async for message in client.receive_response()]).result == "still here"


async def switches() -> None:
    async with ClaudeSDKClient(options()) as client:
        await client.set_permission_mode("plan")
        await client.query(WRITE)
        messages = [message async for message in client.receive_response()]
        assert "plan mode" in str(blocks(messages, ToolResultBlock)[0].content)
        await client.set_permission_mode("acceptEdits")
        await client.query(WRITE)
        messages = [message async for message in client.receive_response()]
        assert not blocks(messages, ToolResultBlock)[0].is_error


async def refusals() -> None:
    try:
        await collect("SAY x", mcp_servers={"a": {"command": "true"}})
    except ProcessError as exc:
        assert exc.exit_code == 64, exc
    else:
        raise AssertionError("servers of a program are not taken from the line")


CHECKS: tuple[Callable[[], Awaitable[None]], ...] = (
    plain, tools, partial, resume, limits, structured, permission, interrupt, switches, refusals,
)  # fmt: skip


async def main() -> None:
    for check in CHECKS:
        said = ""
        try:
            await asyncio.wait_for(check(), 90)
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - whatever it is, it is told
            said = traceback.format_exc()
        print(json.dumps({"name": check.__name__, "ok": not said, "said": said}), flush=True)


asyncio.run(main())
