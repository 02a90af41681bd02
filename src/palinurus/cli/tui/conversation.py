"""One conversation as the screen shows it: answers and events of the gateway in, blocks out. A machine without I/O.

A block has an id; one that is handed out again under the same id takes the place of the earlier one. A run that was
joined in its middle, or that the line was cut in, is read again from disk at its end (`stale`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from palinurus.cli.render import strip_controls
from palinurus.cli.tui.told import ShownStep, read_plan, tell_failure, tidy_result
from palinurus.core.text import cut_line
from palinurus.core.types.messages import read_exit_code

Kind: TypeAlias = Literal["user", "words", "thought", "tool", "note", "error", "told"]
State: TypeAlias = Literal["", "sending", "waiting", "taken", "failed", "running", "done"]
Payload: TypeAlias = Mapping[str, Any]

SUMMARY = 200  # characters of a tool's arguments
SKEW = 2000  # milliseconds that a line may be older than its message
SENT = 50
TOOLS = 100
KEPT = 1000  # lines of transcript whose ids are remembered


class ConversationBlock(msgspec.Struct, frozen=True):
    """One piece of the conversation. `head` is a tool's name and arguments; `took` its milliseconds, 0 = unknown.

    `code` is what a command ended with, `diff` what a call changes in files, in unified form, `plan` the steps it sets.
    Of something that the program told the agent (`told`), `head` is what people need of it."""

    id: str
    kind: Kind
    text: str
    head: str = ""
    state: State = ""
    took: int = 0
    code: int = 0
    diff: str = ""
    plan: tuple[ShownStep, ...] = ()


def extract_words(content: Any) -> str:
    """The text of a message's content, safe to show."""
    if isinstance(content, str):
        return strip_controls(content)
    return strip_controls("".join(str(b.get("text") or "") for b in content or () if isinstance(b, dict)))


def summarize_arguments(args: Any) -> str:
    """Arguments in one line: the values, as a person would say them; of a flag that is set, its name."""
    pairs = args.items() if isinstance(args, dict) else () if args is None else (("", args),)
    shown = [str(name) if value is True else value for name, value in pairs]
    said = [
        strip_controls(str(value))
        for value in shown
        if value not in (None, False) and not isinstance(value, dict | list)
    ]
    return cut_line(" ".join(said), SUMMARY)


def describe_change(name: str, args: Any) -> str:
    """What a call of `write`, `edit` or `apply_patch` is to change, in unified form; "" for other tools."""
    given = args if isinstance(args, dict) else {}
    if name == "apply_patch":
        lines = str(given.get("input") or "").splitlines()
        return strip_controls("\n".join(line for line in lines if line not in ("*** Begin Patch", "*** End Patch")))
    edits = given.get("edits") if name == "edit" else [given] if name == "write" else ()
    lines = []
    for edit in edits if isinstance(edits, list) else ():
        for mark, word in (("-", "oldText"), ("+", "newText"), ("+", "content")):
            text = edit.get(word) if isinstance(edit, dict) else None
            lines += [mark + line for line in str(text or "").splitlines()]
    return strip_controls("\n".join(lines))


def _read_user(ident: str, message: Payload) -> ConversationBlock:
    """What a person said, or what the program told the agent in a person's place."""
    text = extract_words(message.get("content"))
    if message.get("program"):
        return ConversationBlock(ident, "told", text, strip_controls(str(message["program"])))
    pictures = sum(1 for part in message.get("content") or () if isinstance(part, dict) and part.get("type") == "image")
    said = strip_controls(str(message.get("spoken") or "")) or text
    return ConversationBlock(ident, "user", said + (f"\n[{pictures} pictures]" if pictures > 1 else ""))


def _number(message: Payload) -> int:
    return int((message.get("__openclaw") or {}).get("seq") or 0)


class ScreenConversation:
    """The open session. `run` is the run that is going, "" for none."""

    def __init__(self) -> None:
        self.run = ""
        self.stale = False
        self.oldest = 0  # the number of the oldest line that is shown; 1: there is nothing before it
        self.plan: tuple[ShownStep, ...] = ()  # the last one that was set
        self._thoughts = False
        self._count = 0
        self._open: ConversationBlock | None = None  # the words or thoughts that still grow
        self._sent: dict[str, ConversationBlock] = {}  # run id -> what we said and have not seen on disk yet
        self._ours: dict[str, str] = {}  # run id -> the words, of everything we ever said
        self._since: dict[str, int] = {}  # run id -> when
        self._tools: dict[str, tuple[ConversationBlock, int]] = {}  # with when it began
        self._spoke: set[str] = set()  # runs that words were shown of
        self._begun: set[str] = set()  # runs that were seen to begin; one that ends without was a message that waited
        self._waits = ""  # the note that says why nothing comes yet, while it stands there
        self._known: dict[str, None] = {}

    # --- from disk -------------------------------------------------------------------------------------------

    def reset(self, answer: Payload) -> list[ConversationBlock]:
        """Begin again from what `chat.history` says. What was sent and is not on disk yet stays."""
        shown: dict[str, ConversationBlock] = {}
        self._open, self._known, self.plan = None, {}, ()
        self._tools.clear()
        # As in the run itself: thoughts are shown to those who asked for them.
        self._thoughts = (answer.get("sessionInfo") or {}).get("reasoningLevel") in ("on", "stream")
        messages = answer.get("messages") or ()
        self.oldest = _number(messages[0]) if messages else 0
        for message in messages:
            for block in self._line(message):
                shown[block.id] = block
        flight = answer.get("inFlightRun") or {}
        self.run = str(flight.get("runId") or "")
        self.stale, self._begun = bool(self.run), {self.run}
        return [*shown.values(), *(block for block in self._sent.values() if block.state in ("sending", "waiting"))]

    def look_back(self, answer: Payload) -> list[ConversationBlock]:
        """The blocks of an answer of `chat.history` that comes before what is shown."""
        messages = answer.get("messages") or ()
        self.oldest = _number(messages[0]) if messages else 0
        tools, plan, self._tools = self._tools, self.plan, {}  # calls of then are not those that run now
        shown = {block.id: block for message in messages for block in self._line(message)}
        self._tools, self.plan = tools, plan
        return list(shown.values())

    def _line(self, message: Payload) -> Iterable[ConversationBlock]:
        ident = str((message.get("__openclaw") or {}).get("id") or self._next("line"))
        if ident in self._known:
            return
        self._known[ident] = None
        role = message.get("role")
        if role == "user":
            self._sent.pop(self._find_sent(message, int(message.get("timestamp") or 0)), None)
            yield _read_user(ident, message)
            if message.get("failed"):
                yield ConversationBlock(
                    f"{ident}:failed", "error", tell_failure(strip_controls(str(message["failed"])))
                )
            elif message.get("stopped"):
                yield ConversationBlock(f"{ident}:stopped", "note", "stopped")
        elif role == "assistant":
            yield from self._answer(ident, message)
        elif role == "toolResult":
            yield self._ended(message, message.get("content"), int(message.get("timestamp") or 0))
        else:
            yield ConversationBlock(ident, "note", "Earlier messages were summarised.")

    def _answer(self, ident: str, message: Payload) -> Iterable[ConversationBlock]:
        for at, part in enumerate(message.get("content") or ()):
            if part.get("type") == "thinking" and part.get("thinking") and self._thoughts:
                yield ConversationBlock(f"{ident}:{at}", "thought", strip_controls(str(part["thinking"])))
            elif part.get("type") == "text" and str(part.get("text") or "").strip():
                yield ConversationBlock(f"{ident}:{at}", "words", strip_controls(str(part["text"])))
        for call in message.get("toolCalls") or ():
            yield self._called(str(call["id"]), str(call["name"]), call.get("arguments"), message.get("timestamp"))
        if message.get("stopReason") == "error":
            said = strip_controls(str(message.get("errorMessage") or "The model failed."))
            yield ConversationBlock(f"{ident}:error", "error", tell_failure(said))

    # --- what we say -----------------------------------------------------------------------------------------

    def send(self, run: str, text: str, now: int) -> ConversationBlock:
        """A message on its way. What the agent is saying goes on above it."""
        self._since[run] = now
        self._sent[run] = ConversationBlock(f"sent:{run}", "user", strip_controls(text), state="sending")
        self._ours[run] = self._sent[run].text.strip()
        return self._sent[run]

    def mark(self, run: str, state: State) -> list[ConversationBlock]:
        """What became of a message."""
        block = self._sent.get(run)
        if block is None or block.state == "done":
            return []
        block = self._sent[run] = msgspec.structs.replace(block, state=state)
        if state == "failed":
            del self._sent[run]
        return [block]

    def find_waiting(self) -> tuple[str, str] | None:
        """The newest message of ours that no run has taken in: its run and its text."""
        waiting = [(run, block.text) for run, block in self._sent.items() if block.state == "waiting"]
        return waiting[-1] if waiting and self.run != waiting[-1][0] else None

    def _forget(self) -> None:
        """Lines that were never told of are not waited for for ever; what tools said long ago is on the screen."""
        for kept, most in ((self._sent, SENT), (self._tools, TOOLS)):
            while len(kept) > most:
                del kept[next(iter(kept))]
        self._since = {run: self._since[run] for run in self._sent}

    def _find_sent(self, message: Payload, at: int | None = None) -> str:
        """The message of ours that a line of the transcript is; "" for none. It names the run that it is a line of: the
        message's own, or, if that was steered in, the one it joined. A line that is older than a message is another."""
        text = extract_words(message.get("content"))
        named = str((message.get("__openclaw") or {}).get("runId") or "")
        if named in self._ours and self._ours[named] in text:
            return named if named in self._sent else ""
        late = (run for run in self._sent if at is None or at >= self._since[run] - SKEW)
        return next((run for run in late if self._ours[run] in text), "")

    # --- events ----------------------------------------------------------------------------------------------

    def feed(self, event: str, payload: Payload) -> list[ConversationBlock]:
        """What an event of this session makes people see."""
        if event in ("agent", "session.tool"):
            step = _STREAMS.get(str(payload.get("stream")))
            data, run = payload.get("data") or {}, str(payload.get("runId"))
            shown = list(step(self, run, data, int(payload.get("ts") or 0))) if step else []
            return shown if payload.get("stream") == "status" or not shown else [*self._stop_waiting(), *shown]
        if event == "chat" and payload.get("state") != "delta":
            return [*self._stop_waiting(), *self._end(payload)]
        if event == "session.message":
            return list(self._heard(payload.get("message") or {}))
        if event == "session.operation" and payload.get("operation") == "steer":
            return self.mark(str(payload.get("runId")), "taken")
        return []

    def note(self, text: str, kind: Kind = "note") -> ConversationBlock:
        """A line of ours."""
        return ConversationBlock(self._next("note"), kind, strip_controls(text))

    def _next(self, word: str) -> str:
        self._count += 1
        return f"{word}:{self._count}"

    def _heard(self, message: Payload) -> Iterable[ConversationBlock]:
        """A line was written. Only what others said is news: the rest was shown as it came."""
        ident = str((message.get("__openclaw") or {}).get("id") or "")
        if message.get("role") != "user" or ident in self._known:
            return
        self._known[ident] = None
        while len(self._known) > KEPT:
            del self._known[next(iter(self._known))]
        if ours := self._find_sent(message):
            yield msgspec.structs.replace(self._sent.pop(ours), state="done")
        elif extract_words(message.get("content")).strip():
            yield _read_user(ident, message)

    def _lifecycle(self, run: str, data: Payload, at: int) -> Iterable[ConversationBlock]:
        if data.get("phase") == "start":
            self.run, self._open, self.stale = run, None, False
            self._begun.add(run)
            yield from self.mark(run, "done")
        elif self.run == run:
            self.run = ""

    def _said(self, run: str, data: Payload, at: int) -> Iterable[ConversationBlock]:
        text = strip_controls(str(data.get("text") or ""))
        if not text.strip():
            return
        self._spoke.add(run)
        now = self._open
        same = now is not None and now.kind == "words" and (data.get("replace") or text.startswith(now.text))
        self._open = ConversationBlock(now.id if same and now else self._next("words"), "words", text)
        yield self._open

    def _thought(self, run: str, data: Payload, at: int) -> Iterable[ConversationBlock]:
        delta = strip_controls(str(data.get("delta") or ""))
        now = self._open if self._open is not None and self._open.kind == "thought" else None
        self._open = ConversationBlock(
            now.id if now else self._next("thought"), "thought", (now.text if now else "") + delta
        )
        yield self._open

    def _tool(self, run: str, data: Payload, at: int) -> Iterable[ConversationBlock]:
        ident, phase = str(data.get("toolCallId")), data.get("phase")
        if phase == "start":
            if ident not in self._tools:  # told twice: to the one who asked, and to those who follow the session
                self._open = None
                yield self._called(ident, str(data.get("name")), data.get("args"), at)
        elif phase == "update":
            partial = extract_words((data.get("partialResult") or {}).get("content"))
            block, began = self._tools.get(ident) or (self._called(ident, str(data.get("name")), None, at), at)
            if block.state == "running":
                block = msgspec.structs.replace(block, text=partial)
                self._tools[ident] = (block, began)
                yield block
        elif phase == "result":
            yield self._ended(data, (data.get("result") or {}).get("content"), at)

    def _status(self, run: str, data: Payload, at: int) -> Iterable[ConversationBlock]:
        self._waits = self._waits or self._next("status")
        yield ConversationBlock(self._waits, "note", strip_controls(str(data.get("text") or "")))

    def _stop_waiting(self) -> Iterable[ConversationBlock]:
        """Something has come: why nothing came is old news."""
        if self._waits:
            gone, self._waits = self._waits, ""
            yield ConversationBlock(gone, "note", "")

    def _compaction(self, run: str, data: Payload, at: int) -> Iterable[ConversationBlock]:
        if data.get("phase") == "start":
            yield self.note("Making room in the conversation.")

    def _called(self, ident: str, name: str, args: Any, at: Any) -> ConversationBlock:
        changed, plan = describe_change(name, args), read_plan(name, args)
        shown = {"path": args.get("path")} if changed and isinstance(args, dict) else args
        head = f"{strip_controls(name)} {summarize_arguments(shown)}".strip()
        block = ConversationBlock(f"tool:{ident}", "tool", "", head, state="running", diff=changed, plan=plan)
        self.plan = plan or self.plan
        self._tools[ident] = (block, int(at or 0))
        return block

    def _ended(self, told: Payload, content: Any, at: int) -> ConversationBlock:
        ident = str(told.get("toolCallId"))
        name = str(told.get("toolName") or told.get("name"))
        block, began = self._tools.get(ident) or (self._called(ident, name, None, at), at)
        state: State = "failed" if told.get("isError") else "done"
        took = max(0, at - began) if at and began else 0
        if block.state != "running":
            took = block.took
        details = told.get("details") or (told.get("result") or {}).get("details")
        diff = strip_controls(str(details.get("diff") or "")) if isinstance(details, dict) else ""
        block = msgspec.structs.replace(
            block,
            text=tidy_result(name, extract_words(content)) or block.text,
            state="failed" if read_exit_code(details) else state,
            took=took,
            code=read_exit_code(details),
            diff=diff or (block.diff if state == "done" else ""),
        )
        self._tools[ident] = (block, began)
        return block

    def _end(self, payload: Payload) -> Iterable[ConversationBlock]:
        run, message = str(payload.get("runId")), payload.get("message") or {}
        text = extract_words(message.get("content"))
        stopped, sent = payload.get("state") == "aborted", self._sent.get(run)
        waited = stopped and sent is not None and sent.state in ("sending", "waiting")
        yield from self.mark(run, "failed" if waited else "done")
        if message.get("command"):  # has no line in the transcript
            self._sent.pop(run, None)
            if text:
                yield self.note(text)
            return
        self._open = None
        if payload.get("state") == "final" and text.strip() and run not in self._spoke and not self.stale:
            yield ConversationBlock(self._next("words"), "words", text)
        self._spoke.discard(run)
        for notice in payload.get("notices") or ():
            yield self.note(str(notice))
        if payload.get("state") == "error":
            said = str(payload.get("errorMessage") or "The run failed.")
            yield self.note(tell_failure(said, str(payload.get("failureKind") or "")), "error")
        if stopped and run in self._begun:
            yield self.note("stopped")
        self._begun.discard(run)
        self._forget()
        if self.run == run:
            self.run = ""


_STREAMS: dict[str, Any] = {
    "lifecycle": ScreenConversation._lifecycle,
    "assistant": ScreenConversation._said,
    "thinking": ScreenConversation._thought,
    "tool": ScreenConversation._tool,
    "compaction": ScreenConversation._compaction,
    "status": ScreenConversation._status,
}
