"""A reply on its way out: the pieces a turn produced, and how they are shown. The channels' port is in `channel.py`."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import msgspec

from palinurus.core.speech import SpokenText
from palinurus.core.types.events import RunEvent
from palinurus.core.types.inbound import Target

ReplyKind: TypeAlias = Literal["final", "block", "tool", "notice", "reasoning", "draft", "message"]
ButtonStyle: TypeAlias = Literal["", "good", "bad"]


class Button(msgspec.Struct, frozen=True, omit_defaults=True):
    """Pressing it is the same as saying `text`: the channel submits that, as a message of whoever pressed."""

    label: str
    text: str
    style: ButtonStyle = ""


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message for a person, in Markdown. `client_id` is stable across retries: platforms that take one can
    dedupe on it. `plain`: its markup was refused, the text goes as it is."""

    target: Target
    text: str
    client_id: str
    kind: ReplyKind = "final"
    reply_to: str = ""
    media: tuple[str, ...] = ()  # files of a workspace (absolute), or addresses
    voice: bool = False
    buttons: tuple[Button, ...] = ()
    plain: bool = False
    speak: SpokenText | None = None  # to be said aloud: the file is made when its turn to be sent comes


class RunVisibility(msgspec.Struct, frozen=True):
    """How much of a run people see besides the answer."""

    verbose: Literal["off", "on", "full"] = "off"
    reasoning: Literal["off", "on", "stream"] = "off"
    trace: bool = False
    detail: Literal["explain", "raw"] = "explain"  # toolProgressDetail
    answer: bool = True  # False: what the model writes is not posted, it answers with the message tool
    send: str | None = None  # the session's own word on sending at all: allow, deny
    speech: str | None = None  # its own word on what is read aloud: off, always, inbound, tagged


class ReplyBuilder(Protocol):
    """Turns the events of one run into what people see. Fed by the turn, closed when it settles."""

    def feed(self, event: RunEvent) -> tuple[Reply, ...]:
        """Replies that go out now, while the run is going: tool lines, blocks. Their client ids are stable, so a
        resumed run does not say them again."""
        ...

    def close(self) -> tuple[Reply, ...]:
        """The replies still to be delivered, in order; empty for a chosen silence."""
        ...
