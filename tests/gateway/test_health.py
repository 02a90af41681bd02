"""Counting, and that the text is what Prometheus reads."""

from __future__ import annotations

import re

import aiohttp

from palinurus.core.types.events import AgentEnd, ToolEnd
from palinurus.core.types.messages import TextBlock, ToolResult
from palinurus.core.types.usage import TokenUsage
from palinurus.gateway.health import NAMES, GatewayMetrics
from support import inbound

LINE = re.compile(r'palinurus_\w+(\{\w+="(?:[^"\\\n]|\\.)*"(,\w+="(?:[^"\\\n]|\\.)*")*\})? [0-9.e+-]+')


def value(metrics: GatewayMetrics, name: str) -> float:
    text = metrics.text(1.0, 2, True).decode()
    return next((float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name)), 0.0)


def test_a_message_is_counted_from_end_to_end() -> None:
    metrics = GatewayMetrics()
    metrics.on_accepted("1", "agent:main:main", inbound("hi"))
    metrics.on_started("1", "agent:main:main", inbound("hi"))
    assert value(metrics, "palinurus_runs_in_progress") == 1
    result = ToolResult("c", "ls", (TextBlock("x"),), True)
    metrics.on_event("1", ToolEnd("c", "ls", result, True, 1500))
    metrics.on_event("1", AgentEnd((), "stop", TokenUsage(3, 4, 5, 6, 18)))
    metrics.on_ended("1")
    assert value(metrics, "palinurus_runs_in_progress") == 0
    assert value(metrics, 'palinurus_runs_total{end="stop"}') == 1
    assert value(metrics, 'palinurus_tool_calls_total{tool="ls",outcome="error"}') == 1
    assert value(metrics, 'palinurus_tool_seconds_total{tool="ls"}') == 1.5
    assert value(metrics, 'palinurus_tokens_total{kind="cache_read"}') == 5


def test_names_that_models_make_up_do_not_fill_the_memory() -> None:
    metrics = GatewayMetrics()
    for number in range(NAMES * 3):
        name = f'tool"{number}\n'
        metrics.on_event("1", ToolEnd("c", name, ToolResult("c", name, (), True), True, 1))
    text = metrics.text(1.0, 0, True).decode()
    assert text.count("tool_seconds_total{") <= NAMES + 1 and 'tool="other"' in text
    assert all(LINE.fullmatch(line) for line in text.splitlines() if not line.startswith("#"))


async def test_requests_are_counted_by_route_never_by_path(http: aiohttp.ClientSession) -> None:
    await http.get("/health")
    await http.get("/secret-path")
    async with http.get("/metrics") as answer:
        text = await answer.text()
    assert answer.content_type == "text/plain" and "secret-path" not in text
    assert 'palinurus_http_requests_total{route="health",status="200"} 1' in text
