"""Ollama chat stream -> events. A machine without I/O; unknown fields are ignored, nothing raises."""

from __future__ import annotations

from typing import Any

from palinurus.core.types.messages import StopReason
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.errors import classify_stream_error, clip_message
from palinurus.providers.wire import pick
from palinurus.providers.wire.arguments import write_arguments
from palinurus.providers.wire.build import AnswerDecoder

MAX_LINE = 8_000_000  # bytes
STOPS: dict[str, StopReason] = {"stop": "stop", "length": "length"}


def to_line(body: bytes) -> bytes:
    """A whole JSON answer as one line."""
    return body.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"


class OllamaLineReader:
    """Lines of JSON as a machine without I/O. Past the limit `failed` says so and nothing more comes out."""

    odd = b""
    __slots__ = ("_limit", "_pieces", "_size", "failed")

    def __init__(self, limit: int = MAX_LINE) -> None:
        self.failed: str | None = None
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines these bytes complete, without blank ones."""
        if self.failed is not None:
            return []
        *lines, rest = data.split(b"\n")
        out: list[bytes] = []
        for line in lines:
            if self._pieces:
                line = b"".join([*self._pieces, line])
                self._pieces.clear()
                self._size = 0
            if len(line) > self._limit:
                self.failed = f"a line of more than {self._limit} bytes"
                return out
            if line and not line.isspace():
                out.append(line)
        if rest:
            self._size += len(rest)
            self._pieces.append(rest)
            if self._size > self._limit:
                self.failed = f"a line of more than {self._limit} bytes"
        return out

    def close(self) -> list[bytes]:
        """The last line, if its end is missing."""
        return self.feed(b"\n") if self._pieces else []


class OllamaDecoder(AnswerDecoder[bytes]):
    """One answer. Its last line says so, so `_stop` is never set."""

    __slots__ = ()

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request, OllamaLineReader())

    def _take(self, piece: bytes) -> None:
        chunk = pick.read_object(piece)
        if chunk is None:
            if not self._closing:  # else half a line: cut, not malformed
                shown = clip_message(piece[:4096].decode("utf-8", "replace"))
                self._builder.fail("malformed", f"the stream holds a line that is no JSON object: {shown}")
            return
        if chunk.get("error"):
            self._builder.fail_with(classify_stream_error(chunk["error"]))
            return
        message = pick.get_object(chunk, "message")
        if text := pick.get_text(message, "thinking"):
            self._builder.thinking(text)
        if text := pick.get_text(message, "content"):
            self._builder.text(text)
        for call in pick.get_objects(message, "tool_calls"):
            self._call(call)
        if chunk.get("done") is True:
            self._builder.usage = read_usage(chunk)
            self._builder.finish(STOPS.get(pick.get_text(chunk, "done_reason"), "stop"))

    def _call(self, call: dict[str, Any]) -> None:
        function = pick.get_object(call, "function")
        part = self._builder.part("call")
        self._builder.call(part, pick.get_text(call, "id"), pick.get_text(function, "name"))
        self._builder.grow(part, write_arguments(function.get("arguments")))


def read_usage(chunk: dict[str, Any]) -> TokenUsage:
    """The server counts only tokens it evaluated; what its cache held it does not say."""
    read, wrote = pick.get_count(chunk, "prompt_eval_count"), pick.get_count(chunk, "eval_count")
    return TokenUsage(read, wrote, 0, 0, read + wrote)
