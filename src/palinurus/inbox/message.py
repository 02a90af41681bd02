"""What is decided about a message when it comes, once: where it goes, whether it is for the program or for the model,
and what its directives ask. Pure. Nobody else routes a message or looks for directives in its text.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from palinurus.config.settings import Settings
from palinurus.core import untrusted
from palinurus.core.levels.parse import ParsedDirectives, collect_inline_options, parse_directives
from palinurus.core.types.inbound import (
    NO_INLINE,
    Inbound,
    InlineDirectives,
    Route,
    Sender,
    Target,
    decode_inbound,
)
from palinurus.core.types.keys import parse_session_key
from palinurus.errors import BadRequest, QueueFull
from palinurus.inbox.commands import runs
from palinurus.inbox.commands.command import ChatCommand
from palinurus.inbox.commands.table import TABLE, TypedCommand, parse_command
from palinurus.inbox.policy import NO_OVERRIDES, QueuePolicy, read_overrides, resolve_policy
from palinurus.inbox.queue import SessionQueue, count_live
from palinurus.inbox.route import route_inbound
from palinurus.store.port import InboxRow, RunClaim, Store

CHATS = 1_000  # the longest silent chat is forgotten first

_Said: TypeAlias = tuple[str, str]  # event, line


class OverheardMessages:
    """What people said in groups without meaning us: context for the message that does. Bounded, and in memory only.

    Killed: it is lost, and the next answer knows a little less. Kept per chat and thread, for every account by itself.
    """

    def __init__(self, chats: int = CHATS) -> None:
        self._chats = chats
        self._said: OrderedDict[Target, deque[_Said]] = OrderedDict()

    def note(self, inbound: Inbound, most: int) -> None:
        """Remember a message; the same event counts once. Nothing with `most` 0."""
        text = inbound.text.strip() or " ".join(f"[{one.mime}]" for one in inbound.files)
        if most <= 0 or not text:
            return
        said = self._said.setdefault(inbound.target, deque())
        self._said.move_to_end(inbound.target)
        if not any(event == inbound.event for event, _ in said):
            said.append(
                (inbound.event, untrusted.frame_earlier_message(inbound.sender.name or inbound.sender.id, text))
            )
        while len(said) > most:
            said.popleft()
        while len(self._said) > self._chats:
            self._said.popitem(last=False)

    def before(self, target: Target, event: str) -> tuple[str, ...]:
        """What was said in the chat since the last answer, oldest first; not the event itself."""
        return tuple(line for one, line in self._said.get(target, ()) if one != event)

    def forget(self, target: Target, count: int) -> None:
        """The oldest `count` lines are part of a conversation now."""
        said = self._said.get(target)
        for _ in range(min(count, len(said)) if said else 0):
            assert said is not None
            said.popleft()
        if not said:
            self._said.pop(target, None)


log = logging.getLogger(__name__)

CONTROL_LANE = "control"  # of messages for the program; their session is "control:" and the key
_STOP_CHARS = 32  # no stop word is longer
_ONLY_CHARS = 4000  # no message of directives only is longer
_LOUD = " \t\r\n.!?,…。！？"


class InboxMessage(msgspec.Struct, frozen=True):
    """A message and what was decided about it. Only its `inbound` is stored; after a restart the rest is read again."""

    inbound: Inbound  # as it came
    route: Route
    parsed: ParsedDirectives  # none where the sender may give none
    control: bool = False  # for the program, not for the model
    command: TypedCommand | None = None  # what it begins with, where that counts

    @property
    def said(self) -> Inbound:
        """The message without its directives."""
        if not self.parsed.directives or not (self.parsed.rest.strip() or self.inbound.images or self.inbound.files):
            return self.inbound
        return msgspec.structs.replace(self.inbound, text=self.parsed.rest)

    @property
    def inline(self) -> InlineDirectives:
        """What its directives ask for its own turn."""
        if self.inbound.triggered:
            return self.inbound.options.inline
        return collect_inline_options(self.parsed) if self.parsed.directives else NO_INLINE


class MessageReader:
    """`commands` are plugins', besides the table."""

    def __init__(self, settings: Settings, commands: Mapping[str, ChatCommand] = {}) -> None:
        self._settings = settings
        self._commands = commands

    def route(self, inbound: Inbound) -> Route:
        """Where it goes. Raises BadRequest with what is wrong."""
        found = route_inbound(inbound, self._settings)
        if isinstance(found, str):
            raise BadRequest(found)
        return found

    def reopen(self, row: InboxRow | RunClaim) -> InboxMessage:
        """A message that was on disk only: what was decided about it is decided again, here and nowhere else."""
        key = parse_session_key(row.session.partition(":")[2] if row.lane == CONTROL_LANE else row.session)
        assert key is not None, row.session  # it was parsed when the message was accepted
        return self.read(decode_stored(row.id, row.body, row.at), Route(key.agent, key, row.lane))

    def read(self, inbound: Inbound, route: Route) -> InboxMessage:
        """With what its text means. Only what trusted senders write is ever more than text."""
        text = inbound.text
        card = text.startswith("/approve ")  # of the program; all other buttons are the model's
        if not inbound.may_command or (inbound.pressed and not (card or is_stop_word(text))):
            return InboxMessage(inbound, route, ParsedDirectives((), text))
        parsed = parse_directives(text)
        if not inbound.images and is_stop_word(text):
            return InboxMessage(inbound, route, parsed, True)
        found = parse_command(text, self._commands) if "/" in text else None
        found = found or self._find_reset(text)
        control = found is not None and (found.command is None or found.command.run is not None)
        only = parsed.only and len(text) <= _ONLY_CHARS and not inbound.images
        return InboxMessage(inbound, route, parsed, control or only, command=found)

    def _find_reset(self, text: str) -> TypedCommand | None:
        """A word of session.resetTriggers, and what stands behind it."""
        for word in self._settings.session.reset_triggers:
            size, plain = len(word.split()), text.split()
            if " ".join(plain[:size]).lower() == word:
                rest = text.split(maxsplit=size)[size:]
                return TypedCommand("new", rest[0] if rest else "", TABLE["new"])
        return None


def decode_stored(ident: str, body: bytes, at: int) -> Inbound:
    """The message as it was accepted; without text if the row cannot be read (the turn explains that)."""
    try:
        return decode_inbound(body)
    except msgspec.DecodeError as exc:
        log.error("message %s: the stored row cannot be read: %s", ident, exc)
        return Inbound(Target("unknown"), Sender(""), "", "", at=at, push=False)


def is_stop_word(text: str) -> bool:
    """Is the whole message a stop word?"""
    return len(text) <= _STOP_CHARS and " ".join(text.strip(_LOUD).lower().split()) in runs.STOP_WORDS


def check_room(state: SessionQueue, coming: int, rules: QueuePolicy, bound: int) -> None:
    """May one more message of a session wait, `coming` being on their way to disk? Raises QueueFull."""
    cap = rules.cap if rules.drop == "new" else bound
    if count_live(state) + coming >= cap or len(state.rows) + state.dropped + coming >= bound:
        raise QueueFull(f"{cap} messages already wait in this session", fix="wait for answers, or stop the run")


class QueueRules:
    """How a message waits, by what it says itself and what its session's row says."""

    def __init__(self, settings: Settings, store: Store, reader: MessageReader) -> None:
        self._settings = settings
        self._store = store
        self._reader = reader

    async def find(self, message: InboxMessage, session: str) -> QueuePolicy:
        row = await self._store.session(session)
        overrides = read_overrides(row.data) if row else NO_OVERRIDES
        return resolve_policy(message.inbound, overrides, self._settings.queue, message.inline.queue)

    async def reread(self, row: InboxRow) -> tuple[InboxMessage, QueuePolicy]:
        """A message that is on disk, and its rules."""
        message = self._reader.reopen(row)
        return message, await self.find(message, row.session)
