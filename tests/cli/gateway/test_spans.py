"""OpenTelemetry: one span a run, one each for its model calls and tools, and nothing of what was said."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from flow.test_app import running, settings, until
from palinurus.cli.gateway.spans import OtelSpans
from palinurus.config.sections.gateway import SpanSettings
from palinurus.testing.model import ScriptedModel, call_tools, say
from support import inbound
from tools.web.kit import Site


async def test_a_run_and_its_parts(tmp_path: Path) -> None:
    kept = InMemorySpanExporter()
    spans = OtelSpans(SpanSettings(), SimpleSpanProcessor(kept))
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


@pytest.mark.parametrize(("own", "sent"), [({}, True), ({"sampleRate": 0}, False), ({"traces": False}, False)])
async def test_the_config_says_where_spans_go_and_how_many(tmp_path: Path, own: dict[str, object], sent: bool) -> None:
    site = Site()
    await site.start()
    site.routes["/v1/traces"] = site.routes["/else"] = lambda request: web.Response(body=b"")
    base = {"enabled": True, "headers": {"x-key": "k"}, "serviceName": "ship", "flushIntervalMs": 20, **own}
    for number, (where, path) in enumerate(
        (({"endpoint": site.url("")}, "/v1/traces"), ({"tracesEndpoint": site.url("/else")}, "/else"))
    ):
        told = settings(tmp_path / f"h{number}", diagnostics={"otel": {**base, **where}}).gateway.spans
        assert (told is None) is (own == {"traces": False})
        if told is None:
            continue
        spans = OtelSpans(told)
        spans.on_started("item", "session", inbound("hello"))
        spans.on_ended("item")
        if sent:  # by itself, long before the program ends
            await until(lambda path=path: path in [request.path for request in site.seen])  # type: ignore[misc]
        await asyncio.to_thread(spans.close)
    await site.stop()
    assert len(site.seen) == (2 if sent else 0)
    assert all(request.headers["x-key"] == "k" for request in site.seen)
