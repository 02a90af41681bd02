"""Answers of HTTP/1.1, however they are cut."""

from __future__ import annotations

import gzip
import zlib

import pytest

from palinurus.providers.transport.answer import BadAnswer, HttpAnswerParser

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
BODY = b'data: {"a": 1}\n\n' + b"x" * 20
CHUNKS = b"4\r\n" + BODY[:4] + b"\r\n1E;name=value\r\n" + BODY[4:34] + b"\r\n2\r\n" + BODY[34:] + b"\r\n0\r\n"


def read(data: bytes, step: int) -> tuple[HttpAnswerParser, bytes]:
    parser, out = HttpAnswerParser(), b""
    for at in range(0, len(data), step):
        parser.feed(data[at : at + step])
        while parser.waiting:
            out += parser.take()
    return parser, out


@pytest.mark.parametrize(
    ("said", "keeps"),
    [
        (CHUNKED + CHUNKS + b"\r\n", True),
        (CHUNKED + CHUNKS + b"x-after: it\r\n\r\n", True),
        (CHUNKED + CHUNKS + b"\r\nHTTP/1.1", False),
        (HEAD + b"content-length: 36\r\n\r\n" + BODY, True),
        (HEAD + b"content-length: 36\r\nconnection: close\r\n\r\n" + BODY, False),
        (HEAD + b"content-length: 36\r\n\r\n" + BODY + b"more", False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 36\r\n\r\n" + BODY, False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 36\r\nconnection: Keep-Alive\r\n\r\n" + BODY, True),
        (b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\n" + CHUNKED + CHUNKS + b"\r\n", True),
    ],
)
@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_a_body_is_the_same_however_it_is_cut(said: bytes, keeps: bool, step: int) -> None:
    parser, body = read(said, step)
    assert (parser.status, body, parser.done, parser.keeps) == (200, BODY, True, keeps)


@pytest.mark.parametrize("step", [1, 1000])
def test_one_that_ends_with_its_connection(step: int) -> None:
    parser, body = read(HEAD + b"\r\n" + BODY, step)
    assert (body, parser.done) == (BODY, False)
    assert parser.end() and parser.done and not parser.keeps


@pytest.mark.parametrize(
    "said", [b"", HEAD, CHUNKED + CHUNKS[:-5], HEAD + b"content-length: 9\r\n\r\nhi", CHUNKED + CHUNKS]
)
def test_one_that_was_cut_off(said: bytes) -> None:
    parser, _ = read(said, 1000)
    assert not parser.done and not parser.end()


@pytest.mark.parametrize("status", [204, 304])
def test_one_without_a_body(status: int) -> None:
    parser, body = read(b"HTTP/1.1 %d x\r\n\r\n" % status, 1)
    assert (parser.status, parser.done, parser.keeps, body) == (status, True, True, b"")


def test_headers_that_come_twice_are_joined() -> None:
    parser, _ = read(HEAD + b"X-A: 1\r\nx-a:2\r\ncontent-length: 0\r\n\r\n", 1)
    assert parser.headers == {"x-a": "1, 2", "content-length": "0"}


@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
@pytest.mark.parametrize("step", [1, 1000])
def test_packed_ones_are_unpacked(name: str, pack: object, step: int) -> None:
    packed = pack(BODY)  # type: ignore[operator]
    head = HEAD + b"content-encoding: %s\r\ncontent-length: %d\r\n\r\n" % (name.encode(), len(packed))
    assert read(head + packed, step)[1] == BODY


def test_a_bomb_is_unpacked_bit_by_bit() -> None:
    packed = gzip.compress(bytes(5_000_000))
    parser = HttpAnswerParser()
    parser.feed(HEAD + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed) + packed)
    assert len(parser.take()) == 1 << 20 and parser.waiting


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        HEAD + b"no header\r\n\r\n",
        HEAD + b" folded: x\r\n\r\n",
        HEAD + b"content-length: -1\r\n\r\n",
        HEAD + b"content-length: 5, 6\r\n\r\n",
        HEAD + b"content-length: " + b"9" * 5000 + b"\r\n\r\n",  # more than Python makes a number of
        HEAD + b"x: " + b"y" * 70_000,
        CHUNKED + b"-5\r\n",
        CHUNKED + b"zz\r\n",
        CHUNKED + b"\r\n",
        CHUNKED + b"2\r\nabc\r\n",
        CHUNKED + b"1" * 5000,
    ],
)
def test_what_is_no_answer(said: bytes) -> None:
    with pytest.raises(BadAnswer):
        read(said, 100_000)


def test_what_cannot_be_unpacked() -> None:
    with pytest.raises(BadAnswer):
        read(HEAD + b"content-encoding: gzip\r\ncontent-length: 5\r\n\r\nhello", 1000)
