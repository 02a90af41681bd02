"""Run events as server-sent events, as a chat completion or as a response. `AnswerStream` is a machine without I/O
(feed, finish, take); `pump_stream` is its one writer.

The run calls `feed` inline for every event, so it costs one encoded string and one append; whatever piled up since the
last write leaves in one write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import StreamResponse

from palinurus.core.stream.answer import LiveText
from palinurus.core.types.events import AgentEnd, MessageStart, RunEvent
from palinurus.gateway.http import HttpFault, encode_sse, open_event_stream
from palinurus.gateway.limits import BUFFER, KEEPALIVE
from palinurus.gateway.openai import responses
from palinurus.gateway.openai.completions import GAP, OpenAiReply, render_tool_calls, render_usage
from palinurus.gateway.ws.frames import encode_json

_TAIL = b'},"finish_reason":null}]}\n\n'
DONE = b"data: [DONE]\n\n"


class AnswerStream:
    """The bytes of one streamed answer, in the order they must leave. Kinds of streams say how text is put."""

    def __init__(self, *, events: bool = False) -> None:
        self.wake = asyncio.Event()
        self.finished = False
        self.writing = False  # the writer waits for the client
        self.end: AgentEnd | None = None
        self.held = False  # the answer must have a form: it is told when it has
        self.overflow: Callable[[], None] | None = None  # called once when a client does not read
        self._live = LiveText()
        self._events = events
        self._deaf = False
        self._muted = False
        self._spoken = False
        self._gap = False
        self._buffer = bytearray()

    def feed(self, event: RunEvent) -> None:
        """Take one event of the run. Never raises, never waits."""
        if self._deaf:
            return
        for kind, text in self._live.feed(event):
            if kind == "text" and text and not self.held:
                self._speak(text)
        if type(event) is MessageStart:
            self._gap = self._spoken
        elif type(event) is AgentEnd:
            self.end = event
        if self._events:
            self._buffer += encode_sse("run", encode_json(event))
        if self._buffer:
            self.wake.set()
        if self.writing and len(self._buffer) > BUFFER:
            self.mute()
            if self.overflow is not None:
                self.overflow()

    def note(self, name: str, value: object) -> None:
        """A named frame for our own clients."""
        if self._events and not self._muted:
            self._buffer += encode_sse(name, encode_json(value))

    def replay(self) -> None:
        """The message was known before and its run is another request's: only the outcome will be told."""
        self._deaf = True
        self._spoken = False
        self._buffer = bytearray()

    def mute(self) -> None:
        """Nobody listens any more."""
        self._deaf = self._muted = True
        self._buffer = bytearray()

    def finish(self, reply: OpenAiReply, fault: HttpFault | None) -> None:
        """The outcome is on disk: its text if nothing was streamed, the reason, the usage, the end mark."""
        if reply.text and not self._spoken and fault is None:
            self._speak(reply.text)
        self._close(reply, fault)
        self.finished = True
        self.wake.set()

    def keep_alive(self) -> None:
        """A comment line, so that proxies keep the connection."""
        if not self._buffer and not self._muted:
            self._buffer += b": keep-alive\n\n"
            self.wake.set()

    def take(self) -> bytearray:
        """All bytes that wait; they are the caller's now."""
        data, self._buffer = self._buffer, bytearray()
        return data

    def _speak(self, text: str) -> None:
        if self._gap:
            text, self._gap = GAP + text, False
        self._spoken = True
        self._say(text)

    def _say(self, text: str) -> None:
        raise NotImplementedError

    def _close(self, reply: OpenAiReply, fault: HttpFault | None) -> None:
        raise NotImplementedError


class CompletionStream(AnswerStream):
    """A streamed chat completion."""

    def __init__(self, ident: str, created: int, model: str, *, events: bool = False, usage: bool = False) -> None:
        super().__init__(events=events)
        self._usage = usage
        opening = {"id": ident, "object": "chat.completion.chunk", "created": created, "model": model}
        self._opening = b"data: " + msgspec.json.encode(opening)[:-1]
        self._head = self._opening + b',"choices":[{"index":0,"delta":{"content":'
        self._role = self._opening + b',"choices":[{"index":0,"delta":{"role":"assistant","content":""' + _TAIL
        self._buffer += self._role

    def replay(self) -> None:
        """See `AnswerStream.replay`."""
        super().replay()
        self._buffer += self._role

    def _say(self, text: str) -> None:
        self._buffer += self._head + encode_json(text) + _TAIL

    def _close(self, reply: OpenAiReply, fault: HttpFault | None) -> None:
        if fault is not None:
            self._buffer += b"data: " + fault.body() + b"\n\n"
        else:
            if reply.calls:
                delta = encode_json([{"index": at, **call} for at, call in enumerate(render_tool_calls(reply))])
                self._buffer += self._opening + b',"choices":[{"index":0,"delta":{"tool_calls":' + delta + _TAIL
            end = f',"choices":[{{"index":0,"delta":{{}},"finish_reason":"{reply.finish}"}}]}}\n\n'
            self._buffer += self._opening + end.encode()
            if self._usage:
                usage = encode_json(render_usage(reply.usage))
                self._buffer += self._opening + b',"choices":[],"usage":' + usage + b"}\n\n"
        self._buffer += DONE


async def pump_stream(frames: AnswerStream, response: StreamResponse) -> bool:
    """Write what `frames` has until it is finished. False if the client went away."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None

    def tick() -> None:
        nonlocal timer
        frames.keep_alive()
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


async def send_stream(
    request: BaseRequest, frames: AnswerStream, conclude: Coroutine[Any, Any, None]
) -> StreamResponse:
    """All of it, as the answer to a request; `conclude` waits for the outcome and hands it to the stream."""
    response = await open_event_stream(request)
    settling = asyncio.ensure_future(conclude)
    try:
        await pump_stream(frames, response)
    finally:
        settling.cancel()
    return response


class ResponseStream(AnswerStream):
    """The bytes of one streamed response, in the order they must leave."""

    def __init__(self, response: str, created: int, model: str) -> None:
        super().__init__()
        self._response, self._created, self._model = response, created, model
        self._at = 0
        self._item = responses.make_message_item(response, "", "in_progress")
        self._text = ""
        self._resumed = False
        begun = responses.make_response(response, created, model, "in_progress")
        self._emit("response.created", response=begun)
        self._emit("response.in_progress", response=begun)
        self._first = bytes(self._buffer)

    def replay(self) -> None:
        """See `AnswerStream.replay`."""
        super().replay()
        self._buffer = bytearray(self._first)
        self._text, self._at = "", 2

    def resume(self, after: int) -> None:
        """The client has seen events up to `after`: it gets what ends the response, which holds all of its text."""
        self.replay()
        self._buffer, self._at, self._resumed = bytearray(), after + 1, True

    def _say(self, text: str) -> None:
        if self._resumed:
            self._text += text
            return
        if not self._text:
            self._emit("response.output_item.added", output_index=0, item=self._item)
            self._emit("response.content_part.added", **self._place(), part=responses.make_text_part(""))
        self._text += text
        self._emit("response.output_text.delta", **self._place(), delta=text, logprobs=[])

    def _close(self, reply: OpenAiReply, fault: HttpFault | None) -> None:
        if self._text or not (reply.calls or fault):
            self._said(reply)
        if fault is not None:
            error = {"code": fault.code or "server_error", "message": fault.message}
            failed = responses.make_response(self._response, self._created, self._model, "failed", error=error)
            self._emit("response.failed", response=failed)
        else:
            for at, item in enumerate(responses.make_call_items(self._response, reply), 1 if self._text else 0):
                self._call(at, item)
            done = responses.make_settled_response(self._response, self._created, self._model, reply)
            self._emit(f"response.{done['status']}", response=done)
        self._buffer += DONE

    def _said(self, reply: OpenAiReply) -> None:
        if not self._text:
            self._say(reply.text)
        text = self._text
        self._emit("response.output_text.done", **self._place(), text=text, logprobs=[])
        self._emit("response.content_part.done", **self._place(), part=responses.make_text_part(text))
        self._emit("response.output_item.done", output_index=0, item=responses.make_message_item(self._response, text))

    def _call(self, at: int, item: dict[str, Any]) -> None:
        place = {"item_id": item["id"], "output_index": at}
        begun = {**item, "arguments": "", "status": "in_progress"}
        self._emit("response.output_item.added", output_index=at, item=begun)
        self._emit("response.function_call_arguments.delta", **place, delta=item["arguments"])
        self._emit("response.function_call_arguments.done", **place, name=item["name"], arguments=item["arguments"])
        self._emit("response.output_item.done", output_index=at, item=item)

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._item["id"], "output_index": 0, "content_index": 0}

    def _emit(self, kind: str, **fields: Any) -> None:
        self._buffer += encode_sse(kind, encode_json({"type": kind, "sequence_number": self._at, **fields}))
        self._at += 1
