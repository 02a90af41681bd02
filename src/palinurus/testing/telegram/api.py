"""The Bot API on loopback, as far as the channel uses it: the real paths, parameters, answers and error texts.

Knows no test: what people do and see is in `server.py`. Updates wait until they are acknowledged by an offset, or are
posted to a webhook until it takes them.
"""

from __future__ import annotations

import asyncio
import html
import itertools
import json
import re
from typing import Any, NamedTuple

import aiohttp
import msgspec
from aiohttp import web

from palinurus.clock import SystemClock
from palinurus.patterns import compile_late
from palinurus.testing.loopback import EVERY_REQUEST, LoopbackHttp, NewsBell, abort_connection

TOKEN = "4242:fake-token-of-a-bot"
ME = {
    "id": 4242, "is_bot": True, "first_name": "Pal", "username": "pal_bot", "can_join_groups": True,
    "can_read_all_group_messages": True, "supports_inline_queries": False,
}  # fmt: skip
MEDIA = ("photo", "document", "voice", "audio", "video", "animation")

TAGS = frozenset(
    ("b", "strong", "i", "em", "u", "ins", "s", "strike", "del", "span", "tg-spoiler", "a", "code", "pre",
     "blockquote", "tg-emoji")
)  # fmt: skip

_TAG = compile_late(r"<(/?)([a-z-]*)((?:\s[^<>]*)?)>", re.IGNORECASE)
_ENTITY = compile_late(r"&(lt|gt|amp|quot|#\d{1,7}|#x[0-9a-fA-F]{1,6});")

_clock = SystemClock()


class FakeTelegramFault(Exception):
    """An answer with ok: false."""

    def __init__(self, code: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.code = code
        self.body: dict[str, Any] = {"ok": False, "error_code": code, "description": description}
        if parameters:
            self.body["parameters"] = parameters


class FakeTelegramMessage(msgspec.Struct):
    """A message in a chat. `text` is what people read."""

    id: int
    chat: int
    sender: int
    text: str
    thread: int = 0
    media: tuple[str, ...] = ()
    buttons: tuple[tuple[str, str], ...] = ()  # (label, data)
    reply_to: int = 0
    kind: str = "text"


class FakeTelegramCall(NamedTuple):
    """One call as it came."""

    method: str
    params: dict[str, Any]


class FakeTelegramApi:
    """`chats` are the ids that exist, with Telegram's description of them."""

    def __init__(self) -> None:
        self.me: dict[str, Any] = dict(ME)
        self.chats: dict[int, dict[str, Any]] = {}
        self.messages: list[FakeTelegramMessage] = []
        self.updates: list[dict[str, Any]] = []
        self.calls: list[FakeTelegramCall] = []
        self.files: dict[str, bytes] = {}
        self.fetched = 0  # files that were asked for
        self.menu: list[dict[str, str]] = []
        self.reactions: dict[tuple[int, int], list[str]] = {}
        self.moved: dict[int, int] = {}
        self.answered: list[str] = []  # presses that were confirmed
        self.hook: dict[str, Any] = {}
        self.polls = 0
        self._numbers = itertools.count(11)  # 1 is the general topic of a forum
        self._updates = itertools.count(7001)
        self._news = NewsBell()
        self._http = LoopbackHttp({EVERY_REQUEST: self._handle})
        self._pushing: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """For `apiRoot`."""
        return self._http.url

    async def start(self) -> None:
        """Listen, on the port of last time."""
        await self._http.start()
        self._pushing = asyncio.ensure_future(self._push())

    async def stop(self) -> None:
        """Cut every connection and take no new ones."""
        if self._pushing is not None:
            self._pushing.cancel()
            await asyncio.gather(self._pushing, return_exceptions=True)
        await self._http.stop()

    def next_fault(self) -> str:
        """What goes wrong with this send: "" or "cut". Raises FakeTelegramFault for all else."""
        raise NotImplementedError

    def number(self) -> int:
        """An id for a new message."""
        return next(self._numbers)

    def add(self, **update: Any) -> None:
        """Something happened: the bot will be told."""
        self.updates.append({"update_id": next(self._updates), **update})
        self._news.wake()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        where = request.path.split("/")
        if where[1] == "file":
            self.fetched += 1
            data = self.files.get("/".join(where[3:])) if where[2] == f"bot{TOKEN}" else None
            return web.Response(body=data) if data is not None else web.Response(status=404)
        method, params = where[-1], await _params(request)
        self.calls.append(FakeTelegramCall(method, params))
        try:
            if where[1] != f"bot{TOKEN}":
                raise FakeTelegramFault(401, "Unauthorized")
            kind, does = method.removeprefix("send").lower(), getattr(self, f"_{method}", None)
            if does is None and kind not in MEDIA:
                raise FakeTelegramFault(404, "Not Found")
            result = await (does(params) if does else self._file(params, kind))
        except FakeTelegramFault as fault:
            return web.json_response(fault.body, status=fault.code)
        except ConnectionError:
            return abort_connection(request)
        return web.json_response({"ok": True, "result": result})

    # updates

    async def _getMe(self, params: dict[str, Any]) -> Any:
        return self.me

    async def _getUpdates(self, params: dict[str, Any]) -> Any:
        if self.hook:
            raise FakeTelegramFault(409, "Conflict: can't use getUpdates method while webhook is active")
        self.polls += 1
        mine, offset = self.polls, int(params.get("offset", 0))
        self._news.wake()  # an older request ends
        until = _clock.monotonic() + float(params.get("timeout", 0))
        while True:
            self.updates = [one for one in self.updates if one["update_id"] >= offset]
            if self.updates or _clock.monotonic() >= until:
                return self.updates[: int(params.get("limit", 100))]
            await self._news.wait(until - _clock.monotonic())
            if mine != self.polls:
                raise FakeTelegramFault(409, "Conflict: terminated by other getUpdates request")

    async def _setWebhook(self, params: dict[str, Any]) -> Any:
        self.hook = params if params.get("url") else {}
        self._news.wake()
        return True

    async def _deleteWebhook(self, params: dict[str, Any]) -> Any:
        self.hook = {}
        return True

    async def _getWebhookInfo(self, params: dict[str, Any]) -> Any:
        pending = len(self.updates)
        return {"url": self.hook.get("url", ""), "has_custom_certificate": False, "pending_update_count": pending}

    async def _push(self) -> None:
        """Posts updates to the webhook, one after the other, each until it is taken."""
        async with aiohttp.ClientSession() as http:
            while True:
                if not self.hook or not self.updates:
                    await self._news.wait()
                    continue
                headers = {"X-Telegram-Bot-Api-Secret-Token": self.hook.get("secret_token", "")}
                update = self.updates[0]
                try:
                    async with http.post(self.hook["url"], json=update, headers=headers) as response:
                        taken = response.status == 200
                except aiohttp.ClientError:
                    taken = False
                if taken and update in self.updates:
                    self.updates.remove(update)
                elif not taken:
                    await _clock.sleep(0.02)

    # messages

    def _place(self, params: dict[str, Any]) -> int:
        chat = int(params["chat_id"])
        if chat in self.moved:
            what = "Bad Request: group chat was upgraded to a supergroup chat"
            raise FakeTelegramFault(400, what, migrate_to_chat_id=self.moved[chat])
        if chat not in self.chats:
            raise FakeTelegramFault(400, "Bad Request: chat not found")
        return chat

    def _told(self, kept: FakeTelegramMessage) -> dict[str, Any]:
        chat = {"id": kept.chat, **self.chats[kept.chat]}
        return {"message_id": kept.id, "date": 1_767_225_600, "chat": chat, "from": ME, "text": kept.text}

    async def _shown(self, params: dict[str, Any], kind: str, text: str, media: tuple[str, ...]) -> Any:
        fault = self.next_fault()
        chat, topic = self._place(params), int(params.get("message_thread_id", 0))
        if topic and topic not in self.chats[chat].get("topics", {}):
            raise FakeTelegramFault(400, "Bad Request: message thread not found")
        answered = json.loads(params.get("reply_parameters", "{}"))
        known = any(one.chat == chat and one.id == answered.get("message_id") for one in self.messages)
        if answered and not known and not answered.get("allow_sending_without_reply"):
            raise FakeTelegramFault(400, "Bad Request: message to be replied not found")
        reply_to = answered["message_id"] if answered and known else 0
        kept = FakeTelegramMessage(
            self.number(),
            chat,
            ME["id"],  # type: ignore[arg-type]
            text,
            thread=topic,
            media=media,
            buttons=_buttons(params),
            reply_to=reply_to,
            kind=kind,
        )
        self.messages.append(kept)
        if fault == "cut":
            raise ConnectionError
        return self._told(kept)

    async def _sendMessage(self, params: dict[str, Any]) -> Any:
        text = _text(params, "text", 4096, "message")
        if not text:
            raise FakeTelegramFault(400, "Bad Request: message text is empty")
        return await self._shown(params, "text", text, ())

    async def _file(self, params: dict[str, Any], kind: str) -> Any:
        upload = params[kind]
        if isinstance(upload, str) and upload.startswith("attach://"):
            upload = params[upload.removeprefix("attach://")]
        if not isinstance(upload, tuple):
            raise FakeTelegramFault(400, "Bad Request: wrong file identifier/HTTP URL specified")
        name, data = upload
        if not data:
            raise FakeTelegramFault(400, "Bad Request: file must be non-empty")
        self.files[f"sent/{name}"] = data
        return await self._shown(params, kind, _text(params, "caption", 1024, "message caption"), (name,))

    async def _sendPoll(self, params: dict[str, Any]) -> Any:
        options = [one["text"] if isinstance(one, dict) else one for one in json.loads(params["options"])]
        return await self._shown(params, "poll", "\n".join((params["question"], *options)), ())

    def _own(self, params: dict[str, Any], missing: str) -> FakeTelegramMessage:
        chat, ident = self._place(params), int(params["message_id"])
        for kept in self.messages:
            if (kept.chat, kept.id) == (chat, ident):
                return kept
        raise FakeTelegramFault(400, f"Bad Request: message to {missing} not found")

    async def _editMessageText(self, params: dict[str, Any]) -> Any:
        kept, text = self._own(params, "edit"), _text(params, "text", 4096, "message")
        if kept.media:
            raise FakeTelegramFault(400, "Bad Request: there is no text in the message to edit")
        return self._edited(kept, text, params)

    async def _editMessageCaption(self, params: dict[str, Any]) -> Any:
        return self._edited(self._own(params, "edit"), _text(params, "caption", 1024, "message caption"), params)

    def _edited(self, kept: FakeTelegramMessage, text: str, params: dict[str, Any]) -> Any:
        if kept.sender != ME["id"]:
            raise FakeTelegramFault(400, "Bad Request: message can't be edited")
        if (kept.text, kept.buttons) == (text, _buttons(params)):
            same = "specified new message content and reply markup are exactly the same as a current content and reply"
            raise FakeTelegramFault(400, f"Bad Request: message is not modified: {same} markup of the message")
        kept.text, kept.buttons = text, _buttons(params)
        return self._told(kept)

    async def _deleteMessage(self, params: dict[str, Any]) -> Any:
        self.messages.remove(self._own(params, "delete"))
        return True

    async def _sendChatAction(self, params: dict[str, Any]) -> Any:
        self._place(params)
        return True

    async def _setMessageReaction(self, params: dict[str, Any]) -> Any:
        kept = self._own(params, "react")
        given = [one["emoji"] for one in json.loads(params.get("reaction", "[]"))]
        if any(len(emoji) > 4 for emoji in given):
            raise FakeTelegramFault(400, "Bad Request: REACTION_INVALID")
        self.reactions[kept.chat, kept.id] = given
        return True

    async def _pinChatMessage(self, params: dict[str, Any]) -> Any:
        self._own(params, "pin")
        return True

    _unpinChatMessage = _pinChatMessage

    async def _createForumTopic(self, params: dict[str, Any]) -> Any:
        chat, topic = self._place(params), self.number()
        if not self.chats[chat].get("is_forum"):
            raise FakeTelegramFault(400, "Bad Request: the chat is not a forum")
        self.chats[chat].setdefault("topics", {})[topic] = params["name"]
        return {"message_thread_id": topic, "name": params["name"], "icon_color": 7322096}

    async def _answerCallbackQuery(self, params: dict[str, Any]) -> Any:
        self.answered.append(params["callback_query_id"])
        return True

    async def _setMyCommands(self, params: dict[str, Any]) -> Any:
        self.menu = json.loads(params["commands"])
        return True

    async def _getFile(self, params: dict[str, Any]) -> Any:
        path = params["file_id"]
        if path not in self.files:
            raise FakeTelegramFault(400, "Bad Request: invalid file_id")
        return {"file_id": path, "file_unique_id": path, "file_size": len(self.files[path]), "file_path": path}


async def _params(request: web.BaseRequest) -> dict[str, Any]:
    """Parameters of the address and of a form; a file is (name, data)."""
    found: dict[str, Any] = dict(request.query)
    for key, value in (await request.post()).items():
        found[key] = (value.filename, value.file.read()) if isinstance(value, web.FileField) else value
    return found


def _text(params: dict[str, Any], key: str, most: int, what: str) -> str:
    text = str(params.get(key, ""))
    if params.get("parse_mode") == "HTML":
        try:
            text = strip_html(text)
        except TelegramHtmlError as exc:
            raise FakeTelegramFault(400, f"Bad Request: {exc}") from exc
    text = text.strip()
    if len(text.encode("utf-16-le")) // 2 > most:
        raise FakeTelegramFault(400, f"Bad Request: {what} is too long")
    return text


def _buttons(params: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    rows = json.loads(params.get("reply_markup", "{}")).get("inline_keyboard", [])
    found = tuple((one["text"], one["callback_data"]) for row in rows for one in row)
    if any(not 1 <= len(data.encode()) <= 64 for _, data in found):
        raise FakeTelegramFault(400, "Bad Request: BUTTON_DATA_INVALID")
    return found


class TelegramHtmlError(ValueError):
    """The description that Telegram answers with."""


def strip_html(source: str) -> str:
    """The text without its tags. Raises TelegramHtmlError as Telegram refuses."""
    out: list[str] = []
    stack: list[str] = []
    at = 0
    while (start := source.find("<", at)) >= 0:
        out.append(_plain(source[at:start]))
        tag = _TAG.match(source, start)
        offset = len(source[:start].encode())
        if tag is None:
            raise TelegramHtmlError(f'can\'t parse entities: Unsupported start tag "" at byte offset {offset}')
        closing, name, rest = tag[1], tag[2].lower(), tag[3]
        if closing:
            if not stack:
                raise TelegramHtmlError(f"can't parse entities: Unexpected end tag at byte offset {offset}")
            expected = stack.pop()
            if name and name != expected:
                raise TelegramHtmlError(
                    f"can't parse entities: Unmatched end tag at byte offset {offset}, "
                    f'expected "</{expected}>", found "</{name}>"'
                )
        elif name not in TAGS or (name == "span" and "tg-spoiler" not in rest):
            raise TelegramHtmlError(f'can\'t parse entities: Unsupported start tag "{name}" at byte offset {offset}')
        else:
            stack.append(name)
        at = tag.end()
    out.append(_plain(source[at:]))
    if stack:
        raise TelegramHtmlError(f"can't parse entities: Can't find end tag corresponding to start tag \"{stack[-1]}\"")
    return "".join(out)


def _plain(text: str) -> str:
    return _ENTITY.sub(lambda found: html.unescape(found[0]), text)
