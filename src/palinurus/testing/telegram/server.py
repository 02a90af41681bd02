"""The humans in front of the fake: they write, press buttons, and see what the bot shows. Implements `FakePlatform`."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from palinurus.channels.telegram.channel import TelegramChannel, make_telegram_channel
from palinurus.core.types.channel import SendTrouble
from palinurus.testing.platform import FakePlatform, HumanMessage, VisibleMessage, make_channel_kit
from palinurus.testing.telegram.api import ME, TOKEN, FakeTelegramApi, FakeTelegramFault, FakeTelegramMessage

ANN, BOB = 1001, 1002  # the usual person, and another
GROUP, FORUM = -1001000, -1002000
CHATS: dict[str, int] = {"": ANN, "ann": ANN, "bob": BOB, "group": GROUP, "forum": FORUM}
COMMANDS = (("status", "how things are"), ("export-session", "as a file"))
AT = 1_767_225_600  # seconds: when everything is said

# What Telegram answers when it goes wrong.
FAULTS: dict[SendTrouble, tuple[int, str]] = {
    "down": (502, "Bad Gateway"),
    "limited": (429, "Too Many Requests: retry after {}"),
    "markup": (400, 'Bad Request: can\'t parse entities: Unsupported start tag "x" at byte offset 0'),
    "long": (400, "Bad Request: message is too long"),
    "media": (400, "Bad Request: wrong file identifier/HTTP URL specified"),
    "signed_out": (401, "Unauthorized"),
    "blocked": (403, "Forbidden: bot was blocked by the user"),
    "gone": (400, "Bad Request: chat not found"),
    "refused": (400, "Bad Request: not enough rights to send text messages to the chat"),
}


class FakeTelegram(FakePlatform, FakeTelegramApi):
    """Chats: "" or "ann" and "bob" are private, "group" is a group, "forum" one with topics. A sender is named like
    his private chat."""

    name = "telegram"
    troubles: ClassVar[tuple[SendTrouble, ...]] = ("cut", *FAULTS)

    def __init__(self) -> None:
        super().__init__()
        for chat, first in ((ANN, "Ann"), (BOB, "Bob")):
            self.chats[chat] = {"type": "private", "first_name": first}
        self.chats[GROUP] = {"type": "supergroup", "title": "Friends"}
        self.chats[FORUM] = {"type": "supergroup", "title": "Club", "is_forum": True, "topics": {}}

    @property
    def section(self) -> dict[str, Any]:
        return {"botToken": TOKEN, "apiRoot": self.url}

    def channel(self, folder: str, **more: Any) -> TelegramChannel:
        return make_telegram_channel(
            msgspec.structs.replace(make_channel_kit("telegram", folder, {**self.section, **more}), commands=COMMANDS)
        )

    # what people do

    async def _say(self, said: HumanMessage, more: dict[str, Any]) -> str:
        fields: dict[str, Any] = {"text": said.text, **more}
        if said.mention:
            whom = f"@{ME['username']}"
            fields |= {
                "text": f"{whom} {said.text}",
                "entities": [{"type": "mention", "offset": 0, "length": len(whom)}],
            }
        elif said.text.startswith("/"):
            command = said.text.split()[0]
            fields["entities"] = [{"type": "bot_command", "offset": 0, "length": len(command)}]
        return self.tell(fields, chat=said.chat, sender=said.sender, event=said.event, times=said.times)

    def tell(self, fields: dict[str, Any], *, chat: str = "", sender: str = "", event: str = "", times: int = 1) -> str:
        """A message with any fields of Telegram's `Message`. `event` is the number it gets."""
        where = CHATS[chat]
        who = CHATS[sender] if sender else where if where > 0 else ANN
        ident = int(event) if event.isdigit() else self.number()
        kept = FakeTelegramMessage(ident, where, who, str(fields.get("text") or fields.get("caption") or ""))
        self.messages.append(kept)
        message = {
            "message_id": ident, "date": AT, "chat": self.describe_chat(where), "from": self.user(who), **fields
        }  # fmt: skip
        for _ in range(times):
            self.add(message=message)
        return str(ident)

    def user(self, ident: int) -> dict[str, Any]:
        """Somebody, as Telegram describes people."""
        return {"id": ident, "is_bot": False, "first_name": self.chats[ident]["first_name"]}

    def describe_chat(self, chat: int) -> dict[str, Any]:
        return {"id": chat, **{key: value for key, value in self.chats[chat].items() if key != "topics"}}

    def keep(self, path: str, data: bytes) -> dict[str, Any]:
        """A file somebody has uploaded, as Telegram describes files."""
        self.files[path] = data
        return {"file_id": path, "file_unique_id": path, "file_size": len(data)}

    def topic(self, name: str) -> int:
        """Somebody makes a topic in the forum."""
        ident = self.number()
        self.chats[FORUM]["topics"][ident] = name
        return ident

    async def press(self, message_id: str, label: str, *, chat: str = "", sender: str = "") -> None:
        where = CHATS[chat]
        kept = next(one for one in self.messages if (one.chat, one.id) == (where, int(message_id)))
        data = dict(kept.buttons)[label]
        who = CHATS[sender] if sender else where if where > 0 else ANN
        message = {"message_id": kept.id, "date": AT, "chat": self.describe_chat(where), "from": ME, "text": kept.text}
        if kept.thread:
            message |= {"message_thread_id": kept.thread, "is_topic_message": True}
        query = {"id": f"{self.number()}9", "from": self.user(who), "message": message, "chat_instance": "1"}
        self.add(callback_query={**query, "data": data})

    # what people see

    def visible_messages(self, chat: str = "", thread: int = 0) -> list[VisibleMessage]:
        return [
            VisibleMessage(
                str(one.id), one.text, one.media, tuple(label for label, _ in one.buttons), reply_to=_id(one.reply_to)
            )
            for one in self.messages
            if one.sender == ME["id"] and one.chat == CHATS[chat] and (not thread or one.thread == thread)
        ]

    def read(self, chat: str = "", thread: int = 0) -> list[str]:
        """The texts of `visible_messages`."""
        return [one.text for one in self.visible_messages(chat, thread)]

    def calls_of(self, method: str) -> list[dict[str, Any]]:
        """The parameters of every call of a method."""
        return [params for name, params in self.calls if name == method]

    # what goes wrong

    def next_fault(self) -> str:
        trouble = super().next_fault()
        if trouble not in FAULTS:
            return trouble
        code, text = FAULTS[trouble]
        rest = {"retry_after": self.retry_after or 1} if trouble == "limited" else {}
        raise FakeTelegramFault(code, text.format(rest.get("retry_after")), **rest)

    async def cut(self) -> None:
        await self.stop()

    async def mend(self) -> None:
        await self.start()

    def migrate(self, new: int) -> None:
        """The group becomes a supergroup with another id; both chats say so."""
        self.chats[new] = dict(self.chats[GROUP])
        self.moved[GROUP] = new
        old = self.describe_chat(GROUP)
        self.add(message={"message_id": self.number(), "date": AT, "chat": old, "migrate_to_chat_id": new})


def _id(number: int) -> str:
    return str(number) if number else ""
