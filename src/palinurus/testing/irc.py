"""An IRC server with people, as modern ones are: capabilities, SASL, accounts, message ids, history; or an old one
without any of that (`modern=False`). Speaks the protocol on loopback, without TLS unless given a certificate.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from typing import Any, ClassVar

from palinurus.channels.irc.wire import IrcLine, fold_name, format_line, parse_line
from palinurus.core.types.channel import SendTrouble
from palinurus.testing.loopback import LoopbackTcp
from palinurus.testing.platform import FakePlatform, HumanMessage, VisibleMessage

ROOM = "#room"
NICK = "pal"
CAPS = (
    "message-tags", "server-time", "account-tag", "account-notify", "extended-join", "echo-message", "batch", "sasl",
    "draft/chathistory",
)  # fmt: skip
SERVER = "irc.test"
# What the server says to each trouble: its number and words.
NUMBERS: dict[SendTrouble, tuple[str, str]] = {
    "limited": ("263", "Server load is temporarily too heavy. Please wait a while and try again."),
    "blocked": ("404", "Cannot send to channel"),
    "gone": ("401", "No such nick/channel"),
    "refused": ("407", "Too many recipients"),
    "long": ("417", "Input line was too long"),
}


class _Client:
    """A connection: ours."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.nick = ""
        self.caps: set[str] = set()
        self.negotiating = False
        self.welcomed = False
        self.named = False
        self.rooms: set[str] = set()
        self.login = ""

    def send(self, command: str, *params: str, source: str = SERVER, tags: dict[str, str] | None = None) -> None:
        known = tags if tags and "message-tags" in self.caps else {}
        head = "@" + ";".join(f"{key}={value}" if value else key for key, value in known.items()) + " " if known else ""
        self.writer.write(f"{head}:{source} ".encode() + format_line(command, *params))


class FakeIrc(FakePlatform):
    """Implements `FakePlatform`."""

    name = "irc"
    troubles: ClassVar[tuple[SendTrouble, ...]] = ("cut", *NUMBERS)

    def __init__(self, modern: bool = True, certificate: ssl.SSLContext | None = None) -> None:
        self._server = LoopbackTcp(self._serve, certificate)
        super().__init__(self._server)
        self.modern = modern
        self.password = ""  # at the services; "" = anybody may come
        self.taken: set[str] = set()  # nicks of others
        self.accounts = {"human": "human"}  # nick -> account
        self.banned: set[str] = set()  # rooms we may not enter
        self.seen: list[tuple[str, VisibleMessage]] = []
        self.lines: list[IrcLine] = []  # all that clients sent
        self._certificate = certificate
        self._clients: set[_Client] = set()
        self._history: list[tuple[str, str, str, dict[str, str]]] = []  # target, source, text, tags
        self._count = 0

    def drop(self) -> None:
        """Connections break; new ones are taken."""
        self._server.drop()

    @property
    def section(self) -> dict[str, Any]:
        where = {"host": "127.0.0.1", "port": self._server.port, "tls": self._certificate is not None}
        return {**where, "nick": NICK, "channels": [ROOM], "paceMs": 0}

    # --- people

    def mask(self, sender: str = "") -> str:
        nick = sender or "human"
        return f"{nick}!{nick}@home.{nick}"

    async def _say(self, said: HumanMessage, more: dict[str, Any]) -> str:
        """`more`: `mask`, another nick!user@host than the usual one."""
        self._count += 1
        nick = said.sender or "human"
        body = f"{NICK}: {said.text}" if said.mention else said.text
        ident = said.event or f"id{self._count}"
        tags = {"msgid": ident, "time": self._now()}
        if nick in self.accounts:
            tags["account"] = self.accounts[nick]
        target = ROOM if said.chat == "group" else NICK
        source = more.get("mask") or self.mask(nick)
        self._history.append((target, source, body, tags))
        for client in self._clients:
            if client.welcomed and (target != ROOM or ROOM in client.rooms):
                for _ in range(said.times if self.modern else 1):
                    client.send("PRIVMSG", target if target == ROOM else client.nick, body, source=source, tags=tags)
        return ident

    def _now(self) -> str:
        return f"2026-01-01T00:{self._count // 60:02}:{self._count % 60:02}.000Z"

    def tell(self, command: str, *params: str, source: str = SERVER) -> None:
        """Any other line, to everybody who is connected."""
        for client in self._clients:
            client.send(command, *params, source=source)

    def visible_messages(self, chat: str = "") -> list[VisibleMessage]:
        where = ROOM if chat == "group" else chat or "human"
        return [one for to, one in self.seen if to == where]

    # --- the server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _Client(writer)
        self._clients.add(client)
        try:
            while data := await reader.readline():
                assert len(data) <= 512, "a line longer than the protocol allows"
                if (got := parse_line(data)) is not None:
                    self.lines.append(got)
                    self._take(client, got)
        finally:
            self._clients.discard(client)

    def _take(self, client: _Client, got: IrcLine) -> None:
        handler = getattr(self, f"_on_{got.command.lower()}", None)
        if handler is not None:
            handler(client, got)

    def _on_cap(self, client: _Client, got: IrcLine) -> None:
        if not self.modern:
            client.send("421", "*", "CAP", "Unknown command")
        elif got.get(0) == "LS":
            client.negotiating = True
            client.send("CAP", "*", "LS", "*", " ".join(CAPS[:4]))
            client.send("CAP", "*", "LS", " ".join(CAPS[4:]))
        elif got.get(0) == "REQ":
            client.caps |= set(got.get(1).split())
            client.send("CAP", "*", "ACK", got.get(1))
        elif got.get(0) == "END":
            client.negotiating = False
            self._welcome(client)

    def _on_authenticate(self, client: _Client, got: IrcLine) -> None:
        if got.get(0) == "PLAIN":
            client.writer.write(b"AUTHENTICATE +\r\n")
            return
        who, _, secret = base64.b64decode(got.get(0)).decode().split("\0")
        if secret == self.password:
            client.login = who
            client.send("903", "*", "SASL authentication successful")
        else:
            client.send("904", "*", "SASL authentication failed")

    def _on_nick(self, client: _Client, got: IrcLine) -> None:
        wanted = got.get(0)
        if fold_name(wanted) in self.taken:
            client.send("433", client.nick or "*", wanted, "Nickname is already in use")
            return
        if client.welcomed:
            client.send("NICK", wanted, source=f"{client.nick}!pal@client.host")
        client.nick = wanted
        self._welcome(client)

    def _on_user(self, client: _Client, got: IrcLine) -> None:
        client.named = True
        self._welcome(client)

    def _welcome(self, client: _Client) -> None:
        if client.welcomed or client.negotiating or not client.nick or not client.named:
            return
        client.welcomed = True
        client.send("001", client.nick, "Welcome")
        client.send("005", client.nick, "CASEMAPPING=rfc1459", "NICKLEN=30", "BOT=B", "are supported")
        client.send("422", client.nick, "No message of the day")

    def _on_ping(self, client: _Client, got: IrcLine) -> None:
        client.send("PONG", SERVER, got.get(0))

    def _on_join(self, client: _Client, got: IrcLine) -> None:
        room = got.get(0)
        if room in self.banned:
            client.send("474", client.nick, room, "Cannot join channel (+b)")
            return
        client.rooms.add(room)
        client.send("JOIN", room, source=f"{client.nick}!pal@client.host")

    def _on_privmsg(self, client: _Client, got: IrcLine) -> None:
        to, text = got.params
        fault = self.next_fault()
        if fault in NUMBERS:
            number, words = NUMBERS[fault]
            client.send(number, client.nick, "PRIVMSG" if fault == "limited" else to, words)
            return
        self._count += 1
        ident = f"ours{self._count}" if "echo-message" in client.caps else ""
        self.seen.append((to, VisibleMessage(ident, text)))
        own = f"{client.nick}!pal@client.host"
        tags = {"msgid": ident, "time": self._now()}
        self._history.append((to, own, text, tags))
        if fault == "cut":
            client.writer.transport.abort()
        elif ident:
            client.send("PRIVMSG", to, text, source=own, tags=tags)

    def _on_chathistory(self, client: _Client, got: IrcLine) -> None:
        since = got.get(1 if got.get(0) == "TARGETS" else 2).removeprefix("timestamp=")
        rows = [row for row in self._history if row[3]["time"] > since]
        if got.get(0) == "TARGETS":
            others = [source.partition("!")[0] for target, source, _, _ in rows if target != ROOM]
            for nick in dict.fromkeys(one for one in others if one != client.nick):
                client.send("CHATHISTORY", "TARGETS", nick, "2026-01-01T00:00:00.000Z", tags={"batch": "t"})
            return
        client.send("BATCH", "+1", "chathistory", got.get(1))
        for target, source, text, tags in rows:
            both = (source.partition("!")[0], target)
            mine = target == ROOM if got.get(1) == ROOM else got.get(1) in both and target != ROOM
            if mine:
                where = target if target == ROOM or both[0] == client.nick else client.nick
                client.send("PRIVMSG", where, text, source=source, tags={**tags, "batch": "1"})
        client.send("BATCH", "-1")
