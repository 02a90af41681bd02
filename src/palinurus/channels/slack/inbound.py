"""Slack's payloads -> messages. Pure: what is said around a message (names, titles) was looked up before.

A message's id is its channel and its time stamp, so the same one told as `message` and as `app_mention`, or told
again, is one event. Edits and deletions by people, joins, topics and our own messages are no messages.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from palinurus.channels.intake import InboundWithFiles, RemoteFile
from palinurus.core.types.inbound import ChatKind, Inbound, Sender, Target
from palinurus.patterns import compile_late

_SAID = frozenset(("", "file_share", "thread_broadcast", "bot_message", "me_message"))
_LINK = compile_late(r"<([^<>]+)>")
_KINDS: dict[str, ChatKind] = {"im": "direct", "mpim": "group", "channel": "channel", "group": "channel"}
_SPOKEN = ("slack_audio", "voice_message")
_EVERYONE = ("!here", "!channel", "!everyone")


class SlackIdentity(msgspec.Struct, frozen=True):
    """Who we are, as auth.test tells."""

    user: str
    bot: str
    team: str
    name: str = ""


class SlackContext(msgspec.Struct, frozen=True):
    """What the payload does not say itself."""

    me: SlackIdentity
    account: str
    kind: ChatKind
    title: str = ""
    name: str = ""  # of who wrote
    joined: bool = False  # we have spoken in this thread
    threads: bool = False  # replyToMode all: what is asked in a channel is answered in a thread below it


def find_chat_kind(channel: str, told: str = "") -> ChatKind:
    """From `channel_type`, or from the id: only direct chats begin with a D."""
    return _KINDS.get(told) or ("direct" if channel.startswith("D") else "channel")


def parse_message(event: Mapping[str, Any], around: SlackContext) -> InboundWithFiles | None:
    """A `message` or `app_mention` event; None if nobody said anything to us in it."""
    me, channel, ts = around.me, str(event.get("channel") or ""), str(event.get("ts") or "")
    bot = str(event.get("bot_id") or "")
    who = str(event.get("user") or bot)
    if event.get("subtype", "") not in _SAID or not channel or not ts or not who:
        return None
    if who == me.user or (bot and bot == me.bot):
        return None
    said = str(event.get("text") or "")
    thread = str(event.get("thread_ts") or "")
    named = any(f"<@{me.user}{end}" in said for end in ">|") or event.get("type") == "app_mention"
    answered = around.joined or (bool(thread) and event.get("parent_user_id") == me.user)
    if not thread and around.threads and around.kind != "direct":
        thread = ts
    inbound = Inbound(
        Target("slack", channel, around.account, thread),
        Sender(who, around.name, bot=bool(bot)),
        f"{channel}:{ts}",
        to_readable(said, me),
        at=to_millis(ts),
        kind=around.kind,
        team=str(event.get("team") or me.team),
        mentioned=named or answered or around.kind == "direct",
        title=around.title,
    )
    return InboundWithFiles(inbound, tuple(_file(one) for one in event.get("files") or () if isinstance(one, Mapping)))


def parse_press(payload: Mapping[str, Any], around: SlackContext, text: str) -> Inbound | None:
    """A pressed button (block_actions): the same as `text`, said by who pressed."""
    actions = payload.get("actions") or [{}]
    action = actions[0]
    held = payload.get("container") or {}
    shown = payload.get("message") or {}
    channel = str((payload.get("channel") or {}).get("id") or held.get("channel_id") or "")
    ts = str(held.get("message_ts") or shown.get("ts") or "")
    user = payload.get("user") or {}
    if not text or not channel or not ts or not user.get("id"):
        return None
    thread = str(held.get("thread_ts") or shown.get("thread_ts") or "")
    when = str(action.get("action_ts") or "")
    return Inbound(
        Target("slack", channel, around.account, thread),
        Sender(str(user["id"]), str(user.get("name") or around.name)),
        f"press:{channel}:{ts}:{user['id']}:{when}",
        text,
        at=to_millis(when),
        kind=around.kind,
        team=str((payload.get("team") or {}).get("id") or around.me.team),
        mentioned=True,
        pressed=ts,
        title=around.title,
    )


def parse_command(payload: Mapping[str, Any], around: SlackContext, known: Collection[str], now: int) -> Inbound | None:
    """A slash command. One of ours by name is that; the app's own one ("/pal status") hands on what follows it."""
    name = str(payload.get("command") or "").lstrip("/")
    rest = str(payload.get("text") or "").strip()
    channel, who = str(payload.get("channel_id") or ""), str(payload.get("user_id") or "")
    if not name or not channel or not who:
        return None
    if name in known:
        text = f"/{name} {rest}".strip()
    else:
        text = f"/{rest}" if rest.partition(" ")[0] in known else rest or "/help"
    return Inbound(
        Target("slack", channel, around.account),
        Sender(who, str(payload.get("user_name") or around.name)),
        f"command:{payload.get('trigger_id') or now}",
        html.unescape(text),
        at=now,
        kind=around.kind,
        team=str(payload.get("team_id") or around.me.team),
        mentioned=True,
        title=around.title,
    )


def to_readable(text: str, me: SlackIdentity) -> str:
    """Slack's text as a person reads it, without the mention of ourselves."""

    def link(found: re.Match[str]) -> str:
        target, _, label = found.group(1).partition("|")
        if target == f"@{me.user}":
            return ""
        if target.startswith(("@", "#")):
            return target[0] + (label.lstrip("@#") or target[1:])
        if target.startswith("!"):
            return label or (f"@{target[1:]}" if target in _EVERYONE else target[1:])
        target = target.removeprefix("mailto:")
        return target if not label or label in target else f"[{label}]({target})"

    return html.unescape(_LINK.sub(link, text)).strip()


def _file(told: Mapping[str, Any]) -> RemoteFile:
    name = str(told.get("name") or told.get("title") or told.get("id") or "file")
    address = str(told.get("url_private_download") or told.get("url_private") or "")
    return RemoteFile(name, str(told.get("mimetype") or ""), address, voice=told.get("subtype") in _SPOKEN)


def to_millis(ts: str) -> int:
    """A time stamp of Slack in milliseconds; 0 if it is none."""
    whole, _, part = ts.partition(".")
    if not (whole.isdecimal() and whole.isascii()):
        return 0
    return int(whole[:12]) * 1000 + (int(part[:3].ljust(3, "0")) if part.isdecimal() and part.isascii() else 0)
