"""What a session is about, where nobody named it: the first thing somebody asked."""

from __future__ import annotations

from collections.abc import Iterable

from palinurus.core.spoken import read_spoken
from palinurus.core.text import cut_line
from palinurus.core.types.messages import UserMessage
from palinurus.files import open_plain_file
from palinurus.sessions.entries import MessageEntry, TranscriptEntry
from palinurus.sessions.transcript import Transcript

TITLE = 80  # characters of a derived title
_HEAD = 64 * 1024  # bytes of a file that are looked at: lists have many files, and the first words stand first


def derive_title(shown: Iterable[TranscriptEntry]) -> str:
    """The first thing somebody asked, short; "" if nobody did."""
    told = ""  # where no person ever spoke
    for entry in shown:
        if isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage):
            spoken = read_spoken(entry.message)
            if spoken.words:
                return cut_line(spoken.words, TITLE)
            told = told or spoken.program
    return cut_line(told, TITLE)


def read_title(file: str) -> str:
    """As `derive_title`, from the beginning of a transcript's file; "" where it cannot be read."""
    try:
        with open_plain_file(file, follow=True) as handle:
            data = handle.read(_HEAD)
    except OSError:
        return ""
    transcript = Transcript(file)
    transcript.fill(data[: data.rfind(b"\n") + 1])
    return derive_title(transcript.entries)
