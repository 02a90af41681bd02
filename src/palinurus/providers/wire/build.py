"""What all stream decoders share: `AnswerBuilder` makes the message and its events, `AnswerDecoder` feeds it bytes.

Text that arrives within one `feed` becomes one delta: `take` hands out what has gathered. Pure; never raises.
"""

from __future__ import annotations

from typing import Generic, Literal, Protocol, TypeVar

import msgspec

from palinurus.core.types.messages import AssistantMessage, StopReason, TextBlock, ThinkingBlock, ToolCall
from palinurus.core.types.model import (
    CallDelta,
    CallStart,
    FailureKind,
    ModelEvent,
    ModelFailure,
    ModelRequest,
    StreamDone,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    TokenPrice,
)
from palinurus.core.types.usage import TokenUsage
from palinurus.patterns import compile_late
from palinurus.providers.errors import clip_message
from palinurus.providers.wire.arguments import mend_text, parse_arguments
from palinurus.providers.wire.sse import Event, SseReader

T = TypeVar("T")

KEPT = 100_000  # characters that are kept of an answer that is too long
MAX_ANSWER = 8_000_000  # characters of one answer, twenty times what any model gives; more is an attack or a defect
_HIGH = compile_late("[\ud800-\udbff]$")


class BlockDraft:
    """One block of the message while it grows."""

    __slots__ = ("id", "index", "kind", "name", "pieces", "raw", "seen", "signature")

    def __init__(self, kind: Literal["text", "thinking", "redacted", "call"]) -> None:
        self.kind = kind
        self.pieces: list[str] = []
        self.seen = 0  # pieces already handed out as events
        self.signature: str | None = None
        self.raw = ""  # of calls: the id as the server wrote it; ours may differ
        self.index = -1  # of calls: what events call it; -1 until its name is known
        self.id = ""
        self.name = ""


class AnswerBuilder:
    """`text`, `thinking`, `call`, `more` as pieces come; `take` the events; end with `done` or `fail`."""

    __slots__ = ("_calls", "_out", "_part", "_taken", "ended", "last", "parts", "request", "shown", "size", "usage")

    def __init__(self, request: ModelRequest) -> None:
        self.request = request
        self.parts: list[BlockDraft] = []
        self.usage = TokenUsage()
        self.ended = False
        self.last: list[ModelEvent] = []  # once ended: what the end gave
        self.shown = False  # something has been handed out
        self.size = 0
        self._out: list[ModelEvent] = []
        self._part: BlockDraft | None = None  # the block that grew last
        self._calls = 0
        self._taken: dict[str, int] | None = None  # ids of calls, and the next number to try behind each

    # --- growing -----------------------------------------------------------------------------------------------

    def part(self, kind: Literal["text", "thinking", "redacted", "call"]) -> BlockDraft:
        """A new block at the end."""
        part = BlockDraft(kind)
        self.parts.append(part)
        return part

    def text(self, piece: str) -> None:
        """A piece of visible text, for the last block if that is text."""
        part = self._part
        if part is None or part.kind != "text":
            part = self._turn(self.part("text"))
        part.pieces.append(piece)
        self.size += len(piece)

    def thinking(self, piece: str, signature: str | None = None) -> None:
        """A piece of reasoning, for the last block if that is reasoning."""
        part = self._part
        if part is None or part.kind != "thinking":
            part = self._turn(self.part("thinking"))
            part.signature = signature
        part.pieces.append(piece)
        self.size += len(piece)

    def grow(self, part: BlockDraft, piece: str) -> None:
        """A piece of this block, whichever grew last."""
        if part is not self._part:
            self._turn(part)
        part.pieces.append(piece)
        self.size += len(piece)

    def call(self, part: BlockDraft, ident: str | None, name: str) -> None:
        """This call's name is known: it starts. Its id is made unique in the conversation."""
        self._turn(part)
        part.index = self._calls
        self._calls += 1
        part.id = self._unique(ident or "", part.index)
        part.name = mend_text(name)
        self._out.append(CallStart(part.index, part.id, part.name))

    def _turn(self, part: BlockDraft) -> BlockDraft:
        self._flush()
        self._part = part
        return part

    def _flush(self, part: BlockDraft | None = None, last: bool = False) -> None:
        part = part or self._part
        if part is None or part.seen == len(part.pieces) or (part.kind == "call" and part.index < 0):
            return
        piece = "".join(part.pieces[part.seen :] if part.seen else part.pieces)
        held = None if last else _HIGH.search(piece)
        if held is not None:  # half a character; its other half is in the next piece
            part.pieces[part.seen :] = [piece[:-1], held.group()]
            piece = piece[:-1]
            part.seen = len(part.pieces) - 1
        else:
            part.seen = len(part.pieces)
        if piece:
            self._out.append(_event(part, mend_text(piece)))

    def _rest(self) -> list[ModelEvent]:
        """As `take`, at the end: halves whose other half never came go out too."""
        for part in self.parts:
            self._flush(part, last=True)
        return self.take()

    def take(self) -> list[ModelEvent]:
        """The events since the last `take`."""
        self._flush()
        out = self._out
        if out:
            self._out = []
            self.shown = True
            if self.size > MAX_ANSWER and not self.ended:
                self._shorten()
                out = self.last = out + self.fail("malformed", f"the answer is longer than {MAX_ANSWER} characters")
        return out

    def _shorten(self) -> None:
        """Keep the beginning. All of it would be in the transcript, in memory, and in two thousand messages."""
        room = KEPT
        for part in self.parts:
            text = "".join(part.pieces)[:room]
            part.pieces, part.seen, room = [text], 1, room - len(text)

    # --- ending ------------------------------------------------------------------------------------------------

    def finish(self, stop: StopReason) -> list[ModelEvent]:
        """The last events of a complete answer."""
        if self.ended:
            return []
        for part in self.parts:
            if part.kind == "call" and part.index < 0:
                self.call(part, part.id, "")
        out = self._rest()
        if self.ended:  # too long
            return out
        self.ended = True
        blocks = [b for p in self.parts if (b := _block(p, stop)) is not None]
        if any(isinstance(b, ToolCall) for b in blocks) and stop == "stop":
            stop = "toolUse"  # many servers say stop although they call
        elif stop == "toolUse" and not any(isinstance(b, ToolCall) for b in blocks):
            stop = "stop"
        self.last = [*out, StreamDone(self._message(tuple(blocks), stop, None))]
        return self.last

    def fail(self, kind: FailureKind, message: str) -> list[ModelEvent]:
        """The last events of a failed answer."""
        return self.fail_with(ModelFailure(kind, message))

    def fail_with(self, failure: ModelFailure) -> list[ModelEvent]:
        """As `fail`. What had arrived is kept, its tool calls are not."""
        if self.ended:
            return []
        self.ended = True
        out = self._rest()
        blocks = tuple([b for p in self.parts if p.kind != "call" and (b := _block(p, "error")) is not None])
        failure = msgspec.structs.replace(failure, message=mend_text(failure.message), partial=self.shown)
        message = self._message(blocks, "aborted" if failure.kind == "aborted" else "error", failure.message)
        self.last = [*out, StreamFailed(failure, message)]
        return self.last

    def _message(
        self, blocks: tuple[TextBlock | ThinkingBlock | ToolCall, ...], stop: StopReason, error: str | None
    ) -> AssistantMessage:
        model = self.request.model
        usage = add_total_and_cost(self.usage, model.price)
        return AssistantMessage(
            blocks, model.api, model.ref.provider, model.ref.model, usage=usage, stopReason=stop, errorMessage=error
        )

    def _unique(self, ident: str, index: int) -> str:
        taken = self._taken
        if taken is None:
            taken = self._taken = {
                b.id: 2
                for m in self.request.messages
                if isinstance(m, AssistantMessage)
                for b in m.content
                if isinstance(b, ToolCall)
            }
        ident = mend_text(ident)[:256] or f"call_{len(self.request.messages)}_{index}"
        found = ident
        while found in taken:
            found = f"{ident}_{taken[ident]}"
            taken[ident] += 1
        taken[found] = 2
        return found


def _event(part: BlockDraft, piece: str) -> ModelEvent:
    if part.kind == "text":
        return TextDelta(piece)
    return CallDelta(part.index, piece) if part.kind == "call" else ThinkingDelta(piece)


def _block(part: BlockDraft, stop: StopReason) -> TextBlock | ThinkingBlock | ToolCall | None:
    """The finished block; None when nothing is in it."""
    text = "".join(part.pieces)
    signature = mend_text(part.signature) if part.signature else None
    if part.kind == "text":
        return TextBlock(mend_text(text), signature) if text else None
    if part.kind == "thinking":
        return ThinkingBlock(mend_text(text), signature) if text or signature else None
    if part.kind == "redacted":
        return ThinkingBlock("", signature, True) if signature else None
    args, invalid = parse_arguments(mend_text(text))
    if not part.name:
        args, invalid = {}, "the call names no tool"
    elif stop == "length" and (invalid is not None or not text):
        args, invalid = {}, "the call was cut off by the token limit"
    return ToolCall(part.id, part.name, args, signature, invalid=invalid)


def add_total_and_cost(usage: TokenUsage, price: TokenPrice | None) -> TokenUsage:
    """The same usage with its total and, where a price is known, its cost."""
    total = usage.totalTokens or usage.input + usage.output + usage.cacheRead + usage.cacheWrite
    cost = usage.cost if price is None else price.compute_cost(usage)
    return msgspec.structs.replace(usage, totalTokens=total, cost=cost)


# --- from bytes to the builder --------------------------------------------------------------------------------


class StreamReader(Protocol[T]):
    """Cuts bytes into pieces that mean something: events, lines, frames. A machine without I/O; never raises."""

    failed: str | None  # what is wrong with the stream; nothing more comes out
    odd: bytes  # the first line that is no part of the format

    def feed(self, data: bytes) -> list[T]:
        """The pieces these bytes complete."""
        ...

    def close(self) -> list[T]:
        """What was left when the stream ended."""
        ...


class AnswerDecoder(Generic[T]):
    """One answer. A wire says how a piece is taken (`_take`) and how the answer ends (`_end`)."""

    __slots__ = ("_builder", "_closing", "_reader", "_seen", "_stop")

    def __init__(self, request: ModelRequest, reader: StreamReader[T]) -> None:
        self._reader = reader
        self._builder = AnswerBuilder(request)
        self._closing = False  # the stream has ended: a piece that cannot be read was cut
        self._seen = False  # something was understood
        self._stop: str | None = None  # why the answer is complete, in the provider's word

    def feed(self, data: bytes) -> list[ModelEvent]:
        """Take bytes, return the events they complete."""
        builder, reader = self._builder, self._reader
        if builder.ended:
            return []
        for piece in reader.feed(data):
            self._take(piece)
            if builder.ended:
                return builder.last
        if reader.failed is not None:
            return builder.fail("malformed", f"the stream holds {reader.failed}")
        return builder.take()

    def close(self) -> list[ModelEvent]:
        """The stream has ended."""
        builder, reader = self._builder, self._reader
        if builder.ended:
            return []
        self._closing = True
        for piece in reader.close():
            self._take(piece)
            if builder.ended:
                return builder.last
        if not self._seen and reader.odd[:1] in (b"{", b"["):
            self._take_odd(reader.odd.lstrip(b"["))
        if builder.ended:
            return builder.last
        if self._stop is not None:
            self._end()
        elif not self._seen and reader.odd:
            builder.fail("malformed", f"not an event stream: {clip_message(reader.odd.decode('utf-8', 'replace'))}")
        else:
            builder.fail("cut", "the stream ended before the answer was complete")
        return builder.last

    def _take(self, piece: T) -> None:
        raise NotImplementedError

    def _take_odd(self, odd: bytes) -> None:
        """JSON in the wrong place: often an error that was not put into the format."""

    def _end(self) -> None:
        raise NotImplementedError

    def _refuse_chunk(self, payload: bytes, what: str = "a chunk") -> None:
        """It could not be read: malformed in the middle of a stream, cut at its end; what is no JSON is passed over."""
        if not self._closing and payload.lstrip()[:1] in (b"{", b"["):
            self._builder.fail("malformed", f"the stream holds {what} that cannot be read")


class SseDecoder(AnswerDecoder[Event]):
    """An answer that comes as server-sent events."""

    __slots__ = ()

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request, SseReader())

    def _take_odd(self, odd: bytes) -> None:
        self._take(("", odd))
