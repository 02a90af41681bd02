"""How long a recording is, by its container's own marks: Ogg (voice notes) and WAV. Decodes nothing. Pure."""

from __future__ import annotations

_OPUS = 48_000  # samples a second that Opus counts in, whatever was recorded


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


def _wav(data: bytes) -> int:
    rate = int.from_bytes(data[28:32], "little")  # bytes a second
    return max(1, round((len(data) - 44) / rate)) if len(data) > 44 and rate else 0
