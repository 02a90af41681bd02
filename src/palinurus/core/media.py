"""What the first bytes of a file tell: width and height of an image, and whether it must be made smaller; how long a
recording is (Ogg voice notes, WAV). Decodes nothing. Pure.
"""

from __future__ import annotations

MAX_IMAGE_SIDE = 1200  # pixels: more of them cost tokens and show models nothing
MAX_IMAGE_PIXELS = 25_000_000  # what is decoded at most
MAX_IMAGE_SOURCE = 25 << 20  # bytes of an image that is to be made smaller
IMAGES_EXTRA_HINT = "`pal extras add images` and it is made smaller"
_OPUS = 48_000  # samples a second that Opus counts in, whatever was recorded


def is_large_image(data: bytes, kind: str, size: int, side: int = MAX_IMAGE_SIDE) -> bool:
    """Is it more than `size` bytes, or more pixels than help?"""
    return len(data) > size or max(read_dimensions(data, kind)) > side


def read_dimensions(data: bytes, kind: str) -> tuple[int, int]:
    """Width and height as the header has them; (0, 0) where they cannot be found without decoding."""
    if kind == "image/png":
        return int.from_bytes(data[16:20]), int.from_bytes(data[20:24])
    if kind == "image/gif":
        return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    if kind == "image/jpeg":
        return _jpeg(data)
    return _webp(data) if kind == "image/webp" and len(data) >= 25 else (0, 0)


def _jpeg(data: bytes) -> tuple[int, int]:
    at = 2
    while at + 9 < len(data) and data[at] == 0xFF:
        if 0xC0 <= data[at + 1] <= 0xCF and data[at + 1] not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(data[at + 7 : at + 9]), int.from_bytes(data[at + 5 : at + 7])
        at += 2 + int.from_bytes(data[at + 2 : at + 4])
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    if data[12:16] == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    if data[12:16] == b"VP8L" and data[20] == 0x2F:  # 14 bits each, less one
        both = int.from_bytes(data[21:25], "little")
        return (both & 0x3FFF) + 1, (both >> 14 & 0x3FFF) + 1
    if data[12:16] == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":  # 14 bits each, and two of scale
        return int.from_bytes(data[26:28], "little") & 0x3FFF, int.from_bytes(data[28:30], "little") & 0x3FFF
    return 0, 0


def read_duration(data: bytes) -> int:
    """Whole seconds, at least 1; 0 where they cannot be found without decoding."""
    if data[:4] == b"OggS":
        return _ogg(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return _wav(data)
    return 0


def _ogg(data: bytes) -> int:
    """The last page says how many samples there are up to its end."""
    last = data.rfind(b"OggS")
    samples = int.from_bytes(data[last + 6 : last + 14], "little")
    head = data.find(b"\x01vorbis", 0, 512)
    rate = int.from_bytes(data[head + 12 : head + 16], "little") if head >= 0 else _OPUS
    plausible = len(data) >= last + 14 and rate and samples < rate * 86_400
    return max(1, round(samples / rate)) if plausible else 0


def read_loudness(data: bytes, points: int) -> bytes:
    """How loud an Ogg/Opus recording is over time, as so many bytes, for the line that chat apps draw. Guessed from the
    sizes of its packets, since louder and fuller sound takes more; nothing is decoded."""
    sizes: list[int] = []
    at = data.find(b"OggS")
    while at >= 0 and at + 27 <= len(data):
        table = data[at + 27 : at + 27 + data[at + 26]]
        packet = 0
        for length in table:
            packet += length
            if length < 255:  # its last piece
                sizes.append(packet)
                packet = 0
        at = data.find(b"OggS", at + 27 + len(table) + sum(table))
    sizes = sizes[2:] or [1]  # after the two that describe it
    most = max(sizes) or 1
    count = min(points, len(sizes))
    groups = (sizes[n * len(sizes) // count : (n + 1) * len(sizes) // count] for n in range(count))
    return bytes(max(group) * 255 // most for group in groups)


def _wav(data: bytes) -> int:
    rate = int.from_bytes(data[28:32], "little")  # bytes a second
    return max(1, round((len(data) - 44) / rate)) if len(data) > 44 and rate else 0
