"""What of a request the provider may have in its cache, and what broke it when it does not.

Every request is a row of pieces in the order providers read them: tools, prompt sections, messages. A piece is its
size and a hash; what was hashed for the last request of the session is not hashed again. Two rows are compared piece
by piece, and the first that differs is the break. Knows no provider; the cause is a guess from the pieces alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from palinurus.core.prompt.render import SECTION_GAP
from palinurus.core.types.messages import AssistantMessage, Message, UserMessage
from palinurus.core.types.model import ModelRequest, Prompt, PromptPart
from palinurus.core.types.tool import ToolSpec
from palinurus.sessions.entries import make_summary_message

Group: TypeAlias = Literal["tool", "stable", "volatile", "message"]
Cause: TypeAlias = Literal["model", "tools", "prompt", "chat", "compaction", "history limit", "history"]

PieceKey: TypeAlias = tuple[Group, str]  # a piece's group and name

CHARS = 4  # bytes to a token, roughly
SHOWN = 60  # characters of each side that are quoted
_SUMMARY = make_summary_message("", 0).text.partition("<summary>")[0]
_json = msgspec.json.Encoder(order="deterministic", enc_hook=str).encode


class RequestPiece(msgspec.Struct, frozen=True, array_like=True):
    """One tool, section or message: what it is called, how many bytes it has, and their hash."""

    group: Group
    name: str
    size: int
    digest: str


class RequestFingerprint(msgspec.Struct, frozen=True):
    """The fingerprint of one request."""

    model: str
    pieces: tuple[RequestPiece, ...]

    @property
    def size(self) -> int:
        return sum([piece.size for piece in self.pieces])


class CacheBreak(msgspec.Struct, frozen=True):
    """Where two requests part."""

    cause: Cause
    group: Group
    name: str  # the tool, the section, or the number and role of the message
    offset: int  # the first differing byte: in the tools, in the stable or volatile prompt, in the message
    kept: int  # bytes of the new request before it
    total: int  # bytes of the new request
    note: str = ""
    before: str = ""  # what stood there, and what stands there now; "" when it is not known any more
    after: str = ""


class RequestSnapshot:
    """A request with what was hashed of it. `after` makes the next one and hashes only what is new there."""

    def __init__(
        self, model: str = "", pieces: Sequence[RequestPiece] = (), texts: Mapping[PieceKey, bytes] | None = None
    ) -> None:
        self.print = RequestFingerprint(model, tuple(pieces))
        self._stored = texts or {}  # of a request this process has not seen itself
        self._tools: tuple[ToolSpec, ...] = ()
        self._prompt = Prompt("")
        self._messages: tuple[Message, ...] = ()
        self._counts = (0, 0, 0)  # pieces of each

    def after(self, request: ModelRequest, other: RequestSnapshot | None = None) -> RequestSnapshot:
        """The next request of the same conversation. Work grows with what is new in it; tools and prompt that
        another conversation sent just so (`other`) are not hashed again."""
        tools, prompt, _ = self._counts
        old = self.print.pieces if self._counts != (0, 0, 0) else ()
        tooled, prompted, said = old[:tools], old[tools : tools + prompt], old[tools + prompt :]
        if other is not None and request.tools is other._tools:
            tooled = other.print.pieces[: other._counts[0]]
        elif request.tools is not self._tools and request.tools != self._tools:
            tooled = tuple(_piece("tool", tool.name, encode_tool(tool)) for tool in request.tools)
        kept = request.prompt
        if other is not None and request.prompt == other._prompt:
            prompted = other.print.pieces[other._counts[0] : sum(other._counts[:2])]
            kept = other._prompt  # one of all that are equal
        elif request.prompt != self._prompt:
            prompted = tuple(_piece(group, name, text) for group, name, text in split_sections(request.prompt))
        same = _same(self._messages, request.messages)
        fresh = enumerate(request.messages[same:], same + 1)
        said = (*said[:same], *(_piece("message", f"{n} {name_role(m)}", encode_message(m)) for n, m in fresh))
        made = RequestSnapshot(str(request.model.ref), (*tooled, *prompted, *said))
        made._tools, made._prompt, made._messages = request.tools, kept, tuple(request.messages)
        made._counts = (len(tooled), len(prompted), len(said))
        return made

    def texts(self) -> Mapping[PieceKey, bytes]:
        """The bytes behind the pieces, as far as they are known."""
        if self._counts == (0, 0, 0):
            return self._stored
        found: dict[PieceKey, bytes] = {("tool", tool.name): encode_tool(tool) for tool in self._tools}
        found.update(((group, name), text) for group, name, text in split_sections(self._prompt))
        names = [piece.name for piece in self.print.pieces[sum(self._counts[:2]) :]]
        found.update((("message", n), encode_message(m)) for n, m in zip(names, self._messages, strict=True))
        return found


def count_kept_bytes(old: RequestFingerprint, new: RequestFingerprint) -> int:
    """Bytes of the new request that begin exactly as the old one did. 0 for another model: caches are a model's own."""
    if old.model != new.model:
        return 0
    return sum(piece.size for piece in new.pieces[: _parting(old, new)])


def find_cache_break(old: RequestSnapshot, new: RequestSnapshot) -> CacheBreak | None:
    """Where the new request leaves the old one, or None if it only adds at the end."""
    one, two = old.print, new.print
    if one.model != two.model:
        return CacheBreak("model", "tool", "", 0, kept=0, total=two.size, note=f"{one.model} -> {two.model}")
    at = _parting(one, two)
    if at == len(one.pieces):
        return None
    was, now = one.pieces[at], two.pieces[at] if at < len(two.pieces) else None
    before, after = old.texts(), new.texts()
    first = _first(one, two, was, now)
    cause, note = _cause(one, two, first, after)
    left, right = before.get((was.group, was.name)), after.get((now.group, now.name)) if now else b""
    inside = 0
    if left is not None and right is not None and _like(was, now):
        inside = _differing(left, right)
    start = sum(piece.size for piece in two.pieces[:at])
    own = 0 if first.group == "message" else sum(p.size for p in two.pieces[:at] if p.group == first.group)
    sides = ("", "") if left is None or right is None else (_quote(left, inside), _quote(right, inside))
    return CacheBreak(cause, first.group, first.name, own + inside, start + inside, two.size, note, *sides)


# --- pieces ---------------------------------------------------------------------------------------------------------


def split_sections(prompt: Prompt) -> list[tuple[Group, str, bytes]]:
    """The prompt cut into its sections, each with the blank line before it. One that nobody counted is two pieces."""
    made: list[tuple[Group, str, bytes]] = []
    halves: tuple[tuple[Group, str], ...] = (("stable", prompt.stable), ("volatile", prompt.volatile))
    for group, text in halves:
        parts = [part for part in prompt.parts if part.stable == (group == "stable")]
        if sum(part.chars for part in parts) + len(SECTION_GAP) * max(0, len(parts) - 1) != len(text):
            parts = [PromptPart(f"the {group} part", len(text), group == "stable")] if text else []
        at = 0
        for part in parts:
            start, at = at, at + part.chars + (len(SECTION_GAP) if at else 0)
            made.append((group, part.name, text[start:at].encode("utf-8", "replace")))
    return made


def encode_tool(tool: ToolSpec) -> bytes:
    """A tool as hashed: name, description, schema."""
    return _json((tool.name, tool.description, tool.parameters))


def encode_message(message: Message) -> bytes:
    """A message as hashed: what is sent of it, without times and counts."""
    if isinstance(message, UserMessage):
        return _json(("user", message.blocks))
    if isinstance(message, AssistantMessage):
        return _json(("assistant", message.content))
    return _json(("tool", message.toolCallId, message.isError, message.content))


def name_role(message: Message) -> str:
    return (
        "user"
        if isinstance(message, UserMessage)
        else "assistant"
        if isinstance(message, AssistantMessage)
        else "tool result"
    )


def _piece(group: Group, name: str, text: bytes) -> RequestPiece:
    return RequestPiece(group, name, len(text), hashlib.blake2b(text, digest_size=8).hexdigest())


def _same(old: Sequence[Message], new: Sequence[Message]) -> int:
    """How many leading messages are the very same objects."""
    count = 0
    for was, now in zip(old, new, strict=False):
        if was is not now:
            break
        count += 1
    return count


# --- comparing ------------------------------------------------------------------------------------------------------

_RANKS: dict[Group, int] = {"tool": 0, "stable": 1, "volatile": 2, "message": 3}
_CAUSES: dict[Group, Cause] = {"tool": "tools", "stable": "prompt", "volatile": "chat", "message": "history"}


def _parting(old: RequestFingerprint, new: RequestFingerprint) -> int:
    at = 0
    for was, now in zip(old.pieces, new.pieces, strict=False):
        if was != now:
            break
        at += 1
    return at


def _first(
    old: RequestFingerprint, new: RequestFingerprint, was: RequestPiece, now: RequestPiece | None
) -> RequestPiece:
    """Which of two differing pieces to name: what comes first on the wire, what went, what came."""
    if now is None or _RANKS[was.group] < _RANKS[now.group]:
        return was
    if _RANKS[now.group] < _RANKS[was.group]:
        return now
    inserted = was.name in _names(new, was.group) and now.name not in _names(old, was.group)
    return now if inserted else was


def _like(was: RequestPiece, now: RequestPiece | None) -> bool:
    return now is not None and (was.group, was.name) == (now.group, now.name)


def _cause(
    old: RequestFingerprint, new: RequestFingerprint, first: RequestPiece, after: Mapping[PieceKey, bytes]
) -> tuple[Cause, str]:
    """The cause, and a word on how."""
    group = first.group
    if group != "message":
        return _CAUSES[group], _listed(_names(old, group), _names(new, group), first.name)
    head = next((piece for piece in new.pieces if piece.group == "message"), None)
    if head is not None and _SUMMARY.encode()[:40] in after.get(("message", head.name), b"")[:200]:
        return "compaction", "older messages were replaced by their summary"
    olds = [p.digest for p in old.pieces if p.group == "message"]
    news = [p.digest for p in new.pieces if p.group == "message"]
    for gone in range(1, len(olds)):
        if olds[gone] == (news[0] if news else "") and olds[gone:] == news[: len(olds) - gone]:
            return "history limit", f"the oldest {gone} messages are not sent any more"
    if len(news) < len(olds) and olds[: len(news)] == news:
        return "history", f"the last {len(olds) - len(news)} messages were taken back"
    return "history", "an earlier message is not what it was"


def _names(what: RequestFingerprint, group: Group) -> list[str]:
    return [piece.name for piece in what.pieces if piece.group == group]


def _listed(old: list[str], new: list[str], first: str) -> str:
    """What came, went, moved or changed."""
    came, gone = [n for n in new if n not in old], [n for n in old if n not in new]
    told = [f"new: {', '.join(came)}"] if came else []
    told += [f"gone: {', '.join(gone)}"] if gone else []
    if not told:
        told = ["the order changed"] if old != new else [f"{first} changed"]
    return "; ".join(told)


def _differing(old: bytes, new: bytes) -> int:
    """The first byte in which they differ."""
    low, high = 0, min(len(old), len(new))
    while low < high:  # halving compares slices at the speed of memory
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _quote(text: bytes, at: int) -> str:
    return text[max(0, at - 12) : at + SHOWN].decode("utf-8", "replace")
