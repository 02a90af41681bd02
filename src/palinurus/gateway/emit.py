"""A response of the Responses interface as server-sent events: the same machine as `stream.Frames`, other words."""

from __future__ import annotations

from typing import Any

from palinurus.gateway import responses
from palinurus.gateway.fault import HttpFault
from palinurus.gateway.openai import OpenAiReply
from palinurus.gateway.stream import DONE, AnswerStream
from palinurus.gateway.ws.frames import encode_json


class ResponseStream(AnswerStream):
    """The bytes of one streamed response, in the order they must leave."""

    def __init__(self, response: str, created: int, model: str) -> None:
        super().__init__()
        self._response, self._created, self._model = response, created, model
        self._at = 0
        self._item = responses.make_message_item(response, "", "in_progress")
        self._text = ""
        begun = responses.make_response(response, created, model, "in_progress")
        self._emit("response.created", response=begun)
        self._emit("response.in_progress", response=begun)
        self._first = bytes(self._buffer)

    def replay(self) -> None:
        """See `Frames.replay`."""
        super().replay()
        self._buffer = bytearray(self._first)
        self._text, self._at = "", 2

    def _say(self, text: str) -> None:
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
            for at, item in enumerate(responses.make_call_items(reply), 1 if self._text else 0):
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
        self._emit(
            "response.output_item.added", output_index=at, item={**item, "arguments": "", "status": "in_progress"}
        )
        self._emit("response.function_call_arguments.delta", **place, delta=item["arguments"])
        self._emit("response.function_call_arguments.done", **place, name=item["name"], arguments=item["arguments"])
        self._emit("response.output_item.done", output_index=at, item=item)

    def _place(self) -> dict[str, Any]:
        return {"item_id": self._item["id"], "output_index": 0, "content_index": 0}

    def _emit(self, kind: str, **fields: Any) -> None:
        data = encode_json({"type": kind, "sequence_number": self._at, **fields})
        self._at += 1
        self._buffer += b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"
