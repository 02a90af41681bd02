"""message: writing to chats, and what else the channels can do there. Made for a `MessagePort`.

What is sent goes through the outbox under an id made of the turn, the chat and the text: a model that sends again
because a crash left it without the result sends no second message. Where to, and whether it may: `recipient.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from functools import cache
from hashlib import blake2s
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from palinurus.config.sections.bindings import SendPolicy
from palinurus.config.sections.tools import MessageToolRules
from palinurus.core.folders import is_inside
from palinurus.core.signature import pick_one
from palinurus.core.types import channel
from palinurus.core.types.channel import ChannelAbilities, ChannelAction, SendFailure
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Button, Reply
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.tools.define import bind_tools, define_tool
from palinurus.tools.files.paths import resolve_path
from palinurus.tools.program.recipient import (
    MessagePort,
    RecipientRules,
    WrittenTarget,
    check_recipient,
    resolve_recipient,
)
from palinurus.tools.schema import check_arguments

WAIT = 10.0  # seconds for a receipt; the message goes on its way all the same
MOST = 20  # chats of one broadcast
AGAIN = "this turn has sent exactly this there before: it was not sent again"
LATER = "on its way: it is kept and sent as soon as the channel takes it; do not send it again"
NO_CHANNEL = "no channel is set up (`pal channels add NAME` adds one)"
UNKNOWN = "It is not known whether this was done: the program was stopped meanwhile. It was not done again."


class MessageButton(msgspec.Struct, frozen=True):
    """A button below a message; pressing it says `callback_data`."""

    text: str
    callback_data: str = ""


class MessageArguments(msgspec.Struct, frozen=True):
    """The arguments of a call; which of them are told depends on the channels (`_narrowed`)."""

    action: Annotated[str, pick_one("Default send.")] = "send"
    channel: Annotated[str, pick_one("")] = ""
    target: Annotated[str, "channel:id, an id, or the name of a chat. Empty: this chat."] = ""
    targets: Annotated[tuple[str, ...], "Several at once (send only)."] = ()
    accountId: str = ""
    threadId: str = ""
    message: Annotated[str, "The text, in Markdown."] = ""
    media: Annotated[str, "A file of the workspace, or an address."] = ""
    asVoice: bool = False
    buttons: tuple[tuple[MessageButton, ...], ...] = ()
    replyTo: Annotated[str, "The id of the message this answers."] = ""
    dryRun: bool = False
    messageId: str = ""
    emoji: str = ""
    remove: bool = False
    pollQuestion: str = ""
    pollOptions: tuple[str, ...] = ()
    pollMulti: bool = False
    threadName: str = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    userId: str = ""
    query: Annotated[str, "What to search for."] = ""

    def need(self, name: str) -> str:
        """An argument that may not be empty. Raises ToolFailure."""
        value = str(getattr(self, name)).strip()
        if not value:
            raise ToolFailure(f"{name} is missing")
        return value

    def to_buttons(self) -> tuple[Button, ...]:
        """All rows as one. Raises ToolFailure."""
        flat = [one for row in self.buttons for one in row]
        if any(not one.text for one in flat):
            raise ToolFailure("a button needs a text")
        if any((one.callback_data or one.text).lstrip().startswith("/") for one in flat):
            raise ToolFailure("a button says words, not commands: those are the person's to type")
        return tuple(Button(one.text, one.callback_data or one.text) for one in flat)


_ONLY = {"emoji": "react", "remove": "react", "pollQuestion": "poll", "pollOptions": "poll", "pollMulti": "poll",
         "threadName": "thread-create", "limit": "read", "userId": "member-info", "query": "search"}  # fmt: skip


class MessageAction(msgspec.Struct, frozen=True):
    """An action besides sending: what the channel must be able to do, and the act made of the arguments."""

    needs: channel.ActionName
    make: Callable[[MessageArguments], ChannelAction]
    once: bool = False  # doing it twice shows


def _poll(args: MessageArguments) -> ChannelAction:
    options = tuple(one.strip() for one in args.pollOptions if one.strip())
    if len(options) < 2:
        raise ToolFailure("a poll needs at least two pollOptions")
    return channel.PollAction(args.need("pollQuestion"), options, args.pollMulti)


MESSAGE_ACTIONS: dict[str, MessageAction] = {
    "react": MessageAction(
        "react", lambda args: channel.ReactAction(args.need("messageId"), args.need("emoji"), args.remove)
    ),
    "edit": MessageAction(
        "edit", lambda args: channel.EditAction(args.need("messageId"), args.need("message"), args.to_buttons())
    ),
    "delete": MessageAction("delete", lambda args: channel.DeleteAction(args.need("messageId"))),
    "pin": MessageAction("pin", lambda args: channel.PinAction(args.need("messageId"))),
    "unpin": MessageAction("pin", lambda args: channel.PinAction(args.need("messageId"), remove=True)),
    "poll": MessageAction("poll", _poll, once=True),
    "thread-create": MessageAction(
        "thread", lambda args: channel.ThreadAction(args.need("threadName"), args.messageId), once=True
    ),
    "read": MessageAction("read", lambda args: channel.ReadAction(args.limit)),
    "channel-info": MessageAction("channel-info", lambda args: channel.LookAction("channel-info")),
    "member-info": MessageAction(
        "member-info", lambda args: channel.LookAction("member-info", user=args.need("userId"))
    ),
    "role-info": MessageAction("role-info", lambda args: channel.LookAction("role-info")),
    "voice-status": MessageAction(
        "voice-status", lambda args: channel.LookAction("voice-status", user=args.need("userId"))
    ),
    "event-list": MessageAction("event-list", lambda args: channel.LookAction("event-list")),
    "emoji-list": MessageAction("emoji-list", lambda args: channel.LookAction("emoji-list")),
    "search": MessageAction("search", lambda args: channel.LookAction("search", text=args.need("query"))),
}


# Which words of channels.*.actions take an action away.
ACTION_GROUPS: dict[str, tuple[str, ...]] = {
    "send": ("sendMessage", "messages"),
    "read": ("messages",),
    "edit": ("editMessage", "messages"),
    "delete": ("deleteMessage", "messages"),
    "react": ("reactions",),
    "pin": ("pins",),
    "unpin": ("pins",),
    "poll": ("polls", "poll"),
    "thread-create": ("threads",),
    "channel-info": ("channelInfo",),
    "member-info": ("memberInfo",),
    "role-info": ("roleInfo",),
    "voice-status": ("voiceStatus",),
    "event-list": ("events",),
    "emoji-list": ("emojiList",),
    "search": ("search",),
}


def check_action(post: MessagePort, target: Target, action: str) -> None:
    """Raises ToolFailure where the account's `actions` say no."""
    barred = post.barred(target.channel, target.account)
    if word := next((word for word in ACTION_GROUPS[action] if word in barred), ""):
        raise ToolFailure(f"{target.channel}: {action} is switched off (channels.{target.channel}.actions.{word})")


def find_action(action: str, where: str, able: ChannelAbilities) -> MessageAction:
    """What an action is on a channel. Raises ToolFailure with what it can do, if it cannot do this."""
    found = MESSAGE_ACTIONS.get(action)
    if found is None or found.needs not in able.acts:
        can = ", ".join(["send", *(name for name, one in MESSAGE_ACTIONS.items() if one.needs in able.acts)])
        raise ToolFailure(f"{where} cannot {action}; it can: {can}")
    return found


def make_action(action: str, where: str, able: ChannelAbilities, given: dict[str, Any]) -> ChannelAction:
    """The act for a client of the gateway, whose arguments nobody has looked at. Raises ToolFailure."""
    wanted = find_action(action, where, able)
    taken = {name: value for name, value in given.items() if name not in ("action", "channel")}
    if isinstance(taken.get("limit"), int):
        taken["limit"] = min(max(taken["limit"], 1), 100)
    checked, wrong = check_arguments(_message.parameters, taken, _message.aliases)
    if wrong:
        raise ToolFailure(wrong)
    return wanted.make(msgspec.convert(checked, MessageArguments))


@define_tool(
    "message",
    effect="idempotent",
    summary=lambda args: f"{args.get('action') or 'send'} {args.get('target') or ''}".strip(),
    aliases={"target": "to", "message": "text content", "threadId": "thread", "replyTo": "replyToId"},
)
async def _message(post: MessagePort, rules: RecipientRules, /, ctx: ToolContext, args: MessageArguments) -> ToolOutput:
    action = args.action
    if action == "send":
        return await _sends(post, ctx, await _targets(post, rules, ctx, args), args)
    target = await resolve_recipient(post, ctx, _written(args, args.target))
    check_recipient(rules, ctx, target, action)
    wanted = find_action(action, target.channel, post.channels()[target.channel])
    check_action(post, target, action)
    if action == "react" and not args.target and not ctx.inbound.system:  # on the message that is answered
        answered = args.messageId or ctx.inbound.pressed or ctx.inbound.event
        args = msgspec.structs.replace(args, messageId=answered)
    act, body = wanted.make(args), {"ok": True, "action": action, **_place(target)}
    if args.dryRun:
        return make_output(json.dumps({**body, "dryRun": True}))
    done = await (post.act_once(_ident(ctx, target, repr(act)), target, act) if wanted.once else post.act(target, act))
    if done is None:
        return make_output(UNKNOWN)
    if isinstance(done, SendFailure):
        raise ToolFailure(f"{action}: {done.reason}")
    if isinstance(act, channel.ReadAction | channel.LookAction):
        found = "messages" if action == "read" else "found"
        text = json.dumps({**body, found: done.data or []}, ensure_ascii=False, indent=2)
        return msgspec.structs.replace(make_output(text, body), source="chat")
    body["messageId"] = done.message_id
    return make_output(json.dumps(body), body)


async def _targets(post: MessagePort, rules: RecipientRules, ctx: ToolContext, args: MessageArguments) -> list[Target]:
    """Where to send: one chat, or several for the owner. Raises ToolFailure before anything is sent."""
    many = args.targets
    if many and (not rules.own.broadcast or not ctx.inbound.sender.owner):
        raise ToolFailure(
            "several targets at once: only for the owner, and not with tools.message.broadcast.enabled=false"
        )
    if many and args.target:
        raise ToolFailure("give target or targets, not both")
    names = many or (args.target,)
    if len(names) > MOST:
        raise ToolFailure(f"{len(names)} targets; at most {MOST} at once")
    targets = list(dict.fromkeys([await resolve_recipient(post, ctx, _written(args, name)) for name in names]))
    for target in targets:
        check_recipient(rules, ctx, target)
        check_action(post, target, "send")
    return targets


def _written(args: MessageArguments, name: str) -> WrittenTarget:
    return WrittenTarget(name, args.channel, args.accountId, args.threadId)


async def _sends(post: MessagePort, ctx: ToolContext, targets: list[Target], args: MessageArguments) -> ToolOutput:
    every = post.channels()
    replies = [_reply(ctx, target, args, every[target.channel]) for target in targets]
    if args.dryRun:
        shown = [{"ok": True, "dryRun": True, **_place(target)} for target in targets]
        return make_output(json.dumps(shown[0] if len(shown) == 1 else shown))
    sent = await asyncio.gather(*(_send(post, reply) for reply in replies))
    body: Any = sent[0] if len(sent) == 1 else {"ok": all(one["ok"] for one in sent), "sent": sent}
    told = [{**one, "account": reply.target.account, "text": args.message}
            for one, reply in zip(sent, replies, strict=True)]  # fmt: skip
    return make_output(json.dumps(body, ensure_ascii=False), {"sent": told}, error=not any(one["ok"] for one in sent))


def _reply(ctx: ToolContext, target: Target, args: MessageArguments, able: ChannelAbilities) -> Reply:
    text, media, buttons = args.message, args.media.strip(), args.to_buttons()
    if not text.strip() and not media:
        raise ToolFailure("message is empty: give message, media or both")
    if media and not able.media:
        raise ToolFailure(f"{target.channel} takes no files")
    if len(buttons) > able.buttons:  # said as a person would: pressing one is the same as writing its text
        text, buttons = "\n".join((text.rstrip(), "", *(f"- {_choice(one)}" for one in buttons))), ()
    return Reply(
        target,
        text,
        _ident(ctx, target, f"{text}\0{media}"),
        "message",
        reply_to=args.replyTo,
        media=(_file(ctx, media),) if media else (),
        voice=args.asVoice,
        buttons=buttons,
    )


async def _send(post: MessagePort, reply: Reply) -> dict[str, Any]:
    done = await post.send(reply, WAIT)
    body: dict[str, Any] = {"ok": done.state != "failed", "state": done.state, **_place(reply.target)}
    if done.receipt:
        body["messageId"] = done.receipt
    if done.error:
        body["error"] = done.error
    if done.again:
        body["note"] = AGAIN
    elif done.state not in ("sent", "failed"):
        body["note"] = LATER
    return body


def _ident(ctx: ToolContext, target: Target, what: str) -> str:
    """The same for the same thing in one turn, whatever the call's id: after a crash the model makes a new one."""
    whole = "\0".join((target.channel, target.account, target.to, target.thread, what))
    return f"{ctx.item}.m-{blake2s(whole.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"


def _file(ctx: ToolContext, name: str) -> str:
    """An address, or a file of this agent's workspace by its absolute path. Raises ToolFailure."""
    if name.startswith(("http://", "https://")):
        return name
    top = os.path.realpath(ctx.workspace)
    try:
        real = resolve_path(name.removeprefix("file://"), ctx, reading=True).real
    except ToolFailure:
        real = ""
    if not real.startswith(f"{top}/"):
        raise ToolFailure(f"{os.path.basename(name)[:80]} is not in the workspace; copy it there first")
    if any(is_inside(real, hidden) for hidden in ctx.settings.cell.hide):
        raise ToolFailure(f"{os.path.basename(name)[:80]} is the owner's memory; it is not sent from here")
    if not os.path.isfile(real):
        raise ToolFailure(f"there is no file {name[:200]}")
    return real


def _place(target: Target) -> dict[str, Any]:
    return {"channel": target.channel, "to": target.to, **({"threadId": target.thread} if target.thread else {})}


def _choice(one: Button) -> str:
    return one.label if one.label == one.text else f"{one.label}: `{one.text}`"


async def _refuse(ctx: ToolContext, **arguments: Any) -> ToolOutput:
    raise ToolFailure(f"nothing was sent: {NO_CHANNEL}")


def make_message_tool(post: MessagePort, rules: MessageToolRules, policy: SendPolicy | None = None) -> dict[str, Tool]:
    """The tool, with the actions that at least one open channel can do; without a channel all it does is say so."""
    channels = post.channels()
    if not channels:
        nothing = {"type": "object", "properties": {}}
        said = f"Writes to chats, once there is one: {NO_CHANNEL}."
        return {"message": Tool("message", said, nothing, _refuse, effect="pure", idle=NO_CHANNEL)}
    able = frozenset(name for abilities in channels.values() for name in abilities.acts)
    actions = ["send", *(name for name, one in MESSAGE_ACTIONS.items() if one.needs in able)]
    described = msgspec.structs.replace(
        _message,
        description=f"Write to a chat, or act there: {', '.join(actions)}. Without a target it is this chat.",
        schema=cache(lambda: _narrowed(_message.parameters, actions, sorted(channels))),
    )
    return bind_tools((described,), post, RecipientRules(rules, policy or SendPolicy()))


def _narrowed(parameters: dict[str, Any], actions: list[str], channels: list[str]) -> dict[str, Any]:
    """Only what these actions take, on these channels."""
    fields = {name: one for name, one in parameters["properties"].items() if _ONLY.get(name, "send") in actions}
    if len(actions) == 1:
        del fields["messageId"]
    for name, words in (("action", actions), ("channel", channels)):
        fields[name] = {**fields[name], "enum": words}
    return {**parameters, "properties": fields}
