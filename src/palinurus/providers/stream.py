"""One model call, whatever the provider: encode, send, decode, try again while nothing was shown. Never raises.

Knows the order of the steps. What a body looks like is the wire's affair, quirks are the vendor's, what an error
means stands in `errors`, when to try again in `backoff`.
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from itertools import count
from typing import Protocol

import msgspec

from palinurus.abort import Aborted
from palinurus.clock import Clock
from palinurus.config.settings import Secret
from palinurus.core.types.model import (
    Model,
    ModelEvent,
    ModelFailure,
    ModelRequest,
    ModelSpec,
    StopSignal,
    StreamDecoder,
    StreamDone,
    StreamFailed,
    StreamRetry,
)
from palinurus.core.types.vendor import Vendor
from palinurus.patterns import compile_late
from palinurus.providers import (
    EVENT_READERS,
    FALLBACK_VENDORS,
    NATIVE_MODELS,
    PROGRAM_API,
    WIRES,
    credentials,
    load_row,
)
from palinurus.providers.address import is_local_url, show_host
from palinurus.providers.backoff import choose_wait
from palinurus.providers.catalog import Catalog
from palinurus.providers.credentials import KeyLease
from palinurus.providers.errors import (
    classify_refusal,
    clip_message,
    end_broken_stream,
    make_failed,
    parse_retry_after,
)
from palinurus.providers.http import HttpAnswer, HttpClient, HttpTimeouts, TransportError
from palinurus.providers.local.capabilities import CallForm, ModelCapabilities, choose_call_form, load_capabilities
from palinurus.providers.rotation import KeyRotation
from palinurus.providers.wire import ModelWire, build_vendor_headers, compose_body
from palinurus.providers.wire.arguments import BodyEncoder

ERROR_BODY = 65_536
WHOLE_BODY = 32_000_000
_SPEECHLESS = frozenset({"text/html", "application/xhtml+xml", "image/png", "application/pdf"})
_CONTROL = compile_late(r"[\x00-\x08\x0a-\x1f\x7f]")


class EventReader(Protocol):
    """What reads an answer besides its wire's decoder."""

    def feed(self, event: ModelEvent) -> list[ModelEvent]:
        """The events to hand on now; may be none."""
        ...


class NativeModel(Model, Protocol):
    """A model that runs in this program."""

    async def close(self) -> None: ...


class PreparedCall(msgspec.Struct, frozen=True):
    """A call that can be made, as often as need be."""

    request: ModelRequest
    wire: ModelWire
    url: str
    body: bytes
    headers: dict[str, str]
    limits: HttpTimeouts
    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        return f"PreparedCall({self.request.model.ref})"


class ProviderModels:
    """The `Model` port for every API. `close` when the program ends."""

    def __init__(
        self,
        catalog: Catalog,
        clock: Clock,
        *,
        limits: HttpTimeouts | None = None,
        chance: Callable[[], float] = random.random,
        http: HttpClient | None = None,
        keys: KeyRotation | None = None,
    ) -> None:
        self._catalog = catalog
        self._clock = clock
        self._limits = limits
        self._chance = chance
        self._http = http or HttpClient()
        self.keys = keys or KeyRotation(clock)
        self._bodies = BodyEncoder()
        self._native: dict[str, NativeModel] = {}
        self._abilities: dict[str, ModelCapabilities] | None = None

    async def close(self) -> None:
        """End all connections, and what runs inside."""
        for model in self._native.values():
            await model.close()
        await self._http.close()

    def forget(self, session: str) -> None:
        """The session (by its id) was compacted: it may take another key, no cache is lost."""
        self.keys.forget(session)

    def use(self, catalog: Catalog) -> None:
        """From now on keys and vendors come from this one: the config has changed."""
        self._catalog = catalog

    async def stream(self, request: ModelRequest, stop: StopSignal) -> AsyncIterator[ModelEvent]:
        """Events as they come; the last is StreamDone or StreamFailed."""
        native = self._inside(request.model.api)
        if native is not None:
            async for event in native.stream(request, stop):
                yield self._stamped(event)
            return
        key = self._unfit(request.model) or await self.keys.pick(request, self._catalog)
        if isinstance(key, ModelFailure):
            yield self._stamped(make_failed(request, key))
            return
        form = self._form(request)
        asked: ModelRequest = load_row(EVENT_READERS, "shape")(request) if form == "json" else request
        for attempt in count(1):
            call = self._prepare(expire_fast_mode(asked, self._clock.now()), key)
            if isinstance(call, ModelFailure):
                yield self._stamped(make_failed(request, call))
                return
            shown = False
            wait = 0.0
            reader: EventReader | None = load_row(EVENT_READERS, form)(request) if form != "native" else None
            # ended here and now: one that is left half-way is ended by a task of its own, after a wake-up of the loop
            async with aclosing(self._attempt(call, stop)) as attempt_events:
                async for events in attempt_events:
                    if reader is not None:
                        events = [made for event in events for made in reader.feed(event)]
                        if not events:
                            continue
                    last = events[-1]
                    if isinstance(last, StreamFailed) and not shown and len(events) == 1:
                        again = choose_wait(last.failure, attempt, self._chance())
                        if again is not None and not self.keys.has_spare(key, last.failure):
                            wait = again
                            yield StreamRetry(last.failure, attempt, wait)
                            break
                    shown = True
                    for event in events:
                        yield (
                            self._stamped(self._reported(key, event))
                            if isinstance(event, StreamDone | StreamFailed)
                            else event
                        )
                    if isinstance(last, StreamDone | StreamFailed):
                        return
            try:
                await stop.wait(self._clock.sleep(wait))
            except Aborted as error:
                yield self._stamped(make_failed(request, ModelFailure("aborted", error.reason)))
                return

    def _inside(self, api: str) -> NativeModel | None:
        if api in NATIVE_MODELS and api not in self._native:
            self._native[api] = load_row(NATIVE_MODELS, api)(self._catalog.settings.home, self._clock)
        return self._native.get(api)

    def _form(self, request: ModelRequest) -> CallForm:
        """How the model asks for tools. What probes found is read once."""
        if not request.tools or not request.model.tools:
            return "native"
        if self._abilities is None:
            self._abilities = load_capabilities(self._catalog.settings.home)
        known = self._abilities.get(str(request.model.ref))
        return choose_call_form(request.model, is_local_url(request.model.base_url), known)

    def _stamped(self, event: ModelEvent) -> ModelEvent:
        if isinstance(event, StreamDone | StreamFailed) and not event.message.timestamp:
            message = msgspec.structs.replace(event.message, timestamp=self._clock.now())
            return msgspec.structs.replace(event, message=message)
        return event

    def _reported(self, key: KeyLease, event: StreamDone | StreamFailed) -> StreamDone | StreamFailed:
        """Tell the keys how it ended; a failure says whether another key may do better."""
        failure = event.failure if isinstance(event, StreamFailed) else None
        if not self.keys.report(key, failure) or not isinstance(event, StreamFailed):
            return event
        return StreamFailed(msgspec.structs.replace(event.failure, rotate=True), event.message)

    # --- before ------------------------------------------------------------------------------------------------

    def _unfit(self, model: ModelSpec) -> ModelFailure | None:
        """Why this model cannot be asked at all."""
        if not model.api:
            agent = self._catalog.settings.agents[self._catalog.settings.default_agent]
            found = self._catalog.find(model.ref.model, agent)
            return found if isinstance(found, ModelFailure) else ModelFailure("config", f"unknown model {model.name!r}")
        if model.api == PROGRAM_API:
            text = f"{model.ref} is a program that does whole runs; for this, a model with an API is needed"
            return ModelFailure("config", text)
        if load_row(WIRES, model.api) is None:
            known = ", ".join(WIRES)
            return ModelFailure("config", f"{model.ref.provider}: unknown api {model.api!r}; use one of {known}")
        if not model.base_url.startswith(("http://", "https://")):
            where = f"models.providers.{model.ref.provider}.baseUrl"
            return ModelFailure("config", f"{where} must start with http:// or https://")
        return None

    def _prepare(self, request: ModelRequest, lease: KeyLease) -> PreparedCall | ModelFailure:
        model, key = request.model, lease.secret
        wire: ModelWire = load_row(WIRES, model.api)
        common: Vendor = load_row(FALLBACK_VENDORS, "custom")
        vendor = self._catalog.vendor(model.ref.provider) or common
        try:
            data = self._bodies.encode(compose_body(request, wire, vendor, common), request.tools)
            base = lease.base_url if lease.base_url and model.base_url == vendor.base_url else model.base_url
            url = credentials.resolve_base_url(base, vendor, self._catalog.environ) + wire.path(request)
            header = vendor.auth_header if vendor.api == model.api else wire.key_header
            headers = {"content-type": "application/json", **wire.headers(request)}
            headers |= build_vendor_headers(request, vendor, common) | dict(lease.headers)
            headers = self._add_key(headers, model, "authorization" if lease.bearer else header, key)
            signs = wire.sign is not None and not key
            signer = credentials.find_signer(vendor, self._catalog.environ) if signs else None
            if wire.sign is not None and signer is not None:
                signer = signer._replace(at=format_stamp(self._clock.now()))
                headers.update(wire.sign(url, headers, data, signer))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            return ModelFailure("format", f"the request cannot be written down: {type(error).__name__}")
        bad = next((name for name, value in headers.items() if _CONTROL.search(name + value)), None)
        if bad is not None:
            return ModelFailure(
                "config", f"{model.ref.provider}: the header or key {bad!r} holds a forbidden character"
            )
        hidden = collect_secrets(key, model.headers) + tuple(signer or ())[:3]
        return PreparedCall(request, wire, url, data, headers=headers, limits=self._limit(model), secrets=hidden)

    def _add_key(self, headers: dict[str, str], model: ModelSpec, header: str, key: Secret) -> dict[str, str]:
        """The headers with the key in `header`, or where the config wants it; what the config says itself wins."""
        settings = self._catalog.provider(model.ref.provider)
        bearer = settings is not None and settings.auth_header
        headers = headers | credentials.build_key_headers(key, "authorization" if bearer else header)
        own = {name.lower() for name in model.headers}
        return {k: v for k, v in headers.items() if k.lower() not in own} | model.headers

    def _limit(self, model: ModelSpec) -> HttpTimeouts:
        """Local servers load models and read long prompts slowly: they are watched only if the config says so."""
        if model.timeout is not None:
            return HttpTimeouts(first=model.timeout or None, idle=model.timeout or None, quiet=None)
        if self._limits is not None:
            return self._limits
        return HttpTimeouts(first=None, idle=None, quiet=None) if is_local_url(model.base_url) else HttpTimeouts()

    # --- one call ----------------------------------------------------------------------------------------------

    async def _attempt(self, call: PreparedCall, stop: StopSignal) -> AsyncGenerator[list[ModelEvent], None]:
        """Batches of events, none empty; the last event of the last batch is StreamDone or StreamFailed."""
        decoder: StreamDecoder = call.wire.decoder(call.request)
        answer: HttpAnswer | None = None
        try:
            answer = await self._http.post(call.url, call.body, call.headers, call.limits, stop=stop)
            if answer.status != 200 or answer.type in _SPEECHLESS:
                yield [make_failed(call.request, await self._refusal(call, answer))]
                return
            if answer.type == "application/json":
                body = await answer.body(WHOLE_BODY)
                events = decoder.feed(call.wire.whole(body)) + decoder.close()
                yield [self._clean(call, e) for e in events]
                return
            heard = self._clock.monotonic()
            while data := await answer.read():
                events = decoder.feed(data)
                if not events:
                    quiet = call.limits.quiet
                    if quiet is not None and self._clock.monotonic() - heard > quiet:
                        raise TransportError("timeout", f"nothing but comments for {quiet:g} s")
                else:
                    heard = self._clock.monotonic()
                    yield events if not isinstance(events[-1], StreamFailed) else [self._clean(call, e) for e in events]
                    if isinstance(events[-1], StreamDone | StreamFailed):
                        return
            yield [self._clean(call, e) for e in decoder.close()]
        except TransportError as error:
            kind = "network" if error.kind == "cut" and answer is None else error.kind
            yield end_broken_stream(call.request, decoder, ModelFailure(kind, self._named(call, error.message)))
        except Aborted as error:
            yield end_broken_stream(call.request, decoder, ModelFailure("aborted", error.reason))
        finally:
            if answer is not None:
                answer.close()

    async def _refusal(self, call: PreparedCall, answer: HttpAnswer) -> ModelFailure:
        ref = call.request.model.ref
        if 300 <= answer.status < 400:
            place = show_host(answer.headers.get("location", ""))
            hint = f"models.providers.{ref.provider}.baseUrl"
            return ModelFailure("config", f"{ref.provider} redirects to {place}; correct {hint}", answer.status)
        body = await answer.body(ERROR_BODY)
        if answer.status == 200:
            told = classify_refusal(502, body)
            text = f"{ref.provider} sent a web page instead of an answer; check baseUrl: {told.message}"
            return ModelFailure("malformed", clip_message(text, call.secrets), 200)
        headers = answer.headers
        pause = parse_retry_after(
            (headers.get("retry-after-ms"), headers.get("retry-after")), now=self._clock.now() / 1000
        )
        told = classify_refusal(answer.status, body, pause)
        text = f"{told.message} (HTTP {answer.status})" if str(answer.status) not in told.message else told.message
        return msgspec.structs.replace(told, message=self._named(call, text))

    def _named(self, call: PreparedCall, text: str) -> str:
        return clip_message(f"{call.request.model.ref.provider}: {text}", call.secrets)

    def _clean(self, call: PreparedCall, event: ModelEvent) -> ModelEvent:
        """Errors that came inside the stream may repeat what we sent."""
        if not isinstance(event, StreamFailed):
            return event
        text = self._named(call, event.failure.message)
        failure = msgspec.structs.replace(event.failure, message=text)
        return StreamFailed(failure, msgspec.structs.replace(event.message, errorMessage=text))


def format_stamp(now: int) -> str:
    """Milliseconds since the epoch as 20260131T235959Z."""
    return datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")


def expire_fast_mode(request: ModelRequest, now: int) -> ModelRequest:
    """Fast mode "auto" is decided anew for every call, a further try of the same one included."""
    late = request.fast and request.fast_until is not None and now >= request.fast_until
    return msgspec.structs.replace(request, fast=False) if late else request


def collect_secrets(key: Secret, headers: Mapping[str, str]) -> tuple[str, ...]:
    """What must not occur in any message: the key, and header values that may be one."""
    values = [key.reveal(), *headers.values()]
    return tuple(v for v in values if len(v) >= 8)
