"""Where a message of the `message` tool goes, and whether the turn may write there.

Names are a convenience for the model and prove nothing: whoever writes to us chooses how he is called. So an id wins
over a name, a written-out `channel:id` is never looked up, and a name that several have is not guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import msgspec

from palinurus.config.sections.bindings import SendPolicy
from palinurus.config.sections.tools import MessageToolRules
from palinurus.core.types.channel import ChannelAbilities, ChannelAction, SendFailure, SendReceipt
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.core.types.tool import ToolContext, ToolFailure


class MessageDelivery(msgspec.Struct, frozen=True):
    """What became of a message, as the outbox has it: pending, sending, sent, failed."""

    state: str
    receipt: str = ""
    error: str = ""
    again: bool = False  # it was in the outbox before


class KnownChat(NamedTuple):
    """A chat somebody has written from, and what it is called."""

    name: str
    target: Target


class WrittenTarget(NamedTuple):
    """Where to, as the model wrote it."""

    name: str = ""
    channel: str = ""
    account: str = ""
    thread: str = ""


class MessagePort(Protocol):
    """Who sends, and what became of it. `outbox/post.py` implements it."""

    def channels(self) -> Mapping[str, ChannelAbilities]:
        """The channels there are, by name."""

    def accounts(self, channel: str) -> tuple[str, ...]:
        """The accounts of one; the first is used where none is named."""

    def barred(self, channel: str, account: str) -> frozenset[str]:
        """The groups of actions that the account's config takes away."""

    async def send(self, reply: Reply, wait: float) -> MessageDelivery:
        """Through the outbox; one client id is one message. Waits so many seconds for its receipt. Raises DiskFull."""

    async def act(self, target: Target, act: ChannelAction) -> SendReceipt | SendFailure:
        """At once, and not again. Raises nothing."""

    async def act_once(self, ident: str, target: Target, act: ChannelAction) -> SendReceipt | SendFailure | None:
        """The same for what would show twice: of one `ident` it is done once, also after a crash, and told again from
        the record. None if nobody knows whether it was done."""

    async def chats(self) -> list[KnownChat]:
        """Where people have written from."""


async def resolve_recipient(post: MessagePort, ctx: ToolContext, asked: WrittenTarget) -> Target:
    """The chat: this one, `channel:id`, an id on `channel` (or on this one), or the name of a chat that only one has.

    Raises ToolFailure with what is missing."""
    here, every = ctx.inbound.target, post.channels()
    written, channel, account, thread = (one.strip() for one in asked)
    channel, exact = channel.lower(), False
    prefix, colon, rest = written.partition(":")
    if colon and prefix.lower() in every and channel in ("", prefix.lower()):
        channel, written, exact = prefix.lower(), rest.strip(), True
    if channel in ("", here.channel) and here.channel in every and written in ("", here.to):
        if account in ("", here.account):
            return msgspec.structs.replace(here, thread=thread) if thread else here
        written = here.to
    if not written:
        raise ToolFailure("say where: target is missing (channel:id, or the name of a chat)")
    if not exact and (known := await _known(post, written, channel, account)) is not None:
        return msgspec.structs.replace(known, thread=thread)
    channel = channel or (here.channel if here.channel in every else next(iter(every)) if len(every) == 1 else "")
    if channel not in every:
        raise ToolFailure(f"say on which channel; open are: {', '.join(sorted(every))}")
    return Target(channel, written, _account(post, here, channel, account), thread)


async def _known(post: MessagePort, written: str, channel: str, account: str) -> Target | None:
    """A chat somebody wrote from, by id, else by name; None if there is no such chat. Raises ToolFailure if several."""
    chats = [
        one for one in await post.chats() if channel in ("", one.target.channel) and account in ("", one.target.account)
    ]
    found = dict.fromkeys(one.target for one in chats if one.target.to == written)
    found = found or dict.fromkeys(one.target for one in chats if one.name.casefold() == written.casefold())
    if len(found) > 1:
        ids = ", ".join(f"{t.channel}:{t.to}" + ("" if t.account == "default" else f" ({t.account})") for t in found)
        raise ToolFailure(f"several chats are called {written!r}: {ids}; write channel:id")
    return next(iter(found), None)


def _account(post: MessagePort, here: Target, channel: str, account: str) -> str:
    known = post.accounts(channel)
    if account and account not in known:
        raise ToolFailure(f"{channel} has no account {account!r}; it has: {', '.join(known)}")
    return account or (here.account if channel == here.channel else known[0])


class RecipientRules(NamedTuple):
    """Where the message tool may write: tools.message, and session.sendPolicy as for every reply."""

    own: MessageToolRules
    policy: SendPolicy = SendPolicy()


def check_recipient(known: RecipientRules, ctx: ToolContext, target: Target, action: str = "send") -> None:
    """Raises ToolFailure with what would allow it, if the turn may not do this there."""
    here, rules = ctx.inbound.target, known.own
    same = (target.channel, target.account, target.to) == (here.channel, here.account, here.to)
    kinds = (ctx.inbound.kind,) if same else ("direct", "group", "channel")  # of another chat nobody knows it
    if action != "read" and not any(known.policy.allows(ctx.session, target.channel, kind) for kind in kinds):
        raise ToolFailure("not sent: session.sendPolicy keeps what this session says from being sent there")
    if same:
        return
    if not ctx.trusted:
        raise ToolFailure("who asked may not have messages sent to other chats; answer here")
    if action != "send" and not ctx.inbound.sender.owner:
        raise ToolFailure(f"only the owner may have other chats changed or read ({action})")
    if target.channel == here.channel and not rules.within:
        raise ToolFailure("other chats are closed by tools.message.crossContext.allowWithinProvider=false")
    across = ctx.inbound.sender.owner if rules.across is None else rules.across
    if target.channel != here.channel and not across:
        raise ToolFailure("other channels are closed; tools.message.crossContext.allowAcrossProviders opens them")
