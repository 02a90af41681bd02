"""Replies -> Discord's requests, acts (a function for each kind, and the table of them), and its errors -> the words of
the outbox. Acts raise what a request raises; `channel.py` turns that into words. Knows no settings.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, cast

import aiohttp
from discord.errors import HTTPException
from discord.http import Route

from palinurus.channels.discord import inbound
from palinurus.channels.discord.wire import DiscordRateLimit, DiscordRest
from palinurus.channels.kit import ChannelFile
from palinurus.core.format.render import render_markdown
from palinurus.core.media import read_duration, read_loudness
from palinurus.core.types import channel
from palinurus.core.types.outbound import Button
from palinurus.patterns import compile_late

OPEN: Final = 1440  # minutes without a message after which a thread is put away
PUBLIC: Final = 11  # the kind of thread that everybody in its channel sees
PAGE = 100  # messages that can be read at once


async def _typing(rest: DiscordRest, chat: str, act: channel.TypingAction) -> channel.SendReceipt:
    await rest.send_typing(chat)
    return channel.SendReceipt("")


async def _edit(rest: DiscordRest, chat: str, act: channel.EditAction) -> channel.SendReceipt:
    path = "/channels/{channel_id}/messages/{message_id}"
    body = build_content(render_content(act.text, act.plain), act.buttons)
    await rest.request(Route("PATCH", path, channel_id=chat, message_id=act.message_id), json=body)
    return channel.SendReceipt(act.message_id)


async def _delete(rest: DiscordRest, chat: str, act: channel.DeleteAction) -> channel.SendReceipt:
    await rest.delete_message(chat, act.message_id)
    return channel.SendReceipt(act.message_id)


async def _react(rest: DiscordRest, chat: str, act: channel.ReactAction) -> channel.SendReceipt:
    emoji = act.emoji.removeprefix("<").removesuffix(">").lstrip(":")
    if not act.remove:
        await rest.add_reaction(chat, act.message_id, emoji)
        return channel.SendReceipt(act.message_id)
    for one in [emoji] if emoji else await _ours(rest, chat, act.message_id):
        await rest.remove_own_reaction(chat, act.message_id, one)
    return channel.SendReceipt(act.message_id)


async def _ours(rest: DiscordRest, chat: str, message: str) -> list[str]:
    """Our reactions on a message."""
    raw = await rest.get_message(chat, message)
    found = [one["emoji"] for one in raw.get("reactions", ()) if one["me"]]
    return [f"{one['name']}:{one['id']}" if one.get("id") else str(one["name"]) for one in found]


async def _pin(rest: DiscordRest, chat: str, act: channel.PinAction) -> channel.SendReceipt:
    await (rest.unpin_message if act.remove else rest.pin_message)(chat, act.message_id)
    return channel.SendReceipt(act.message_id)


async def _poll(rest: DiscordRest, chat: str, act: channel.PollAction) -> channel.SendReceipt:
    route = Route("POST", "/channels/{channel_id}/messages", channel_id=chat)
    return channel.SendReceipt(str((await rest.request(route, json=build_poll(act)))["id"]))


async def _thread(rest: DiscordRest, chat: str, act: channel.ThreadAction) -> channel.SendReceipt:
    name = act.name[:100] or "thread"
    if act.message_id:
        raw = await rest.start_thread_with_message(chat, act.message_id, name=name, auto_archive_duration=OPEN)
    else:
        raw = await rest.start_thread_without_message(chat, name=name, auto_archive_duration=OPEN, type=PUBLIC)
    return channel.SendReceipt(str(raw["id"]))


async def _read(rest: DiscordRest, chat: str, act: channel.ReadAction) -> channel.SendReceipt:
    rows = await rest.logs_from(chat, min(max(act.limit, 1), PAGE))
    return channel.SendReceipt("", inbound.to_history_rows(cast("list[dict[str, Any]]", rows)))


# What is asked about a server: where, and which words of the answer are handed on.
LOOKS: dict[channel.LookName, tuple[str, tuple[str, ...]]] = {
    "channel-info": ("/channels/{chat}", ("id", "name", "topic", "type", "parent_id", "nsfw")),
    "member-info": ("/guilds/{guild}/members/{user}", ("user", "nick", "roles", "joined_at")),
    "role-info": ("/guilds/{guild}/roles", ("id", "name", "position", "mentionable", "managed")),
    "voice-status": ("/guilds/{guild}/voice-states/{user}", ("channel_id", "user_id", "mute", "deaf", "self_mute")),
    "event-list": (
        "/guilds/{guild}/scheduled-events",
        ("id", "name", "description", "scheduled_start_time", "scheduled_end_time", "status"),
    ),
    "search": ("/guilds/{guild}/messages/search", ("id", "channel_id", "author", "content", "timestamp")),
}


async def _look(rest: DiscordRest, chat: str, act: channel.LookAction) -> channel.SendReceipt:
    path, words = LOOKS[act.what]
    if act.user and not act.user.isdigit():
        raise ValueError("a person is named by an id")
    guild = str((await rest.get_channel(chat)).get("guild_id") or "") if "{guild}" in path else ""
    if "{guild}" in path and not guild:
        return channel.SendReceipt("", {"note": "this chat belongs to no server"})
    # the bot sees more of the server than who asks: only this chat is searched
    params = {"content": act.text[:1024], "channel_id": chat} if act.text else None
    raw: Any = await rest.request(Route("GET", path, chat=chat, guild=guild, user=act.user), params=params)
    if act.what == "search":
        raw = [row for rows in raw.get("messages") or () for row in rows if str(row.get("channel_id")) == chat]
    if isinstance(raw, list):
        return channel.SendReceipt("", [_pick(one, words) for one in raw[:PAGE]])
    return channel.SendReceipt("", _pick(raw, words))


def _pick(raw: Mapping[str, Any], words: tuple[str, ...]) -> dict[str, Any]:
    """These fields; of a person the id and the name."""
    found = {word: raw[word] for word in words if raw.get(word) is not None}
    people = {key: {"id": one.get("id"), "name": one.get("username")} for key, one in found.items()
              if key in ("user", "author") and isinstance(one, dict)}  # fmt: skip
    return {**found, **people}


ACTS: dict[type, Callable[[DiscordRest, str, Any], Awaitable[channel.SendReceipt]]] = {
    channel.TypingAction: _typing,
    channel.EditAction: _edit,
    channel.DeleteAction: _delete,
    channel.ReactAction: _react,
    channel.PinAction: _pin,
    channel.PollAction: _poll,
    channel.ThreadAction: _thread,
    channel.ReadAction: _read,
    channel.LookAction: _look,
}


LIMIT = 2000  # characters of one message
ROW = 5  # buttons side by side
BUTTONS = 25
CUSTOM = 100  # characters behind a button
LABEL = 80
FILES = 10  # of one message
WAVE = 256  # points of the line that a voice message is drawn with
SPOKEN = ("content", "components", "allowed_mentions")  # what a voice message does not have
NONCE = 24
TEXT_MARK = "="  # a button's own text follows; otherwise "#" and the key of a longer one
KEY_MARK = "#"

_STYLES = {"": 2, "good": 3, "bad": 4}
# Nobody is woken by what a model writes, except a person it names.
_MENTIONS = {"parse": ["users"], "replied_user": False}
# Discord would fetch every address in an answer: one that a page had the model write could carry data away.
_NO_EMBEDS = 4

# Discord's own numbers first; a status decides where there is none.
CODES: dict[int, tuple[channel.SendTrouble, str]] = {
    10003: ("gone", "there is no such channel"),
    10004: ("gone", "there is no such server"),
    10008: ("refused", "there is no such message"),
    20016: ("limited", "the channel has slow mode"),
    20028: ("limited", "too much is written into this channel"),
    40005: ("media", "the file is too large for Discord"),
    40060: ("refused", "this was answered already"),
    40062: ("limited", "Discord is being asked too much"),
    50001: ("gone", "the bot cannot see this channel; give it the permission View Channel"),
    50006: ("refused", "the message is empty"),
    50007: ("blocked", "this person takes no direct messages from the bot"),
    50008: ("refused", "this kind of channel takes no messages"),
    50013: ("refused", "the bot lacks a permission in this channel: Send Messages, Attach Files or Add Reactions"),
    50045: ("media", "the file is too large for Discord"),
    50083: ("refused", "the thread is archived"),
    50278: ("blocked", "this person shares no server with the bot any more"),
    160005: ("refused", "the thread is locked"),
    200000: ("refused", "a rule of the server holds the message back"),
    200001: ("refused", "a rule of the server holds the message back"),
    240000: ("refused", "Discord takes a link in it for harmful"),
}
STATUSES: dict[int, tuple[channel.SendTrouble, str]] = {
    401: ("signed_out", "the bot token is not taken any more"),
    403: ("refused", "Discord forbids it"),
    404: ("gone", "Discord does not find it"),
    413: ("media", "the file is too large for Discord"),
    503: ("down", "Discord is not available"),
}
_MARKS = compile_late(r"(https?://\S+)|([\\*_`~|\[]|^[ \t]*[>#-])", re.MULTILINE)  # addresses stay as they are
_LONG = "BASE_TYPE_MAX_LENGTH"
_INVALID = 50035


def make_nonce(client_id: str) -> str:
    """What Discord knows a repeated message by; it takes at most 25 characters."""
    return hashlib.sha256(client_id.encode()).hexdigest()[:NONCE]


def render_content(text: str, plain: bool) -> str:
    """The content of a message. Discord always reads marks, so a plain text has them escaped where that fits."""
    if not plain:
        return render_markdown(text, "discord").text.strip()
    text = text.encode("utf-8", "replace").decode()  # half a character would spoil the whole request
    escaped = _MARKS.sub(lambda match: match[1] or match[2][:-1] + "\\" + match[2][-1], text).strip()
    return escaped if len(escaped) <= LIMIT else text.strip()


def build_content(text: str, buttons: Sequence[Button]) -> dict[str, Any]:
    """What a message and an edit have in common."""
    return {"content": text, "components": _rows(buttons), "allowed_mentions": _MENTIONS, "flags": _NO_EMBEDS}


def build_message(text: str, buttons: Sequence[Button], client_id: str, reply_to: str) -> dict[str, Any]:
    """The body of a new message."""
    body = {**build_content(text, buttons), "nonce": make_nonce(client_id), "enforce_nonce": True}
    if reply_to.isdigit():
        body["message_reference"] = {"message_id": reply_to, "fail_if_not_exists": False}
    return body


def build_poll(act: channel.PollAction) -> dict[str, Any]:
    """The body of a poll; it is open for a day."""
    answers = [{"poll_media": {"text": option[:55]}} for option in act.options[:10]]
    question = {"text": act.question[:300]}
    return {"poll": {"question": question, "answers": answers, "duration": 24, "allow_multiselect": act.several}}


def build_form(body: Mapping[str, Any], files: Sequence[ChannelFile], *, voice: bool = False) -> list[dict[str, Any]]:
    """The same with files, as fields of a form. `voice`: one Ogg file and no words is shown as spoken, with how long
    and how loud it is; Discord takes nothing else with it."""
    attached: list[dict[str, Any]] = [{"id": number, "filename": file.name} for number, file in enumerate(files)]
    if voice and len(files) == 1 and files[0].mime == "audio/ogg" and not body.get("content"):
        wave = base64.b64encode(read_loudness(files[0].data, WAVE)).decode()
        attached[0] |= {"duration_secs": float(read_duration(files[0].data) or 1), "waveform": wave}
        body = {**{key: value for key, value in body.items() if key not in SPOKEN}, "flags": inbound.VOICE}
    text = json.dumps({**body, "attachments": attached})
    return [
        {"name": "payload_json", "value": text, "content_type": "application/json"},
        *(
            {"name": f"files[{number}]", "value": file.data, "filename": file.name, "content_type": file.mime}
            for number, file in enumerate(files)
        ),
    ]


def make_button_key(text: str) -> str:
    """Under which a text too long for a button is kept."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def encode_button(text: str, number: int) -> str:
    """What stands behind the button: its text, or the key of that. The number keeps equal ones apart."""
    own = f"{number}{TEXT_MARK}{text}"
    return own if len(own) <= CUSTOM else f"{number}{KEY_MARK}{make_button_key(text)}"


def explain_discord_error(exc: Exception) -> channel.SendFailure:
    """What an exception of `DiscordRest.request` means. Says nothing that is in the request."""
    if isinstance(exc, DiscordRateLimit):
        return channel.SendFailure(
            "Discord wants fewer requests for a moment", "limited", exc.retry_after, exc.everywhere
        )
    if isinstance(exc, HTTPException):
        return _answered(exc)
    unsent = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)
    if isinstance(exc, unsent):
        return channel.SendFailure("Discord cannot be reached")
    if isinstance(exc, (aiohttp.ClientError, asyncio.TimeoutError, OSError)):
        return channel.SendFailure("the connection to Discord broke", "cut")
    return channel.SendFailure(f"unexpected: {type(exc).__name__}", "refused")


def _answered(exc: HTTPException) -> channel.SendFailure:
    if exc.code == _INVALID and _LONG in json.dumps(getattr(exc, "_errors", None) or {}):
        return channel.SendFailure("the message is too long for Discord", "long")
    found = CODES.get(exc.code) or STATUSES.get(exc.status)
    if found is not None:
        return channel.SendFailure(found[1], found[0])
    if exc.status >= 500:
        return channel.SendFailure(f"Discord answered {exc.status}", "cut")
    return channel.SendFailure(f"Discord refused it ({exc.status}, {exc.code}): {exc.text[:200]}", "refused")


def _rows(buttons: Sequence[Button]) -> list[dict[str, Any]]:
    made = [
        {
            "type": 2,
            "style": _STYLES[button.style],
            "label": button.label[:LABEL],
            "custom_id": encode_button(button.text, number),
        }
        for number, button in enumerate(buttons[:BUTTONS])
    ]
    return [{"type": 1, "components": made[start : start + ROW]} for start in range(0, len(made), ROW)]
