"""`local/…`: the Model port over a runtime that is started when it is first needed and ended when it is not.

One model is in memory at a time; questions wait for each other. What is sent is a Chat Completions body shaped by
the vendor's file, what comes back is read by that wire, and calls written as text are made into calls.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

import msgspec

from palinurus.abort import Aborted
from palinurus.clock import Clock, SystemClock
from palinurus.config import paths
from palinurus.core.calls.actions import ActionDecoder, shape_actions
from palinurus.core.calls.events import TextCallDecoder
from palinurus.core.types.model import (
    ModelEvent,
    ModelFailure,
    ModelRequest,
    StopSignal,
    StreamDecoder,
    StreamProgress,
)
from palinurus.providers.errors import end_broken_stream, make_failed
from palinurus.providers.local.capabilities import choose_call_form
from palinurus.providers.local.runtime import ENGINE, GRACE, LocalRuntime, RuntimeDied
from palinurus.providers.local.weights import WEIGHTS, list_pulled, locate_weights
from palinurus.providers.vendors.local import VENDOR
from palinurus.providers.wire.arguments import scrub_surrogates
from palinurus.providers.wire.completions import WIRE

IDLE = 600.0  # seconds after which a model that nobody asks is let go of
LIBRARY = "xllamacpp"
TICK = 2.0  # seconds between two words about a model that is being loaded


class PromptProgress(msgspec.Struct):
    """What the runtime says while it reads: `processed` of `total` tokens, those it knew (`cache`) among them."""

    total: int
    processed: int
    cache: int = 0
    time_ms: float = 0


class ProgressChunk(msgspec.Struct):
    prompt_progress: PromptProgress


def make_local_model(home: str, clock: Clock) -> LocalModel:
    """For `providers.stream`."""
    return LocalModel(home, clock)


class LocalModel:
    """Implements `core.types.model.Model`. `close` ends the child."""

    def __init__(
        self,
        home: str = "",
        clock: Clock | None = None,
        *,
        argv: Sequence[str] = ENGINE,
        idle: float = IDLE,
        grace: float = GRACE,
    ) -> None:
        self._home = home
        self._clock = clock or SystemClock()
        self._argv = argv
        self._idle = idle
        self._grace = grace
        self._lock = asyncio.Lock()
        self._runtime: LocalRuntime | None = None
        self._loaded: tuple[str, int] = ("", 0)
        self._timer: asyncio.Task[None] | None = None
        self._settling: asyncio.Task[None] | None = None

    async def stream(self, request: ModelRequest, stop: StopSignal) -> AsyncIterator[ModelEvent]:
        """Events as they come; the last is StreamDone or StreamFailed."""
        found = self._file(request)
        if isinstance(found, ModelFailure):
            yield make_failed(request, found)
            return
        if self._lock.locked() and (self._settling is None or self._settling.done()):
            yield StreamProgress("waiting")
        try:
            await stop.wait(self._lock.acquire())
        except Aborted as error:
            yield make_failed(request, ModelFailure("aborted", error.reason))
            return
        form = choose_call_form(request.model, True) if request.tools else "text"
        asked = shape_actions(request) if form == "json" else request
        reader = ActionDecoder(request) if form == "json" else TextCallDecoder(request)
        try:
            async with aclosing(self._answer(asked, found, stop)) as batches:
                async for events in batches:
                    for event in events:
                        for made in reader.feed(event):
                            yield made
        finally:
            self._let_go()

    async def close(self) -> None:
        """End the child, if there is one."""
        await self._unload()  # what is being answered ends with the child
        if self._settling is not None:
            await asyncio.gather(self._settling, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()
            await asyncio.gather(self._timer, return_exceptions=True)

    # --- one answer --------------------------------------------------------------------------------------------

    async def _answer(
        self, request: ModelRequest, path: str, stop: StopSignal
    ) -> AsyncGenerator[list[ModelEvent], None]:
        decoder: StreamDecoder = WIRE.decoder(request)
        try:
            async with aclosing(self._load(path, request.model.context_window, stop)) as words:
                async for told in words:
                    yield [told]
            if (runtime := self._runtime) is None:
                raise RuntimeDied("it was ended while it was loading")
            body = scrub_surrogates(VENDOR.shape(WIRE.encode(request), request))
            chunks = runtime.ask(body)
            while True:
                try:
                    data = await stop.wait(anext(chunks))
                except StopAsyncIteration:
                    break
                events = decoder.feed(b"data: " + data + b"\n\n") or read_progress(data)
                if events:
                    yield events
            if events := decoder.close():
                yield events
        except RuntimeDied as error:
            await self._unload()
            yield end_broken_stream(request, decoder, ModelFailure("server", f"the local runtime failed: {error}"))
        except Aborted as error:
            yield end_broken_stream(request, decoder, ModelFailure("aborted", error.reason))

    async def _load(self, path: str, context: int, stop: StopSignal) -> AsyncGenerator[ModelEvent, None]:
        """As `_ready`, with a word about it now and then. The runtime does not say how far it is."""
        began, size = self._clock.monotonic(), os.path.getsize(path)
        loading = asyncio.ensure_future(self._ready(path, context, stop))
        try:
            while not self._holds(path, context) and not loading.done():
                yield StreamProgress("loading", size, seconds=int(self._clock.monotonic() - began))
                await asyncio.wait((loading,), timeout=TICK)
            await loading
        finally:
            if not loading.done():
                loading.cancel()
                await asyncio.gather(loading, return_exceptions=True)

    def _holds(self, path: str, context: int) -> bool:
        """Is this model in memory?"""
        return self._runtime is not None and self._runtime.alive and self._loaded == (path, context)

    async def _ready(self, path: str, context: int, stop: StopSignal) -> None:
        """The runtime with this model in it. Raises RuntimeDied, Aborted."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._holds(path, context):
            return
        await self._unload()
        runtime = self._runtime = await LocalRuntime.start(path, context, self._argv)
        try:
            await stop.wait(runtime.ready())
            self._loaded = (path, context)
        except BaseException:
            await self._unload()
            raise

    def _let_go(self) -> None:
        """An answer is over, or nobody wants the rest of it: the lock is free once the child is quiet."""
        self._settling = asyncio.ensure_future(self._quiet())

    async def _quiet(self) -> None:
        try:
            if self._runtime is not None:
                await self._runtime.settle(self._grace)
        finally:
            self._lock.release()
            if self._runtime is not None:
                self._timer = asyncio.ensure_future(self._tire())

    async def _tire(self) -> None:
        await self._clock.sleep(self._idle)
        async with self._lock:
            self._timer = None
            await self._unload()

    async def _unload(self) -> None:
        runtime, self._runtime, self._loaded = self._runtime, None, ("", 0)
        if runtime is not None:
            await runtime.close()

    # --- the file ----------------------------------------------------------------------------------------------

    def _file(self, request: ModelRequest) -> str | ModelFailure:
        home = self._home or paths.find_home(os.environ)
        name = request.model.ref.model
        path = locate_weights(home, name)
        if path is None or not os.path.isfile(path):
            return report_missing(home, name)
        if self._argv is ENGINE and importlib.util.find_spec(LIBRARY) is None:
            return ModelFailure("config", "local models need a runtime: `pal extras add local`")
        return path


def read_progress(chunk: bytes) -> list[ModelEvent]:
    """How far the runtime has read, if the chunk says that."""
    if b'"prompt_progress"' not in chunk:
        return []
    try:
        told = msgspec.json.decode(chunk, type=ProgressChunk).prompt_progress
    except msgspec.DecodeError:
        return []
    return [StreamProgress("reading", told.total, told.processed, int(told.time_ms / 1000))]


def report_missing(home: str, name: str) -> ModelFailure:
    """Why a local model cannot be used: it is not here, and perhaps it could be fetched."""
    weights = WEIGHTS.get(name)
    if weights is not None:
        size = f"{weights.size / 1e9:.1f} GB"
        return ModelFailure(
            "not_found", f"local/{name} is not on this machine; `pal models pull {name}` fetches it ({size})"
        )
    known = ", ".join(dict.fromkeys((*list_pulled(home), *WEIGHTS)))
    return ModelFailure("not_found", f"there is no local model {name!r}; `pal models pull` knows {known}")
