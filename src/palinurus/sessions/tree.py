"""The tree of a transcript for people: finding an entry, labels, branches, and copies of a path into a new file.

Pure: works on a loaded `Transcript`, returns values and bytes; whoever calls writes them.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from palinurus.core.spoken import read_spoken
from palinurus.core.text import cut_line
from palinurus.core.types.messages import AssistantMessage, ToolResult, UserMessage
from palinurus.errors import BadRequest, NotFound
from palinurus.sessions.entries import (
    LEAF_TYPE,
    TRANSCRIPT_VERSION,
    UNCOMPACTED_TYPE,
    CustomEntry,
    LabelEntry,
    LevelChangeEntry,
    MessageEntry,
    ModelChangeEntry,
    SessionInfoEntry,
    TranscriptEntry,
    TranscriptHeader,
    UnknownEntry,
    encode_entry,
    encode_header,
    get_text,
    to_iso,
)
from palinurus.sessions.transcript import Transcript

ROOT = "root"  # what people write for "before the first entry"


class TreeNode(msgspec.Struct, frozen=True):
    """One entry of the tree as shown. `depth` grows with each fork; `active`: on the current path; `here`: its end."""

    entry: TranscriptEntry
    depth: int
    active: bool
    here: bool
    label: str | None


def find_entry(transcript: Transcript, text: str) -> str | None:
    """The id that is meant: itself, the beginning of one, or a label. None for `root`. Raises NotFound, BadRequest."""
    if text == ROOT:
        return None
    if transcript.entry(text) is not None:
        return text
    named = [ident for ident, label in collect_labels(transcript).items() if label == text]
    ids = named or [e.id for e in transcript.entries if text and e.id.startswith(text)]
    if not ids:
        raise NotFound(f"no entry {text!r}", fix="`pal sessions tree KEY` shows their ids")
    if len(ids) > 1:
        raise BadRequest(f"{text!r} means {len(ids)} entries: {', '.join(ids[:5])}", fix="write more of the id")
    return ids[0]


def collect_labels(transcript: Transcript) -> dict[str, str]:
    """Entry id -> label; the last line about an entry counts, wherever it stands."""
    return _labels(transcript.entries)


def _labels(entries: list[TranscriptEntry]) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in entries:
        if isinstance(entry, LabelEntry):
            if entry.label:
                found[entry.targetId] = entry.label
            else:
                found.pop(entry.targetId, None)
    return found


def is_hidden(entry: TranscriptEntry) -> bool:
    """Lines that are about the tree, not in the conversation."""
    return isinstance(entry, LabelEntry | SessionInfoEntry) or (
        isinstance(entry, CustomEntry) and entry.customType in (LEAF_TYPE, UNCOMPACTED_TYPE)
    )


def list_nodes(transcript: Transcript) -> list[TreeNode]:
    """Depth first, older branches first, without hidden entries: what hangs on those hangs on the one before."""
    entries, parents = transcript.entries, _visible(transcript)
    below: dict[int, list[int]] = {}
    for at, parent in enumerate(parents):
        if entries[at].id and not is_hidden(entries[at]):
            below.setdefault(parent, []).append(at)
    active = {id(e) for e in transcript.path_to_leaf()}
    shown = [e for e in transcript.path_to_leaf() if not is_hidden(e)]
    here = id(shown[-1]) if shown else 0
    named = collect_labels(transcript)
    out: list[TreeNode] = []
    waiting = [(at, int(len(below.get(-1, ())) > 1)) for at in reversed(below.get(-1, []))]
    while waiting:
        at, depth = waiting.pop()
        entry = entries[at]
        out.append(TreeNode(entry, depth, id(entry) in active, id(entry) == here, label=named.get(entry.id)))
        children = below.get(at, [])
        waiting += [(child, depth + (len(children) > 1)) for child in reversed(children)]
    return out


def list_tips(transcript: Transcript) -> list[TreeNode]:
    """The ends of all that was said, in the order of `list_nodes`."""
    entries = transcript.entries
    inner = {entries[up].id for at, up in enumerate(_visible(transcript)) if up != -1 and not is_hidden(entries[at])}
    return [node for node in list_nodes(transcript) if node.entry.id not in inner]


def _visible(transcript: Transcript) -> list[int]:
    """As `parents`, but past hidden entries."""
    parents = transcript.parents()
    for at, parent in enumerate(parents):
        if parent != -1 and is_hidden(transcript.entries[parent]):
            parents[at] = parents[parent]  # done already: parents stand before
    return parents


def find_before(transcript: Transcript, ident: str) -> str | None:
    """The entry that `ident` follows; None: it is the first."""
    at = _position(transcript, ident)
    parent = _visible(transcript)[at]
    return None if parent == -1 else transcript.entries[parent].id


def find_tip(transcript: Transcript, ident: str) -> str:
    """The newest entry that was said after `ident`, directly or not; itself if there is none."""
    first = _position(transcript, ident)
    after, tip = {first}, ident
    for at, parent in enumerate(transcript.parents()):
        if parent in after:
            after.add(at)
            if not is_hidden(transcript.entries[at]):
                tip = transcript.entries[at].id
    return tip


def list_versions(transcript: Transcript) -> dict[str, list[str]]:
    """Messages of the current path in whose place something else was said too -> all of these, oldest first."""
    if not any(isinstance(e, CustomEntry) and e.customType == LEAF_TYPE for e in transcript.entries):
        return {}  # nobody ever went back
    places: dict[int, list[str]] = {}
    for at, parent in enumerate(_visible(transcript)):
        entry = transcript.entries[at]
        asked = entry.message if isinstance(entry, MessageEntry) else None
        if isinstance(asked, UserMessage) and not read_spoken(asked).program:
            places.setdefault(parent, []).append(entry.id)
    active = {entry.id for entry in transcript.path_to_leaf()}
    several = [ids for ids in places.values() if len(ids) > 1]
    return {ident: ids for ids in several for ident in ids if ident in active}


def _position(transcript: Transcript, ident: str) -> int:
    """Of the last line with this id, the one the index knows. Raises NotFound."""
    entries = transcript.entries
    found = next((at for at in range(len(entries) - 1, -1, -1) if entries[at].id == ident), None)
    if found is None:
        raise NotFound(f"{transcript.path}: no entry {ident!r}")
    return found


def fork_transcript(transcript: Transcript, entry_id: str | None, ident: str, now: int) -> bytes:
    """A file of its own with the path from the root to `entry_id`: other branches stay behind, labels come along.

    Raises NotFound.
    """
    path = list_path_to(transcript, entry_id)
    source = transcript.header
    header = TranscriptHeader(
        version=TRANSCRIPT_VERSION,
        id=ident,
        timestamp=to_iso(now),
        cwd=source.cwd if source else transcript.cwd,
        parentSession=transcript.path,
    )
    lines = [encode_header(header)]
    parent: str | None = None
    for entry in [*path, *_moved(transcript, path, now)]:
        lines.append(_line(entry, parent))
        parent = entry.id
    return b"".join(line + b"\n" for line in lines)


def _moved(transcript: Transcript, path: list[TranscriptEntry], now: int) -> list[TranscriptEntry]:
    """Lines for what the labels on `path` are, where only other branches say so."""
    ids = {e.id for e in path}
    said, meant = _labels(path), collect_labels(transcript)
    lines = {e.targetId: e.id for e in transcript.entries if isinstance(e, LabelEntry) and e.id not in ids}
    return [
        LabelEntry(id=lines[target], timestamp=to_iso(now), targetId=target, label=meant.get(target))
        for target in lines
        if target in ids and said.get(target) != meant.get(target)
    ]


def list_path_to(transcript: Transcript, entry_id: str | None) -> list[TranscriptEntry]:
    """From the root to an entry. Raises as `_position` does."""
    if entry_id is None:
        return []
    at, parents = _position(transcript, entry_id), transcript.parents()
    path: list[TranscriptEntry] = []
    while at != -1:
        path.append(transcript.entries[at])
        at = parents[at]
    return path[::-1]


def _line(entry: TranscriptEntry, parent: str | None) -> bytes:
    """The entry's line under its new parent. What belongs to a message of the old session stays there."""
    if isinstance(entry, UnknownEntry):
        raw = {**entry.raw, "id": entry.id, "parentId": parent}
        raw.pop("item", None)
        return msgspec.json.encode(raw)
    return encode_entry(msgspec.structs.replace(entry, parentId=parent, item=""))[1]


def name_speaker(entry: TranscriptEntry) -> str:
    """One word for what kind of entry it is."""
    if isinstance(entry, MessageEntry):
        message = entry.message
        if isinstance(message, ToolResult):
            return message.toolName or "tool"
        return "assistant" if isinstance(message, AssistantMessage) else "user"
    if isinstance(entry, UnknownEntry):
        return str(entry.raw.get("type") or "unknown")
    return str(entry.__struct_config__.tag)


def summarize_entry(entry: TranscriptEntry, width: int = 60) -> str:
    """The first words of it, on one line."""
    return cut_line(_words(entry)[: width * 8], width)


def _words(entry: TranscriptEntry) -> str:
    if isinstance(entry, MessageEntry):
        message = entry.message
        calls = [f"-> {call.name}" for call in message.calls] if isinstance(message, AssistantMessage) else []
        return " ".join([message.text, *calls]).strip() or (getattr(message, "errorMessage", None) or "")
    if isinstance(entry, ModelChangeEntry):
        return f"{entry.provider}/{entry.modelId}"
    if isinstance(entry, LevelChangeEntry):
        return entry.thinkingLevel
    return entry.customType if isinstance(entry, CustomEntry) else get_text(entry)


def to_plain_entry(entry: TranscriptEntry) -> dict[str, Any]:
    """The entry as the file has it."""
    if isinstance(entry, UnknownEntry):
        return entry.raw
    made: dict[str, Any] = msgspec.to_builtins(entry, enc_hook=str)
    if entry.parentId is UNSET:
        made.pop("parentId", None)
    return made
