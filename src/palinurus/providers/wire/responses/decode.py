"""Responses stream -> events. A machine without I/O; unknown events are ignored, nothing raises.

Items are found by output index, else by item id, so that interleaved and out-of-order ones stay apart. A server that
sends only whole items, or the whole answer at once, gives the same message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import msgspec

from palinurus.core.types.model import ModelRequest
from palinurus.core.types.usage import TokenUsage
from palinurus.providers.errors import classify_stream_error
from palinurus.providers.wire import pick
from palinurus.providers.wire.build import BlockDraft, SseDecoder
from palinurus.providers.wire.sse import Event

_KINDS: dict[str, Literal["text", "thinking", "call"]] = {
    "message": "text",
    "reasoning": "thinking",
    "function_call": "call",
}


class ResponsesDecoder(SseDecoder):
    """One answer. It ends with an event of its own, so `_stop` is never set."""

    __slots__ = ("_closed", "_parts")

    def __init__(self, request: ModelRequest) -> None:
        super().__init__(request)
        self._parts: dict[int | str, BlockDraft] = {}
        self._closed: set[int] = set()  # ids of parts whose item is complete

    def _take(self, piece: Event) -> None:
        event = pick.read_object(piece[1])
        if event is None:
            self._refuse_chunk(piece[1])
            return
        self._seen = True
        kind = pick.get_text(event, "type")
        if not kind and event.get("object") == "response":
            self._completed({"response": event})
        elif not kind and event.get("error"):
            self._error(event)
        elif kind in self._RULES:
            self._RULES[kind](self, event)

    # --- items -------------------------------------------------------------------------------------------------

    def _find(self, event: dict[str, Any], kind: Literal["text", "thinking", "call"]) -> BlockDraft | None:
        """The block an event belongs to, made if it is new. None when the place holds another kind of block."""
        key: int | str | None = None
        index, ident = event.get("output_index"), pick.get_text(event, "item_id") or pick.get_text(event, "item", "id")
        if isinstance(index, int) and not isinstance(index, bool):
            key = index
        elif ident:
            key = ident
        part = self._parts.get(key) if key is not None else None
        if part is None and ident:
            part = self._parts.get(ident)
        if part is None:
            part = self._builder.part(kind)
            if key is not None:
                self._parts[key] = part
            if ident:
                self._parts[ident] = part
        return part if part.kind == kind else None

    def _added(self, event: dict[str, Any]) -> None:
        item = pick.get_object(event, "item")
        kind = _KINDS.get(pick.get_text(item, "type"))
        if kind is None:
            return
        part = self._find(event, kind)
        if part is not None and kind == "call":
            self._named(part, item)

    def _named(self, part: BlockDraft, item: dict[str, Any]) -> None:
        if part.index >= 0 or not pick.get_text(item, "name"):
            return
        call, ident = pick.get_text(item, "call_id"), pick.get_text(item, "id")
        self._builder.call(part, f"{call}|{ident}" if call and ident else call or ident, pick.get_text(item, "name"))

    def _text(self, event: dict[str, Any]) -> None:
        self._grow(event, "text")

    def _summary(self, event: dict[str, Any]) -> None:
        self._grow(event, "thinking")

    def _arguments(self, event: dict[str, Any]) -> None:
        self._grow(event, "call")

    def _grow(self, event: dict[str, Any], kind: Literal["text", "thinking", "call"]) -> None:
        piece = pick.get_text(event, "delta")
        part = self._find(event, kind) if piece else None
        if part is not None and id(part) not in self._closed:
            self._builder.grow(part, piece)

    def _part_added(self, event: dict[str, Any]) -> None:
        part = self._find(event, "thinking")
        if part is not None and part.pieces and id(part) not in self._closed:
            self._builder.grow(part, "\n\n")

    def _item_done(self, event: dict[str, Any]) -> None:
        item = pick.get_object(event, "item")
        kind = _KINDS.get(pick.get_text(item, "type"))
        part = self._find(event, kind) if kind else None
        if part is None or id(part) in self._closed:
            return
        self._closed.add(id(part))
        if kind == "call":
            self._named(part, item)
            self._rest(part, pick.get_text(item, "arguments"))
        elif kind == "text":
            self._rest(
                part,
                "".join(
                    pick.get_text(c, "text") or pick.get_text(c, "refusal") for c in pick.get_objects(item, "content")
                ),
            )
            part.signature = _signature(v=1, id=pick.get_text(item, "id"), phase=pick.get_text(item, "phase"))
        else:
            shown = pick.get_objects(item, "summary") or pick.get_objects(item, "content")
            self._rest(part, "\n\n".join(pick.get_text(s, "text") for s in shown))
            part.signature = _reasoning(item)

    def _rest(self, part: BlockDraft, whole: str) -> None:
        """What the complete item holds beyond the pieces that came."""
        had = "".join(part.pieces)
        if whole.startswith(had) and len(whole) > len(had):
            self._builder.grow(part, whole[len(had) :])

    # --- the end -----------------------------------------------------------------------------------------------

    def _completed(self, event: dict[str, Any]) -> None:
        response = pick.get_object(event, "response")
        if pick.get_text(response, "status") == "failed":
            self._failed(event)
            return
        if not self._closed:
            for index, item in enumerate(pick.get_objects(response, "output")):
                self._item_done({"output_index": index, "item": item})
        if response.get("usage") is not None:
            self._builder.usage = read_usage(pick.get_object(response, "usage"))
        cause = pick.get_text(response, "incomplete_details", "reason")
        if cause == "content_filter":
            self._builder.fail("refused", "the provider's content filter stopped the answer")
        elif pick.get_text(response, "status") == "cancelled":
            self._builder.fail("server", "the provider cancelled the answer")
        else:
            short = bool(cause) or pick.get_text(response, "status") == "incomplete"
            self._builder.finish("length" if short else "stop")

    def _failed(self, event: dict[str, Any]) -> None:
        response = pick.get_object(event, "response")
        if response.get("usage") is not None:
            self._builder.usage = read_usage(pick.get_object(response, "usage"))
        self._refuse(response.get("error") or pick.get_object(response, "incomplete_details"))

    def _error(self, event: dict[str, Any]) -> None:
        self._refuse(event.get("error") or event)

    def _refuse(self, error: Any) -> None:
        if isinstance(error, dict) and error.get("type") == "error":
            error = {key: value for key, value in error.items() if key != "type"}
        self._builder.fail_with(classify_stream_error(error))

    _RULES: ClassVar[dict[str, Callable[[ResponsesDecoder, dict[str, Any]], None]]] = {
        "response.output_item.added": _added,
        "response.output_text.delta": _text,
        "response.refusal.delta": _text,
        "response.reasoning_summary_part.added": _part_added,
        "response.reasoning_summary_text.delta": _summary,
        "response.reasoning_text.delta": _summary,
        "response.function_call_arguments.delta": _arguments,
        "response.output_item.done": _item_done,
        "response.completed": _completed,
        "response.incomplete": _completed,
        "response.done": _completed,
        "response.failed": _failed,
        "error": _error,
    }


def _signature(**fields: str | int) -> str | None:
    kept = {key: value for key, value in fields.items() if value}
    return msgspec.json.encode(kept).decode() if kept.get("id") else None


def _reasoning(item: dict[str, Any]) -> str | None:
    """The item as it must go back, or None when it cannot."""
    if not pick.get_text(item, "encrypted_content"):
        return None
    kept = {key: item[key] for key in ("id", "type", "summary", "encrypted_content") if key in item}
    try:
        return msgspec.json.encode(kept).decode()
    except (msgspec.EncodeError, UnicodeError, ValueError, RecursionError):
        return None


def read_usage(used: dict[str, Any]) -> TokenUsage:
    """Input tokens include what came from the cache; ours do not."""
    total, output = pick.get_count(used, "input_tokens"), pick.get_count(used, "output_tokens")
    read = min(total, pick.get_count(used, "input_tokens_details", "cached_tokens"))
    return TokenUsage(total - read, output, read, 0, pick.get_count(used, "total_tokens") or total + output)
