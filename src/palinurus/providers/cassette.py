"""Record model calls and play them back, byte for byte, offline. Sits at the `Model` port; knows no provider.

A cassette is JSON lines, one call each: the request as far as it decides the answer, and the events. What looks
like a credential is blanked in both. A request that differs from the recorded one is answered with a failure (format)
that names the first difference; facts that change from run to run (time stamps, the volatile part of the prompt,
addresses) are not compared. Tests that run in many places (`testing/scenarios`) leave prompt and tools aside, too
(`ViewOfCalls.loose`), and write words for their folders.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from palinurus.abort import Aborted
from palinurus.clock import Clock
from palinurus.core.types.model import (
    Model,
    ModelEvent,
    ModelFailure,
    ModelRequest,
    StopSignal,
    StreamDone,
    StreamFailed,
)
from palinurus.errors import BadRequest, NotFound, PalinurusError
from palinurus.patterns import decode_late
from palinurus.providers.errors import make_failed
from palinurus.providers.redact import redact_strings

VERSION = 1
Json: TypeAlias = Any


class RecordedCall(msgspec.Struct, frozen=True):
    """One recorded call. `at`: milliseconds from its start, per event, when timing was recorded."""

    fingerprint: str
    request: dict[str, Any]
    events: tuple[ModelEvent, ...]
    at: tuple[int, ...] = ()
    v: int = VERSION


class ViewOfCalls(msgspec.Struct, frozen=True):
    """What of a call is kept and compared. `names`: what stands for folders that are others elsewhere; `loose`: the
    conversation alone, as the prompt and the tools depend on the machine."""

    secrets: tuple[str, ...] = ()
    names: Mapping[str, str] = {}
    loose: bool = False

    def get_facts(self, request: ModelRequest) -> dict[str, Any]:
        """Of a request."""
        told = extract_facts(request, self.secrets)
        kept = {name: value for name, value in told.items() if not (self.loose and name in ("prompt", "tools"))}
        made: dict[str, Any] = rename_strings(kept, self.names)
        return made

    def write_events(self, events: list[ModelEvent]) -> Json:
        """As they are kept."""
        return rename_strings(redact_strings(msgspec.to_builtins(events), self.secrets), self.names)

    def read_events(self, kept: tuple[ModelEvent, ...]) -> tuple[ModelEvent, ...]:
        """As they are here."""
        if not self.names:
            return kept
        back = {word: folder for folder, word in self.names.items()}
        return msgspec.convert(rename_strings(msgspec.to_builtins(kept), back), tuple[ModelEvent, ...])


def rename_strings(value: Json, names: Mapping[str, str]) -> Json:
    """Every string of a JSON value, with some words for others."""
    if isinstance(value, str):
        for old, new in names.items():
            value = value.replace(old, new)
        return value
    if isinstance(value, dict):
        return {key: rename_strings(one, names) for key, one in value.items()} if names else value
    return [rename_strings(one, names) for one in value] if names and isinstance(value, list) else value


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = decode_late(RecordedCall)


def extract_facts(request: ModelRequest, secrets: Iterable[str] = ()) -> dict[str, Any]:
    """The part of a request that is recorded and compared, as plain JSON without credentials."""
    plain: Json = msgspec.to_builtins(
        {
            "model": str(request.model.ref),
            "api": request.model.api,
            "prompt": request.prompt.stable,
            "tools": request.tools,
            "level": request.level,
            "fast": request.fast,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "tool_choice": request.tool_choice,
            "messages": list(request.messages),
        }
    )
    for message in plain["messages"]:
        for field in ("timestamp", "usage", "details"):
            message.pop(field, None)
    out: dict[str, Any] = redact_strings(plain, tuple(secrets))
    return out


def fingerprint_facts(told: dict[str, Any]) -> str:
    """The same for the same facts."""
    return hashlib.sha256(_encoder.encode(told)).hexdigest()[:32]


def find_difference(old: Json, new: Json, where: str = "") -> str:
    """The first place in which two JSON values differ, for people; "" when they do not."""
    if type(old) is not type(new):
        return f"{where or 'request'}: recorded {_brief(old)}, now {_brief(new)}"
    if isinstance(old, dict):
        for key in dict.fromkeys((*old, *new)):
            if key not in old or key not in new:
                return f"{where}.{key}".lstrip(".") + (": not recorded" if key not in old else ": missing now")
            if found := find_difference(old[key], new[key], f"{where}.{key}".lstrip(".")):
                return found
        return ""
    if isinstance(old, list):
        for n, (a, b) in enumerate(zip(old, new, strict=False)):
            if found := find_difference(a, b, f"{where}[{n}]"):
                return found
        return "" if len(old) == len(new) else f"{where}: recorded {len(old)} entries, now {len(new)}"
    if old == new:
        return ""
    if isinstance(old, str):
        at = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        return f"{where} at character {at}: recorded {_brief(old[at:])}, now {_brief(new[at:])}"
    return f"{where}: recorded {_brief(old)}, now {_brief(new)}"


def _brief(value: Json) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


class CassetteRecorder:
    """Passes a model's events on, and writes each finished call to `path` (mode 0600)."""

    def __init__(
        self,
        model: Model,
        path: str,
        *,
        clock: Clock | None = None,
        secrets: Iterable[str] = (),
        view: ViewOfCalls | None = None,
    ) -> None:
        self._model = model
        self._path = path
        self._clock = clock
        self._view = view or ViewOfCalls(tuple(secrets))

    async def stream(self, request: ModelRequest, stop: StopSignal) -> AsyncIterator[ModelEvent]:
        """The model's events, unchanged."""
        told = self._view.get_facts(request)
        events: list[ModelEvent] = []
        at: list[int] = []
        start = self._clock.monotonic() if self._clock else 0.0
        async for event in self._model.stream(request, stop):
            events.append(event)
            if self._clock:
                at.append(int((self._clock.monotonic() - start) * 1000))
            if isinstance(event, StreamDone | StreamFailed):
                self._write(told, events, at)
            yield event

    def _write(self, told: dict[str, Any], events: list[ModelEvent], at: list[int]) -> None:
        plain = {
            "v": VERSION,
            "fingerprint": fingerprint_facts(told),
            "request": told,
            "events": self._view.write_events(events),
            "at": at,
        }
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(handle, _encoder.encode(plain) + b"\n")
        finally:
            os.close(handle)


class CassettePlayer:
    """Answers from a cassette. Each recorded call is used once; equal requests are answered in recorded order."""

    def __init__(
        self, path: str, *, clock: Clock | None = None, secrets: Iterable[str] = (), view: ViewOfCalls | None = None
    ) -> None:
        """Raises NotFound, BadRequest. With a clock the recorded timing is kept."""
        self._takes = read_cassette(path)
        self._used = [False] * len(self._takes)
        self._path = path
        self._clock = clock
        self._view = view or ViewOfCalls(tuple(secrets))

    @property
    def left(self) -> int:
        """Recorded calls nobody has asked for."""
        return self._used.count(False)

    async def stream(self, request: ModelRequest, stop: StopSignal) -> AsyncIterator[ModelEvent]:
        """The recorded events."""
        take = self._find(request)
        if isinstance(take, ModelFailure):
            yield make_failed(request, take)
            return
        before = 0
        for n, event in enumerate(self._view.read_events(take.events)):
            try:
                if self._clock and n < len(take.at):
                    await stop.wait(self._clock.sleep((take.at[n] - before) / 1000))
                    before = take.at[n]
                elif stop.reason is not None and not isinstance(event, StreamFailed):
                    raise Aborted(stop.reason)
            except Aborted as error:
                yield make_failed(request, ModelFailure("aborted", error.reason, partial=n > 0))
                return
            yield event

    def _find(self, request: ModelRequest) -> RecordedCall | ModelFailure:
        told = self._view.get_facts(request)
        mark = fingerprint_facts(told)
        for n, take in enumerate(self._takes):
            if take.fingerprint == mark and not self._used[n]:
                self._used[n] = True
                return take
        name = os.path.basename(self._path)
        following = next((t for n, t in enumerate(self._takes) if not self._used[n]), None)
        if following is None:
            return ModelFailure(
                "format", f"cassette {name}: all {len(self._takes)} recorded calls were used; this is one more"
            )
        found = find_difference(following.request, told)
        return ModelFailure("format", f"cassette {name}: the request is not the recorded one: {found}")


def read_cassette(path: str) -> list[RecordedCall]:
    """All calls on a cassette. Raises NotFound, BadRequest."""
    try:
        with open(path, "rb") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise NotFound(
            f"cassette {path}: {error.strerror or error}", fix="record it first: PALINURUS_CASSETTE=record:FILE"
        ) from None
    out: list[RecordedCall] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            out.append(_decoder.decode(line))
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise BadRequest(
                f"cassette {path}:{number}: {error}", fix="record it anew: PALINURUS_CASSETTE=record:FILE"
            ) from None
    return out


def wrap_model(model: Model, spec: str, *, clock: Clock | None = None, secrets: Iterable[str] = ()) -> Model:
    """`record:FILE` or `replay:FILE` around a model; "" leaves it as it is. Raises PalinurusError on anything else."""
    if not spec:
        return model
    mode, _, path = spec.partition(":")
    if mode == "record" and path:
        return CassetteRecorder(model, path, clock=clock, secrets=secrets)
    if mode == "replay" and path:
        return CassettePlayer(path, secrets=secrets)
    raise PalinurusError(f"cannot read {spec!r}", fix="PALINURUS_CASSETTE is record:FILE or replay:FILE")
