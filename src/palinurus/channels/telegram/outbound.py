"""Replies and acts -> calls of the Bot API. Knows nothing of updates.

A reply with files can be several messages: what of it was shown is remembered while the program runs, so that another
try goes on where the last one stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from palinurus.channels.kit import ChannelFile, ChannelKit, RecentDict, load_reply_files
from palinurus.channels.telegram.api import BotApi, TelegramFault
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

Call: TypeAlias = Callable[[], Awaitable[Any]]


class TelegramUpload(msgspec.Struct, frozen=True):
    """How a kind of file is sent: the method, and the name of its file argument."""

    method: str
    field: str


KINDS: dict[str, TelegramUpload] = {
    "image/jpeg": TelegramUpload("sendPhoto", "photo"),
    "image/png": TelegramUpload("sendPhoto", "photo"),
    "image/webp": TelegramUpload("sendPhoto", "photo"),
    "image/gif": TelegramUpload("sendAnimation", "animation"),
    "video/mp4": TelegramUpload("sendVideo", "video"),
    "audio/mpeg": TelegramUpload("sendAudio", "audio"),
    "audio/mp4": TelegramUpload("sendAudio", "audio"),
    "audio/x-m4a": TelegramUpload("sendAudio", "audio"),
}
VOICES = ("audio/ogg", "audio/opus", "audio/mpeg", "audio/mp4", "audio/x-m4a")
DOCUMENT, VOICE = TelegramUpload("sendDocument", "document"), TelegramUpload("sendVoice", "voice")


def encode_button(text: str) -> str:
    """What a button with this text holds: the text itself, or the name under which it is kept."""
    whole = f"t{text}"
    return whole if len(whole.encode()) <= DATA else "k" + hashlib.sha256(text.encode()).hexdigest()[:32]


def arrange_buttons(buttons: Sequence[Button]) -> list[list[dict[str, str]]]:
    """As Telegram's keyboards have them; short ones stand side by side."""
    made: list[list[dict[str, str]]] = []
    room = 0
    for button in buttons:
        label = button.label[:64] or "…"
        if room < len(label) or len(made[-1]) == 3:
            made.append([])
            room = ROW
        style = {"style": STYLES[button.style]} if button.style in STYLES else {}
        made[-1].append({"text": label, "callback_data": encode_button(button.text), **style})
        room -= len(label)
    return made


class TelegramPoster:
    """`chat` gives the id that a chat has now (groups get new ones); `migrated` is told of a new one."""

    def __init__(
        self, api: BotApi, kit: ChannelKit, chat: Callable[[str], str], migrated: Callable[[str, str], Awaitable[None]]
    ) -> None:
        self._api = api
        self._kit = kit
        self._chat = chat
        self._migrated = migrated
        # Telegram fetches the addresses it previews: one that a page had the model write could carry data away.
        self._preview = None if kit.flag("linkPreview", False) else {"is_disabled": True}
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
        except TelegramFault as exc:
            return exc.failure

    async def act(self, target: Target, act: channel.ChannelAction) -> channel.SendResult:
        """Do it. Raises nothing of Telegram's."""
        does = self._acts.get(type(act))
        if does is None:
            return channel.SendFailure("Telegram has no such thing", "refused")
        try:
            return await self._tried(target, lambda: self._done(target, act, does))
        except TelegramFault as exc:
            return exc.failure

    async def _tried(self, target: Target, call: Callable[[], Awaitable[channel.SendResult]]) -> channel.SendResult:
        """Once more where a group has got a new id."""
        try:
            return await call()
        except TelegramFault as exc:
            if not exc.moved:
                raise
            await self._migrated(target.to, exc.moved)
            return await call()

    def _place(self, target: Target) -> dict[str, Any]:
        thread = target.thread if target.thread.isdigit() and target.thread != GENERAL else ""
        chat = _where(self._chat(target.to))
        return {"chat_id": chat, **({"message_thread_id": int(thread)} if thread else {})}

    async def _keyboard(self, buttons: Sequence[Button]) -> dict[str, Any] | None:
        for button in buttons:
            data = encode_button(button.text)
            if data.startswith("k"):
                await self._kit.memo.put(f"button/{data}", button.text.encode())
        return {"inline_keyboard": arrange_buttons(buttons)} if buttons else None

    async def _show(self, reply: Reply, files: list[ChannelFile]) -> channel.SendResult:
        steps = await self._steps(reply, files)
        shown = self._partly[reply.client_id] = self._partly.get(reply.client_id, [])
        while len(shown) < len(steps):
            try:
                message = await steps[len(shown)]()
            except TelegramFault as exc:
                if not shown or exc.failure.trouble != "media":
                    raise
                name = files[len(files) - len(steps) + len(shown)].name
                notice = f"{name[:80]} could not be sent. {exc.failure.reason}"
                message = await self._api.call("sendMessage", text=notice, **self._place(reply.target))
            shown.append(_number(message))
        self._partly.pop(reply.client_id, None)
        return channel.SendReceipt(shown[0])

    async def _steps(self, reply: Reply, files: list[ChannelFile]) -> list[Call]:
        """The messages that make up the reply, in order. The first has the buttons and says what is answered."""
        place = self._place(reply.target)
        first: dict[str, Any] = {"reply_markup": await self._keyboard(reply.buttons)}
        if answered := read_message_number(reply.reply_to):
            first["reply_parameters"] = {"message_id": answered, "allow_sending_without_reply": True}
        words = _words(reply.text, reply.plain)
        length = _units(reply.text) if reply.plain else measure_markdown(reply.text, ABILITIES)
        below = bool(files) and length <= CAPTION
        if below and reply.text:
            first |= {"caption": words.pop("text"), **words}
        steps: list[Call] = []
        if not below:
            rest = {**place, **first, **words, "link_preview_options": self._preview}
            steps.append(lambda: self._api.call("sendMessage", **rest))
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
        return lambda: self._api.upload(how.method, how.field, file, rest)

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
        await self._api.call("sendChatAction", **place, action="typing")
        return ""

    async def _edit(self, place: dict[str, Any], act: channel.EditAction) -> str:
        words = _words(act.text, act.plain)
        rest = _message(place, act.message_id)
        rest["reply_markup"] = await self._keyboard(act.buttons)
        try:
            await self._api.call("editMessageText", **rest, **words, link_preview_options=self._preview)
        except TelegramFault as exc:
            if "no text in the message" in exc.said:  # a file with words below it
                await self._api.call("editMessageCaption", caption=words.pop("text"), **rest, **words)
            elif "not modified" not in exc.said:
                raise
        return act.message_id

    async def _delete(self, place: dict[str, Any], act: channel.DeleteAction) -> str:
        try:
            await self._api.call("deleteMessage", **_message(place, act.message_id))
        except TelegramFault as exc:
            if "to delete not found" not in exc.said:
                raise
        return act.message_id

    async def _react(self, place: dict[str, Any], act: channel.ReactAction) -> str:
        given = [] if act.remove or not act.emoji else [{"type": "emoji", "emoji": act.emoji}]
        await self._api.call("setMessageReaction", **_message(place, act.message_id), reaction=given)
        return act.message_id

    async def _pin(self, place: dict[str, Any], act: channel.PinAction) -> str:
        method, quiet = ("unpinChatMessage", None) if act.remove else ("pinChatMessage", True)
        await self._api.call(method, **_message(place, act.message_id), disable_notification=quiet)
        return act.message_id

    async def _poll(self, place: dict[str, Any], act: channel.PollAction) -> str:
        sent = await self._api.call(
            "sendPoll",
            **place,
            question=act.question[:300],
            options=[{"text": option[:100]} for option in act.options[:12]],
            allows_multiple_answers=act.several,
            is_anonymous="false",  # the usual is true
        )
        return _number(sent)

    async def _thread(self, place: dict[str, Any], act: channel.ThreadAction) -> str:
        topic = await self._api.call("createForumTopic", chat_id=place["chat_id"], name=act.name[:128])
        return _number(topic, "message_thread_id")


def _number(told: Any, key: str = "message_id") -> str:
    """Telegram's number of what was made."""
    return str(told.get(key) or "") if isinstance(told, dict) else ""


def _message(place: dict[str, Any], ident: str) -> dict[str, Any]:
    return {"chat_id": place["chat_id"], "message_id": read_message_number(ident)}


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
