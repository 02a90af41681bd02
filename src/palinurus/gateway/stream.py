"""Run events as server-sent events. `Frames` is a machine without I/O (feed, finish, take); `pump` is its one writer.

The run calls `feed` inline for every event, so it costs one encoded string and one append; whatever piled up
since the last write leaves in one write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
from aiohttp import web

from palinurus.core.stream.live import Live
from palinurus.core.types.events import AgentEnd, Event, MessageStart
from palinurus.core.types.usage import Usage
from palinurus.gateway.fault import Fault
from palinurus.gateway.limits import BUFFER, KEEPALIVE
from palinurus.gateway.openai import GAP, counted

_TAIL = b'},"finish_reason":null}]}\n\n'
_DONE = b"data: [DONE]\n\n"
_encode = msgspec.json.Encoder().encode


class Frames:
    """The bytes of one streamed completion, in the order they must leave."""

    def __init__(self, ident: str, created: int, model: str, *, events: bool = False, usage: bool = False) -> None:
        self.wake = asyncio.Event()
        self.finished = False
        self.writing = False  # the writer waits for the client
        self.end: AgentEnd | None = None
        self.overflow: Callable[[], None] | None = None  # called once when a client does not read
        self._live = Live()
        self._events = events
        self._usage = usage
        self._deaf = False
        self._muted = False
        self._spoken = False
        self._gap = False
        opening = {"id": ident, "object": "chat.completion.chunk", "created": created, "model": model}
        self._opening = b"data: " + msgspec.json.encode(opening)[:-1]
        self._head = self._opening + b',"choices":[{"index":0,"delta":{"content":'
        self._role = self._opening + b',"choices":[{"index":0,"delta":{"role":"assistant","content":""' + _TAIL
        self._buffer = bytearray(self._role)

    def feed(self, event: Event) -> None:
        """Take one event of the run. Never raises, never waits."""
        if self._deaf:
            return
        for kind, text in self._live.feed(event):
            if kind == "text" and text:
                self._say(text)
        if type(event) is MessageStart:
            self._gap = self._spoken
        elif type(event) is AgentEnd:
            self.end = event
        if self._events:
            self._buffer += b"event: run\ndata: " + _safe(event) + b"\n\n"
        self.wake.set()
        if self.writing and len(self._buffer) > BUFFER:
            self.mute()
            if self.overflow is not None:
                self.overflow()

    def note(self, name: str, value: object) -> None:
        """A named frame for our own clients."""
        if self._events and not self._muted:
            self._buffer += b"event: " + name.encode() + b"\ndata: " + _safe(value) + b"\n\n"

    def replay(self) -> None:
        """The message was known before and its run is another request's: only the outcome will be told."""
        self._deaf = True
        self._spoken = False
        self._buffer = bytearray(self._role)

    def mute(self) -> None:
        """Nobody listens any more."""
        self._deaf = self._muted = True
        self._buffer = bytearray()

    def finish(self, text: str, finish: str, usage: Usage, fault: Fault | None) -> None:
        """The outcome is on disk: `text` if nothing was streamed, the reason, the usage, the end mark."""
        if text and not self._spoken and fault is None:
            self._say(text)
        if fault is not None:
            self._buffer += b"data: " + fault.body() + b"\n\n"
        else:
            end = f',"choices":[{{"index":0,"delta":{{}},"finish_reason":"{finish}"}}]}}\n\n'
            self._buffer += self._opening + end.encode()
            if self._usage:
                self._buffer += self._opening + b',"choices":[],"usage":' + _safe(counted(usage)) + b"}\n\n"
        self._buffer += _DONE
        self.finished = True
        self.wake.set()

    def breathe(self) -> None:
        """A comment line, so that proxies keep the connection."""
        if not self._buffer and not self._muted:
            self._buffer += b": keep-alive\n\n"
            self.wake.set()

    def take(self) -> bytearray:
        """All bytes that wait; they are the caller's now."""
        data, self._buffer = self._buffer, bytearray()
        return data

    def _say(self, text: str) -> None:
        if self._gap:
            text, self._gap = GAP + text, False
        self._spoken = True
        self._buffer += self._head + _safe(text) + _TAIL


def _safe(value: object) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError:  # half a surrogate pair: models do produce them
        text = value if isinstance(value, str) else "�"
        return _encode(text.encode("utf-8", "replace").decode())


async def pump(frames: Frames, response: web.StreamResponse) -> bool:
    """Write what `frames` has until it is finished. False if the client went away."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def tick() -> None:
        nonlocal timer
        frames.breathe()
        timer = loop.call_later(KEEPALIVE, tick)

    timer = loop.call_later(KEEPALIVE, tick)
    try:
        while True:
            await frames.wake.wait()
            frames.wake.clear()
            data = frames.take()
            if data:
                frames.writing = True
                await response.write(data)
                frames.writing = False
            if frames.finished and not frames.wake.is_set():
                return True
    except ConnectionError:
        frames.mute()
        return False
    finally:
        timer.cancel()
