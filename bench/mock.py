"""A scripted model server that costs next to nothing: one asyncio protocol, ready-made bytes, no HTTP library.

The newest user message steers it by `BENCH key=value …;`:
    id=x       name of the turn in the log          text=200   tokens of the answer      chunk=4  tokens an event
    delay=20   milliseconds between events          tools=20   tool rounds before the answer
    tool=read key=path val=f%d.txt                  round n calls tool with {key: val % n}; + is a space
Without a mark, `TASK 50 ms` (a sub-agent's task) puts 50 milliseconds between the events of the answer.
One JSON line per answered request goes to --log; times are CLOCK_MONOTONIC nanoseconds, shared by all processes.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import json
import os
import re
import sys
import time

NOW = time.monotonic_ns
MARK = re.compile(rb"BENCH ([^;]{0,500});")
SLOW = re.compile(rb"TASK (\d+) ms")
RESULT = re.compile(rb'"role": ?"tool"')
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.I)
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
END = b"0\r\n\r\n"


def framed(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(choices: list[dict[str, object]], **rest: object) -> bytes:
    body = {"id": "b", "object": "chat.completion.chunk", "created": 1, "model": "bench", "choices": choices, **rest}
    return framed(b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n")


def piece(delta: dict[str, object], finish: str | None = None) -> bytes:
    return event([{"index": 0, "delta": delta, "finish_reason": finish}])


def ending(finish: str, tokens: int) -> bytes:
    usage = {"prompt_tokens": 100, "completion_tokens": tokens, "total_tokens": 100 + tokens}
    return piece({}, finish) + event([], usage=usage) + framed(b"data: [DONE]\n\n")


@functools.lru_cache(64)
def spoken(tokens: int, chunk: int) -> tuple[bytes, ...]:
    """The events of an answer, five characters a token."""
    words = [f"w{n % 1000:03d} " for n in range(tokens)]
    texts = ["".join(words[at : at + chunk]) for at in range(0, tokens, chunk)]
    return (
        piece({"role": "assistant", "content": ""}),
        *(piece({"content": text}) for text in texts),
        ending("stop", tokens),
    )


def called(ident: str, name: str, arguments: str) -> tuple[bytes, ...]:
    call = {"index": 0, "id": ident, "type": "function", "function": {"name": name, "arguments": ""}}
    rest = {"index": 0, "function": {"arguments": arguments}}
    return (
        piece({"role": "assistant", "content": None}),
        piece({"tool_calls": [call]}),
        piece({"tool_calls": [rest]}),
        ending("tool_calls", 20),
    )


def answer(body: bytes) -> tuple[tuple[bytes, ...], float, dict[str, object]]:
    """(events, seconds between them, log record) for a request body."""
    marks = list(MARK.finditer(body))
    found = marks[-1] if marks else None  # the newest one counts
    if found is None:
        slow = SLOW.search(body)
        return spoken(20, 1), int(slow[1]) / 1000 if slow else 0.0, {"id": "", "round": 0}
    options = dict(part.split("=", 1) for part in found[1].decode().split())
    ident, done = options.get("id", "x"), len(RESULT.findall(body, found.end()))
    record: dict[str, object] = {"id": ident, "round": done, "bytes": len(body)}
    if done < int(options.get("tools", 0)):
        value = options["val"].replace("+", " ").replace("%d", str(done))
        events = called(f"call_{ident}_{done}", options["tool"], json.dumps({options["key"]: value}))
        return events, 0.0, record
    events = spoken(int(options.get("text", 20)), int(options.get("chunk", 4)))
    return events, float(options.get("delay", 0)) / 1000, record


class Connection(asyncio.Protocol):
    """Requests one after another; the body has a length."""

    log = -1
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.loop = asyncio.get_running_loop()
        self.buffer = bytearray()
        self.body_at = self.total = self.first = 0

    def data_received(self, data: bytes) -> None:
        if not self.buffer:
            self.first = NOW()
        self.buffer += data
        while self.buffer:
            if not self.total:
                end = self.buffer.find(b"\r\n\r\n")
                if end < 0:
                    return
                length = LENGTH.search(self.buffer, 0, end)
                self.body_at = end + 4
                self.total = self.body_at + (int(length[1]) if length else 0)
            if len(self.buffer) < self.total:
                return
            arrived = NOW()
            head, body = bytes(self.buffer[: self.body_at]), bytes(self.buffer[self.body_at : self.total])
            del self.buffer[: self.total]
            self.total = 0
            self.respond(head, body, arrived)

    def respond(self, head: bytes, body: bytes, arrived: int) -> None:
        if not head.startswith(b"POST") or b"/chat/completions" not in head.split(b"\r\n", 1)[0]:
            data = b'{"object":"list","data":[{"id":"bench","object":"model"}]}'
            self.transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(data), data)
            )
            return
        events, delay, record = answer(body)
        record.update(first=self.first, arrived=arrived, sent0=NOW(), bytes=len(body))
        if not delay:
            self.transport.write(b"".join((HEAD, *events, END)))
            self.finish(record)
            return
        self.transport.write(HEAD + events[0])
        self.loop.call_later(delay, self.step, events, 1, delay, self.loop.time() + delay, record)

    def step(self, events: tuple[bytes, ...], at: int, delay: float, due: float, record: dict[str, object]) -> None:
        """Send event `at`; those that are late follow at once, so the pace holds on a busy machine."""
        if self.transport.is_closing():
            return
        last = at == len(events) - 1
        self.transport.write(events[at] + END if last else events[at])
        if last:
            self.finish(record)
            return
        self.loop.call_at(due + delay, self.step, events, at + 1, delay, due + delay, record)

    def finish(self, record: dict[str, object]) -> None:
        record["sent1"] = NOW()
        if self.log >= 0:
            os.write(self.log, json.dumps(record).encode() + b"\n")


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=1024)
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", required=True)
    options = parser.parse_args()
    Connection.log = os.open(options.log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    asyncio.run(serve(options.port))


if __name__ == "__main__":
    main()
