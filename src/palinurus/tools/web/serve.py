"""A child's side of `reader`: frames on stdin, frames on stdout, under limits of the kernel. Knows no format.

A frame is two lengths (4 bytes each, big-endian), then JSON, then bytes. Runs as the main program of a child, so it
imports little: its start is part of a page's cost.
"""

from __future__ import annotations

import contextlib
import json
import resource
import struct
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

MEMORY = 1 << 30
_LIMITS = (
    (resource.RLIMIT_AS, MEMORY),
    (resource.RLIMIT_FSIZE, 0),  # a reader writes no file
    (resource.RLIMIT_CORE, 0),
    (resource.RLIMIT_NOFILE, 64),
)
HEAD = struct.Struct(">II")


def serve_jobs(jobs: dict[str, Callable[[dict[str, Any], bytes], Any]]) -> None:
    """Answer until stdin ends. A job that raises is answered with `failed`; one that crashes ends the process."""
    for kind, most in _LIMITS:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, most))
    given, out = sys.stdin.buffer, sys.stdout.buffer
    while True:
        asked = _read(given)
        if asked is None:
            return
        told, data = asked
        try:
            answer = {"ok": jobs[told["job"]](told, data)}
        except MemoryError:
            answer = {"failed": "it needs too much memory"}
        except RecursionError:
            answer = {"failed": "it is nested too deeply"}
        except Exception as exc:  # noqa: BLE001 - process boundary: whatever a parser raises is an answer
            answer = {"failed": f"{type(exc).__name__}: {exc}"[:300]}
        body = json.dumps(answer).encode()
        out.write(HEAD.pack(len(body), 0) + body)
        out.flush()


def _read(given: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    head = given.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    first, second = HEAD.unpack(head)
    told: dict[str, Any] = json.loads(given.read(first))
    return told, given.read(second)
