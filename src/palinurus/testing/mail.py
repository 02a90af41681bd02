"""A mail provider with people: IMAP (with IDLE, or an old one without) and SMTP on loopback, one account of ours.

Mails to us arrive in INBOX with the verdict of the provider (Authentication-Results); what we send is kept in Sent,
as large providers do, and lies in the mailboxes of people.
"""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
from collections.abc import Callable
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from email.policy import default as modern
from typing import Any, ClassVar, cast

import msgspec

from palinurus.core.types.channel import SendTrouble
from palinurus.patterns import compile_late
from palinurus.testing.loopback import LoopbackTcp
from palinurus.testing.platform import FakePlatform, HumanMessage, VisibleMessage

OURS = "agent@home.test"
HUMAN = "human@people.test"
SERVER = "mx.home.test"
SECRET = 'pass wörd"\\'
# What the SMTP server says to each trouble: after which command, and the words.
FAULTS: dict[SendTrouble, tuple[str, str]] = {
    "down": ("MAIL", "421 4.3.0 closing the channel"),
    "limited": ("RCPT", "451 4.7.1 greylisted, come back later"),
    "long": ("DATA", "552 5.3.4 message too big for this system"),
    "signed_out": ("MAIL", "535 5.7.8 authentication credentials invalid"),
    "blocked": ("RCPT", "550 5.7.1 your mail is not wanted here"),
    "gone": ("RCPT", "550 5.1.1 no such user"),
    "refused": ("DATA", "554 5.6.0 this cannot be delivered"),
}
_LITERAL = compile_late(rb"\{(\d+)\}\r\n$")


class FakeMailItem(msgspec.Struct, frozen=True):
    """A mail in a folder."""

    number: int
    data: bytes


class FakeMail(FakePlatform):
    """A mail provider. `idle`: can the server tell of new mail? `keeps`: does it keep what is sent by itself?"""

    name = "email"
    groups = False
    troubles: ClassVar[tuple[SendTrouble, ...]] = ("cut", *FAULTS)

    def __init__(
        self, *, idle: bool = True, keeps: bool = True, tls: ssl.SSLContext | None = None, later: bool = False
    ) -> None:
        """`later`: TLS begins with STARTTLS, not at once."""
        first = None if later else tls
        self._imap, self._smtp = LoopbackTcp(self._reading, first), LoopbackTcp(self._posting, first)
        super().__init__(self._imap, self._smtp)
        self.later = later
        self.idle = idle
        self.keeps = keeps
        self.secret = SECRET
        self.validity = 7
        self.folders: dict[str, list[FakeMailItem]] = {"INBOX": [], "Sent Mail": []}
        self.flags: dict[tuple[str, int], set[str]] = {}
        self.delivered: list[tuple[str, EmailMessage]] = []  # to whom, what
        self.tls = tls
        self._count = 0
        self._news: set[asyncio.Event] = set()

    @property
    def section(self) -> dict[str, Any]:
        where = [
            {"host": "127.0.0.1", "port": one.port, "tls": "starttls" if self.later else self.tls is not None}
            for one in (self._imap, self._smtp)
        ]
        rest = {"address": OURS, "password": self.secret, "authservId": SERVER, "pollSeconds": 0.05}
        return {"imap": where[0], "smtp": where[1], **rest}

    # --- people

    async def _say(self, said: HumanMessage, more: dict[str, Any]) -> str:
        """People go on in the thread they began. `more`: headers (_ for -) over the usual ones; "" leaves one out."""
        self._count += 1
        who = f"{said.sender}@people.test" if said.sender else HUMAN
        ident = said.event or f"<m{self._count}@people.test>"
        made = EmailMessage(policy=SMTP)
        verdict = f"{SERVER}; dkim=pass header.d=people.test; dmarc=pass (p=none) header.from=people.test"
        root = f"<root.{said.sender}@people.test>"
        usual = {"Authentication-Results": verdict, "Return-Path": f"<{who}>", "From": f"Human <{who}>", "To": OURS}
        usual |= {"Message-ID": ident, "In-Reply-To": root, "References": root}
        for name, value in {**usual, **{key.replace("_", "-"): value for key, value in more.items()}}.items():
            if value:
                made[name] = value
        made.set_content(said.text)
        for _ in range(said.times):
            self.arrive(made.as_bytes())
        return ident

    def arrive(self, data: bytes, folder: str = "INBOX") -> int:
        """A mail lies in a folder; returns its number."""
        number = max((one.number for one in self.folders[folder]), default=0) + 1
        self.folders[folder].append(FakeMailItem(number, data))
        for news in self._news:
            news.set()
        return number

    def visible_messages(self, chat: str = "") -> list[VisibleMessage]:
        where = f"{chat}@people.test" if chat else HUMAN
        return [_shown(mail) for to, mail in self.delivered if to == where]

    def is_seen(self, number: int) -> bool:
        """Is a mail in INBOX marked as read?"""
        return r"\Seen" in self.flags.get(("INBOX", number), set())

    # --- SMTP

    async def _posting(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        people: list[str] = []
        fault = ""
        writer.write(b"220 smtp.home.test\r\n")
        while line := (await reader.readline()).decode():
            verb = line[:4].upper()
            if verb == "MAIL":
                people, fault = [], self.next_fault()
            after, words = FAULTS.get(cast("SendTrouble", fault), ("", ""))
            if verb == "QUIT":
                return
            if verb == "DATA":
                writer.write(b"354 go on\r\n")
                data = (await reader.readuntil(b"\r\n.\r\n"))[:-3].replace(b"\r\n..", b"\r\n.")
                if after != verb:
                    self._deliver(people, data)
                if fault == "cut":
                    writer.transport.abort()
                    return
            if verb == "RCPT":
                people.append(line.partition("<")[2].partition(">")[0])
            if verb == "STAR":
                writer.write(b"220 go ahead\r\n")
                await self.secure(writer)
                continue
            offer = "\r\n250-STARTTLS" if self.later else ""
            known = {"EHLO": f"250-smtp.home.test{offer}\r\n250 AUTH PLAIN", "AUTH": self._let_in(line)}
            writer.write(f"{words if after == verb else known.get(verb, '250 ok')}\r\n".encode())

    async def secure(self, writer: asyncio.StreamWriter) -> None:
        """From here on nobody else can read it."""
        assert self.tls is not None
        await writer.drain()
        await writer.start_tls(self.tls)

    def _let_in(self, line: str) -> str:
        given = base64.b64decode(line.split()[-1] + "==").decode().split("\0") if line[:4].upper() == "AUTH" else [""]
        return "235 2.7.0 welcome" if given[-1] == self.secret else "535 5.7.8 authentication credentials invalid"

    def _deliver(self, people: list[str], data: bytes) -> None:
        mail = message_from_bytes(data, policy=modern)
        assert isinstance(mail, EmailMessage)
        for one in people:
            if one == OURS:
                self.arrive(data)
            else:
                self.delivered.append((one, mail))
        if self.keeps:
            self.arrive(data, "Sent Mail")

    # --- IMAP

    async def _reading(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"* OK [CAPABILITY {self._capable}] ready\r\n".encode())
        session = _Session(self, reader, writer)
        while line := await session.command():
            await session.answer(line)

    @property
    def _capable(self) -> str:
        return "IMAP4rev1 AUTH=PLAIN SPECIAL-USE" + " IDLE" * self.idle + " STARTTLS" * self.later

    @property
    def is_watched(self) -> bool:
        """Does anybody wait for new mail?"""
        return bool(self._news)

    def watch(self, news: asyncio.Event, on: bool) -> None:
        """Somebody waits for new mail, or no longer."""
        (self._news.add if on else self._news.discard)(news)


class _Session:
    """One client of the IMAP server."""

    def __init__(self, mail: FakeMail, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._mail = mail
        self._reader = reader
        self._writer = writer
        self._folder = ""
        self._told = 0  # how many mails the client knows of

    async def command(self) -> bytes:
        """A whole command, literals included; b"" at the end."""
        whole = line = await self._reader.readline()
        while found := _LITERAL.search(line):
            self._writer.write(b"+ go on\r\n")
            data = await self._reader.readexactly(int(found[1]))
            line = await self._reader.readline()
            whole += data + line
        return whole

    def say(self, *lines: str | bytes) -> None:
        self._writer.write(b"".join(one if isinstance(one, bytes) else one.encode() + b"\r\n" for one in lines))

    async def answer(self, line: bytes) -> None:
        tag, _, rest = line.decode("utf-8", "surrogateescape").strip("\r\n").partition(" ")
        verb, _, told = rest.partition(" ")
        if verb.upper() == "UID":
            verb, _, told = told.partition(" ")
        known: dict[str, Callable[[str], str]] = {
            "CAPABILITY": self._capability, "LIST": self._list, "SELECT": self._select, "EXAMINE": self._select,
            "SEARCH": self._search, "FETCH": self._fetch, "STORE": self._store, "NOOP": self._exists,
            "LOGOUT": lambda _: "OK",
        }  # fmt: skip
        if verb.upper() == "AUTHENTICATE":
            self.say("+ ")
            given = base64.b64decode(await self._reader.readline()).decode().split("\0")
            good = given == ["", OURS, self._mail.secret]
            self.say(f"{tag} OK welcome" if good else f"{tag} NO [AUTHENTICATIONFAILED] no")
        elif verb.upper() == "STARTTLS":
            self.say(f"{tag} OK begin", "* CAPABILITY IMAP4rev1 LOGINDISABLED X-INJECTED")
            await self._mail.secure(self._writer)
        elif verb.upper() == "IDLE":
            await self._idle(tag)
        elif verb.upper() == "APPEND":
            folder, body = told.split('"')[1], line.partition(b"}\r\n")[2].removesuffix(b"\r\n")
            self._mail.arrive(body, folder)
            self.say(f"{tag} OK done")
        else:
            self.say(f"{tag} {known[verb.upper()](told)} done")

    async def _idle(self, tag: str) -> None:
        news = asyncio.Event()
        self._mail.watch(news, True)
        if len(self._mail.folders[self._folder]) != self._told:
            news.set()
        self.say("+ idling")
        over = asyncio.ensure_future(self._reader.readline())
        told = asyncio.ensure_future(news.wait())
        await asyncio.wait((over, told), return_when=asyncio.FIRST_COMPLETED)
        if told.done():
            self._exists("")
        told.cancel()
        self._mail.watch(news, False)
        assert (await over).strip() in (b"DONE", b"")
        self.say(f"{tag} OK idled")

    def _exists(self, told: str) -> str:
        self._told = len(self._mail.folders.get(self._folder, ()))
        self.say(f"* {self._told} EXISTS")
        return "OK"

    def _capability(self, told: str) -> str:
        self.say(f"* CAPABILITY {self._mail._capable}")
        return "OK"

    def _list(self, told: str) -> str:
        self.say(r'* LIST (\HasNoChildren) "/" INBOX', r'* LIST (\HasNoChildren \Sent) "/" "Sent Mail"')
        return "OK"

    def _select(self, told: str) -> str:
        folder = told.strip().strip('"')
        if folder not in self._mail.folders:
            return "NO"
        self._folder = folder
        mails = self._mail.folders[folder]
        following = max((one.number for one in mails), default=0) + 1
        self._exists("")
        self.say(f"* OK [UIDVALIDITY {self._mail.validity}] x", f"* OK [UIDNEXT {following}] x")
        return "OK"

    def _search(self, told: str) -> str:
        mails = self._mail.folders[self._folder]
        if found := re.match(r"UID (\d+):\*", told):  # as the standard has it: the last one is always among them
            last = max((one.number for one in mails), default=0)
            hits = [one.number for one in mails if one.number >= min(int(found[1]), last)]
        elif found := re.match(r'HEADER Message-ID "(.*)"', told):
            hits = [one.number for one in mails if f"Message-ID: {found[1]}".encode() in one.data]
        elif told.startswith("UNSEEN SINCE "):
            hits = [one.number for one in mails if r"\Seen" not in self._mail.flags.get((self._folder, one.number), ())]
        else:
            hits = [one.number for one in mails]
        self.say("* SEARCH " + " ".join(map(str, hits)))
        return "OK"

    def _fetch(self, told: str) -> str:
        number, most = int(told.split()[0]), int(told.rpartition("<0.")[2].partition(">")[0])
        for one in self._mail.folders[self._folder]:
            if one.number == number:
                part = one.data[:most]
                head = f"* 1 FETCH (UID {number} RFC822.SIZE {len(one.data)} BODY[]<0> {{{len(part)}}}\r\n"
                self.say(head.encode() + part + b")\r\n")
        return "OK"

    def _store(self, told: str) -> str:
        self._mail.flags.setdefault((self._folder, int(told.split()[0])), set()).add(r"\Seen")
        return "OK"


def _shown(mail: EmailMessage) -> VisibleMessage:
    body = mail.get_body(("plain",))
    assert body is not None
    files = tuple(one.get_filename() or "" for one in mail.iter_attachments())
    text = str(body.get_content()).replace("\r\n", "\n").removesuffix("\n")
    return VisibleMessage(str(mail["Message-ID"]), text, files, (), reply_to=str(mail["In-Reply-To"] or ""))
