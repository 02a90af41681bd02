"""What the gate costs: judging who gave the values of a call, and putting a question to the owner."""

from __future__ import annotations

import json
import os
import tempfile
import time
from typing import Any

from measures import Bench, Row

from palinurus.clock import SystemClock
from palinurus.core.policy.deciding import judge_values
from palinurus.core.policy.taint import collect_taint
from palinurus.core.types.approval import ApprovalRequest
from palinurus.core.types.messages import AssistantMessage, Message, TextBlock, ToolCall, ToolResult, UserMessage
from palinurus.core.types.tool import Tool, ToolReach
from palinurus.services.approvals import ApprovalBoard
from palinurus.store.factory import open_store

QUESTIONS = 1_200


async def _nothing(ctx: Any) -> Any: ...


def _talk(turns: int) -> list[Message]:
    """A conversation with mails in it: one question of the owner's and one listing of ten mails in each turn."""
    found: list[Message] = []
    for turn in range(turns):
        rows = [
            {"id": f"{turn}-{n}", "sender": f"anna{n}@example.org", "subject": f"Report {n}", "body": "words " * 40}
            for n in range(10)
        ]
        found += (
            UserMessage(f"What came in on day {turn}? Tell Bob at bob@example.org about it."),
            AssistantMessage((ToolCall("1", "list_mails", {"day": turn}),)),
            ToolResult("1", "list_mails", (TextBlock(json.dumps(rows)),), source="plugin:mail"),
        )
    return found


async def judging(bench: Bench) -> list[Row]:
    """What decides about a call: values the owner gave, and values that nobody gave, which all rules look for."""
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    send = Tool("send_email", "x", schema, _nothing, origin="mail", reach=ToolReach("out", ("to",)))
    rows = []
    for turns in (3, 30):
        talk = _talk(turns)
        # who asks waits for a person: no target
        for words, to, target in (("that passes", "bob@example.org", 0.2), ("that asks", "eve@evil.example", None)):
            samples = []
            for _ in range(bench.many(200)):
                start = time.perf_counter()
                judge_values(send, {"to": to, "body": "all is well"}, talk)
                samples.append((time.perf_counter() - start) * 1000)
            rows.append(Row(f"judging a call {words}, after {turns} listings of mails", samples, "ms", target))
    samples = []
    for _ in range(bench.many(200)):
        start = time.perf_counter()
        collect_taint(_TURN)
        samples.append((time.perf_counter() - start) * 1000)
    return [*rows, Row("what a message and a result taint", samples, "ms", 0.2)]


_TURN = _talk(1)


async def questions(bench: Bench) -> list[Row]:
    """A question to the owner, kept on disk: the first ones, and with many before them."""
    with tempfile.TemporaryDirectory() as home:
        clock = SystemClock()
        store = await open_store(home, clock)
        try:
            board = ApprovalBoard(store, clock, os.path.join(home, "approvals.json"))
            took: list[float] = []
            for number in range(QUESTIONS if not bench.quick else QUESTIONS // 4):
                ask = ApprovalRequest(
                    kind="tool", agent="main", session="agent:main:main", run="r", call=str(number), tool="send_email",
                    title="send", command=f"to {number}", binding={"args": str(number)},
                )  # fmt: skip
                start = time.perf_counter()
                await board.ask(ask)
                took.append((time.perf_counter() - start) * 1000)
        finally:
            await store.close()
    early, late = took[50:150], took[-100:]
    ratio = sorted(late)[50] / sorted(early)[50]
    return [
        Row(f"a question, {len(took)} before it", late, "ms"),
        Row(f"a question: with {len(took)} before it / with 100", [ratio], "x", 1.5),
    ]
