"""Bytes of a transcript file -> its header, its entries in order, and the pieces that could not be read.

Never raises on content: torn and glued lines, NUL blocks, foreign bytes, halves of emoji. Each bad piece is
kept with its offset and a reason. Pure: no files, no tree.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from palinurus.core.text import repair_surrogates
from palinurus.patterns import compile_late
from palinurus.sessions import foreign
from palinurus.sessions.entries import (
    ENTRY_DECODER,
    CompactionEntry,
    KnownEntry,
    TranscriptEntry,
    TranscriptHeader,
    UnknownEntry,
)

_BOM = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n\x00"
# Where a whole line may begin inside a broken one. Quotes inside JSON strings are escaped, so text never matches.
_START = compile_late(
    r'\{\s*"type"\s*:\s*"(?:session|message|model_change|thinking_level_change|compaction|branch_summary|custom'
    r'|custom_message|label|session_info)"'
)
_MISSES = 16  # false beginnings tried in one broken line: keeps a hostile line from costing its square


class BadPiece(msgspec.Struct, frozen=True):
    """A piece of the file that is not part of the transcript any more."""

    offset: int
    reason: str
    data: bytes


class TranscriptScan(NamedTuple):
    header: TranscriptHeader | None
    entries: list[TranscriptEntry]
    bad: list[BadPiece]


def scan_transcript(data: bytes) -> TranscriptScan:
    """Read everything that can be read, in the order of the file."""
    header: TranscriptHeader | None = None
    entries: list[TranscriptEntry] = []
    bad: list[BadPiece] = []
    decode = ENTRY_DECODER.decode
    add = entries.append
    offset = len(_BOM) if data.startswith(_BOM) else 0
    bare = False  # version 1: lines without ids
    while offset < len(data):
        end = data.find(b"\n", offset)
        end = end if end >= 0 else len(data)
        line = data[offset:end]
        found: tuple[TranscriptHeader | TranscriptEntry, ...]
        try:
            found = (decode(line),)
        except (ValueError, RecursionError):
            found = tuple(_recover(line, offset, bad))
        for entry in found:
            if isinstance(entry, TranscriptHeader):
                if header is None:
                    header = entry
                elif entry != header:
                    bad.append(BadPiece(offset, "a second header", line))
                continue
            bare = bare or not entry.id
            add(entry)
        offset = end + 1
    return TranscriptScan(header, _numbered(entries) if bare else entries, bad)


def _recover(line: bytes, offset: int, bad: list[BadPiece]) -> Iterator[TranscriptHeader | TranscriptEntry]:
    """The slow way, for a line the typed decoder refused."""
    body = line.strip(_BLANK)
    if not body:
        if b"\x00" in line:
            bad.append(BadPiece(offset, "zero bytes", line))
        return
    try:
        yield _shaped(msgspec.json.decode(body))
        return
    except (ValueError, RecursionError) as exc:
        reason = _reason(exc)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text, reason = body.decode(errors="replace"), "not UTF-8"
        bad.append(BadPiece(offset, reason, line))  # the original is kept even if the rest of the line can be read
        yield from _glued(text)[0]
        return
    found, rest = _glued(text)
    if rest:
        bad.append(BadPiece(offset, reason, line if not found else "\n".join(rest).encode()))
    yield from found


def _glued(text: str) -> tuple[list[TranscriptHeader | TranscriptEntry], list[str]]:
    """Every whole object in a line that is not one, and the pieces between them."""
    found: list[TranscriptHeader | TranscriptEntry] = []
    rest: list[str] = []
    at = 0
    halved = "\\ud" in text or "\\uD" in text  # JSON may spell out half a pair, which no encoder takes afterwards
    if not text.startswith("{"):
        at = _next(text, 0)
        rest.append(text[:at])
    misses = 0
    while at < len(text) and misses < _MISSES:
        try:
            raw, end = _JSON.raw_decode(text, at)
            found.append(_shaped(json.loads(repair_surrogates(json.dumps(raw, ensure_ascii=False))) if halved else raw))
        except (ValueError, RecursionError):
            misses += 1
            end = _next(text, at + 1)
            rest.append(text[at:end])
        at = end
        while at < len(text) and text[at] in " \t\r\x00":
            at += 1
    rest.append(text[at:])
    return found, [piece for piece in rest if piece]


def _next(text: str, at: int) -> int:
    match = _START.search(text, at)
    return match.start() if match else len(text)


def _shaped(raw: Any) -> TranscriptHeader | TranscriptEntry:
    """The entry a decoded object means. Raises ValueError when it means none."""
    if not isinstance(raw, dict):
        raise ValueError("not an object")
    return foreign.convert_entry(raw)


def _numbered(entries: list[TranscriptEntry]) -> list[TranscriptEntry]:
    """Ids for version 1: the line's number, so that every reading gives the same ones.

    An unknown line without an id stays without: nothing can hang on it.
    """
    out: list[TranscriptEntry] = []
    for number, entry in enumerate(entries, 1):  # the header is line 0
        if not entry.id and not isinstance(entry, UnknownEntry):
            entry = _with_id(entry, f"{number:08x}")
        out.append(entry)
    return out


def _with_id(entry: KnownEntry, ident: str) -> KnownEntry:
    if isinstance(entry, CompactionEntry) and entry.firstKeptEntryId is None and entry.firstKeptEntryIndex:
        kept = f"{entry.firstKeptEntryIndex:08x}"
        return msgspec.structs.replace(entry, id=ident, firstKeptEntryId=kept)
    return msgspec.structs.replace(entry, id=ident)


def _reason(exc: Exception) -> str:
    if isinstance(exc, RecursionError):
        return "nested too deep"
    if isinstance(exc, UnicodeDecodeError):
        return "not UTF-8"
    return str(exc) or "not JSON"


_JSON = json.JSONDecoder()
