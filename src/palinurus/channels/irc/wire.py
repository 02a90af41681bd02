"""Lines of the IRC protocol (read, written, cut), and the connection to a server: TLS, a pace that servers bear, and a
sign of life. Knows no meaning of any command.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, Mapping

import msgspec

from palinurus.clock import Clock
from palinurus.patterns import compile_late

CONNECT = 20.0
SILENCE = 120.0  # seconds without a line until we ask, and as many again until we give up
LINE = 16 * 1024  # bytes; tags may be long
BURST = 4  # lines that go out at once
MAX_LINE_BYTES = 510  # bytes of a line without its end and without tags
_ESCAPES = {":": ";", "s": " ", "\\": "\\", "r": "\r", "n": "\n"}
_FOLD = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ[]\\^", "abcdefghijklmnopqrstuvwxyz{}|~")
_ASCII = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
# Bold, colours, italics, underline and the like.
_FORMAT = compile_late(
    r"\x03(\d{1,2}(,\d{1,2})?)?|\x04([0-9a-fA-F]{6}(,[0-9a-fA-F]{6})?)?|[\x02\x0f\x11\x16\x1d\x1e\x1f]"
)
_BREAKS = compile_late(r"[\r\n\x00]+")


class IrcLine(msgspec.Struct, frozen=True):
    """One line. `source` is nick!user@host, or a server's name, or ""."""

    command: str
    params: tuple[str, ...] = ()
    source: str = ""
    tags: Mapping[str, str] = {}

    @property
    def nick(self) -> str:
        return self.source.partition("!")[0]

    def get(self, index: int) -> str:
        """A parameter, -1 for the last; "" if there are not so many."""
        return self.params[index] if -len(self.params) <= index < len(self.params) else ""


def parse_line(data: bytes) -> IrcLine | None:
    """The line in these bytes, None if there is none. Text that is not UTF-8 is read as Latin-1."""
    raw = data.strip(b"\r\n\x00")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    tags: dict[str, str] = {}
    if text.startswith("@"):
        head, _, text = text[1:].partition(" ")
        tags = {key: _unescaped(value) for key, _, value in (one.partition("=") for one in head.split(";")) if key}
    text, source = text.lstrip(" "), ""
    if text.startswith(":"):
        source, _, text = text[1:].partition(" ")
    head, found, last = text.lstrip(" ").partition(" :")
    words = head.split(" ")
    params = [one for one in words[1:] if one]
    if found:
        params.append(last)
    return IrcLine(words[0].upper(), tuple(params), source, tags) if words[0] else None


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.?)", lambda m: _ESCAPES.get(m[1], m[1]), value)


def format_line(command: str, *params: str) -> bytes:
    """A line to send. Line breaks in a parameter would begin another command: they become blanks."""
    clean = [_BREAKS.sub(" ", one) for one in params]
    if clean:
        clean[-1] = f":{clean[-1]}"
    return " ".join([command, *clean]).encode("utf-8", "replace") + b"\r\n"


def fold_name(name: str, mapping: str = "rfc1459") -> str:
    """A nick or channel in the one form in which the server compares them."""
    return name.translate(_ASCII if mapping == "ascii" else _FOLD)


def strip_formatting(text: str) -> str:
    """Without colours and the like."""
    return _FORMAT.sub("", text)


def split_text(text: str, most: int) -> list[str]:
    """`text` as messages of at most `most` bytes each: one for each line of it, cut at blanks where there are some,
    never inside a character. Empty lines are left out."""
    found: list[str] = []
    for row in re.split(r"[\r\n]+", text.replace("\x00", "")):
        rest = row.rstrip()
        while rest.strip():
            cut = _fits(rest, most)
            if cut < len(rest) and (blank := rest.rfind(" ", 0, cut + 1)) > cut // 2:
                cut = blank
            found.append(rest[:cut].rstrip())
            rest = rest[cut:].lstrip(" ")
    return found


def _fits(text: str, most: int) -> int:
    """How many characters of it have room; at least one."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return len(text)
    return max(len(data[:most].decode("utf-8", "ignore")), 1)


class IrcConnectionLost(Exception):
    """The connection is gone, or was never there. The text is for people."""


class IrcAddress(msgspec.Struct, frozen=True):
    """`ca`: a file with the certificates that are trusted instead of the system's."""

    host: str
    port: int
    tls: bool = True
    ca: str = ""


class IrcConnection:
    """One connection. `lines` reads it until it breaks."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, clock: Clock, pace: float) -> None:
        self._reader = reader
        self._writer = writer
        self._clock = clock
        self._pace = pace
        self._free = 0.0  # when the line after the burst may go
        self._turn = asyncio.Lock()

    async def lines(self, silence: float = SILENCE) -> AsyncGenerator[IrcLine, None]:
        """What the server says. Raises IrcConnectionLost at the end."""
        asked = False
        while True:
            try:
                async with asyncio.timeout(silence):
                    data = await self._reader.readline()
            except TimeoutError:
                if asked:
                    raise IrcConnectionLost(f"the server has said nothing for {2 * silence:g} seconds") from None
                asked = True
                self.send_now(format_line("PING", "alive"))
                continue
            except (OSError, ValueError) as exc:
                raise IrcConnectionLost(f"the connection broke: {type(exc).__name__}") from None
            if not data:
                raise IrcConnectionLost("the server closed the connection")
            asked = False
            if (got := parse_line(data)) is not None:
                yield got

    def send_now(self, *lines: bytes) -> None:
        """Send at once: answers that the server waits for."""
        if not self._writer.is_closing():
            self._writer.write(b"".join(lines))

    async def send_paced(self, data: bytes) -> None:
        """Send when it is our turn: a few lines at once, then one every `pace` seconds. Raises IrcConnectionLost."""
        async with self._turn:
            now = self._clock.monotonic()
            self._free = max(self._free, now - self._pace * BURST) + self._pace
            if self._free > now and not self._writer.is_closing():
                await self._clock.sleep(self._free - now)
            try:
                if self._writer.is_closing():
                    raise IrcConnectionLost("the connection is closed")
                self._writer.write(data)
                await self._writer.drain()
            except OSError as exc:
                raise IrcConnectionLost(f"the connection broke: {type(exc).__name__}") from None

    def close(self) -> None:
        self._writer.close()


async def connect_irc(where: IrcAddress, clock: Clock, pace: float) -> IrcConnection:
    """Raises IrcConnectionLost."""
    context = ssl.create_default_context(cafile=where.ca or None) if where.tls else None
    try:
        async with asyncio.timeout(CONNECT):
            reader, writer = await asyncio.open_connection(where.host, where.port, ssl=context, limit=LINE)
    except ssl.SSLCertVerificationError as exc:
        raise IrcConnectionLost(f"the certificate of {where.host} is not valid: {exc.verify_message}") from None
    except ssl.SSLError:
        why = "does not speak TLS (set channels.irc.tls if that is meant)"
        raise IrcConnectionLost(f"{where.host}:{where.port} {why}") from None
    except (OSError, TimeoutError) as exc:
        words = getattr(exc, "strerror", None) or "no answer"
        raise IrcConnectionLost(f"{where.host}:{where.port} is not reachable: {words}") from None
    return IrcConnection(reader, writer, clock, pace)
