"""The lines of a transcript file as types: one struct per `type`, version 3 of the format.

Knows the shapes and how to write them as JSON. Knows nothing of files, trees or damaged input: odd shapes of
other writers are `foreign`'s, broken bytes are `scan`'s.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from palinurus.core.text import repair_surrogates
from palinurus.core.types.messages import ImageBlock, Message, TextBlock, UserMessage
from palinurus.patterns import decode_late

TRANSCRIPT_VERSION = 3
# A `custom` entry that hangs on an older one: the conversation goes on from there. Readers that do not know it still
# see the right path, since it is the last line and its parent is the entry gone back to.
LEAF_TYPE = "palinurus.leaf"
# A `custom` entry that takes a compaction back: {"targetId": its id}. The messages it stood for are seen again.
UNCOMPACTED_TYPE = "palinurus.uncompacted"
# Assistant messages that were shown to people but never said by a model.
_MIRROR_PROVIDER = "openclaw"
_MIRROR_MODELS = frozenset({"delivery-mirror", "gateway-injected"})


class TranscriptHeader(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="session", gc=False
):
    """The first line. `parentSession` is the path of the file this one was forked from; `sessionKey`, ours, says whose
    conversation it is where no database does."""

    version: int = 1
    id: str = ""
    timestamp: str = ""
    cwd: str = ""
    parentSession: str | None = None
    sessionKey: str = ""


class LinkedEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", gc=False):
    """What all other lines have. An absent `parentId` (version 1) means the line before; null means a root.

    `item` is the inbox id the line belongs to; it is ours, other readers pass over it.
    """

    id: str = ""
    parentId: str | UnsetType | None = UNSET
    timestamp: str = ""
    item: str = ""


class MessageEntry(LinkedEntry, frozen=True, kw_only=True, omit_defaults=True, tag="message", gc=False):
    message: Message


class ModelChangeEntry(LinkedEntry, frozen=True, kw_only=True, omit_defaults=True, tag="model_change", gc=False):
    provider: str
    modelId: str


class LevelChangeEntry(
    LinkedEntry, frozen=True, kw_only=True, omit_defaults=True, tag="thinking_level_change", gc=False
):
    thinkingLevel: str


class CompactionEntry(LinkedEntry, frozen=True, kw_only=True, omit_defaults=True, tag="compaction", gc=False):
    """`firstKeptEntryIndex` is version 1's: the line number of the first kept line, the header being 0."""

    summary: str
    firstKeptEntryId: str | None = None
    tokensBefore: int = 0
    details: Any = None
    fromHook: bool = False
    firstKeptEntryIndex: int | None = None


class BranchSummaryEntry(LinkedEntry, frozen=True, kw_only=True, omit_defaults=True, tag="branch_summary", gc=False):
    summary: str
    fromId: str | None = None
    details: Any = None
    fromHook: bool = False


class CustomEntry(LinkedEntry, frozen=True, kw_only=True, omit_defaults=True, tag="custom", gc=False):
    customType: str
    data: Any = None


IMPORTED = "import"  # a source (taint): said by another program's parts, not by the owner


class CustomMessageEntry(LinkedEntry, frozen=True, kw_only=True, omit_defaults=True, tag="custom_message", gc=False):
    customType: str
    content: str | tuple[TextBlock | ImageBlock, ...]
    display: bool = True
    details: Any = None


class LabelEntry(LinkedEntry, frozen=True, kw_only=True, omit_defaults=True, tag="label", gc=False):
    """No `label`: the one that was there is cleared."""

    targetId: str
    label: str | None = None


class SessionInfoEntry(LinkedEntry, frozen=True, kw_only=True, omit_defaults=True, tag="session_info", gc=False):
    name: str = ""


class UnknownEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line whose `type` (or message role) we do not know, kept as it was. It holds its place in the tree."""

    raw: dict[str, Any]
    id: str = ""
    parentId: str | UnsetType | None = UNSET
    timestamp: str = ""
    item: str = ""


KnownEntry: TypeAlias = (
    MessageEntry
    | ModelChangeEntry
    | LevelChangeEntry
    | CompactionEntry
    | BranchSummaryEntry
    | CustomEntry
    | CustomMessageEntry
    | LabelEntry
    | SessionInfoEntry
)
TranscriptEntry: TypeAlias = KnownEntry | UnknownEntry

ENTRY_DECODER: msgspec.json.Decoder[TranscriptHeader | KnownEntry] = decode_late(TranscriptHeader | KnownEntry)
_ENCODER = msgspec.json.Encoder(enc_hook=str)  # tool details are Any: whatever they hold must not stop a write


def encode_entry(entry: KnownEntry) -> tuple[KnownEntry, bytes]:
    """The entry and its line of JSON. What JSON or UTF-8 cannot carry is replaced, in both; nothing is refused."""
    try:
        return entry, _ENCODER.encode(entry)
    except (UnicodeEncodeError, OverflowError, TypeError):
        plain = msgspec.to_builtins(entry, enc_hook=str)
        text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"), default=str, skipkeys=True)
        data = repair_surrogates(text).encode()
        return msgspec.json.decode(data, type=type(entry)), data


def encode_header(header: TranscriptHeader) -> bytes:
    """The header's line."""
    return _ENCODER.encode(header)


def to_iso(now: int) -> str:
    """Milliseconds since the epoch as the files write them."""
    return datetime.fromtimestamp(now / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def to_millis(stamp: str) -> int:
    """The other way; 0 when it cannot be read."""
    try:
        return int(datetime.fromisoformat(stamp).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0


def get_moment(entry: TranscriptEntry) -> int:
    """When it was said, in ms: by the message itself, else by its line; 0 when neither can be read."""
    said = entry.message.timestamp if isinstance(entry, MessageEntry) else 0
    return said if 0 < said < 2**47 else max(0, to_millis(entry.timestamp))


def get_text(entry: TranscriptEntry) -> str:
    """What was said or summed up there; "" for lines that say nothing to anybody."""
    if isinstance(entry, MessageEntry):
        return entry.message.text
    if isinstance(entry, CompactionEntry | BranchSummaryEntry):
        return entry.summary
    if isinstance(entry, CustomMessageEntry):
        content = entry.content
        return content if isinstance(content, str) else " ".join(getattr(block, "text", "") for block in content)
    return ""


def to_message(entry: TranscriptEntry) -> Message | None:
    """What the model is shown of a line by itself. A compaction speaks only as the last one on a path."""
    if type(entry) is MessageEntry:
        message = entry.message
        mirrored = getattr(message, "provider", "") == _MIRROR_PROVIDER
        return None if mirrored and getattr(message, "model", "") in _MIRROR_MODELS else message
    if type(entry) is CustomMessageEntry:
        return UserMessage(entry.content, to_millis(entry.timestamp), IMPORTED)
    if type(entry) is BranchSummaryEntry:
        return make_branch_message(entry.summary, to_millis(entry.timestamp))
    return None


def make_summary_message(summary: str, at: int) -> UserMessage:
    """The message that stands for everything a compaction removed. A summary cannot end its own frame."""
    inside = summary.replace("</summary", "<\u200b/summary")
    return UserMessage(f"What was said before this point, in short:\n\n<summary>\n{inside}\n</summary>", at, "summary")


def make_branch_message(summary: str, at: int) -> UserMessage:
    """The message that stands for a branch which was left."""
    return UserMessage(
        f"Another branch of this conversation was left; in short it held:\n\n<summary>\n{summary}\n</summary>",
        at,
        "summary",
    )
