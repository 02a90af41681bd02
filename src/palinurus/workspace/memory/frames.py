"""What the memory and its child process say to each other: two lengths, then JSON, then bytes."""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

_HEAD = struct.Struct(">II")


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
