"""The bytes of a transcript: those of its file, and the journal's lines that are not in it yet."""

from __future__ import annotations

from collections.abc import Sequence

from palinurus.store.port import TranscriptLine


def join_journal(data: bytes, journal: Sequence[TranscriptLine]) -> bytes:
    """What the file will hold once `journal` is in it, `data` being what it holds now and read after `journal`. A line
    stays in the journal until its file is synced, so most of them are in both."""
    if not journal:
        return data
    whole, newline, torn = data.rpartition(b"\n")
    if torn and any(line.data.startswith(torn) for line in journal):
        data = whole + newline  # our own half line: the whole of it follows
    missing = [line.data for line in journal if data.rfind(line.data) < 0]  # they are near the end, if anywhere
    if missing and data and not data.endswith(b"\n"):
        data += b"\n"
    return data + b"".join(line + b"\n" for line in missing)
