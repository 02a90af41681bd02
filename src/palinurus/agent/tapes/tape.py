"""The tape of one run as a file: `home/tapes/<message>.jsonl.gz`. A head, the steps in the order in which they ended,
and the end: what came of it. Values, their reading and writing; decides nothing.

Written whole when the run's end is on disk: a kill before that leaves no tape, never half of one.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from palinurus.agent.fingerprint import RequestPiece, encode_message, encode_tool, name_role, split_sections
from palinurus.agent.tapes.deck import TAPE_END, VERSION
from palinurus.core.types.channel import ChannelAbilities
from palinurus.core.types.inbound import NO_INLINE, Inbound, InlineDirectives, Route
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.tool import ToolEffect
from palinurus.crashpoints import pass_crashpoint
from palinurus.errors import BadRequest, NotFound
from palinurus.files import write_whole_file
from palinurus.providers.redact import blank_secrets, redact_strings
from palinurus.store.port import RunClaim, TurnOutcome

FOLDER, END = "tapes", TAPE_END

MOST = 32 * 1024 * 1024  # bytes of a tape before it is packed; a longer one is not kept
SHORT = 400  # characters of an event that is kept as it is; of a longer one its hash
ON_TAPE = "a run is on tape once it has ended, if `pal record on` was said before; `pal record status` lists them"
TAIL = 64  # messages of a request that are kept apart; those before them are one hash


TextSwap: TypeAlias = Callable[[bytes], bytes]  # puts back the names of folders that are not what they were


class TapeStep(msgspec.Struct, omit_defaults=True):
    """One thing that the run was told, with what it `read` (times, ids) since the step before in its lane. Lane 0 is
    the run itself, each tool call has one of its own; -1 is what others did to it."""

    kind: str  # model, call, update, tool, cancelled, value, steer, waiting, switch, abort, mark, done, end
    lane: int = 0
    name: str = ""
    asked: Any = None
    given: Any = None
    read: dict[str, list[Any]] = {}
    cut: str = ""  # a model's stream was cut short: by a stop for this reason, or `cancelled`
    cut_at: int = 0  # before this of its events


class TapeTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool that the run was offered, as far as one needs it to be offered again."""

    name: str
    description: str
    parameters: dict[str, Any]
    effect: ToolEffect = "effect"
    sequential: bool = False
    origin: str = ""
    owner: bool = False


class TapeHead(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Which run, and what it began with."""

    v: int
    program: str  # version
    item: str
    at: int
    home: str
    claim: RunClaim
    inbound: Inbound
    route: Route
    inline: InlineDirectives = NO_INLINE
    typed: str = ""
    run: str = ""
    transcript: str = ""  # relative to home
    size: int = 0  # its bytes before the run
    leaf: str | None = None  # where the conversation stood
    points: tuple[str, ...] = ()  # hook points that somebody listens to
    tools: tuple[TapeTool, ...] = ()
    channels: dict[str, ChannelAbilities] = {}  # chats there were
    ollama: tuple[str, ...] = ()  # models that were found on this machine
    windows: Mapping[str, int] = {}  # and how many tokens they take
    stopped: str = ""  # it was stopped before it began
    redacted: bool = False  # something looked like a credential: pieces of answers are not as they came
    branch: str = ""  # what was changed, if it is no recording but a branch of one
    start: int = 0  # … and from which step on: in those before it nobody was asked


class TapeEnd(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What came of it."""

    outcome: TurnOutcome | None = None
    note: str = ""
    events: list[tuple[str, str]] = []  # kind; the event itself, or its hash
    lines: list[str] = []  # of the transcript
    replies: list[Any] = []
    steps: int = 0  # how many there are: the tape is whole


class TapedRequest(msgspec.Struct, omit_defaults=True):
    """A model request, as far as it decides the answer. `sections` (group, name, text) are left out where they are
    those of the call before."""

    model: str
    level: str
    fast: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    tool_choice: Any = None
    sections: list[tuple[str, str, str]] | None = None
    pieces: list[RequestPiece] = []  # tools and sections
    count: int = 0
    older: str = ""  # hash of the messages before the tail
    tail: list[RequestPiece] = []


class Tape(msgspec.Struct):
    """A tape as it is read. What steps were `asked` and `given` is plain JSON."""

    head: TapeHead
    steps: list[TapeStep]
    end: TapeEnd
    before: bytes = b""  # the conversation before it, of a fleet; else it is read from its file

    @property
    def calls(self) -> list[TapeStep]:
        """The model calls of the run's own loop, which people count its steps by."""
        return [step for step in self.steps if step.kind == "model" and step.name == "run"]


def print_request(request: ModelRequest, pieces: Sequence[RequestPiece] | None, swap: TextSwap = bytes) -> TapedRequest:
    """`pieces`: its fingerprint where somebody has made one."""
    sections = [(group, name, swap(text)) for group, name, text in split_sections(request.prompt)]
    if pieces is None:
        pieces = [_hash("tool", tool.name, swap(encode_tool(tool))) for tool in request.tools]
        pieces += [_hash(group, name, text) for group, name, text in sections]
        said = enumerate(request.messages, 1)
        pieces += [_hash("message", f"{n} {name_role(m)}", swap(encode_message(m))) for n, m in said]
    messages = [piece for piece in pieces if piece.group == "message"]
    older = hashlib.blake2b("".join(p.digest for p in messages[:-TAIL]).encode(), digest_size=8).hexdigest()
    return TapedRequest(
        model=str(request.model.ref),
        level=request.level,
        fast=request.fast,
        max_tokens=request.max_tokens,
        temperature=request.temperature,
        tool_choice=request.tool_choice,
        sections=[(group, name, text.decode("utf-8", "replace")) for group, name, text in sections],
        pieces=[piece for piece in pieces if piece.group != "message"],
        count=len(messages),
        older=older if len(messages) > TAIL else "",
        tail=messages[-TAIL:],
    )


def _hash(group: Any, name: str, text: bytes) -> RequestPiece:
    return RequestPiece(group, name, len(text), hashlib.blake2b(text, digest_size=8).hexdigest())


def encode_tape(
    head: TapeHead, steps: Sequence[TapeStep], end: TapeEnd, secrets: tuple[str, ...] = (), swap: TextSwap = bytes
) -> bytes:
    """The file's bytes, without credentials. Raises BadRequest for one that is too long."""
    lines: list[Any] = []
    for part in (head, *steps, end):
        plain = msgspec.json.decode(swap(msgspec.json.encode(part, enc_hook=str)))
        if isinstance(part, TapeStep) and part.kind == "model":
            _redact_pieces(plain["given"], secrets)
        lines.append(redact_strings(plain, secrets))
        head.redacted = head.redacted or lines[-1] != plain
    lines[0]["redacted"] = head.redacted
    data = b"\n".join(msgspec.json.encode(line) for line in lines) + b"\n"
    if len(data) > MOST:
        raise BadRequest(f"the run is too long for a tape ({len(data):,} bytes)")
    return gzip.compress(data, 3, mtime=0)


def _redact_pieces(events: list[dict[str, Any]], secrets: tuple[str, ...]) -> None:
    """A credential may come in pieces, each of which looks like nothing: the whole is blanked and cut anew, into as
    many."""
    for kind, field in (("text_delta", "text"), ("thinking_delta", "text"), ("call_delta", "json")):
        pieces = [event for event in events if event["type"] == kind]
        whole = "".join(event[field] for event in pieces)
        clean = blank_secrets(whole, secrets)
        if clean == whole:
            continue
        for event in pieces:
            size = len(clean) if event is pieces[-1] else len(event[field])
            event[field], clean = clean[:size], clean[size:]


def decode_tape(data: bytes, name: str = "the tape") -> Tape:
    """Raises BadRequest when it is torn, or another version's."""
    try:
        first, *rest, last = gzip.decompress(data).splitlines()
        if msgspec.json.decode(first, type=dict[str, Any]).get("v") != VERSION:
            raise BadRequest(f"{name} was recorded by another version", fix="record the run again")
        head, end = msgspec.json.decode(first, type=TapeHead), msgspec.json.decode(last, type=TapeEnd)
        steps = [msgspec.json.decode(line, type=TapeStep) for line in rest]
    except (EOFError, OSError, zlib.error, ValueError, msgspec.MsgspecError) as exc:
        raise BadRequest(f"{name} cannot be read: {exc}") from None
    if end.steps != len(steps):
        raise BadRequest(f"{name} is not whole")
    return Tape(head, steps, end)


def locate_tape(home: str, item: str) -> str:
    return os.path.join(home, FOLDER, item + END)


def write_tape(home: str, item: str, data: bytes) -> None:
    """Whole or not at all. Raises OSError."""
    os.makedirs(os.path.join(home, FOLDER), mode=0o700, exist_ok=True)
    pass_crashpoint("tape.before")
    write_whole_file(locate_tape(home, item), data, sync=False, ready=lambda: pass_crashpoint("tape.middle"))


def read_tape(home: str, item: str) -> Tape:
    """The tape of the message whose id begins so. Raises NotFound, BadRequest."""
    found = [name for name in list_tapes(home) if name.startswith(item) and ("~" in item or "~" not in name)]
    name = item if item in found else found[0] if len(found) == 1 and item else ""
    if not name and len(found) > 1 and item:
        raise NotFound(f"more than one run on tape begins with {item!r}", fix=f"the latest are {', '.join(found[-3:])}")
    if not name:
        raise NotFound(f"no tape of {item or 'a run'}", fix=ON_TAPE)
    with open(locate_tape(home, name), "rb") as file:
        return decode_tape(file.read(), f"the tape of {name}")


def save_branch(home: str, item: str, tape: Tape) -> str:
    """Keep another end of a run beside it. Returns its name. Raises OSError."""
    names = list_tapes(home)
    name = next(name for name in (f"{item}~{number}" for number in range(1, len(names) + 2)) if name not in names)
    tape.head.item = name
    write_tape(home, name, encode_tape(tape.head, tape.steps, tape.end))
    return name


def list_tapes(home: str) -> list[str]:
    """The messages whose runs are on tape, oldest first."""
    return [name.removesuffix(END) for name in _list_names(home) if name.endswith(END) and not name.startswith(".")]


def _list_names(home: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(home, FOLDER)))
    except FileNotFoundError:
        return []


def thin_tapes(home: str, before: float, room: int) -> int:
    """Remove tapes last written before that second, and the oldest beyond so many bytes; what a killed program left
    of one as well. Returns how many went."""
    gone, size = 0, 0
    left = [name for name in _list_names(home) if name.startswith(".")]
    for name in [*(name + END for name in reversed(list_tapes(home))), *left]:
        path = os.path.join(home, FOLDER, name)
        try:
            about = os.stat(path)
            size += about.st_size
            if about.st_mtime < before or size > room:
                os.unlink(path)
                gone += 1
        except FileNotFoundError:
            continue
    return gone


def shorten_event(kind: str, text: str) -> tuple[str, str]:
    """A short event as it is, a long one as its hash."""
    if len(text) <= SHORT:
        return kind, text
    return kind, "blake2b " + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def fill_sections(requests: Iterable[TapedRequest]) -> list[TapedRequest]:
    """Requests of one tape with what they leave out."""
    made: list[TapedRequest] = []
    for request in requests:
        if request.sections is None and made:
            request.sections = made[-1].sections
        made.append(request)
    return made
