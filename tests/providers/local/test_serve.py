"""The child's loop, without a process."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable
from typing import Any

from palinurus.providers.local.serve import EngineServer


class Pipe(io.BytesIO):
    """Remembers lines; `until(n)` waits for the n-th."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []
        self._more = threading.Condition()

    def write(self, data: Any) -> int:
        with self._more:
            self.lines.append(json.loads(bytes(data)))
            self._more.notify_all()
        return len(data)

    def until(self, count: int) -> list[dict[str, Any]]:
        with self._more:
            assert self._more.wait_for(lambda: len(self.lines) >= count, 10)
        return self.lines


def lines(*messages: dict[str, Any]) -> io.BytesIO:
    return io.BytesIO(b"".join(json.dumps(m).encode() + b"\n" for m in messages))


def test_questions_are_answered_in_order_and_a_stopped_one_is_cut_short() -> None:
    out = Pipe()
    told: list[bool] = []

    def chat(body: dict[str, Any], callback: Callable[[Any], bool]) -> None:
        told.append(callback({"n": body["n"]}))

    EngineServer(chat, out).run(lines({"stop": 1}, {"ask": 1, "body": {"n": 1}}, {"ask": 2, "body": {"n": 2}}))
    assert out.until(4) == [
        {"ready": True},
        {"id": 1, "end": True},
        {"id": 2, "chunk": {"n": 2}},
        {"id": 2, "end": True},
    ]
    assert told == [True, False]
