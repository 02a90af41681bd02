from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.media import read_duration


def ogg(samples: int, head: bytes = b"OpusHead") -> bytes:
    def page(at: int, body: bytes) -> bytes:
        return b"OggS\0\0" + at.to_bytes(8, "little") + bytes(12) + b"\1" + bytes([len(body)]) + body

    return page(0, head) + page(samples, b"x" * 20)


def test_the_length_of_what_phones_record() -> None:
    assert read_duration(ogg(12 * 48_000)) == 12
    assert read_duration(ogg(100)) == 1
    vorbis = b"\x01vorbis" + bytes(5) + (44_100).to_bytes(4, "little")
    assert read_duration(ogg(3 * 44_100, vorbis)) == 3
    wav = b"RIFF\0\0\0\0WAVEfmt " + bytes(12) + (8000).to_bytes(4, "little") + bytes(12)
    assert read_duration(wav.ljust(44, b"\0") + bytes(16_000)) == 2


@given(st.binary(max_size=200), st.sampled_from([b"", b"OggS", b"RIFF\0\0\0\0WAVE"]))
def test_anything_can_come(data: bytes, head: bytes) -> None:
    assert 0 <= read_duration(head + data) <= 86_400
