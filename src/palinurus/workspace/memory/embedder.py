"""Vectors of texts, made in a child process: the program itself never loads numpy or the model.

The child starts at the first question and ends when none came for a while. Without numpy or the model `why` says
so, and memory is searched by words alone. Calls block: they are made from threads.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any, BinaryIO

log = logging.getLogger(__name__)

MODEL = "all-minilm-l6-v2.bert"
IDLE = 300.0  # seconds the child waits for more work
SECONDS = 60.0  # for one job
TRIES = 3  # failures in a row; then no more until the next start
_CHILD = "palinurus.workspace.memory.bert"
_HEAD = struct.Struct(">II")  # of a frame: two lengths, then JSON, then bytes


class Embedder:
    """One for all memories of a program. Its methods return None when there are no vectors to be had."""

    def __init__(self, home: str, idle: float = IDLE) -> None:
        self.model = os.path.join(home, "models", MODEL)
        self._idle = idle
        self._numpy = importlib.util.find_spec("numpy") is not None
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._rest: threading.Timer | None = None
        self._failures = 0
        self._closed = False
        self.trouble = ""  # the last failure; "" after a success

    def why(self) -> str:
        """Why there are no vectors; "" when there are."""
        if not self._numpy:
            return "numpy is missing (`pal extras add memory`)"
        if not os.path.exists(self.model):
            return "the model is missing (`pal memory pull`)"
        return self.trouble if self._failures >= TRIES else ""

    def embed(self, texts: Sequence[str]) -> list[bytes] | None:
        """A vector for each text, as half floats."""
        answer = self._ask({"job": "embed", "texts": list(texts)})
        if answer is None or not texts or len(answer[1]) % len(texts):
            return None
        data = answer[1]
        size = len(data) // len(texts)
        return [data[at : at + size] for at in range(0, len(data), size)]

    def near(self, file: str, text: str, count: int) -> list[tuple[str, float]] | None:
        """Hashes of the pieces of an index that are nearest to the text, and how near (at most 1), nearest first."""
        answer = self._ask({"job": "near", "file": file, "text": text, "count": count})
        return None if answer is None else [(str(name), float(score)) for name, score in answer[0]["near"]]

    def _ask(self, told: dict[str, Any]) -> tuple[dict[str, Any], bytes] | None:
        with self._lock:
            if self._closed or self.why():
                return None
            if self._rest is not None:
                self._rest.cancel()
            try:
                answer = self._exchange(told)
                failed = str(answer[0].get("failed") or "")
            except (OSError, EOFError, ValueError):
                answer, failed = ({}, b""), "its process broke off"
            if failed:
                self._failures += 1
                self.trouble = f"the model for vectors failed: {failed}"
                log.warning("%s", self.trouble)
                self._end()
                return None
            self._failures, self.trouble = 0, ""
            self._rest = threading.Timer(self._idle, self._retire)
            self._rest.daemon = True
            self._rest.start()
            return answer

    def _exchange(self, told: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        process = self._process
        if process is None:
            process = self._process = subprocess.Popen(
                # -I: nothing of the working directory or the environment is imported.
                [sys.executable, "-I", "-X", "utf8", "-m", _CHILD, self.model],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                # One thread: more only wait for each other on a busy machine.
                env={"PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1"},
                cwd="/",
                start_new_session=True,
            )
        assert process.stdin is not None and process.stdout is not None
        late = threading.Timer(SECONDS, process.kill)
        late.daemon = True
        late.start()
        try:
            write_frame(process.stdin, told)  # type: ignore[arg-type]  # typeshed: IO, not BinaryIO
            return read_frame(process.stdout)  # type: ignore[arg-type]
        finally:
            late.cancel()

    def _retire(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for stream in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):  # what was not yet written to it is of no use any more
                    if stream is not None:
                        stream.close()
            process.wait()

    def close(self) -> None:
        """End the child, in the middle of its work too."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()
        with self._lock:
            if self._rest is not None:
                self._rest.cancel()
            self._end()


# --- what the memory and its child process say to each other -------------------------------------------------------


def write_frame(stream: BinaryIO, told: dict[str, Any], data: bytes = b"") -> None:
    """Write one frame. Raises OSError."""
    body = json.dumps(told).encode()
    stream.write(_HEAD.pack(len(body), len(data)) + body + data)
    stream.flush()


def read_frame(stream: BinaryIO) -> tuple[dict[str, Any], bytes]:
    """Read one frame. Raises EOFError when the stream ends before it does, ValueError."""
    first, second = _HEAD.unpack(_exactly(stream, _HEAD.size))
    told: dict[str, Any] = json.loads(_exactly(stream, first))
    return told, _exactly(stream, second)


def _exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError("the other side is gone")
    return data
