"""OpenTelemetry: one span a run, one each for its model calls and tools, and nothing of what was said."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from aiohttp import web
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from flow.test_app import running, settings, until
from palinurus.cli.gateway.spans import OtelSpans
from palinurus.config.sections.session import SpanSettings
from palinurus.testing.model import ScriptedModel, call_tools, say
from support import inbound
from tools.web.kit import Site


async def test_a_run_and_its_parts(tmp_path: Path) -> None:
    kept = InMemorySpanExporter()
    spans = OtelSpans(SpanSettings(), SimpleSpanProcessor(kept), InMemoryMetricReader())
    model = ScriptedModel([call_tools(("ls", {"path": "private-name"})), say("private answer")])
    async with running(tmp_path / "h", model) as app:
        app.follow(spans)
        accepted = await app.submit(inbound("private question"))
        await app.wait(accepted.id)
    spans.close()
    told = kept.get_finished_spans()
    assert sorted(span.name for span in told) == ["model call", "model call", "run", "tool ls"]
    run = next(span for span in told if span.name == "run")
    assert run.context is not None and run.attributes is not None
    assert all(s is run or (s.parent and s.parent.span_id == run.context.span_id) for s in told)
    assert run.attributes["gen_ai.request.model"] == "fake/m" and run.attributes["palinurus.end"] == "stop"
    assert [s.status.status_code.name for s in told if s.name == "tool ls"] == ["ERROR"]
    assert "private" not in "".join(span.to_json() for span in told)


SIGNALS = ("traces", "metrics", "logs")


@pytest.mark.parametrize(
    ("own", "sent"),
    [
        ({}, {"traces", "metrics"}),
        ({"sampleRate": 0}, {"metrics"}),
        ({"traces": False}, {"metrics"}),
        ({"metrics": False, "logs": True}, {"traces", "logs"}),
    ],
)
async def test_the_config_says_what_is_sent_where_and_how_much(
    tmp_path: Path, own: dict[str, object], sent: set[str]
) -> None:
    site = Site()
    await site.start()
    whole = {f"{name}Endpoint": site.url(f"/else/{name}") for name in SIGNALS}
    for name in SIGNALS:
        site.routes[f"/v1/{name}"] = site.routes[f"/else/{name}"] = lambda request: web.Response(body=b"")
    base = {"enabled": True, "headers": {"x-key": "k"}, "serviceName": "ship", "flushIntervalMs": 20, **own}
    for number, (where, path) in enumerate((({"endpoint": site.url("")}, "/v1/"), (whole, "/else/"))):
        told = settings(tmp_path / f"h{number}", diagnostics={"otel": {**base, **where}}).diagnostics.spans
        spans = OtelSpans(told)
        spans.attach_logs(None)
        spans.on_started("item", "session", inbound("hello"))
        logging.getLogger("palinurus.x").warning("a line")
        spans.on_ended("item")
        expected = {f"{path}{name}" for name in sent}
        await until(lambda all=expected: all <= {request.path for request in site.seen})  # type: ignore[misc]
        await asyncio.to_thread(spans.close)
        seen = {request.path for request in site.seen if request.path.startswith(path)}
        assert seen == expected
    await site.stop()
    assert all(request.headers["x-key"] == "k" for request in site.seen)
    assert settings(tmp_path / "off", diagnostics={"enabled": False, "otel": base}).diagnostics.spans is None


@pytest.mark.parametrize(
    ("key", "attribute", "text"),
    [
        ("inputMessages", "gen_ai.input.messages", "private question"),
        ("outputMessages", "gen_ai.output.messages", "private answer"),
        ("systemPrompt", "gen_ai.system_instructions", "You are"),
        ("toolDefinitions", "gen_ai.tool.definitions", "parameters"),
        ("toolInputs", "gen_ai.tool.call.arguments", "private-name"),
        ("toolOutputs", "gen_ai.tool.call.result", "private-name"),
    ],
)
@pytest.mark.parametrize("enabled", [True, False])
async def test_what_was_said_is_told_only_where_the_config_asks_for_it(
    tmp_path: Path, key: str, attribute: str, text: str, enabled: bool
) -> None:
    kept = InMemorySpanExporter()
    asked = {"enabled": True, "captureContent": {"enabled": enabled, key: True}}
    told = settings(tmp_path / "c", diagnostics={"otel": asked}).diagnostics.spans
    spans = OtelSpans(told, SimpleSpanProcessor(kept), InMemoryMetricReader(), secrets=("hunter22",))
    script = [call_tools(("ls", {"path": "private-name-hunter22"})), say("private answer hunter22")]
    async with running(tmp_path / "h", ScriptedModel(script)) as app:
        app.follow(spans)
        spans.attach(app.hooks)
        await app.wait((await app.submit(inbound("private question hunter22"))).id)
    spans.close()
    found = [str(value) for span in kept.get_finished_spans() for name, value in (span.attributes or {}).items()
             if name.startswith(("gen_ai.input", "gen_ai.output", "gen_ai.system", "gen_ai.tool."))
             and name != "gen_ai.tool.name"]  # fmt: skip
    named = {name for span in kept.get_finished_spans() for name in span.attributes or {}}
    assert (attribute in named) is enabled
    assert (any(text in one for one in found)) is enabled and "hunter22" not in "".join(found)
    others = {"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"} - {attribute}
    assert not others & named


async def test_figures_are_counted(tmp_path: Path) -> None:
    reader = InMemoryMetricReader()
    spans = OtelSpans(SpanSettings(), SimpleSpanProcessor(InMemorySpanExporter()), reader)
    async with running(tmp_path / "h", ScriptedModel([call_tools(("ls", {})), say("done")])) as app:
        app.follow(spans)
        await app.wait((await app.submit(inbound("hello"))).id)
    data = reader.get_metrics_data()
    assert data is not None
    names = {metric.name for one in data.resource_metrics for scope in one.scope_metrics for metric in scope.metrics}
    assert names >= {"palinurus.runs", "gen_ai.client.token.usage", "palinurus.tool.duration"}
    spans.close()
