"""What exists at the fake Discord: people, one server with its channels and threads, chats, messages. No network."""

from __future__ import annotations

from typing import Any

from palinurus.channels.discord.inbound import make_lowest_id
from palinurus.clock import SystemClock
from palinurus.patterns import compile_late
from palinurus.testing.platform import VisibleMessage

ME, APPLICATION, ROLE = "900000000000000001", "900000000000000002", "900000000000000003"
GUILD, GROUP = "910000000000000001", "910000000000000002"
TOKEN = "fake.discord.token"
PERSON = "human"
TEXT, DIRECT, THREAD = 0, 1, 11
_MARKS = compile_late(r"\\([^a-zA-Z0-9\s])|\*\*|\*|__|~~|\|\||```(?:\w+\n)?|`")


class FakeDiscordState:
    """The state, and what people see of it."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._last = 0
        self.people: dict[str, str] = {}
        self.roles: dict[str, list[str]] = {}  # of members, by user id
        self.chats: dict[str, dict[str, Any]] = {
            GROUP: {"id": GROUP, "type": TEXT, "guild_id": GUILD, "name": "general", "last_message_id": None}
        }
        self.messages: dict[str, list[dict[str, Any]]] = {}
        self.nonces: dict[str, dict[str, Any]] = {}  # what Discord still remembers of the last minutes
        self.forgetful = False  # it remembers none: as if minutes went by at once
        self.files: dict[str, bytes] = {}
        self.fetched = 0  # files that were asked for
        self.lost: set[str] = set()  # names of files that are not there any more
        self.commands: list[dict[str, Any]] = []
        self.typed: list[str] = []  # chats in which we were seen typing
        self.answers: list[tuple[str, dict[str, Any]]] = []  # interaction, what it was answered with
        self.calls: list[str] = []  # every request: "POST /channels/…"

    def ident(self) -> str:
        """A new id, later than all others."""
        self._last = max(self._last + 1, make_lowest_id(self._clock.now()))
        return str(self._last)

    # --- people and places

    def person(self, name: str) -> dict[str, Any]:
        """A user; made when first named."""
        name = name or PERSON
        if name not in self.people:
            self.people[name] = str(920000000000000000 + len(self.people))
        return {"id": self.people[name], "username": name, "global_name": name.title(), "bot": name.endswith("bot")}

    def me(self) -> dict[str, Any]:
        return {"id": ME, "username": "pal", "discriminator": "0", "bot": True, "global_name": None}

    def chat(self, chat: str, sender: str = "") -> dict[str, Any]:
        """The chat that a person means: "" is theirs with us, "group" the server's channel, else an id."""
        if chat:
            return self.chats[GROUP if chat == "group" else chat]
        return self.direct(self.person(sender)["id"])

    def direct(self, user: str) -> dict[str, Any]:
        """Our chat with a person."""
        ident = str(int(user) + 10_000_000)
        if ident not in self.chats:
            who = {"id": user, "username": "someone"}
            self.chats[ident] = {"id": ident, "type": DIRECT, "recipients": [who], "last_message_id": None}
        return self.chats[ident]

    def thread(self, parent: str, name: str, ident: str = "") -> dict[str, Any]:
        """A new thread below a channel."""
        ident = ident or self.ident()
        self.chats[ident] = {"id": ident, "type": THREAD, "guild_id": GUILD, "parent_id": parent, "name": name}
        return self.chats[ident]

    def guild(self) -> dict[str, Any]:
        """As the gateway describes it."""
        ours = [chat for chat in self.chats.values() if chat.get("guild_id")]
        return {
            "id": GUILD,
            "name": "Club",
            "roles": [{"id": ROLE, "name": "pal", "tags": {"bot_id": ME}}, {"id": "77", "name": "crew"}],
            "channels": [chat for chat in ours if chat["type"] != THREAD],
            "threads": [chat for chat in ours if chat["type"] == THREAD],
        }

    def member(self, user: str) -> dict[str, Any]:
        name = next((name for name, ident in self.people.items() if ident == user), "")
        return {"user": self.person(name) if name else {"id": user}, "roles": self.roles.get(user, []), "nick": None}

    # --- messages

    def write(self, chat: str, author: dict[str, Any], text: str, **more: Any) -> dict[str, Any]:
        """A message as REST shows it."""
        made = {
            "id": more.pop("ident", "") or self.ident(), "type": 0, "channel_id": chat, "author": author,
            "content": text, "attachments": [], "components": [], "flags": 0,
            "mentions": [self.me()] if f"<@{ME}>" in text else [],
            "mention_roles": [ROLE] if f"<@&{ROLE}>" in text else [], **more,
        }  # fmt: skip
        answered = self.message(chat, (made.get("message_reference") or {}).get("message_id", ""))
        if answered is not None:
            made |= {"type": 19, "referenced_message": answered}
        self.messages.setdefault(chat, []).append(made)
        self.chats[chat]["last_message_id"] = made["id"]
        return made

    def message(self, chat: str, ident: str) -> dict[str, Any] | None:
        return next((one for one in self.messages.get(chat, ()) if one["id"] == ident), None)

    def attach(self, base: str, name: str, mime: str, data: bytes) -> dict[str, Any]:
        """A file, kept; the entry that messages have of it."""
        path = f"{self.ident()}/{name}"
        if name not in self.lost:
            self.files[path] = data
        url = f"{base}/attachments/{path}"
        return {"id": path, "filename": name, "content_type": mime, "size": len(data), "url": url}

    def shown(self, chat: str = "") -> list[VisibleMessage]:
        """Our messages in a chat, as people see them."""
        return [
            VisibleMessage(
                one["id"],
                strip_marks(one["content"]),
                tuple(file["filename"] for file in one["attachments"]),
                tuple(button["label"] for row in one["components"] for button in row["components"]),
                reply_to=(one.get("message_reference") or {}).get("message_id", ""),
            )
            for one in self.messages.get(self.chat(chat)["id"], ())
            if one["author"]["id"] == ME
        ]

    def button(self, chat: str, ident: str, label: str) -> str:
        """What is behind a button."""
        message = self.message(chat, ident)
        assert message is not None, ident
        return next(
            str(one["custom_id"]) for row in message["components"] for one in row["components"] if one["label"] == label
        )


def strip_marks(text: str) -> str:
    """What is read of a message: without its marks, and with what was escaped."""
    return _MARKS.sub(lambda match: match[1] or "", text)
