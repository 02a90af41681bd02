"""Calls written as text, in a stream of model events: text in, calls out. A machine without I/O.

Stands behind the decoder of a model that may write its calls as text. When the provider sends structured calls, or
none were offered, everything passes as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from palinurus.core.calls.forms import CallableTools, TextCall
from palinurus.core.calls.scan import AnswerSegment, TextCallScanner
from palinurus.core.types.messages import AssistantMessage, TextBlock, ToolCall
from palinurus.core.types.model import (
    CallDelta,
    CallStart,
    ModelEvent,
    ModelRequest,
    StreamDone,
    StreamFailed,
    TextDelta,
)

TEXT_CALL_PREFIX = "text_"  # of the ids made here: tells a written call from a structured one
CUT = "the call was cut off by the token limit"


class TextCallDecoder:
    """`feed` one event, get the events it amounts to. The last ones come with StreamDone or StreamFailed."""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._scan = TextCallScanner(CallableTools(request.tools)) if request.tools else None
        self._shown: list[str] = []

    def feed(self, event: ModelEvent) -> list[ModelEvent]:
        """The events to hand on now; may be none."""
        scan = self._scan
        if scan is None:
            return [event]
        if isinstance(event, TextDelta):
            text = scan.feed(event.text)
            return [self._say(text)] if text else []
        if isinstance(event, StreamDone) and not event.message.calls:
            cut = scan.holding and event.message.stopReason == "length"
            return self._done(event, scan.close(), cut)
        if isinstance(event, StreamFailed):  # what was held may be half a call, which is nothing for people
            self._scan = None
            return [StreamFailed(event.failure, self._message(event.message, []))]
        if isinstance(event, CallStart | StreamDone):
            self._scan = None
            text = scan.held()
            return [TextDelta(text), event] if text else [event]
        return [event]

    def _say(self, text: str) -> TextDelta:
        self._shown.append(text)
        return TextDelta(text)

    def _done(self, event: StreamDone, rest: list[AnswerSegment], cut: bool) -> list[ModelEvent]:
        self._scan = None
        message = event.message
        if not any(isinstance(s, TextCall) for s in rest):
            if cut:
                return [StreamDone(self._message(message, []))]
            text = "".join(s for s in rest if isinstance(s, str))
            return [TextDelta(text), event] if text else [event]
        out: list[ModelEvent] = []
        calls: list[ToolCall] = []
        for segment in rest:
            if isinstance(segment, str):
                out.append(self._say(segment))
                continue
            call = self._call(segment, len(calls), message)
            out.append(CallStart(len(calls), call.id, call.name))
            out.append(CallDelta(len(calls), str(msgspec.json.encode(call.arguments), "utf-8")))
            calls.append(call)
        return [*out, StreamDone(self._message(message, calls))]

    def _call(self, found: TextCall, index: int, message: AssistantMessage) -> ToolCall:
        ident = make_call_id(self._request.messages, index)
        invalid = CUT if found.cut and message.stopReason == "length" else found.invalid
        return ToolCall(ident, found.name, {} if invalid else found.arguments, invalid=invalid or None)

    def _message(self, message: AssistantMessage, calls: list[ToolCall]) -> AssistantMessage:
        said = "".join(self._shown)
        kept = tuple(b for b in message.content if not isinstance(b, TextBlock))
        texts = (TextBlock(said),) if said.strip() else ()
        stop = "toolUse" if message.stopReason == "stop" and calls else message.stopReason
        return msgspec.structs.replace(message, content=(*kept, *texts, *calls), stopReason=stop)


def make_call_id(messages: Sequence[object], index: int) -> str:
    """An id for a written call that none of these messages has."""
    taken = {c.id for m in messages if isinstance(m, AssistantMessage) for c in m.calls}
    number = len(messages)
    while f"{TEXT_CALL_PREFIX}{number}_{index}" in taken:
        number += 1
    return f"{TEXT_CALL_PREFIX}{number}_{index}"
