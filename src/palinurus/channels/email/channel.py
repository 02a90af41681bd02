"""One mailbox: new mail is handed in and then marked as read, replies go out in their thread.

Where we are in the mailbox (UIDVALIDITY and the next UID) is kept only as far as all before it is on our disk; what a
crash leaves in between is fetched again, and is one turn. A reply has the same Message-ID however often it is tried,
so it can be looked for among the mails that were sent.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import NoReturn, cast

import msgspec

from palinurus.channels.email import outbound, wire
from palinurus.channels.email.inbound import (
    ADDRESS,
    MESSAGE_ID,
    PARSE_ERRORS,
    UNVERIFIED,
    EmailIdentity,
    EmailInbound,
    parse_mail,
)
from palinurus.channels.intake import ChatWorkers, fetch_message_files, hand_in, read_brought_file
from palinurus.channels.kit import (
    LOCAL_HOSTS,
    READABLE_PASSWORD,
    AccountChannel,
    ChannelKit,
    load_reply_files,
    read_secret,
)
from palinurus.core.types.channel import ChannelAbilities, SendFailure, SendReceipt, SendResult, SubmitInbound
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.core.untrusted import clean_label
from palinurus.errors import PalinurusError

log = logging.getLogger(__name__)

MEDIA = 15 << 20  # bytes of files on one mail; many servers take 25 MB, and encoding adds a third
IDLE = 540.0  # seconds: routers forget connections that are silent for longer
POLL = 60.0  # seconds between looks where the server does not tell us
AHEAD = 200  # mails in hand at once
HEAD = 1 << 20  # bytes of a mail besides its files
_PORTS: dict[tuple[str, wire.Tls], int] = {
    ("imap", "on"): 993, ("imap", "starttls"): 143, ("imap", "off"): 143,
    ("smtp", "on"): 465, ("smtp", "starttls"): 587, ("smtp", "off"): 25,
}  # fmt: skip
_HINT = "nobody is verified: set authservId to the name your mail server writes into Authentication-Results"
_SIGN_IN = "the mail server does not take the password; set a new one (many need an app password)"


class MailboxProgress(msgspec.Struct, frozen=True):
    """Up to where all mail is on our disk. `at`: when that was written."""

    validity: int
    next: int
    at: int = 0


class MailThread(msgspec.Struct, frozen=True):
    """What an answer in a thread needs to know."""

    subject: str
    references: tuple[str, ...]


class IncomingMail(msgspec.Struct, frozen=True):
    """A mail on its way in. `cut`: there was more than we read."""

    number: int
    heard: EmailInbound
    cut: bool


def make_email_channel(kit: ChannelKit) -> EmailChannel:
    """Raises ConfigError without an address and servers, and where a password would travel readable."""
    address = kit.text("address").lower()
    if "@" not in address:
        raise kit.wrong("address", hint='e.g. "agent@example.org"')
    return EmailChannel(kit, address, _server(kit, "imap", address), _server(kit, "smtp", address))


def _server(kit: ChannelKit, which: str, address: str) -> wire.MailServer:
    own = kit.section(which)
    host, password = (
        own.get("host") or kit.text(f"{which}Host"),
        read_secret(own.get("password", kit.own.get("password"))),
    )
    if not isinstance(host, str) or not host:
        raise kit.wrong(f"{which}.host")
    tls = cast("wire.Tls", {True: "on", None: "on", False: "off", "starttls": "starttls"}.get(own.get("tls"), "on"))
    if tls == "off" and host not in LOCAL_HOSTS:
        raise kit.wrong(f"{which}.tls", what=READABLE_PASSWORD)
    if not password:
        raise kit.wrong(f"{which}.password", hint="set it, best as ${NAME}")
    port = own.get("port")
    return wire.MailServer(
        host,
        port if isinstance(port, int) else _PORTS[which, tls],
        tls,
        str(own.get("username") or address),
        secret=password,
        trust=str(own.get("tlsCaFile") or ""),
    )


class EmailChannel(AccountChannel):
    """Implements `Channel`."""

    name = "email"
    abilities = ChannelAbilities("matrix", limit=100_000, replies=True, threads=True, media=MEDIA)

    def __init__(self, kit: ChannelKit, address: str, imap: wire.MailServer, smtp: wire.MailServer) -> None:
        super().__init__(kit)
        self._address = address
        self._imap, self._smtp = imap, smtp
        addresses = frozenset(one.lower() for one in (address, *kit.texts("aliases")))
        self._me = EmailIdentity(addresses, kit.text("authservId"), kit.account)
        self._folder = kit.text("folder", "INBOX")
        self._poll = kit.number("pollSeconds", POLL)
        self._line: wire.ImapThread | None = None
        self._place = MailboxProgress(0, 0)
        self._next = 0  # the first mail that is not in hand
        self._undone: set[int] = set()
        self._room = asyncio.Event()
        self._sending = ThreadPoolExecutor(2, "smtp")

    # receiving

    async def run(self, submit: SubmitInbound) -> None:
        workers = ChatWorkers(partial(self._take, submit), self._full, AHEAD + 1)
        try:
            await self.keep_connected(partial(self._attempt, workers))
        finally:
            await workers.close()
            self._undone.clear()
            self._place = MailboxProgress(0, 0)  # whoever begins again begins with what is on disk

    async def _attempt(self, workers: ChatWorkers[IncomingMail]) -> SendFailure:
        line = self._line = wire.ImapThread(self._imap)
        try:
            await line.call(wire.ImapConnection.connect)
            return await self._reading(line, workers)
        except wire.ImapLoginRefused:
            return SendFailure(_SIGN_IN, "signed_out")
        except wire.IMAP_ERRORS as exc:
            return SendFailure(f"{self._imap.host}: {str(exc)[:200] or type(exc).__name__}")
        finally:
            self._line = None
            line.close()

    async def _reading(self, line: wire.ImapThread, workers: ChatWorkers[IncomingMail]) -> NoReturn:
        opened = await line.call(lambda imap: imap.select(self._folder))
        await self._begin(line, opened, workers)
        self.set_status("ready", "" if self._me.server else _HINT, me=self._address)
        self._backoff.reset()
        while True:
            for number in await line.call(partial(wire.ImapConnection.search_newer, first=self._next)):
                await self._fetched(line, number, workers)
            if opened.idle:
                await line.idle(IDLE)
            else:
                await self._kit.clock.sleep(self._poll)

    async def _begin(self, line: wire.ImapThread, opened: wire.ImapFolder, workers: ChatWorkers[IncomingMail]) -> None:
        """Go on where we were; the first time with what comes from now on."""
        if self._place.validity == opened.validity:
            return  # what is in hand goes on
        kept = await self._kit.memo.get("place")
        place = msgspec.json.decode(kept, type=MailboxProgress) if kept else MailboxProgress(0, 0)
        if place.validity == opened.validity:
            self._place, self._next = place, place.next
            return
        # Numbers of another time mean nothing: what nobody has seen since then is looked at again.
        missed = await line.call(lambda imap: imap.search_unseen(place.at)) if place.validity else []
        self._undone.clear()
        self._place, self._next = MailboxProgress(opened.validity, 0), opened.next
        for number in missed:
            await self._fetched(line, number, workers)
        await self._keep()

    async def _fetched(self, line: wire.ImapThread, number: int, workers: ChatWorkers[IncomingMail]) -> None:
        while len(self._undone) >= AHEAD:
            self._room.clear()
            await self._room.wait()
        most = self._kit.settings.media * 4 // 3 + HEAD
        raw, size = await line.call(lambda imap: imap.fetch(number, most))
        self._undone.add(number)
        self._next = max(self._next, number + 1)
        heard = await asyncio.to_thread(self._read, raw, number) if raw else "it is gone"
        if isinstance(heard, EmailInbound) and self._forged(heard):
            heard = "its sender may be forged, and a code for letting somebody in is no answer to that"
        if isinstance(heard, str):
            log.info("email %s: mail %d is left alone: %s", self._kit.account, number, heard)
            await self._done(number)
        else:
            workers.give(heard.inbound.target.to, IncomingMail(number, heard, size > most))

    def _forged(self, heard: EmailInbound) -> bool:
        """Would somebody get a code for pairing who perhaps never wrote to us?"""
        return self._kit.settings.dm == "pairing" and heard.inbound.sender.id.startswith(UNVERIFIED)

    def _read(self, raw: bytes, number: int) -> EmailInbound | str:
        try:
            return parse_mail(raw, self._me, self._kit.clock.now(), f"{self._place.validity}/{number}")
        except PARSE_ERRORS:
            log.warning("email %s: mail %d cannot be read", self._kit.account, number, exc_info=True)
            return "it cannot be read"

    async def _take(self, submit: SubmitInbound, mail: IncomingMail) -> None:
        heard = mail.heard
        inbound = await fetch_message_files(self._kit, heard.inbound, heard.files, read_brought_file)
        if mail.cut:
            words = f"{inbound.text}\n[the mail was too large; its end is missing]".strip()
            inbound = msgspec.structs.replace(inbound, text=words)
        await self._noted(inbound.target, MailThread(heard.subject, heard.references))
        await hand_in(submit, inbound, self._kit.clock)
        await self._done(mail.number)

    async def _noted(self, target: Target, known: MailThread) -> None:
        try:
            await self._kit.memo.put(_thread(target.to, target.thread), msgspec.json.encode(known))
        except PalinurusError as exc:  # the answer has a poorer head then; the mail itself is waited for
            log.warning("email %s: a thread is not noted: %s", self._kit.account, exc.message)

    async def _done(self, number: int) -> None:
        """It is on our disk (or nobody wants it): mark it, and go on from there."""
        if self._line is not None:
            try:
                await self._line.call(lambda imap: imap.mark_seen(number))
            except wire.IMAP_ERRORS:  # it stays unread; nothing else comes of that
                log.info("email %s: mail %d could not be marked as read", self._kit.account, number)
        self._undone.discard(number)
        self._room.set()
        await self._keep()

    async def _keep(self) -> None:
        place = MailboxProgress(self._place.validity, min(self._undone, default=self._next), self._kit.clock.now())
        if place.validity and place.next > self._place.next:
            self._place = place
            await self._kit.memo.put("place", msgspec.json.encode(place))

    def _full(self, mail: IncomingMail) -> None:
        raise AssertionError("there is room for all that is in hand")

    # sending

    async def send(self, reply: Reply) -> SendResult:
        if not ADDRESS.fullmatch(reply.target.to):
            return SendFailure(f"{clean_label(reply.target.to, 80)!r} is no address", "gone")
        files = await load_reply_files(self._kit, reply, MEDIA, together=True)
        if isinstance(files, SendFailure):
            return files
        made = outbound.build_mail(reply, files, await self._envelope(reply))
        to = [reply.target.to, *([self._address] if self._kit.flag("copyToSelf", False) else [])]
        loop = asyncio.get_running_loop()
        answer = await loop.run_in_executor(self._sending, outbound.send_mail, made, self._smtp, to)
        if isinstance(answer, SendReceipt):
            await self._remembered(reply, answer.message_id)
            if self._kit.flag("saveSent", True):  # the receipt does not wait for it
                loop.run_in_executor(self._sending, self._filed, answer.message_id, made.as_bytes())
        return answer

    async def find(self, reply: Reply) -> SendReceipt | None:
        ident = outbound.make_message_id(reply.client_id, self._address)
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._sending, self._looked, ident)
        return SendReceipt(ident) if found else None

    async def _envelope(self, reply: Reply) -> outbound.MailEnvelope:
        kept = await self._kit.memo.get(_thread(reply.target.to, reply.target.thread)) if reply.target.thread else None
        known = msgspec.json.decode(kept, type=MailThread) if kept else MailThread("", ())
        subject = known.subject or self._kit.text("subject", "A message for you")
        if kept and not subject.lower().startswith("re:"):
            subject = f"Re: {subject}"
        before = known.references or ((reply.target.thread,) if MESSAGE_ID.fullmatch(reply.target.thread) else ())
        return outbound.MailEnvelope(self._address, self._kit.text("name"), subject, before, at=self._kit.clock.now())

    async def _remembered(self, reply: Reply, ident: str) -> None:
        """The next mail of the thread refers to this one too."""
        key = _thread(reply.target.to, reply.target.thread)
        kept = await self._kit.memo.get(key) if reply.target.thread else None
        if kept:
            known = msgspec.json.decode(kept, type=MailThread)
            rest = (*(one for one in known.references[1:] if one != ident), ident)[-9:]
            await self._noted(reply.target, MailThread(known.subject, (*known.references[:1], *rest)))

    # blocking, in a thread

    @contextmanager
    def _signed_in(self) -> Iterator[wire.ImapConnection]:
        with closing(wire.ImapConnection(self._imap)) as imap:
            imap.connect()
            yield imap

    def _looked(self, ident: str) -> bool:
        """Is the mail among those that were sent, or did our own copy arrive?"""
        try:
            with self._signed_in() as imap:
                sent = imap.find_sent_folder(self._kit.text("sentFolder"))
                return any(imap.has(folder, ident) for folder in dict.fromkeys((sent, self._folder)) if folder)
        except (wire.ImapLoginRefused, *wire.IMAP_ERRORS) as exc:
            log.warning("email %s: cannot look for a sent mail: %s", self._kit.account, exc)
            return False

    def _filed(self, ident: str, data: bytes) -> None:
        """A copy among the sent mails, where the server keeps none itself."""
        try:
            with self._signed_in() as imap:
                folder = imap.find_sent_folder(self._kit.text("sentFolder"))
                if folder and not imap.has(folder, ident):
                    imap.append(folder, data)
        except (wire.ImapLoginRefused, *wire.IMAP_ERRORS) as exc:
            log.info("email %s: no copy of a sent mail is kept: %s", self._kit.account, exc)


def _thread(to: str, root: str) -> str:
    return f"thread/{hashlib.sha256(f'{to} {root}'.encode()).hexdigest()[:32]}"
