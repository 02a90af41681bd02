"""Sizes of images by their first bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.media import MAX_IMAGE_SIDE, is_large_image, read_dimensions

KINDS = ("image/png", "image/gif", "image/jpeg", "image/webp", "")


def png(wide: int, high: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + wide.to_bytes(4) + high.to_bytes(4)


def test_sizes_by_header() -> None:
    assert read_dimensions(png(7, 9), "image/png") == (7, 9)
    assert read_dimensions(b"GIF89a\x05\x00\x06\x00", "image/gif") == (5, 6)
    jpeg = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x00\x0a\x00\x0b" + b"\x00" * 12
    assert read_dimensions(jpeg, "image/jpeg") == (11, 10)
    assert read_dimensions(b"\xff\xd8\xff", "image/jpeg") == (0, 0)


def test_sizes_of_the_three_kinds_of_webp() -> None:
    def webp(kind: bytes, rest: bytes) -> bytes:
        return b"RIFF\x00\x00\x00\x00WEBP" + kind + b"\x00\x00\x00\x00" + rest

    lossy = webp(
        b"VP8 ", b"\x30\x01\x00\x9d\x01\x2a" + (1300).to_bytes(2, "little") + (0x4000 | 900).to_bytes(2, "little")
    )
    lossless = webp(b"VP8L", b"\x2f" + ((1300 - 1) | (900 - 1) << 14 | 1 << 28).to_bytes(4, "little"))
    extended = webp(b"VP8X", b"\x00" * 4 + (1300 - 1).to_bytes(3, "little") + (900 - 1).to_bytes(3, "little"))
    assert [read_dimensions(data, "image/webp") for data in (lossy, lossless, extended)] == [(1300, 900)] * 3
    assert read_dimensions(webp(b"VP8 ", b"none of it"), "image/webp") == (0, 0)
    assert read_dimensions(lossless[:22], "image/webp") == (0, 0)


def test_large_by_bytes_or_by_pixels() -> None:
    assert not is_large_image(png(MAX_IMAGE_SIDE, MAX_IMAGE_SIDE), "image/png", 100)
    assert is_large_image(png(MAX_IMAGE_SIDE, MAX_IMAGE_SIDE), "image/png", 10) and is_large_image(
        png(1, MAX_IMAGE_SIDE + 1), "image/png", 100
    )


@given(st.binary(max_size=200), st.sampled_from(KINDS))
def test_no_bytes_break_it(data: bytes, kind: str) -> None:
    assert min(read_dimensions(b"\xff\xd8" + data, kind)) >= 0
