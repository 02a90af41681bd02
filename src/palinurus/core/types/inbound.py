"""A message on its way in: what a channel knows about it, what it asks of its turn, and where it goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from palinurus.core import untrusted
from palinurus.core.types.caller import ADMIN, Caller, has_scope
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from palinurus.patterns import decode_late

ChatKind: TypeAlias = Literal["direct", "group", "channel"]


class Sender(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who wrote. `id` is the platform's stable id; `name` is for display only and never compared."""

    id: str
    name: str = ""
    owner: bool = False  # decided by the server's credentials or allowlist, never by the message
    allowed: bool = False  # on an allowlist: may give directives and commands
    bot: bool = False  # the platform says that a program writes
    also: tuple[str, ...] = ()  # further stable ids that the platform vouches for: a phone number beside a uuid
    scopes: tuple[str, ...] = ()  # what a gateway client's credentials grant, e.g. operator.admin

    @property
    def trusted(self) -> bool:
        """Do this sender's directives act?"""
        return self.owner or self.allowed

    def may(self, needed: str) -> bool:
        """Whether what this sender asks for may need that scope. The owner has all of them."""
        return self.owner or has_scope(self.scopes, needed)


def make_sender(caller: Caller, name: str = "") -> Sender:
    """A caller as the sender of a message: with its rights, and no others."""
    scopes = tuple(sorted(caller.scopes))
    return Sender(caller.device or caller.id, name, owner=caller.may(ADMIN), allowed=True, scopes=scopes)


class Target(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where on a channel: the chat, and the thread in it."""

    channel: str
    to: str = ""
    account: str = "default"
    thread: str = ""


class Attachment(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that came with a message, already on our disk. `name` is what its sender called it: for display only."""

    path: str
    name: str
    mime: str
    size: int
    voice: bool = False  # spoken into the phone: its words are wanted


class MessageQuote(msgspec.Struct, frozen=True, omit_defaults=True):
    """The message that one answers."""

    id: str
    sender: str = ""
    text: str = ""


class InlineDirectives(msgspec.Struct, frozen=True, omit_defaults=True):
    """What directives among other text ask for, for this one turn. "" where they say nothing."""

    thinking: str = ""  # as typed, like `model`; the others are canonical words
    model: str = ""
    fast: str = ""
    verbose: str = ""
    trace: str = ""
    reasoning: str = ""
    elevated: str = ""
    queue: str = ""


NO_INLINE = InlineDirectives()


class EarlierMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of the messages before, which a stateless client sends along."""

    role: str  # "assistant"; "tool" for what a tool of the client's returned; any other is the person's
    content: str = ""
    calls: tuple[ToolCall, ...] = ()  # of the client's tools
    call: str = ""  # the id of the call that a tool answers
    name: str = ""  # … and the tool's name; of a person's, that it tells what that tool returned
    source: str = ""  # whose words they are (taint), where that is known; of a person's only

    def as_message(self, now: int = 0) -> Message:
        """As the model sees it. What a tool of the client's returned is nobody's of ours (taint)."""
        if self.role == "tool":
            return ToolResult(
                self.call, self.name, (TextBlock(self.content),), timestamp=now, source=f"plugin:client {self.name}"
            )
        if self.role == "assistant":
            return AssistantMessage((*([TextBlock(self.content)] if self.content else []), *self.calls))
        return UserMessage(self.content, source=self.source or (f"plugin:client {self.name}" if self.name else ""))


class ClientTool(msgspec.Struct, frozen=True):
    """A tool that the caller of an HTTP interface runs itself."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}


class AnswerForm(msgspec.Struct, frozen=True):
    """The form an answer must have: JSON that fits a schema. None: any JSON object."""

    schema: dict[str, Any] | None = None
    name: str = "answer"


class HeartbeatOptions(msgspec.Struct, frozen=True, rename="camel"):
    """The turn is a heartbeat: what people are to see of it."""

    ack_max_chars: int = 300  # beside HEARTBEAT_OK that are still only an acknowledgement
    said: str = ""  # the last alert of the day: it is not said again
    reasoning: bool = False  # goes along with an alert
    ok: bool = False  # "nothing to tell" is shown
    alerts: bool = True


TriggerKind: TypeAlias = Literal["", "cron", "hook", "wake", "heartbeat"]


class TurnBounds(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What a caller bounds its own turn by; it can only take away."""

    allow: tuple[str, ...] | None = None  # these tools and no others
    deny: tuple[str, ...] = ()  # not these
    max_turns: int = 0  # model calls; 0: as configured


class TurnOptions(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What a message asks of its own turn and of no other. Stored with it: a turn that goes on after a crash has the
    same. "", None and () leave things as the session and the configuration have them."""

    # how it is answered
    model: str = ""  # a reference, an alias
    thinking: str = ""  # a level
    fast: str = ""  # on, off, auto
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()  # texts before which an answer ends
    seed: int | None = None
    answer: AnswerForm | None = None  # the last answer is checked, and asked for again with what is wrong
    tool_choice: str | dict[str, Any] | None = None  # as the provider takes it
    context: tuple[EarlierMessage, ...] = ()  # stands before the session's own history
    system: str = ""  # added to the system prompt
    client_tools: tuple[ClientTool, ...] = ()  # offered to the model beside ours; a call of one ends the run
    folder: str = ""  # where its session is to work, if it begins with this message; the owner's alone to ask
    permission_mode: str = ""  # plan, ask, default, acceptEdits, full; freer than the default for the owner alone
    results: tuple[EarlierMessage, ...] = ()  # of such calls: the message's text tells the same in words
    bounds: TurnBounds = TurnBounds()
    unattended: bool = False  # whoever sent it cannot be asked anything while it runs
    strict: bool = False  # a thinking level that the model does not offer is refused, not fitted
    # how it waits while its session is busy (inbox/policy.py)
    queue: str = ""  # the mode
    queue_debounce_ms: int | None = None
    queue_cap: int | None = None
    queue_drop: str = ""
    # of turns that the program begins itself: no face hands these on from outside
    trigger: TriggerKind = ""  # who began it
    inline: InlineDirectives = NO_INLINE  # directives of a configured prompt
    timeout_seconds: float | None = None
    tools_allow: tuple[str, ...] = ()  # these and no others
    prompt_mode: Literal["full", "minimal", "none"] | None = None
    heartbeat: HeartbeatOptions | None = None
    slot: tuple[str, int] | None = None  # (job, due): accepted once, as that fire of a job


NO_OPTIONS = TurnOptions()


def read_options(given: Mapping[str, Any]) -> TurnOptions:
    """From loose values, by the names they are stored under. What is unknown, or not what it should be, is passed
    over."""
    return msgspec.convert({name: value for name, value in given.items() if _fits(name, value)}, TurnOptions)


def _fits(name: str, value: Any) -> bool:
    try:
        msgspec.convert({name: value}, TurnOptions)
    except msgspec.ValidationError:
        return False
    return True


class Inbound(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message from outside. `event` identifies it on its channel: the same event never causes two turns."""

    target: Target
    sender: Sender
    event: str
    text: str
    at: int
    kind: ChatKind = "direct"
    images: tuple[ImageBlock, ...] = ()
    reply_to: str = ""
    session: str = ""  # an explicit session key, where the face lets one choose (terminal, gateway)
    agent: str = ""
    options: TurnOptions = NO_OPTIONS
    guild: str = ""  # the server or workspace around the chat, where the platform has one: bindings ask for it
    team: str = ""
    roles: tuple[str, ...] = ()  # the sender's, by id
    system: bool = False  # the program says it, not a person: its text holds no directives and no commands
    push: bool = True  # False: the sender waits for the reply itself (HTTP, terminal); no outbox row is made
    mentioned: bool = False  # in a group: the agent was named, answered or commanded, as the platform tells
    pressed: str = ""  # the id of our message whose button was pressed
    title: str = ""  # the group's name, for display
    quote: MessageQuote | None = None
    files: tuple[Attachment, ...] = ()
    before: tuple[str, ...] = ()  # what others said in the group since the last answer ("name: text"), as context
    signed: bool = False  # its text says already who wrote what: it is several messages put together
    shared: bool = False  # somebody else than the owner may see what comes of it: no memory (core/policy/audience.py)
    outsider: bool = False  # its asker is nobody whom the owner lets use the machine (core/policy/audience.py)
    source: str = ""  # where content in its text came from that the sender did not write ("command", "session", …)
    spoken: bool = False  # it came as a voice note

    @property
    def may_command(self) -> bool:
        """May its text hold directives and commands? Only what a trusted person types; a program's requests
        over HTTP mean what they say, also when they begin with a slash, and so does what a canvas sends."""
        return self.sender.trusted and not (self.system or self.source) and self.target.channel != "http"

    @property
    def may_answer(self) -> bool:
        """Is the sender shown what the run asks leave for? Only who could answer it."""
        return self.may_command and not self.options.unattended

    @property
    def triggered(self) -> bool:
        """Did the program begin this turn? Then it leaves no trace of where the person was last."""
        return self.system and bool(self.options.trigger)

    def message(self, now: int) -> UserMessage:
        """As the model sees it."""
        text = self._framed()
        return UserMessage((TextBlock(text), *self.images) if self.images else text, now, self.origin)

    def _framed(self) -> str:
        people = self.kind != "direct" and not self.system
        text = self.text
        if people and not self.signed:
            text = untrusted.prefix_speaker(self.sender.name or self.sender.id, text)
        heads = (
            untrusted.frame_group_title(self.title) if people else "",
            untrusted.frame_quote(self.quote.sender, self.quote.text) if self.quote else "",
        )
        tails = tuple(untrusted.frame_attachment(one.name, one.mime, one.path, one.size) for one in self.files)
        return untrusted.frame_message(text, heads, tails, self.before)

    @property
    def origin(self) -> str:
        """Whose words they are, as taint names it; "" for the owner's."""
        if self.source:
            return self.source
        if self.options.results:  # told in words where there is no call that they answer
            return f"plugin:client {self.options.results[0].name}"[:80]
        if self.kind != "direct" and (self.before or self.quote):  # others' words came along
            return f"group {self.target.to}"[:80].strip()
        if self.sender.owner and self.pressed:  # the press is the owner's, the words behind it are who made it's
            return "own button"
        if self.sender.owner:
            return f"quote {self.quote.sender}"[:80].strip() if self.quote and self.quote.text else ""
        who = "member" if self.sender.allowed else "stranger" if self.kind == "direct" else "group"
        who = "client" if self.sender.scopes else who
        return f"{who} {self.sender.id}"[:80].strip()


_decoder = decode_late(Inbound)


def decode_inbound(body: bytes) -> Inbound:
    """A stored message. Options that cannot be read (of another version, or damaged) never cost the message: it is
    taken without them. Raises msgspec.DecodeError for the rest."""
    try:
        return _decoder.decode(body)
    except msgspec.ValidationError:
        raw = msgspec.json.decode(body, type=dict[str, Any])
        given = raw.pop("options", None)
        made = msgspec.convert(raw, Inbound)
        return msgspec.structs.replace(made, options=read_options(given)) if isinstance(given, dict) else made


class Route(msgspec.Struct, frozen=True):
    """Decided once per message."""

    agent: str
    key: SessionKey
    lane: str  # main, subagent, cron: the pool of slots
