"""One connection to an IMAP server. Blocking: `ImapThread` runs it in a thread of its own, so that waiting for new mail
takes no thread away from anybody else. Knows commands and answers; what a mail says is `inbound.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import imaplib
import re
import select
import socket
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from palinurus.config.secrets import Secret
from palinurus.patterns import compile_late

T = TypeVar("T")
Tls: TypeAlias = Literal["on", "starttls", "off"]

TIMEOUT = 60.0  # seconds for one answer
CONNECT = 10.0  # seconds until there is a connection; a thread that waits for one cannot be woken
LINE = 1 << 20  # bytes of one line of the server
_TAG = b"IDLING"  # of the one command that the library does not send for us
_REFUSED = compile_late(
    r"authenticationfailed|invalid credentials|authentication failed|login failed|authorizationfailed", re.I
)
_SPECIAL = compile_late(rb'\((?P<flags>[^()]*)\) (?:"[^"]*"|NIL) (?P<name>"(?:[^"\\]|\\.)*"|\S+)\s*$')
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
IMAP_ERRORS = (imaplib.IMAP4.error, OSError, ValueError, EOFError)


class MailServer(msgspec.Struct, frozen=True):
    """Where, how and as whom. `trust`: a file of certificates to believe besides the system's."""

    host: str
    port: int
    tls: Tls
    user: str
    secret: Secret
    trust: str = ""


class ImapLoginRefused(Exception):
    """The server does not take the password."""


class ImapFolder(NamedTuple):
    """A folder: its numbers mean something as long as `validity` is the same; `next` is the next mail's number."""

    validity: int
    next: int
    idle: bool  # can the server tell us when something comes?


def make_tls_context(server: MailServer) -> ssl.SSLContext:
    """Certificates are checked, always."""
    return ssl.create_default_context(cafile=server.trust or None)


class _Reading(imaplib.IMAP4):
    """Reads for itself, so that it is known what has come and was not looked at yet."""

    held = bytearray()
    _from: socket.socket | None = None

    def readline(self) -> bytes:
        while (end := self._held().find(b"\n") + 1) == 0:
            if not self._more() or len(self.held) > LINE:
                return b""
        return self._taken(end)

    def read(self, size: int) -> bytes:
        while len(self._held()) < size:
            if not self._more():
                return b""
        return self._taken(size)

    def _held(self) -> bytearray:
        if self.sock is not self._from:  # what came before the line was secured counts for nothing
            self._from, self.held = self.sock, bytearray()
        return self.held

    def _more(self) -> bool:
        data = self.sock.recv(65_536)
        self.held += data
        return bool(data)

    def _taken(self, size: int) -> bytes:
        data = bytes(self.held[:size])
        del self.held[:size]
        return data


class _Secured(_Reading, imaplib.IMAP4_SSL):
    pass


class ImapConnection:
    """Raises ImapLoginRefused from `connect`, and what `IMAP_ERRORS` lists from everything."""

    def __init__(self, server: MailServer) -> None:
        self._server = server
        self._imap: _Reading | None = None
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)

    def connect(self) -> None:
        one = self._server
        if one.tls == "on":
            imap: _Reading = _Secured(one.host, one.port, ssl_context=make_tls_context(one), timeout=CONNECT)
        else:
            imap = _Reading(one.host, one.port, timeout=CONNECT)
        self._imap = imap
        imap.sock.settimeout(TIMEOUT)
        if one.tls == "starttls":
            imap.starttls(make_tls_context(one))
        try:
            if "AUTH=PLAIN" in imap.capabilities:  # takes any character; LOGIN does not
                given = f"\0{one.user}\0{one.secret.reveal()}".encode()
                imap.authenticate("PLAIN", lambda _: given)
            else:
                imap.login(one.user, one.secret.reveal())
        except imaplib.IMAP4.abort:
            raise
        except imaplib.IMAP4.error as exc:
            if _REFUSED.search(str(exc)):
                raise ImapLoginRefused from None
            raise imaplib.IMAP4.error("the server does not let us in now") from None  # its words may hold our own

    @property
    def _open(self) -> _Reading:
        if self._imap is None:
            raise imaplib.IMAP4.abort("not connected")
        return self._imap

    def select(self, folder: str) -> ImapFolder:
        _good(self._open.select(_quoted(folder)), f"there is no folder {folder}")
        validity, following = (_told(self._open, name) for name in ("UIDVALIDITY", "UIDNEXT"))
        following = following or max(self._search("ALL"), default=0) + 1
        capable = _good(self._open.capability(), "")
        words = b" ".join(one for one in capable if isinstance(one, bytes)).upper().split()
        return ImapFolder(validity, following, b"IDLE" in words)

    def search_newer(self, first: int) -> list[int]:
        """Numbers of mails from `first` on, oldest first. Asks the server to look."""
        _good(self._open.noop(), "")
        return [one for one in self._search(f"UID {first}:*") if one >= first]

    def search_unseen(self, since: int) -> list[int]:
        """Numbers of mails that nobody has seen and that came since a day (ms since 1970)."""
        return self._search(f"UNSEEN SINCE {_day(since)}")

    def fetch(self, number: int, most: int) -> tuple[bytes, int]:
        """A mail (at most so many of its bytes), and its size; b"" if it is gone. Leaves it unseen."""
        _, found = self._open.uid("FETCH", str(number), f"(UID RFC822.SIZE BODY.PEEK[]<0.{most}>)")
        for one in found:
            if isinstance(one, tuple) and len(one) == 2:
                size = re.search(rb"RFC822\.SIZE (\d+)", one[0])
                return bytes(one[1]), int(size[1]) if size else len(one[1])
        return b"", 0

    def mark_seen(self, number: int) -> None:
        self._open.uid("STORE", str(number), "+FLAGS.SILENT", r"(\Seen)")

    def has(self, folder: str, ident: str) -> bool:
        """Is a mail with this Message-ID there? Leaves the folder chosen."""
        if self._open.select(_quoted(folder), readonly=True)[0] != "OK":
            return False
        return bool(self._search(f"HEADER Message-ID {_quoted(ident)}"))

    def find_sent_folder(self, named: str) -> str:
        """The folder of sent mails: the one that is named, else the one the server marks as such; "" for none."""
        if named:
            return named
        for line in _good(self._open.list(), ""):
            found = _SPECIAL.search(line) if isinstance(line, bytes) else None
            if found is not None and rb"\Sent" in found["flags"].split():
                return found["name"].decode("ascii", "replace").strip('"')
        return ""

    def append(self, folder: str, data: bytes) -> None:
        _good(self._open.append(_quoted(folder), r"(\Seen)", None, data), f"{folder} takes no mail")

    def idle(self, seconds: float) -> None:
        """Wait until something comes, somebody calls `wake`, or the time is over."""
        imap = self._open  # the library of this Python has no IDLE
        imap.send(_TAG + b" IDLE\r\n")
        news = False
        while not (line := self._line(imap)).startswith(b"+"):
            if line.startswith(_TAG):
                raise imaplib.IMAP4.abort("the server does not wait with us")
            news = True
        if not news and not imap.held:
            pending = getattr(imap.sock, "pending", int)()
            if not pending:
                select.select([imap.sock, self._woken], [], [], seconds)
            with contextlib.suppress(BlockingIOError):
                self._woken.recv(64, socket.MSG_DONTWAIT)
        imap.send(b"DONE\r\n")
        while not self._line(imap).startswith(_TAG):
            pass

    def wake(self) -> None:
        """End a wait. From any thread."""
        with contextlib.suppress(OSError):
            self._wake.send(b"x")

    def close(self) -> None:
        imap, self._imap = self._imap, None
        for end in (imap.logout, imap.shutdown) if imap is not None else ():
            with contextlib.suppress(*IMAP_ERRORS):
                end()
        self._wake.close()
        self._woken.close()

    def drop(self) -> None:
        """End the connection without a word. From any thread."""
        self.wake()
        imap = self._imap
        if imap is not None:
            with contextlib.suppress(OSError):
                imap.sock.shutdown(socket.SHUT_RDWR)

    def _line(self, imap: _Reading) -> bytes:
        line = imap.readline()
        if not line:
            raise imaplib.IMAP4.abort("the connection broke")
        return line

    def _search(self, what: str) -> list[int]:
        found = _good(self._open.uid("SEARCH", what), "")
        return sorted({int(one) for line in found if isinstance(line, bytes) for one in line.split() if one.isdigit()})


def _good(answer: tuple[str, list[Any]], why: str) -> list[Any]:
    if answer[0] != "OK":
        raise imaplib.IMAP4.error(why or "the server refuses")
    return answer[1]


def _told(imap: imaplib.IMAP4, name: str) -> int:
    found = imap.response(name)[1]
    text = found[-1] if found else None
    return int(text) if isinstance(text, bytes) and text.isdigit() else 0


def _quoted(text: str) -> str:
    safe = "".join(c for c in text if c.isprintable())
    return '"' + safe.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _day(at: int) -> str:
    """As IMAP writes it, and a day earlier: the server has a time zone of its own."""
    one = date(1970, 1, 1) + timedelta(days=max(at // 86_400_000 - 1, 0))
    return f"{one.day:02}-{_MONTHS[one.month - 1]}-{one.year}"


class ImapThread:
    """An `ImapConnection` in a thread of its own; its calls go one after another."""

    def __init__(self, server: MailServer) -> None:
        self._imap = ImapConnection(server)
        self._pool = ThreadPoolExecutor(1, "imap")
        self._idling = False

    async def call(self, work: Callable[[ImapConnection], T]) -> T:
        """Raises what the work raises. A wait for mail is ended for it."""
        if self._idling:
            self._imap.wake()
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, self._imap)

    async def idle(self, seconds: float) -> None:
        """Wait for mail, or until somebody else has a call to make. Raises what `IMAP_ERRORS` lists."""
        self._idling = True
        try:
            await asyncio.get_running_loop().run_in_executor(self._pool, self._imap.idle, seconds)
        finally:
            self._idling = False

    def close(self) -> None:
        """End it; does not wait for the server."""
        self._imap.drop()
        self._pool.submit(self._imap.close)
        self._pool.shutdown(wait=False)
