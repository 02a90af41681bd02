"""The child's side of the pipes: requests in, chunks out, one at a time. Knows lines and threads, not the runtime.

Lines of JSON. In: {"ask": n, "body": {…}} and {"stop": n}. Out: {"ready": true}, {"id": n, "chunk": {…}},
{"id": n, "end": true}, {"id": n, "failed": "…"}. The end of the input is the end of the process: whoever started
it is gone.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from typing import IO, Any, TypeAlias

# Ask, and be told each chunk; a callback that returns True ends the answer.
Chat: TypeAlias = Callable[[dict[str, Any], Callable[[Any], bool]], None]

_PR_SET_PDEATHSIG = 1


class EngineServer:
    """Serves one runtime until the input ends."""

    def __init__(self, chat: Chat, out: IO[bytes]) -> None:
        self._chat = chat
        self._out = out
        self._asked: queue.SimpleQueue[tuple[int, dict[str, Any]]] = queue.SimpleQueue()
        self._stopped: set[int] = set()
        self._lock = threading.Lock()

    def run(self, source: IO[bytes]) -> None:
        """Read requests until the end of `source`. The answers come from a second thread."""
        threading.Thread(target=self._work, daemon=True).start()
        self._tell({"ready": True})
        for line in source:
            message = json.loads(line)
            if "ask" in message:
                self._asked.put((message["ask"], message["body"]))
            elif "stop" in message:
                self._stopped.add(message["stop"])

    def _work(self) -> None:
        try:
            while True:
                self._answer(*self._asked.get())
        finally:
            os._exit(70)  # without this thread nothing is ever answered: better to be seen dead

    def _answer(self, ident: int, body: dict[str, Any]) -> None:
        try:
            self._chat(body, functools.partial(self._chunk, ident))
        except (RuntimeError, ValueError, TypeError, LookupError, MemoryError) as error:
            self._tell({"id": ident, "failed": f"{type(error).__name__}: {error}"[:500]})
        else:
            self._tell({"id": ident, "end": True})
        self._stopped.discard(ident)

    def _chunk(self, ident: int, chunk: Any) -> bool:
        if ident not in self._stopped:
            self._tell({"id": ident, "chunk": chunk})
        return ident in self._stopped

    def _tell(self, message: dict[str, Any]) -> None:
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            self._out.write(data)
            self._out.flush()


def open_private_output() -> IO[bytes]:
    """The pipe to the parent, moved away from descriptor 1: what libraries print goes to stderr instead."""
    ours = os.dup(1)
    os.set_inheritable(ours, False)
    os.dup2(2, 1)
    return os.fdopen(ours, "wb")


def die_with(parent: int) -> None:
    """Let the kernel end this process when its parent dies, where it can; a parent already gone ends it now."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(0)
