"""Connections to models: which are used again, and what is sent over them."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from palinurus.providers.transport.answer import BadAnswer
from palinurus.providers.transport.pool import (
    BadUrl,
    ConnectionPool,
    ConnectTimeout,
    HttpConnection,
    HttpOrigin,
    NoAnswer,
    write_head,
)

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"


class Answering:
    """A server that says what it is told, and counts who comes."""

    def __init__(self, answers: list[bytes]) -> None:
        self.answers = answers
        self.asked: list[bytes] = []
        self.lines: list[asyncio.StreamWriter] = []
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.lines.append(writer)
        while head := await reader.read(65536):
            self.asked.append(head)
            said = self.answers.pop(0)
            writer.write(said)
            if b"close" in said.lower() or b"content-length" not in said.lower():
                break
        writer.close()


@asynccontextmanager
async def serving(*answers: bytes) -> AsyncIterator[Answering]:
    made = Answering(list(answers))
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/x?a=b"
    try:
        yield made
    finally:
        server.close()


async def ask(pool: ConnectionPool, url: str) -> tuple[HttpConnection, bytes]:
    got = await pool.post(url, b"{}", {"x-one": "1"}, 5.0)
    text = b""
    while data := await got.read():
        text += data
    return got, text


async def test_a_connection_is_used_again_once_its_answer_was_read() -> None:
    async with serving(OK, OK, OK) as server:
        pool = ConnectionPool()
        got, text = await ask(pool, server.url)
        assert (got.answer.status, text) == (200, b"hi")
        pool.give_back(got)
        again, _ = await ask(pool, server.url)
        assert len(server.lines) == 1
        beside, _ = await ask(pool, server.url)  # the other one is not free yet
        assert len(server.lines) == 2
        pool.give_back(again)
        pool.give_back(beside)
        pool.close()
        assert again.closed and beside.closed


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi",
        b"HTTP/1.0 200 OK\r\n\r\nhi",
        OK + OK,
    ],
)
async def test_a_connection_that_is_closed_or_said_too_much_is_not_used_again(said: bytes) -> None:
    async with serving(said, OK) as server:
        pool = ConnectionPool()
        got, text = await ask(pool, server.url)
        assert text == b"hi"
        pool.give_back(got)
        again, _ = await ask(pool, server.url)
        assert again is not got and len(server.lines) == 2
        pool.give_back(again)
        pool.close()


async def test_an_answer_that_was_not_read_takes_its_connection_with_it() -> None:
    async with serving(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi") as server:
        pool = ConnectionPool()
        got = await pool.post(server.url, b"", {}, None)
        pool.give_back(got)
        assert got.closed


async def test_one_that_the_server_closed_while_it_waited_is_not_used_again() -> None:
    async with serving(OK, OK) as server:
        pool = ConnectionPool()
        got, _ = await ask(pool, server.url)
        pool.give_back(got)
        server.lines[0].close()
        while not got.closed:
            await asyncio.sleep(0)
        again, text = await ask(pool, server.url)
        assert text == b"hi" and len(server.lines) == 2
        pool.give_back(again)
        pool.close()


async def test_those_that_wait_too_long_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(OK) as server:
        pool = ConnectionPool()
        got, _ = await ask(pool, server.url)
        pool.give_back(got)
        pool._sweep()
        assert not got.closed  # it has not waited yet
        monkeypatch.setattr("palinurus.providers.transport.pool.KEEP", 0.0)
        pool._sweep()
        assert got.closed and pool._timer is None


async def test_words_before_the_answer_are_passed_over_and_packed_ones_unpacked() -> None:
    packed = gzip.compress(b"hello")
    said = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n%s"
    async with serving(said % (len(packed), packed)) as server:
        pool = ConnectionPool()
        got, text = await ask(pool, server.url)
        assert (got.answer.status, text) == (200, b"hello")
        pool.give_back(got)
        pool.close()


async def test_what_is_no_answer() -> None:
    async with serving(b"SSH-2.0-OpenSSH\r\n\r\n", b"") as server:
        with pytest.raises(BadAnswer):
            await ask(ConnectionPool(), server.url)
        with pytest.raises(NoAnswer):
            await ask(ConnectionPool(), server.url)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError):
            await ask(ConnectionPool(), f"http://127.0.0.1:{nobody.getsockname()[1]}/")
    async with serving(b"HTTP/1.1 400 no TLS here\r\n\r\n") as server:
        with pytest.raises(ssl.SSLError):
            await ask(ConnectionPool(), server.url.replace("http:", "https:"))


async def test_a_long_answer_waits_until_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("palinurus.providers.transport.pool.MOST_HELD", 1000)
    said = bytes(range(256)) * 8000
    async with serving(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(said), said)) as server:
        pool = ConnectionPool()
        got = await pool.post(server.url, b"", {}, None)
        for _ in range(100):
            await asyncio.sleep(0)
        text = first = await got.read()
        assert 0 < len(first) < len(said)  # the rest was not taken in meanwhile
        while data := await got.read():
            text += data
        assert text == said and got.is_free
        pool.give_back(got)
        pool.close()


async def test_a_host_that_takes_no_connection_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def wait(pool: ConnectionPool, origin: HttpOrigin) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(ConnectionPool, "_look_up", wait)
    with pytest.raises(ConnectTimeout):
        await ConnectionPool().post("http://model.example/", b"", {}, 0.0)


def test_the_head_of_a_request() -> None:
    origin, head = write_head("https://Models.example/v1/x y?a=ü", 7, {"Accept": "text/plain", "X-Key": "schlüssel"})
    assert origin == HttpOrigin("models.example", 443, tls=True)
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /v1/x%20y?a=%C3%BC HTTP/1.1" and lines[-2:] == ["", ""]
    assert {"host: models.example", "content-length: 7", "accept: text/plain", "x-key: schlüssel"} <= set(lines)
    assert sum(line.lower().startswith("accept:") for line in lines) == 1
    origin, head = write_head("http://me:pass@[::1]:8080", 0, {})
    assert origin == HttpOrigin("::1", 8080, tls=False)
    assert b"\r\nhost: [::1]:8080\r\n" in head and b"\r\nauthorization: Basic bWU6cGFzcw==\r\n" in head


@pytest.mark.parametrize("key", ["a\r\nb: c", "a\nb", "a\0b"])
def test_a_header_stays_one(key: str) -> None:
    with pytest.raises(ValueError, match="several"):
        write_head("http://model.example/", 0, {"authorization": key})


@pytest.mark.parametrize(
    "url",
    ["http:///x", "model.example", "ftp://model.example/", "http://model.example:99999/", "ftp://model.example:80/"],
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(BadUrl):
        write_head(url, 0, {})
