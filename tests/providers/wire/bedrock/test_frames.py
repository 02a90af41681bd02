"""The binary framing: frames other implementations made, and broken ones."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.providers.wire.aws import BedrockFrame, BedrockFrameReader, encode_frame

# Published test vectors of the format.
EMPTY = bytes.fromhex("000000100000000005c248eb7d98c8ff")
STRING = bytes.fromhex(
    "0000003d0000002007fd83960c636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e7b27666f6f273a2762617227"
    "7d8d9c08b1"
)
INTEGER = bytes.fromhex("0000002d0000001041c424b80a6576656e742d74797065040000a00c7b27666f6f273a27626172277d36f480a0")


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        (EMPTY, BedrockFrame({}, b"")),
        (STRING, BedrockFrame({"content-type": "application/json"}, b"{'foo':'bar'}")),
        (INTEGER, BedrockFrame({}, b"{'foo':'bar'}")),
    ],
)
def test_published_vectors(raw: bytes, wanted: BedrockFrame) -> None:
    machine = BedrockFrameReader()
    assert machine.feed(raw) == [wanted]
    assert machine.close() == [] and machine.failed is None


def test_what_we_write_is_what_others_write() -> None:
    assert encode_frame({"content-type": "application/json"}, b"{'foo':'bar'}") == STRING
    assert encode_frame({}, b"") == EMPTY


@given(st.integers(0, len(STRING) - 1), st.integers(1, 255))
def test_every_changed_byte_is_noticed(where: int, change: int) -> None:
    raw = bytearray(STRING)
    raw[where] ^= change
    machine = BedrockFrameReader()
    assert machine.feed(bytes(raw)) == []
    assert machine.close() == [] and machine.failed is not None


@given(
    st.dictionaries(st.text(max_size=20), st.text(max_size=50), max_size=4),
    st.lists(st.binary(max_size=60), max_size=4),
    st.integers(1, 50),
)
@settings(deadline=None)
def test_the_same_frames_however_they_are_cut(headers: dict[str, str], payloads: list[bytes], step: int) -> None:
    data = b"".join(encode_frame(headers, payload) for payload in payloads)
    machine = BedrockFrameReader()
    got = [f for i in range(0, len(data), step) for f in machine.feed(data[i : i + step])]
    assert got == [BedrockFrame(headers, payload) for payload in payloads]


def test_after_a_fault_nothing_comes() -> None:
    machine = BedrockFrameReader()
    assert machine.feed(STRING + b"\xff" * 12) == [BedrockFrame({"content-type": "application/json"}, b"{'foo':'bar'}")]
    assert machine.failed and machine.feed(STRING) == [] and machine.close() == []


@given(st.binary(max_size=300))
def test_random_headers_never_raise(raw: bytes) -> None:
    lengths = struct.pack(">II", 16 + len(raw), len(raw))
    body = lengths + zlib.crc32(lengths).to_bytes(4, "big") + raw
    BedrockFrameReader().feed(body + zlib.crc32(body).to_bytes(4, "big"))
