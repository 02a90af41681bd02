"""Events -> replies. Pure: fed with a run's events, closed when the turn ends.

What goes out while the run is going (tool lines, blocks) has a client id made of what it says, so that a resumed
run says it no second time; the rest goes out with the settlement. How much is shown is asked at each event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2s

import msgspec

from palinurus.core.policy.card import parse_card_buttons
from palinurus.core.speech import merge_speech
from palinurus.core.stream import progress
from palinurus.core.stream.answer import MESSAGE_GAP, VisibleAnswer, read_answer
from palinurus.core.stream.chunk import BlockSettings
from palinurus.core.stream.marks import NO_REPLY_MARKS, ReplyMarks, is_web_address
from palinurus.core.types.events import (
    AgentEnd,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    RunEndReason,
    RunEvent,
    ToolEnd,
    ToolStart,
    ToolUpdate,
)
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.messages import AssistantMessage, ToolResult
from palinurus.core.types.outbound import Reply, ReplyKind, RunVisibility
from palinurus.outbox.growing import GrowingMessage

NOTICES: dict[RunEndReason, str] = {
    "aborted": "⚙️ Agent was aborted.",
    "timeout": "⚠️ The run took too long and was stopped.",
    "max_turns": "⚠️ The run was stopped: {why}.",
    "tool_loop": "⚠️ The run was stopped: {why}.",
    "error": "⚠️ No answer: {why}.",
}
EMPTY = "⚠️ No answer: the model thought, but said nothing."
FAILURES = 5  # failed tools told of at the end of a run that shows no tools


MAKERS = ("tts", "image_generate")  # tools of ours that make files for the person
GIVERS = ("web", "mcp", "plugin", "chat")  # whose results the model cannot have written itself
STOP = "stop"  # said in the chat, and answered there: after that answer nothing is heard of the run
TOLD = (STOP, "interrupt")  # who stopped a run so is answered himself, or goes on with another message


class BlockSpeaker:
    """The speaker of one run. With `push` off nobody is spoken to: the client reads the events itself.

    With `blocks` a long text goes out in parts while it grows. `files`: those the model may send. `trace`: the lines
    of plugins for /trace.
    """

    def __init__(
        self,
        inbound: Inbound,
        item: str,
        show: Callable[[], RunVisibility] = RunVisibility,
        blocks: BlockSettings | None = None,
        *,
        files: Callable[[str], bool] = is_web_address,
        trace: Callable[[], Sequence[str]] = tuple,
        cards: bool = True,  # questions about commands are asked in this chat
    ) -> None:
        self._cards = cards
        self._inbound = inbound
        self._item = item
        self._show = show
        self._blocks = blocks
        self._tagged = False  # the model was told to put its answer into <final>
        self._files = files
        self._given = [inbound.text]
        self._trace = trace
        self._growing: GrowingMessage | None = None
        self._heard: list[AssistantMessage] = []
        self._pending: list[VisibleAnswer] = []  # what was said and is not sent
        self._thoughts: list[str] = []  # reasoning that goes before it
        self._calls: dict[str, ToolStart] = {}
        self._failed: dict[str, None] = {}
        self._ids: dict[str, int] = {}
        self._made: set[str] = set()  # calls whose pictures or sounds are on their way
        self._told: set[str] = set()  # what the message tool has said in this chat
        self._spoke = False
        self._now: list[Reply] = []
        self._replies: list[Reply] = []

    def feed(self, event: RunEvent) -> tuple[Reply, ...]:
        """What goes out now."""
        if not self._inbound.push:
            return ()
        step = _STEPS.get(type(event))
        if step is not None:
            step(self, event)
        if not self._now:
            return ()
        now, self._now = tuple(self._now), []
        return now

    def close(self) -> tuple[Reply, ...]:
        """What goes out with the settlement."""
        return tuple(self._replies)

    # --- what the model says

    def _start(self, event: AgentStart) -> None:
        self._tagged = event.tagged

    def _begin(self, event: MessageStart) -> None:
        self._growing = None

    def _update(self, event: MessageUpdate) -> None:
        if self._blocks is None or event.kind == "status":
            return
        if self._growing is None:
            self._growing = GrowingMessage(self._blocks, self._allowed, enforce=self._tagged)
        if event.kind == "thinking":
            self._growing.think(event.delta)
        elif parts := self._growing.feed(event.delta):
            self._grown(self._growing, parts)

    def _grown(self, growing: GrowingMessage, parts: list[VisibleAnswer]) -> None:
        """Parts of a message go out before its end, reasoning first."""
        if not parts:
            return
        if thought := growing.take_thoughts():
            self._think(thought)
        self._reason(self._now)
        for part in parts:
            self._block(part)

    def _end(self, event: MessageEnd) -> None:
        if isinstance(event.message, AssistantMessage):
            self._hear(event.message)
            if self._blocks is not None and event.message.calls:
                self._flush()
        elif isinstance(event.message, ToolResult):
            self._sent(event.message)
            self._replies += self._give(event.message)  # from before a crash: else the tool's end has brought it

    def _hear(self, message: AssistantMessage) -> None:
        """A complete message: what of it was not sent yet waits for the next flush, or the end."""
        self._heard.append(message)
        if self._blocks is None:
            said = read_answer(message.text, allowed=self._allowed)
            self._think(f"{message.thinking}\n{said.thinking}")
        else:
            growing = self._growing or GrowingMessage(self._blocks, self._allowed, enforce=self._tagged)
            parts, said = growing.close(message.text)
            self._grown(growing, parts)
            self._think(growing.take_thoughts() or ("" if self._growing else message.thinking))
            self._growing = None
        if said.text or said.silent or said.found != NO_REPLY_MARKS:
            self._pending.append(said)

    def _think(self, text: str) -> None:
        if text.strip() and self._show().reasoning == "on":
            self._thoughts.append(text.strip())

    def _allowed(self, reference: str) -> bool:
        """May it be sent? An address is fetched by us, and could carry away what the model knows: only one that
        somebody gave letter by letter is; any other stays in the text."""
        if is_web_address(reference):
            return any(reference in text for text in self._given)
        return self._files(reference)

    # --- what tools do

    def _tool(self, event: ToolStart) -> None:
        self._calls[event.id] = event
        show = self._show()
        if show.verbose != "off":
            self._flush()
            line = progress.write_tool_line(event.name, event.args, event.summary, show.detail)
            self._now.append(self._reply(line, "tool", self._id(f"t-{event.id}")))

    def _asked(self, event: ToolUpdate) -> None:
        """A tool waits for a person: the card goes out at once, after what was said before it."""
        if event.approval and self._cards:
            self._flush()
            card = self._reply(event.partial, "notice", self._id(f"a-{event.approval}"))
            self._now.append(msgspec.structs.replace(card, plain=True, buttons=parse_card_buttons(event.partial)))

    def _done(self, event: ToolEnd) -> None:
        if event.result.source.startswith(GIVERS):
            self._given.append(event.result.text)
        show = self._show()
        start = self._calls.pop(event.id, None) or ToolStart(event.id, event.name, {})
        line = progress.write_failure_line(start.name, start.args, start.summary, show.detail)
        ident = f"o-{event.id}"
        self._sent(event.result)
        if event.result.toolName in MAKERS:
            self._flush()
            self._now += self._give(event.result)
        if not event.is_error:
            self._failed.pop(line, None)  # what failed before has worked now
            text = progress.write_tool_output(event.result.text) if show.verbose == "full" else ""
            if text:
                self._now.append(self._reply(text, "tool", self._id(ident)))
        elif show.verbose == "off":
            self._failed[line] = None
        else:
            raw = progress.write_tool_output(event.result.text) if show.verbose == "full" else ""
            self._now.append(self._reply(f"{line}\n{raw}".strip(), "tool", self._id(ident)))

    def _give(self, result: ToolResult) -> list[Reply]:
        """What a tool of ours has made for the person, once for each call."""
        details = result.details if isinstance(result.details, dict) and not result.isError else {}
        media = details.get("media") if result.toolName in MAKERS and result.toolCallId not in self._made else None
        if not isinstance(media, list) or not media:
            return []
        self._made.add(result.toolCallId)
        found = ReplyMarks(media=tuple(map(str, media)), voice=details.get("voice") is True)
        return [self._reply("", "block", self._id(f"m-{_digest(result.toolCallId)}"), found)]

    def _sent(self, result: ToolResult) -> None:
        """Remember what the message tool has said here: the answer does not repeat it."""
        details = result.details if result.toolName == "message" and isinstance(result.details, dict) else {}
        here, sent = self._inbound.target, details.get("sent")
        for one in [o for o in sent if isinstance(o, dict)] if isinstance(sent, list) else ():
            place = (one.get("channel"), one.get("account"), one.get("to"), one.get("threadId", ""))
            if one.get("ok") and place == (here.channel, here.account, here.to, here.thread):
                self._told.add(_folded(str(one.get("text", ""))))

    # --- what goes out

    def _withheld(self, said: VisibleAnswer) -> bool:
        """Is it not posted, as the model answers with the message tool in this chat, or has said just this with it?"""
        again = not said.found.media and _folded(said.text) in self._told
        return again or not self._show().answer

    def _flush(self) -> None:
        """Everything said so far goes out now."""
        self._reason(self._now)
        pending, self._pending = self._pending, []
        for said in pending:
            if _says(said):
                self._block(said)

    def _reason(self, out: list[Reply]) -> None:
        if self._thoughts:
            text = MESSAGE_GAP.join(self._thoughts)
            self._thoughts = []
            out.append(self._reply(f"Thinking\n{text}", "reasoning", self._id(f"r-{_digest(text)}")))

    def _block(self, said: VisibleAnswer) -> None:
        self._spoke = True
        if self._withheld(said):
            return
        ident = self._id(f"b-{_digest(MESSAGE_GAP.join((said.text, *said.found.media)))}")
        self._now.append(self._reply(said.text, "block", ident, said.found))

    def _close(self, event: AgentEnd) -> None:
        for message in event.messages:
            if isinstance(message, AssistantMessage) and not any(message is heard for heard in self._heard):
                self._growing = None
                self._hear(message)
        now, self._now = self._now, []  # goes out with the settlement: it is one step
        if event.failure is not None and (event.end, event.failure.message) == ("aborted", STOP):
            now, self._pending, self._thoughts = [], [], []
        silent = bool(self._pending) and self._pending[-1].silent
        said = [a for a in self._pending if not a.silent and _says(a)]
        if silent:
            said = [VisibleAnswer("", found=a.found) for a in self._pending if a.found.media]
        self._replies += now
        notice = self._notice(event, silent=silent or bool(said))
        said = [a for a in said if not self._withheld(a)]
        if not silent:
            self._reason(self._replies)
            if self._failed and event.end not in ("aborted", "timeout"):
                self._failures()
        if said:
            found = _merged([a.found for a in said])
            self._final(MESSAGE_GAP.join(a.text for a in said if a.text), "final", found)
        for text in (*event.notices, notice):
            if text:
                self._final(text, "notice")
        self._traced()

    def _notice(self, event: AgentEnd, *, silent: bool) -> str:
        """Words for an end that is no answer. `silent`: something was said, or chosen not to be."""
        if event.end in NOTICES:
            why = event.failure.message if event.failure else event.end
            if event.end == "aborted" and why in TOLD:
                return ""
            return NOTICES[event.end].format(why=why.rstrip("."))
        thought = any(isinstance(m, AssistantMessage) and m.text.strip() for m in event.messages)
        return EMPTY if thought and not silent and not self._spoke else ""

    def _failures(self) -> None:
        lines = list(self._failed)
        if len(lines) > FAILURES:
            lines = [*lines[:FAILURES], f"… and {len(lines) - FAILURES} more"]
        self._replies.append(self._reply("\n".join(lines), "tool", self._id("e")))

    def _traced(self) -> None:
        if self._show().trace and (lines := [line for line in self._trace() if line.strip()]):
            self._final("\n".join(lines), "notice")

    def _final(self, text: str, kind: ReplyKind, found: ReplyMarks = NO_REPLY_MARKS) -> None:
        count = sum(r.kind in ("final", "notice") for r in self._replies)
        self._replies.append(self._reply(text, kind, f"{self._item}.{count}", found))

    def _reply(self, text: str, kind: ReplyKind, ident: str, found: ReplyMarks = NO_REPLY_MARKS) -> Reply:
        inbound = self._inbound
        to = found.reply_to or (inbound.event if found.current else "")
        return Reply(
            inbound.target, text, ident, kind, reply_to=to, media=found.media, voice=found.voice, speak=found.speech
        )

    def _id(self, tail: str) -> str:
        """Unique in the run also where two things are the same."""
        count = self._ids[tail] = self._ids.get(tail, 0) + 1
        return f"{self._item}.{tail}" if count == 1 else f"{self._item}.{tail}.{count}"


_STEPS: dict[type, Callable[..., None]] = {
    AgentStart: BlockSpeaker._start,
    MessageStart: BlockSpeaker._begin,
    MessageUpdate: BlockSpeaker._update,
    MessageEnd: BlockSpeaker._end,
    ToolStart: BlockSpeaker._tool,
    ToolUpdate: BlockSpeaker._asked,
    ToolEnd: BlockSpeaker._done,
    AgentEnd: BlockSpeaker._close,
}


def _says(said: VisibleAnswer) -> bool:
    """Is there anything to read, see or hear in it?"""
    return bool(said.text or said.found.media or (said.found.speech and said.found.speech.text))


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _digest(text: str) -> str:
    return blake2s(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def _merged(found: list[ReplyMarks]) -> ReplyMarks:
    """What several messages' marks come to for the one reply made of them."""
    media = tuple(dict.fromkeys(name for f in found for name in f.media))
    explicit = next((f.reply_to for f in found if f.reply_to), "")
    speech = merge_speech([f.speech for f in found if f.speech is not None])
    return ReplyMarks(explicit, any(f.current for f in found), any(f.voice for f in found), media, speech=speech)
