"""Runs, model calls and tool calls as OpenTelemetry spans. The only file that knows `opentelemetry` (extra `otel`).

Follows the inbox like every other face. Names, times, counts and outcomes are told; what people or models wrote
never is. Where spans go is said by diagnostics.otel, or by the environment variables every OpenTelemetry program obeys
(OTEL_EXPORTER_OTLP_…).
"""

from __future__ import annotations

from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, StatusCode, set_span_in_context

from palinurus import __version__
from palinurus.config.sections.gateway import SpanSettings
from palinurus.core.types.events import AgentEnd, AgentStart, MessageEnd, MessageStart, RunEvent, ToolEnd, ToolStart
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.messages import AssistantMessage


class _Open:
    """The spans of one message that have not ended."""

    def __init__(self, run: Span) -> None:
        self.run = run
        self.model: Span | None = None
        self.tools: dict[str, Span] = {}


class OtelSpans:
    """Implements `inbox.feed.Follower`; `close` sends what waits."""

    def __init__(self, settings: SpanSettings, processor: SpanProcessor | None = None) -> None:
        resource = Resource.create({"service.name": settings.service, "service.version": __version__})
        self._provider = TracerProvider(resource=resource, sampler=ParentBased(TraceIdRatioBased(settings.share)))
        self._provider.add_span_processor(processor or _make_processor(settings))
        self._tracer = self._provider.get_tracer("palinurus", __version__)
        self._open: dict[str, _Open] = {}

    def on_accepted(self, item: str, session: str, inbound: Inbound) -> None:
        pass

    def on_started(self, item: str, session: str, inbound: Inbound) -> None:
        named = {"palinurus.item": item, "palinurus.session": session, "palinurus.channel": inbound.target.channel}
        self._open[item] = _Open(self._tracer.start_span("run", attributes=named))

    def on_event(self, item: str, event: RunEvent) -> None:
        opened = self._open.get(item)
        if opened is None:
            return
        if isinstance(event, AgentStart):
            opened.run.set_attribute("gen_ai.request.model", event.model)
        elif isinstance(event, MessageStart) and event.message is None:
            self._end(opened.model)
            opened.model = self._child(opened, "model call", {})
        elif isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage) and opened.model is not None:
            _used(opened.model, event.message)
            self._end(opened.model, event.message.failed)
            opened.model = None
        elif isinstance(event, ToolStart):
            opened.tools[event.id] = self._child(opened, f"tool {event.name}", {"gen_ai.tool.name": event.name})
        elif isinstance(event, ToolEnd):
            self._end(opened.tools.pop(event.id, None), event.is_error)
        elif isinstance(event, AgentEnd):
            opened.run.set_attribute("palinurus.end", event.end)
            if event.failure is not None:
                opened.run.set_status(StatusCode.ERROR, event.failure.kind)

    def on_merged(self, item: str, into: str) -> None:
        self.on_ended(item)

    def on_ended(self, item: str) -> None:
        opened = self._open.pop(item, None)
        if opened is None:
            return
        for span in (opened.model, *opened.tools.values(), opened.run):
            self._end(span)

    def close(self) -> None:
        """End what is open and send what waits."""
        for item in tuple(self._open):
            self.on_ended(item)
        self._provider.shutdown()

    def _child(self, opened: _Open, name: str, attributes: dict[str, Any]) -> Span:
        return self._tracer.start_span(name, set_span_in_context(opened.run), attributes=attributes)

    def _end(self, span: Span | None, failed: bool = False) -> None:
        if span is not None:
            if failed:
                span.set_status(StatusCode.ERROR)
            span.end()


def _make_processor(settings: SpanSettings) -> SpanProcessor:
    """What the config leaves out the exporter takes from the environment."""
    headers = {name: value.reveal() for name, value in settings.headers.items()} or None
    exporter = OTLPSpanExporter(endpoint=settings.address or None, headers=headers)
    wait = settings.flush * 1000 if settings.flush else None
    return BatchSpanProcessor(exporter, schedule_delay_millis=wait)


def _used(span: Span, message: AssistantMessage) -> None:
    span.set_attributes(
        {
            "gen_ai.response.model": message.model or "",
            "gen_ai.usage.input_tokens": message.usage.input,
            "gen_ai.usage.output_tokens": message.usage.output,
        }
    )
