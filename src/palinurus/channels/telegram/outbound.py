"""Replies and acts -> calls of the Bot API, and what its errors mean. Knows nothing of updates.

A reply with files can be several messages: what of it was shown is remembered while the program runs, so that another
try goes on where the last one stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, TypeAlias

import httpx
import msgspec
from telegram import (
    Bot,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    Message,
    ReactionTypeEmoji,
    ReplyParameters,
)
from telegram import error as errors

from palinurus.channels.kit import ChannelFile, ChannelKit, RecentDict, load_reply_files
from palinurus.channels.telegram.inbound import read_message_number
from palinurus.core.format.render import measure_markdown, render_markdown
from palinurus.core.types import channel
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Button, Reply

ABILITIES = channel.ChannelAbilities(
    markup="telegram",
    limit=4096,
    unit="utf16",
    acts=frozenset(("typing", "edit", "delete", "react", "pin", "poll", "thread")),
    typing=5.0,
    pace=1.0,
    buttons=24,
    replies=True,
    threads=True,
    media=50 * 1024 * 1024,
    voice=True,
)
CAPTION = 1024  # UTF-16 units below a file
PHOTO = 10 * 1024 * 1024  # larger pictures go as documents
DATA = 64  # bytes behind a button
ROW = 30  # letters of buttons side by side
PARTLY = 1000  # replies of which the shown part is remembered
STYLES = {"good": "success", "bad": "danger"}
GENERAL = "1"  # the topic that Telegram does not want to be named

# What Telegram says (lower case), for 400 and 403: the first that occurs counts.
WORDS: tuple[tuple[channel.SendTrouble, tuple[str, ...]], ...] = (
    ("markup", ("can't parse entities", "unsupported parse_mode")),
    ("long", ("too long",)),
    ("blocked", ("bot was blocked", "user is deactivated", "can't initiate conversation")),
    ("media", ("voice_messages_forbidden",)),
    ("gone", ("chat not found", "peer_id_invalid", "bot was kicked", "not a member", "group chat was deactivated")),
    ("gone", ("thread not found", "topic_closed", "topic_deleted")),
    ("media", ("photo_", "image_process_failed", "wrong file", "file is too big", "file must be", "invalid file")),
    ("media", ("remote file", "webpage_", "wrong type of the web page content", "failed to get http url content")),
)
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol)

Call: TypeAlias = Callable[[], Awaitable[Message]]


class TelegramUpload(msgspec.Struct, frozen=True):
    """How a kind of file is sent: the method of `Bot`, and the name of its file argument."""

    method: str
    field: str


KINDS: dict[str, TelegramUpload] = {
    "image/jpeg": TelegramUpload("send_photo", "photo"),
    "image/png": TelegramUpload("send_photo", "photo"),
    "image/webp": TelegramUpload("send_photo", "photo"),
    "image/gif": TelegramUpload("send_animation", "animation"),
    "video/mp4": TelegramUpload("send_video", "video"),
    "audio/mpeg": TelegramUpload("send_audio", "audio"),
    "audio/mp4": TelegramUpload("send_audio", "audio"),
    "audio/x-m4a": TelegramUpload("send_audio", "audio"),
}
VOICES = ("audio/ogg", "audio/opus", "audio/mpeg", "audio/mp4", "audio/x-m4a")
DOCUMENT, VOICE = TelegramUpload("send_document", "document"), TelegramUpload("send_voice", "voice")


def explain_telegram_error(exc: errors.TelegramError) -> channel.SendFailure:
    """Why a call failed, in our words. Never shows the token."""
    if isinstance(exc, errors.RetryAfter):
        wait = exc.retry_after
        seconds = wait.total_seconds() if isinstance(wait, timedelta) else float(wait)
        return channel.SendFailure(f"Telegram wants {seconds:g} seconds of rest", "limited", seconds)
    if isinstance(exc, (errors.InvalidToken, errors.EndPointNotFound)):
        return channel.SendFailure("Telegram does not take the bot's token any more", "signed_out")
    if isinstance(exc, (errors.BadRequest, errors.Forbidden)):
        said = exc.message.lower()
        meant = (trouble for trouble, parts in WORDS if any(part in said for part in parts))
        return channel.SendFailure(f"Telegram: {exc.message[:200]}", next(meant, "refused"))
    if isinstance(exc, errors.NetworkError):
        return _broken(exc)
    return channel.SendFailure(f"Telegram: {exc.message[:200]}", "down")


def _broken(exc: errors.NetworkError) -> channel.SendFailure:
    """No proper answer: was the message on its way already?"""
    cause = exc.__cause__
    if isinstance(cause, UNSENT):
        return channel.SendFailure("Telegram cannot be reached", "down")
    if isinstance(cause, httpx.HTTPError):
        return channel.SendFailure("the connection broke before Telegram answered", "cut")
    if "too large" in exc.message.lower():
        return channel.SendFailure("Telegram: the file is too large", "media")
    if "timeout" in exc.message.lower():  # 504: a server behind Telegram's door may have it
        return channel.SendFailure("Telegram did not answer in time", "cut")
    return channel.SendFailure("Telegram has trouble of its own", "down")


def encode_button(text: str) -> str:
    """What a button with this text holds: the text itself, or the name under which it is kept."""
    whole = f"t{text}"
    return whole if len(whole.encode()) <= DATA else "k" + hashlib.sha256(text.encode()).hexdigest()[:32]


def arrange_buttons(buttons: Sequence[Button]) -> list[list[InlineKeyboardButton]]:
    """Short ones stand side by side."""
    made: list[list[InlineKeyboardButton]] = []
    room = 0
    for button in buttons:
        label = button.label[:64] or "…"
        if room < len(label) or len(made[-1]) == 3:
            made.append([])
            room = ROW
        style = STYLES.get(button.style)
        made[-1].append(InlineKeyboardButton(label, callback_data=encode_button(button.text), style=style))
        room -= len(label)
    return made


class TelegramPoster:
    """`chat` gives the id that a chat has now (groups get new ones); `migrated` is told of a new one."""

    def __init__(
        self, bot: Bot, kit: ChannelKit, chat: Callable[[str], str], migrated: Callable[[str, str], Awaitable[None]]
    ) -> None:
        self._bot = bot
        self._kit = kit
        self._chat = chat
        self._migrated = migrated
        # Telegram fetches the addresses it previews: one that a page had the model write could carry data away.
        self._preview = None if kit.flag("linkPreview", False) else LinkPreviewOptions(is_disabled=True)
        self._partly: RecentDict[str, list[str]] = RecentDict(PARTLY)  # client id -> ids of the messages shown so far
        self._acts: dict[type[Any], Callable[[dict[str, Any], Any], Awaitable[str]]] = {
            channel.TypingAction: self._typing,
            channel.EditAction: self._edit,
            channel.DeleteAction: self._delete,
            channel.ReactAction: self._react,
            channel.PinAction: self._pin,
            channel.PollAction: self._poll,
            channel.ThreadAction: self._thread,
        }

    async def send(self, reply: Reply) -> channel.SendResult:
        """Show it. Raises nothing of Telegram's."""
        if _where(self._chat(reply.target.to)) is None:
            return channel.SendFailure(f"{reply.target.to[:40]!r} is no id of a Telegram chat", "gone")
        files = await load_reply_files(self._kit, reply, ABILITIES.media)
        if isinstance(files, channel.SendFailure):
            return files
        try:
            return await self._tried(reply.target, lambda: self._show(reply, files))
        except errors.TelegramError as exc:
            return explain_telegram_error(exc)

    async def act(self, target: Target, act: channel.ChannelAction) -> channel.SendResult:
        """Do it. Raises nothing of Telegram's."""
        does = self._acts.get(type(act))
        if does is None:
            return channel.SendFailure("Telegram has no such thing", "refused")
        try:
            return await self._tried(target, lambda: self._done(target, act, does))
        except errors.TelegramError as exc:
            return explain_telegram_error(exc)

    async def _tried(self, target: Target, call: Callable[[], Awaitable[channel.SendResult]]) -> channel.SendResult:
        """Once more where a group has got a new id."""
        try:
            return await call()
        except errors.ChatMigrated as exc:
            await self._migrated(target.to, str(exc.new_chat_id))
            return await call()

    def _place(self, target: Target) -> dict[str, Any]:
        thread = target.thread if target.thread.isdigit() and target.thread != GENERAL else ""
        chat = _where(self._chat(target.to))
        return {"chat_id": chat, **({"message_thread_id": int(thread)} if thread else {})}

    async def _keyboard(self, buttons: Sequence[Button]) -> InlineKeyboardMarkup | None:
        for button in buttons:
            data = encode_button(button.text)
            if data.startswith("k"):
                await self._kit.memo.put(f"button/{data}", button.text.encode())
        return InlineKeyboardMarkup(arrange_buttons(buttons)) if buttons else None

    async def _show(self, reply: Reply, files: list[ChannelFile]) -> channel.SendResult:
        steps = await self._steps(reply, files)
        shown = self._partly[reply.client_id] = self._partly.get(reply.client_id, [])
        while len(shown) < len(steps):
            try:
                message = await steps[len(shown)]()
            except errors.BadRequest as exc:
                trouble = explain_telegram_error(exc)
                if not shown or trouble.trouble != "media":
                    raise
                name = files[len(files) - len(steps) + len(shown)].name
                notice = f"{name[:80]} could not be sent. {trouble.reason}"
                message = await self._bot.send_message(text=notice, **self._place(reply.target))
            shown.append(str(message.message_id))
        self._partly.pop(reply.client_id, None)
        return channel.SendReceipt(shown[0])

    async def _steps(self, reply: Reply, files: list[ChannelFile]) -> list[Call]:
        """The messages that make up the reply, in order. The first has the buttons and says what is answered."""
        place = self._place(reply.target)
        first: dict[str, Any] = {"reply_markup": await self._keyboard(reply.buttons)}
        if answered := read_message_number(reply.reply_to):
            first["reply_parameters"] = ReplyParameters(answered, allow_sending_without_reply=True)
        words = _words(reply.text, reply.plain)
        length = _units(reply.text) if reply.plain else measure_markdown(reply.text, ABILITIES)
        below = bool(files) and length <= CAPTION
        if below and reply.text:
            first |= {"caption": words.pop("text"), **words}
        steps: list[Call] = []
        if not below:
            steps.append(lambda: self._bot.send_message(**place, **first, **words, link_preview_options=self._preview))
        for file in files:
            extra = first if not steps else {}
            steps.append(self._upload(file, reply.voice, {**place, **extra}))
        return steps

    def _upload(self, file: ChannelFile, spoken: bool, rest: dict[str, Any]) -> Call:
        how = KINDS.get(file.mime, DOCUMENT)
        if how.field == "photo" and len(file.data) > PHOTO:
            how = DOCUMENT
        if spoken and file.mime in VOICES:
            how = VOICE
        call: Callable[..., Awaitable[Message]] = getattr(self._bot, how.method)
        return lambda: call(**{how.field: file.data}, filename=file.name, **rest)

    async def _done(
        self, target: Target, act: channel.ChannelAction, does: Callable[[dict[str, Any], Any], Awaitable[str]]
    ) -> channel.SendResult:
        place = self._place(target)
        if place["chat_id"] is None:
            return channel.SendFailure(f"{target.to[:40]!r} is no id of a Telegram chat", "gone")
        if isinstance(
            act, (channel.EditAction, channel.DeleteAction, channel.ReactAction, channel.PinAction)
        ) and not read_message_number(act.message_id):
            return channel.SendFailure(f"{act.message_id[:40]!r} is no id of a message", "refused")
        return channel.SendReceipt(await does(place, act))

    async def _typing(self, place: dict[str, Any], act: channel.TypingAction) -> str:
        await self._bot.send_chat_action(**place, action="typing")
        return ""

    async def _edit(self, place: dict[str, Any], act: channel.EditAction) -> str:
        words = _words(act.text, act.plain)
        rest = {"chat_id": place["chat_id"], "message_id": read_message_number(act.message_id)}
        rest["reply_markup"] = await self._keyboard(act.buttons)
        try:
            await self._bot.edit_message_text(**rest, **words, link_preview_options=self._preview)
        except errors.BadRequest as exc:
            said = exc.message.lower()
            if "no text in the message" in said:  # a file with words below it
                await self._bot.edit_message_caption(caption=words.pop("text"), **rest, **words)
            elif "not modified" not in said:
                raise
        return act.message_id

    async def _delete(self, place: dict[str, Any], act: channel.DeleteAction) -> str:
        try:
            await self._bot.delete_message(place["chat_id"], read_message_number(act.message_id))
        except errors.BadRequest as exc:
            if "to delete not found" not in exc.message.lower():
                raise
        return act.message_id

    async def _react(self, place: dict[str, Any], act: channel.ReactAction) -> str:
        given = [] if act.remove or not act.emoji else [ReactionTypeEmoji(act.emoji)]
        await self._bot.set_message_reaction(place["chat_id"], read_message_number(act.message_id), given)
        return act.message_id

    async def _pin(self, place: dict[str, Any], act: channel.PinAction) -> str:
        if act.remove:
            await self._bot.unpin_chat_message(place["chat_id"], read_message_number(act.message_id))
        else:
            await self._bot.pin_chat_message(
                place["chat_id"], read_message_number(act.message_id), disable_notification=True
            )
        return act.message_id

    async def _poll(self, place: dict[str, Any], act: channel.PollAction) -> str:
        question, options = act.question[:300], [option[:100] for option in act.options[:12]]
        sent = await self._bot.send_poll(
            **place, question=question, options=options, allows_multiple_answers=act.several, is_anonymous=False
        )
        return str(sent.message_id)

    async def _thread(self, place: dict[str, Any], act: channel.ThreadAction) -> str:
        topic = await self._bot.create_forum_topic(place["chat_id"], act.name[:128])
        return str(topic.message_thread_id)


def _words(text: str, plain: bool) -> dict[str, Any]:
    shown = "" if plain else render_markdown(text, "telegram").text
    return {"text": shown, "parse_mode": "HTML"} if shown.strip() else {"text": text}


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _where(chat: str) -> int | str | None:
    """A chat's number, or the public @name of a channel."""
    if chat.removeprefix("-").isascii() and chat.removeprefix("-").isdigit():
        return int(chat)
    return chat if chat.startswith("@") and len(chat) > 1 else None
