"""The port of the channels: a way people reach the agent, what it can do, and what can go wrong with it.

A channel turns the platform's events into `Inbound` and `Reply` into the platform's calls. It decides nothing: who may
speak is `inbox/access.py`, what is said again is `outbox/deliver.py`, and how long texts are cut is `outbox/parts.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from palinurus.core.types.inbound import Inbound, Target
from palinurus.core.types.outbound import Button, Reply

Markup: TypeAlias = Literal["plain", "markdown", "telegram", "slack", "discord", "whatsapp", "signal", "matrix", "irc"]

# What kept a reply from being shown. The table in outbox/send.py says what follows from each.
SendTrouble: TypeAlias = Literal[
    "down",  # not reachable, or the server failed before it took the message: later again
    "cut",  # the connection went while it was being sent: nobody knows
    "limited",  # too many; `retry_after` says how long
    "markup",  # it cannot read our formatting: the same as plain text
    "long",  # too long after all: in smaller parts
    "media",  # the file is not taken: the text with the file's name
    "signed_out",  # our credentials are not taken any more: waits until a person signs in again
    "blocked",  # this person does not want us
    "gone",  # there is no such chat, or we are not in it
    "refused",  # never, for another reason
]


class SendReceipt(msgspec.Struct, frozen=True):
    """The platform has it. `message_id` is the platform's; `data` is what an act found out."""

    message_id: str
    data: Any = None


class SendFailure(msgspec.Struct, frozen=True):
    """It did not arrive, or nobody knows. `reason` is for people; `retry_after` in seconds. `everywhere`: the platform
    limits the whole account, not only this chat."""

    reason: str
    trouble: SendTrouble = "down"
    retry_after: float | None = None
    everywhere: bool = False


SendResult: TypeAlias = SendReceipt | SendFailure


class TypingAction(msgspec.Struct, frozen=True, tag="typing"):
    """Show that an answer is being written; lasts `ChannelAbilities.typing` seconds."""


class EditAction(msgspec.Struct, frozen=True, tag="edit"):
    """Put `text` (Markdown) and `buttons` in the place of a message of ours."""

    message_id: str
    text: str
    buttons: tuple[Button, ...] = ()
    plain: bool = False


class DeleteAction(msgspec.Struct, frozen=True, tag="delete"):
    message_id: str


class ReactAction(msgspec.Struct, frozen=True, tag="react"):
    """An emoji on a message; `remove` takes ours away ("" takes all of ours)."""

    message_id: str
    emoji: str
    remove: bool = False


class PinAction(msgspec.Struct, frozen=True, tag="pin"):
    message_id: str
    remove: bool = False


class PollAction(msgspec.Struct, frozen=True, tag="poll"):
    question: str
    options: tuple[str, ...]
    several: bool = False


class ThreadAction(msgspec.Struct, frozen=True, tag="thread"):
    """A new thread or topic, below a message where one is named. `SendReceipt.message_id` is the thread's id."""

    name: str
    message_id: str = ""


class ReadAction(msgspec.Struct, frozen=True, tag="read"):
    """The newest messages of the chat: `SendReceipt.data` is a list of {"id", "from", "text", "at"}, oldest first."""

    limit: int = 20


# What a platform can be asked about a chat and the people in it.
LookName: TypeAlias = Literal[
    "channel-info", "member-info", "role-info", "voice-status", "event-list", "emoji-list", "search"
]


class LookAction(msgspec.Struct, frozen=True, tag="look"):
    """Ask the platform about the chat, or about a person (`user`); `text` is what to search for. `SendReceipt.data` is
    what it says."""

    what: LookName
    user: str = ""
    text: str = ""


ChannelAction: TypeAlias = (
    TypingAction
    | EditAction
    | DeleteAction
    | ReactAction
    | PinAction
    | PollAction
    | ThreadAction
    | ReadAction
    | LookAction
)
ActionName: TypeAlias = Literal["typing", "edit", "delete", "react", "pin", "poll", "thread", "read"] | LookName


class ChannelAbilities(msgspec.Struct, frozen=True):
    """What a channel can do. The rest of the program asks here and never for a channel's name."""

    markup: Markup = "plain"
    limit: int = 4000  # the longest text of one message, in `unit`, after formatting
    unit: Literal["characters", "utf16", "bytes"] = "characters"
    acts: frozenset[ActionName] = frozenset()
    typing: float = 5.0  # seconds one `TypingAction` lasts, where acts has it
    pace: float = 1.0  # least seconds between two edits of a draft, where acts has "edit"
    buttons: int = 0  # at most so many on one message; 0: none, the texts are written out instead
    replies: bool = False  # can answer a certain message (Reply.reply_to)
    threads: bool = False  # Target.thread means something
    media: int = 0  # bytes of the largest file it takes; 0: none
    voice: bool = False


ChannelState: TypeAlias = Literal["starting", "ready", "reconnecting", "signed_out", "failed", "stopped"]


class ChannelStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a channel's connection is. `detail` says in words what a person can do; `me` is the account's own name."""

    state: ChannelState
    detail: str = ""
    me: str = ""


class ChannelHttpRequest(msgspec.Struct, frozen=True):
    """A platform's HTTP request to us, read whole (at most 4 MiB). Header names are lower-case."""

    method: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes


class ChannelHttpResponse(msgspec.Struct, frozen=True):
    """What the platform is told."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain"


# Puts a message on disk and returns its id; "" for one that is not let in. Acknowledge to the platform only then.
# Raises Draining, QueueFull, DiskFull (do not acknowledge, try again) and BadRequest (it never will be taken).
SubmitInbound: TypeAlias = Callable[[Inbound], Awaitable[str]]


class Channel(Protocol):
    """One account on one platform. `channels/kit.py` has defaults for what a channel cannot do."""

    @property
    def name(self) -> str:
        """The channel's id, as in Target.channel."""
        ...

    @property
    def dedupes(self) -> bool:
        """True if sending the same client_id twice shows one message."""
        ...

    @property
    def abilities(self) -> ChannelAbilities: ...

    def run(self, submit: SubmitInbound) -> Awaitable[None]:
        """Connect and receive until cancelled; reconnects by itself. Returning ends the channel (it is signed out);
        raising has it begun again after a while."""
        ...

    def send(self, reply: Reply) -> Awaitable[SendResult]:
        """Show one message. The text is within `abilities.limit`. Raises nothing."""
        ...

    def find(self, reply: Reply) -> Awaitable[SendReceipt | None]:
        """Read back: was a reply with this client_id already shown? None also when the platform cannot tell."""
        ...

    def act(self, target: Target, act: ChannelAction) -> Awaitable[SendResult]:
        """Do something else; only what `abilities.acts` names is asked for. Raises nothing."""
        ...

    def status(self) -> ChannelStatus: ...

    def hook(self, request: ChannelHttpRequest, submit: SubmitInbound) -> Awaitable[ChannelHttpResponse]:
        """A request to /channels/<name>/<account>. Checks the platform's signature itself, in constant time."""
        ...
