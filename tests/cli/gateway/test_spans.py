"""OpenTelemetry: one span a run, one each for its model calls and tools, and nothing of what was said."""

from __future__ import annotations

from pathlib import Path

from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from flow.test_app import running
from palinurus.cli.gateway.spans import OtelSpans
from palinurus.testing.model import ScriptedModel, call_tools, say
from support import inbound


async def test_a_run_and_its_parts(tmp_path: Path) -> None:
    kept = InMemorySpanExporter()
    spans = OtelSpans(SimpleSpanProcessor(kept))
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
