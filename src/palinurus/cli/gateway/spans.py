"""Runs, model calls and tool calls as OpenTelemetry spans and figures. The only file that knows `opentelemetry` (extra
`otel`).

Follows the inbox like every other face. Names, times, counts and outcomes are told; what people or models wrote only
where diagnostics.otel.captureContent asks for it, and then without what looks like a secret. Where things go is said by
diagnostics.otel, or by the environment variables every OpenTelemetry program obeys (OTEL_EXPORTER_OTLP_…).
"""

from __future__ import annotations

import json
import logging
from time import monotonic
from typing import Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import Span, StatusCode, set_span_in_context

from palinurus import __version__
from palinurus.config.sections.session import SpanSettings
from palinurus.core.types.events import AgentEnd, AgentStart, MessageEnd, MessageStart, RunEvent, ToolEnd, ToolStart
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.messages import AssistantMessage
from palinurus.plugins.hooks import Hooks
from palinurus.providers.redact import blank_secrets

LONG = 20_000  # characters of what was said, in one attribute
_SEVERITY = {10: SeverityNumber.DEBUG, 20: SeverityNumber.INFO, 30: SeverityNumber.WARN, 40: SeverityNumber.ERROR}


class _Open:
    """The spans of one message that have not ended."""

    def __init__(self, run: Span) -> None:
        self.run = run
        self.name = ""
        self.since = monotonic()
        self.model: Span | None = None
        self.tools: dict[str, Span] = {}


class OtelSpans:
    """Implements `inbox.feed.RunFollower`; `close` sends what waits. `secrets` are blanked in what was said."""

    def __init__(
        self,
        settings: SpanSettings,
        processor: SpanProcessor | None = None,
        reader: MetricReader | None = None,
        secrets: tuple[str, ...] = (),
    ) -> None:
        resource = Resource.create({"service.name": settings.service, "service.version": __version__})
        sampler: Sampler = ParentBased(TraceIdRatioBased(settings.share)) if settings.traces else ALWAYS_OFF
        self._provider = TracerProvider(resource=resource, sampler=sampler)
        self._provider.add_span_processor(processor or _make_processor(settings))
        self._tracer = self._provider.get_tracer("palinurus", __version__)
        readers = [reader or _make_reader(settings)] if settings.metrics else []
        self._meters = MeterProvider(readers, resource)
        meter = self._meters.get_meter("palinurus", __version__)
        self._runs = meter.create_counter("palinurus.runs")
        self._tokens = meter.create_counter("gen_ai.client.token.usage", "{token}")
        self._tool_time = meter.create_histogram("palinurus.tool.duration", "ms")
        self._run_time = meter.create_histogram("palinurus.run.duration", "s")
        self._resource, self._settings, self._secrets = resource, settings, secrets
        self._logs: OtelLogHandler | None = None
        self._said = settings.capture if settings.capture.enabled else type(settings.capture)()
        self._open: dict[str, _Open] = {}
        self._by_run: dict[str, _Open] = {}

    def attach(self, hooks: Hooks) -> None:
        """See what models are asked, where that is to be told."""
        if self._said.enabled and (self._said.input or self._said.system or self._said.tools):
            hooks.on("llm_input", self._asked, owner="diagnostics.otel")

    def attach_logs(self, formatter: logging.Formatter | None) -> None:
        """Send the lines of the log, too, where that is wanted: as `formatter` writes them, without secrets."""
        if self._settings.logs:
            self._logs = OtelLogHandler(self._settings, self._resource)
            self._logs.setFormatter(formatter)
            logging.getLogger().addHandler(self._logs)

    def _asked(self, told: dict[str, Any]) -> None:
        opened = self._by_run.get(str(told["runId"]))
        span = opened.model or opened.run if opened else None
        if span is None:
            return
        rows = (
            (self._said.system, "gen_ai.system_instructions", told["systemPrompt"]),
            (self._said.input, "gen_ai.input.messages", [*told["historyMessages"], {"content": told["prompt"]}]),
            (self._said.tools, "gen_ai.tool.definitions", told["toolDefinitions"]),
        )
        for wanted, name, value in rows:
            self._tell(span, wanted, name, value)

    def _tell(self, span: Span | None, wanted: bool, name: str, value: Any) -> None:
        if span is not None and wanted:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            span.set_attribute(name, blank_secrets(text, self._secrets)[:LONG])

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
            opened.name = event.run
            self._by_run[event.run] = opened
            opened.run.set_attribute("gen_ai.request.model", event.model)
        elif isinstance(event, MessageStart) and event.message is None:
            self._end(opened.model)
            opened.model = self._child(opened, "model call", {})
        elif isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage) and opened.model is not None:
            _used(opened.model, event.message)
            self._tell(opened.model, self._said.output, "gen_ai.output.messages", event.message.text)
            for kind in ("input", "output"):
                self._tokens.add(getattr(event.message.usage, kind), {"gen_ai.token.type": kind})
            self._end(opened.model, event.message.failed)
            opened.model = None
        elif isinstance(event, ToolStart):
            opened.tools[event.id] = span = self._child(opened, f"tool {event.name}", {"gen_ai.tool.name": event.name})
            self._tell(span, self._said.tool_inputs, "gen_ai.tool.call.arguments", event.args)
        elif isinstance(event, ToolEnd):
            self._tell(
                opened.tools.get(event.id), self._said.tool_outputs, "gen_ai.tool.call.result", event.result.text
            )
            self._tool_time.record(event.took_ms, {"gen_ai.tool.name": event.name, "error": event.is_error})
            self._end(opened.tools.pop(event.id, None), event.is_error)
        elif isinstance(event, AgentEnd):
            opened.run.set_attribute("palinurus.end", event.end)
            self._runs.add(1, {"palinurus.end": event.end})
            if event.failure is not None:
                opened.run.set_status(StatusCode.ERROR, event.failure.kind)

    def on_merged(self, item: str, into: str) -> None:
        self.on_ended(item)

    def on_ended(self, item: str) -> None:
        opened = self._open.pop(item, None)
        if opened is None:
            return
        self._by_run.pop(opened.name, None)
        self._run_time.record(monotonic() - opened.since)
        for span in (opened.model, *opened.tools.values(), opened.run):
            self._end(span)

    def close(self) -> None:
        """End what is open and send what waits."""
        for item in tuple(self._open):
            self.on_ended(item)
        if self._logs is not None:
            logging.getLogger().removeHandler(self._logs)
            self._logs.provider.shutdown()
        self._meters.shutdown()
        self._provider.shutdown()

    def _child(self, opened: _Open, name: str, attributes: dict[str, Any]) -> Span:
        return self._tracer.start_span(name, set_span_in_context(opened.run), attributes=attributes)

    def _end(self, span: Span | None, failed: bool = False) -> None:
        if span is not None:
            if failed:
                span.set_status(StatusCode.ERROR)
            span.end()


class OtelLogHandler(logging.Handler):
    """Lines of the log as OpenTelemetry's, but for those of its own senders."""

    def __init__(self, settings: SpanSettings, resource: Resource) -> None:
        super().__init__(logging.INFO)
        self.provider = LoggerProvider(resource=resource)
        exporter = OTLPLogExporter(endpoint=settings.locate("logs") or None, headers=_headers(settings))
        wait = settings.flush * 1000 if settings.flush else 5000
        self.provider.add_log_record_processor(BatchLogRecordProcessor(exporter, schedule_delay_millis=wait))
        self._logger = self.provider.get_logger("palinurus", __version__)

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(("opentelemetry", "urllib3", "requests")):  # a line about sending would be sent
            return
        number = _SEVERITY.get(record.levelno, SeverityNumber.FATAL)
        self._logger.emit(
            LogRecord(
                timestamp=int(record.created * 1e9),
                severity_number=number,
                severity_text=record.levelname,
                body=self.format(record),
                attributes={"logger": record.name},
            )
        )


def _headers(settings: SpanSettings) -> dict[str, str] | None:
    """What the config leaves out the exporters take from the environment."""
    return {name: value.reveal() for name, value in settings.headers.items()} or None


def _make_processor(settings: SpanSettings) -> SpanProcessor:
    exporter = OTLPSpanExporter(endpoint=settings.locate("traces") or None, headers=_headers(settings))
    wait = settings.flush * 1000 if settings.flush else None
    return BatchSpanProcessor(exporter, schedule_delay_millis=wait)


def _make_reader(settings: SpanSettings) -> MetricReader:
    exporter = OTLPMetricExporter(endpoint=settings.locate("metrics") or None, headers=_headers(settings))
    return PeriodicExportingMetricReader(exporter, settings.flush * 1000 if settings.flush else None)


def _used(span: Span, message: AssistantMessage) -> None:
    span.set_attributes(
        {
            "gen_ai.response.model": message.model or "",
            "gen_ai.usage.input_tokens": message.usage.input,
            "gen_ai.usage.output_tokens": message.usage.output,
        }
    )
