"""message: writing to chats, and what else the channels can do there. Made for a `Post`, if there is a channel.

What is sent goes through the outbox under an id made of the turn, the chat and the text: a model that sends again
because a crash left it without the result sends no second message. Where to, and whether it may: `recipient.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from functools import partial
from hashlib import blake2s
from typing import Any, NamedTuple

import msgspec

from palinurus.config.sections.tools import MessageToolRules
from palinurus.core.types.channel import (
    ActionName,
    ChannelAbilities,
    ChannelAction,
    DeleteAction,
    EditAction,
    PinAction,
    PollAction,
    ReactAction,
    ReadAction,
    SendFailure,
    ThreadAction,
)
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Button, Reply
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.tools.program.recipient import MessagePort, check_recipient, resolve_recipient

WAIT = 10.0  # seconds for a receipt; the message goes on its way all the same
MOST = 20  # chats of one broadcast
AGAIN = "this turn has sent exactly this there before: it was not sent again"
LATER = "on its way: it is kept and sent as soon as the channel takes it; do not send it again"
UNKNOWN = "It is not known whether this was done: the program was stopped meanwhile. It was not done again."


class MessageAction(NamedTuple):
    """An action besides sending: what the channel must be able to do, and the act made of the arguments."""

    needs: ActionName
    make: Callable[[dict[str, Any]], ChannelAction]
    once: bool = False  # doing it twice shows


def _id(args: dict[str, Any]) -> str:
    return _need(args, "messageId")


def _poll(args: dict[str, Any]) -> ChannelAction:
    options = tuple(str(one).strip() for one in args.get("pollOptions") or () if str(one).strip())
    if len(options) < 2:
        raise ToolFailure("a poll needs at least two pollOptions")
    return PollAction(_need(args, "pollQuestion"), options, bool(args.get("pollMulti")))


def _thread(args: dict[str, Any]) -> ChannelAction:
    return ThreadAction(_need(args, "threadName"), str(args.get("messageId") or ""))


def _count(value: Any) -> int:
    return min(max(value, 1), 100) if isinstance(value, int) else 20


MESSAGE_ACTIONS: dict[str, MessageAction] = {
    "react": MessageAction(
        "react", lambda args: ReactAction(_id(args), _need(args, "emoji"), bool(args.get("remove")))
    ),
    "edit": MessageAction("edit", lambda args: EditAction(_id(args), _need(args, "message"), _buttons(args))),
    "delete": MessageAction("delete", lambda args: DeleteAction(_id(args))),
    "pin": MessageAction("pin", lambda args: PinAction(_id(args))),
    "unpin": MessageAction("pin", lambda args: PinAction(_id(args), remove=True)),
    "poll": MessageAction("poll", _poll, once=True),
    "thread-create": MessageAction("thread", _thread, once=True),
    "read": MessageAction("read", lambda args: ReadAction(_count(args.get("limit")))),
}


def find_action(action: str, channel: str, able: ChannelAbilities) -> MessageAction:
    """What an action is on a channel. Raises ToolFailure with what it can do, if it cannot do this."""
    found = MESSAGE_ACTIONS.get(action)
    if found is None or found.needs not in able.acts:
        can = ", ".join(["send", *(name for name, one in MESSAGE_ACTIONS.items() if one.needs in able.acts)])
        raise ToolFailure(f"{channel} cannot {action}; it can: {can}")
    return found


def make_message_tool(post: MessagePort, rules: MessageToolRules) -> dict[str, Tool]:
    """The tool, with the actions that at least one open channel can do; nothing if no channel is open."""
    open_ = post.channels()
    if not open_:
        return {}
    able = frozenset(name for abilities in open_.values() for name in abilities.acts)
    actions = ["send", *(name for name, deed in MESSAGE_ACTIONS.items() if deed.needs in able)]
    tool = Tool(
        "message",
        "Write to a chat on one of the channels "
        f"({', '.join(sorted(open_))}), or act there: {', '.join(actions)}. Without a target it is this chat.",
        _schema(actions, sorted(open_)),
        partial(_run, post, rules),
        effect="idempotent",
        summary=lambda args: f"{args.get('action') or 'send'} {args.get('target') or ''}".strip(),
        aliases={"to": "target", "text": "message", "content": "message", "thread": "threadId", "replyToId": "replyTo"},
    )
    return {tool.name: tool}


async def _run(
    post: MessagePort, rules: MessageToolRules, ctx: ToolContext, action: str = "send", **args: Any
) -> ToolOutput:
    if action == "send":
        return await _sends(post, ctx, await _targets(post, rules, ctx, args), args)
    target = await resolve_recipient(post, ctx, str(args.get("target") or ""), args)
    check_recipient(rules, ctx, target, action)
    wanted = find_action(action, target.channel, post.channels()[target.channel])
    if action == "react" and not args.get("target") and not ctx.inbound.system:  # on the message that is answered
        args = {"messageId": ctx.inbound.pressed or ctx.inbound.event, **args}
    act, body = wanted.make(args), {"ok": True, "action": action, **_place(target)}
    if args.get("dryRun"):
        return make_output(json.dumps({**body, "dryRun": True}))
    done = await (post.act_once(_ident(ctx, target, repr(act)), target, act) if wanted.once else post.act(target, act))
    if done is None:
        return make_output(UNKNOWN)
    if isinstance(done, SendFailure):
        raise ToolFailure(f"{action}: {done.reason}")
    if action == "read":
        text = json.dumps({**body, "messages": done.data or []}, ensure_ascii=False, indent=2)
        return msgspec.structs.replace(make_output(text, body), source="chat")
    body["messageId"] = done.message_id
    return make_output(json.dumps(body), body)


async def _targets(post: MessagePort, rules: MessageToolRules, ctx: ToolContext, args: dict[str, Any]) -> list[Target]:
    """Where to send: one chat, or several for the owner. Raises ToolFailure before anything is sent."""
    many = args.get("targets") or ()
    if many and (not rules.broadcast or not ctx.inbound.sender.owner):
        raise ToolFailure(
            "several targets at once: only for the owner, and not with tools.message.broadcast.enabled=false"
        )
    if many and args.get("target"):
        raise ToolFailure("give target or targets, not both")
    names = [str(one) for one in many] or [str(args.get("target") or "")]
    if len(names) > MOST:
        raise ToolFailure(f"{len(names)} targets; at most {MOST} at once")
    targets = list(dict.fromkeys([await resolve_recipient(post, ctx, name, args) for name in names]))
    for target in targets:
        check_recipient(rules, ctx, target)
    return targets


async def _sends(post: MessagePort, ctx: ToolContext, targets: list[Target], args: dict[str, Any]) -> ToolOutput:
    every = post.channels()
    replies = [_reply(ctx, target, args, every[target.channel]) for target in targets]
    if args.get("dryRun"):
        shown = [{"ok": True, "dryRun": True, **_place(target)} for target in targets]
        return make_output(json.dumps(shown[0] if len(shown) == 1 else shown))
    sent = await asyncio.gather(*(_send(post, reply) for reply in replies))
    body: Any = sent[0] if len(sent) == 1 else {"ok": all(one["ok"] for one in sent), "sent": sent}
    told = [{**one, "account": reply.target.account, "text": args.get("message") or ""}
            for one, reply in zip(sent, replies, strict=True)]  # fmt: skip
    return make_output(json.dumps(body, ensure_ascii=False), {"sent": told}, error=not any(one["ok"] for one in sent))


def _reply(ctx: ToolContext, target: Target, args: dict[str, Any], able: ChannelAbilities) -> Reply:
    text, media, buttons = str(args.get("message") or ""), str(args.get("media") or "").strip(), _buttons(args)
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
        str(args.get("replyTo") or ""),
        (_file(ctx, media),) if media else (),
        bool(args.get("asVoice")),
        buttons,
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
    real = os.path.realpath(os.path.join(top, name.removeprefix("file://")))
    if not real.startswith(f"{top}/"):
        raise ToolFailure(f"{os.path.basename(name)[:80]} is not in the workspace; copy it there first")
    if not os.path.isfile(real):
        raise ToolFailure(f"there is no file {name[:200]}")
    return real


def _place(target: Target) -> dict[str, Any]:
    return {"channel": target.channel, "to": target.to, **({"threadId": target.thread} if target.thread else {})}


def _choice(one: Button) -> str:
    return one.label if one.label == one.text else f"{one.label}: `{one.text}`"


def _buttons(args: dict[str, Any]) -> tuple[Button, ...]:
    """Rows of {text, callback_data}, or one row."""
    rows = args.get("buttons") or ()
    flat = [one for row in rows for one in (row if isinstance(row, list) else [row]) if isinstance(one, dict)]
    made = [(str(one.get("text") or ""), str(one.get("callback_data") or one.get("text") or "")) for one in flat]
    if any(not label for label, _ in made):
        raise ToolFailure("a button needs a text")
    return tuple(Button(label, data) for label, data in made)


def _need(args: dict[str, Any], name: str) -> str:
    value = str(args.get(name) or "").strip()
    if not value:
        raise ToolFailure(f"{name} is missing")
    return value


def _schema(actions: list[str], channels: list[str]) -> dict[str, Any]:
    text, flag = {"type": "string"}, {"type": "boolean"}
    button = {"type": "object", "properties": {"text": text, "callback_data": text}, "required": ["text"]}
    fields: dict[str, Any] = {
        "action": {"type": "string", "enum": actions, "description": "Default send."},
        "channel": {"type": "string", "enum": channels},
        "target": {**text, "description": "channel:id, an id, or the name of a chat. Empty: this chat."},
        "targets": {"type": "array", "items": text, "description": "Several at once (send only)."},
        "accountId": text,
        "threadId": text,
        "message": {**text, "description": "The text, in Markdown."},
        "media": {**text, "description": "A file of the workspace, or an address."},
        "asVoice": flag,
        "buttons": {"type": "array", "items": {"type": "array", "items": button}},
        "replyTo": {**text, "description": "The id of the message this answers."},
        "dryRun": flag,
    }
    if len(actions) > 1:
        fields["messageId"] = text
    if "react" in actions:
        fields |= {"emoji": text, "remove": flag}
    if "poll" in actions:
        fields |= {"pollQuestion": text, "pollOptions": {"type": "array", "items": text}, "pollMulti": flag}
    if "thread-create" in actions:
        fields["threadName"] = text
    if "read" in actions:
        fields["limit"] = {"type": "integer", "minimum": 1, "maximum": 100}
    return {"type": "object", "properties": fields}
