"""Bytes that are no request, over real sockets: a clear 4xx in the form of all refusals, one line in the log each with
nothing of theirs in it, no traceback, nothing left behind, and other clients served meanwhile."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import struct

import aiohttp
import pytest

from gateway.host import TOKEN, FakeHost
from gateway.test_server import CHAT, raw, status
from palinurus.gateway import http, limits
from palinurus.gateway.server import GatewayServer
from palinurus.testing.client import connect_to_gateway
from palinurus.testing.clock import FakeClock

HOST = b"Host: 127.0.0.1\r\n"
GET = b"GET /health HTTP/1.1\r\n" + HOST
POST = f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n".encode()
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
UPGRADE = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
SOCKET = b"GET / HTTP/1.1\r\n" + HOST + UPGRADE + KEY + b"\r\n"
MARK = b"SECRETSECRET"

NO_REQUESTS = {
    "binary": bytes(range(256)) + MARK + b"\r\n\r\n",
    "tls": bytes.fromhex("16030100a5010000a1") + MARK * 10,
    "http 2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "http 9": b"GET / HTTP/9.9\r\n" + HOST + b"\r\n",
    "lines without CR": b"GET /health HTTP/1.1\nHost: 127.0.0.1\n\n",
    "a header without colon": GET + MARK + b"\r\n\r\n",
    "a header without name": GET + b": " + MARK + b"\r\n\r\n",
    "a space before the colon": GET + b"X : " + MARK + b"\r\n\r\n",
    "a control character": GET + b"X: a\x00" + MARK + b"\r\n\r\n",
    "a folded header": GET + b"X: a\r\n " + MARK + b"\r\n\r\n",
    "5000 headers": GET + b"".join(b"X%d: a\r\n" % n for n in range(5000)) + b"\r\n",
    "a huge header": GET + b"X: " + MARK * 30_000 + b"\r\n\r\n",
    "a huge target": b"GET /" + MARK * 30_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "a raw path": b"GET /v1/models/\xff\xfe" + MARK + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "half an address": b"GET http://[::1/" + MARK + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "an unknown method": b"BREW /" + MARK + b" HTTP/1.1\r\n" + HOST + b"\r\n",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n",
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
    "a length and chunks": POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "another coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "no chunk size": CHUNKED + b"zz\r\n{}\r\n0\r\n\r\n",
    "a negative chunk": CHUNKED + b"-2\r\n{}\r\n0\r\n\r\n",
    "an endless chunk": CHUNKED + b"ffffffffffffffffff\r\n{}\r\n0\r\n\r\n",
    "more than the chunk": CHUNKED + b"2\r\n{}" + MARK + b"\r\n0\r\n\r\n",
    "huge trailers": CHUNKED + b"2\r\n{}\r\n0\r\nX: " + MARK * 10_000 + b"\r\n\r\n",
    "an upgrade without key": b"GET / HTTP/1.1\r\n" + HOST + UPGRADE + b"\r\n",
    "an upgrade with a short key": b"GET / HTTP/1.1\r\n" + HOST + UPGRADE + b"Sec-WebSocket-Key: x\r\n\r\n",
    "an upgrade with a strange key": b"GET / HTTP/1.1\r\n" + HOST + UPGRADE + b"Sec-WebSocket-Key: \xff\xff\r\n\r\n",
    "an upgrade by POST": b"POST / HTTP/1.1\r\n" + HOST + UPGRADE + KEY + b"Content-Length: 2\r\n\r\n{}",
    "an upgrade of half a kind": b"GET / HTTP/1.1\r\n" + HOST + b"Upgrade: websocket\r\n" + KEY + b"\r\n",
}
BODIES = {
    "no UTF-8": b'{"model":"\xff\xfe"}',
    "UTF-16": '{"messages":[]}'.encode("utf-16"),
    "half a surrogate pair": b'{"messages":[{"role":"user","content":"\\ud800"}]}',
    "arrays in arrays": b'{"messages":' + b"[" * 100_000,
    "objects in objects": b'{"messages":[{"role":"user","content":"x"}],"metadata":' + b'{"a":' * 100_000,
    "a form": b"a=b",
    "XML": b"<a/>",
    "nothing": b"",
}


def frame(op: int, data: bytes, *, last: int = 1, reserved: int = 0, length: int | None = None) -> bytes:
    """As a client sends it, masked with zeros."""
    size = len(data) if length is None else length
    short = bytes([0x80 | size]) if size < 126 else bytes([0xFF]) + struct.pack(">Q", size)
    return bytes([last << 7 | reserved << 4 | op]) + short + bytes(4) + data


FRAMES = {
    "reserved bits": frame(1, b"{}", reserved=7),
    "an unknown kind": frame(5, b"{}"),
    "a long ping": frame(9, b"a" * 200),
    "half a ping": frame(9, b"a", last=0),
    "the end of nothing": frame(0, b"a"),
    "a text within a text": frame(1, b"a", last=0) + frame(1, b"b"),
    "half a close": frame(8, b"a"),
    "a close of a wrong kind": frame(8, struct.pack(">H", 5)),
    "an endless frame": frame(1, b"abc", length=1 << 62),
    "a large frame": frame(1, b"a" * 3_000_000),
    "pings without end": frame(9, b"a") * 50_000,
    "pieces without end": frame(1, b"a", last=0) + frame(0, b"a", last=0) * 50_000,
    "no JSON": frame(1, b"[" * 50_000),
    "no UTF-8": frame(1, b"\xff\xfe"),
    "binary": frame(2, MARK * 10),
}


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says of it: no traceback, nothing of theirs, never long."""
    lines = [(one.getMessage(), one.exc_info) for one in caplog.records if one.levelno > logging.DEBUG]
    assert not [
        text for text, trouble in lines if trouble or "Traceback" in text or len(text) > 300 or "SECRET" in text
    ]
    return [text for text, _ in lines]


@pytest.mark.parametrize("name", NO_REQUESTS)
async def test_no_request_is_a_clear_400_and_one_line(
    server: GatewayServer, http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    caplog.set_level(logging.INFO)
    answer = await raw(server.port, NO_REQUESTS[name])
    assert status(answer) == 400
    error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert error["code"] in ("bad_http", "bad_handshake", "bad_body") and len(error["message"]) < 200
    assert error["type"] == "invalid_request_error" and MARK not in answer
    assert len(told(caplog)) == 1
    assert (await http.get("/health")).status == 200


async def test_who_still_sends_is_told_too(server: GatewayServer) -> None:
    """A connection that is closed on bytes nobody has read takes its last answer with it."""

    def talk() -> bytes:
        with socket.create_connection(("127.0.0.1", server.port), 60) as line, line.makefile("rb") as answer:
            line.sendall(b"GET /" + MARK * 700_000)
            return answer.read()

    assert status(await asyncio.to_thread(talk)) == 400


@pytest.mark.parametrize("name", BODIES)
async def test_a_body_that_cannot_be_read_is_refused(
    server: GatewayServer, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    caplog.set_level(logging.INFO)
    for path in (CHAT, "/v1/responses", "/v1/embeddings", "/reach/turn", "/tools/invoke"):
        head = POST.replace(CHAT.encode(), path.encode()) + b"Content-Type: text/xml; charset=\xff\r\n"
        answer = await raw(server.port, head + b"Content-Length: %d\r\n\r\n" % len(BODIES[name]) + BODIES[name])
        assert status(answer) == 400 and "message" in json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert len(told(caplog)) == 5


@pytest.mark.parametrize("part", [b"Content-Length: 100\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n5\r\n{"])
async def test_who_goes_in_the_middle_of_a_body_is_not_an_error(
    server: GatewayServer, http: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture, part: bytes
) -> None:
    caplog.set_level(logging.INFO)
    for _ in range(5):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(POST + part)
        assert (await http.get("/health")).status == 200
        writer.transport.abort()
    doors = server._doors
    assert doors is not None
    async with asyncio.timeout(60):
        while len(doors.connections) > 1:  # the one of `http`
            await asyncio.sleep(0.01)
    assert told(caplog) == []


async def test_a_body_that_trickles_is_not_waited_for_without_end(
    server: GatewayServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "BODY_SECONDS", 0.2)
    answer = await raw(server.port, POST + b"Content-Length: 100\r\n\r\n{")
    assert status(answer) == 408 and limits.BODY_SECONDS <= 60


@pytest.mark.parametrize("name", FRAMES)
async def test_wrong_frames_end_their_connection_and_no_other(
    server: GatewayServer, clock: FakeClock, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    caplog.set_level(logging.INFO)
    async with connect_to_gateway(server.port, clock, token=TOKEN) as link:
        before = len(told(caplog))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(SOCKET + FRAMES[name])
        assert b" 101 " in await asyncio.wait_for(reader.readline(), 60)
        try:
            while await asyncio.wait_for(reader.read(1 << 20), 60):
                pass  # until it is closed
        except ConnectionError:
            pass
        writer.transport.abort()
        assert (await link.call("health"))["ok"]
        async with asyncio.timeout(60):
            while len(server.clients._open) > 1:
                await asyncio.sleep(0.01)
    assert len(told(caplog)) - before <= 4  # its login, its end, those of the link


async def test_what_a_client_calls_its_protocol_is_not_in_the_log(
    server: GatewayServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(SOCKET[:-2] + b"Sec-WebSocket-Protocol: \xff, " + MARK * 500 + b"\r\n\r\n")
    async with asyncio.timeout(60):
        while not server.clients._open:
            await asyncio.sleep(0.01)
    writer.transport.abort()
    told(caplog)


async def test_a_crowd_of_them_leaves_nothing_behind(server: GatewayServer, host: FakeHost) -> None:
    for _ in range(3):
        await asyncio.gather(*(raw(server.port, data) for data in NO_REQUESTS.values()))
    doors = server._doors
    assert doors is not None
    async with asyncio.timeout(60):
        while doors.connections:
            await asyncio.sleep(0.01)
    assert not doors._timers and not doors.count_fresh() and not doors.known and not server.clients._open
    assert host.seen == []
