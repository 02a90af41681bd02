"""A stream of XMPP: TLS, signing in, stanzas in and out. Knows what a stream is and nothing of messages."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
import ssl
from collections.abc import AsyncIterator
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

import msgspec

from palinurus.channels.kit import LOCAL_HOSTS
from palinurus.clock import Clock
from palinurus.config.secrets import Secret
from palinurus.core.types.channel import SendFailure

CONNECT = 20.0  # seconds
SILENCE = 120.0  # seconds without a byte until we ask, and as many again until we give up
LARGEST = 4 * 1024 * 1024  # bytes of a stanza
TLS, SASL, BIND = (f"urn:ietf:params:xml:ns:xmpp-{name}" for name in ("tls", "sasl", "bind"))
STREAM = "http://etherx.jabber.org/streams"
MECHANISMS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-1": "sha1"}

XmlElement = ElementTree.Element


class XmppLost(Exception):
    """The stream is over. `failure` is what follows from it."""

    def __init__(self, reason: str, failure: SendFailure | None = None) -> None:
        super().__init__(reason)
        self.failure = failure or SendFailure(reason)


class XmppAddress(msgspec.Struct, frozen=True):
    """Whom we are, and where."""

    jid: str  # bare
    host: str
    port: int
    tls: bool
    authority: str = ""  # a file of certificates to trust instead of the system's

    @property
    def domain(self) -> str:
        return self.jid.rpartition("@")[2]


class ScramProof:
    """SCRAM (RFC 5802, 7677): what the client says. Raises ValueError when the server does not know the password."""

    def __init__(self, name: str, password: str, digest: str, nonce: str = "") -> None:
        self._digest = digest
        self._password = password.encode()
        self._nonce = nonce or secrets.token_hex(16)
        self._bare = f"n={name.replace('=', '=3D').replace(',', '=2C')},r={self._nonce}"
        self._server = b""

    def open(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def answer(self, challenge: bytes) -> bytes:
        text = challenge.decode()
        told = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
        if not told["r"].startswith(self._nonce) or int(told["i"]) > 1_000_000:
            raise ValueError("the server's challenge does not fit")
        salted = hashlib.pbkdf2_hmac(self._digest, self._password, base64.b64decode(told["s"]), int(told["i"]))
        client = hmac.digest(salted, b"Client Key", self._digest)
        final = f"c={base64.b64encode(b'n,,').decode()},r={told['r']}"
        whole = f"{self._bare},{text},{final}".encode()
        mark = hmac.digest(hashlib.new(self._digest, client).digest(), whole, self._digest)
        self._server = hmac.digest(hmac.digest(salted, b"Server Key", self._digest), whole, self._digest)
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(client, mark, strict=True))).decode()
        return f"{final},p={proof}".encode()

    def check(self, last: bytes) -> None:
        """Does the server know the password, too?"""
        if not hmac.compare_digest(last, b"v=" + base64.b64encode(self._server)):
            raise ValueError("the server does not prove that it knows the password")


class XmppStream:
    """One connection, signed in. `stanzas` are its children as they come; `jid` is our whole address."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, clock: Clock) -> None:
        self._reader = reader
        self._writer = writer
        self._clock = clock
        # Any: the stubs say that events may be of other kinds than those asked for
        self._parser: Any = ElementTree.XMLPullParser(("start", "end"))
        self._depth = self._unread = 0
        self._root: XmlElement | None = None
        self.jid = ""

    def send(self, *stanzas: str) -> None:
        self._writer.write("".join(stanzas).encode())

    def close(self) -> None:
        if not self._writer.is_closing():
            self._writer.write(b"</stream:stream>")
            self._writer.close()

    async def stanzas(self) -> AsyncIterator[XmlElement]:
        """Until the connection ends. Raises XmppLost."""
        asked = False
        while True:
            for kind, element in self._parser.read_events():
                if kind == "start":
                    self._depth += 1
                    self._root = element if self._root is None else self._root
                    continue
                self._depth -= 1
                if self._depth == 1:
                    self._unread = 0
                    yield element
                    if self._root is not None:
                        self._root.clear()  # else it grows for ever
            try:
                async with asyncio.timeout(SILENCE):
                    data = await self._reader.read(65536)
            except TimeoutError:
                if asked:
                    raise XmppLost("the server is silent") from None
                asked = True
                self.send(" ")  # a sign of life that breaks a dead connection
                continue
            except OSError as exc:
                raise XmppLost(f"the connection broke ({type(exc).__name__})") from exc
            asked = False
            self._unread += len(data)
            if not data or self._unread > LARGEST:
                raise XmppLost("the connection ended" if not data else "the server sends too much at once")
            try:
                self._parser.feed(data)
            except ElementTree.ParseError as exc:
                raise XmppLost("the server sends no XML") from exc

    # --- signing in

    async def sign_in(self, where: XmppAddress, password: Secret) -> None:
        """Raises XmppLost."""
        features = await self._begin(where)
        if where.tls:
            if features.find(f"{{{TLS}}}starttls") is None:
                raise XmppLost("the server offers no TLS", SendFailure("the server offers no TLS", "refused"))
            self.send(f"<starttls xmlns='{TLS}'/>")
            await self._next()
            trusted = ssl.create_default_context(cafile=where.authority or None)
            await self._writer.start_tls(trusted, server_hostname=where.domain)
            features = await self._begin(where)
        offered = [one.text for one in features.iter(f"{{{SASL}}}mechanism")]
        await self._authenticate(where, password.reveal(), offered)
        await self._begin(where)
        self.send(f"<iq type='set' id='bind'><bind xmlns='{BIND}'/></iq>")
        bound = (await self._next()).find(f"{{{BIND}}}bind/{{{BIND}}}jid")
        if bound is None or not bound.text:
            raise XmppLost("the server gives us no address")
        self.jid = bound.text

    async def _begin(self, where: XmppAddress) -> XmlElement:
        """A new stream on the same connection: its features."""
        self._parser, self._depth, self._root = ElementTree.XMLPullParser(("start", "end")), 0, None
        head = f"to={quoteattr(where.domain)} version='1.0' xmlns='jabber:client' xmlns:stream='{STREAM}'"
        self.send(f"<?xml version='1.0'?><stream:stream {head}>")
        return await self._next()

    async def _next(self) -> XmlElement:
        try:
            async with asyncio.timeout(CONNECT):
                async for element in self.stanzas():
                    return element
        except TimeoutError:
            pass
        raise XmppLost("the server does not answer")

    async def _authenticate(self, where: XmppAddress, password: str, offered: list[str | None]) -> None:
        name = where.jid.partition("@")[0]
        mechanism = next((one for one in MECHANISMS if one in offered), "PLAIN")
        if mechanism == "PLAIN":  # the password itself: only where nobody else can read it
            if "PLAIN" not in offered or not (where.tls or where.host in LOCAL_HOSTS):
                raise XmppLost("no way to sign in", SendFailure("the server offers no safe way to sign in", "refused"))
            proof, first = None, f"\0{name}\0{password}".encode()
        else:
            proof = ScramProof(name, password, MECHANISMS[mechanism])
            first = proof.open()
        self.send(f"<auth xmlns='{SASL}' mechanism='{mechanism}'>{base64.b64encode(first).decode()}</auth>")
        told = await self._next()
        try:
            if proof is not None and told.tag == f"{{{SASL}}}challenge":
                answer = await asyncio.to_thread(proof.answer, base64.b64decode(told.text or ""))
                self.send(f"<response xmlns='{SASL}'>{base64.b64encode(answer).decode()}</response>")
                told = await self._next()
                if told.tag == f"{{{SASL}}}success":
                    proof.check(base64.b64decode(told.text or ""))
        except (ValueError, KeyError) as exc:
            raise XmppLost(f"signing in: {exc}") from exc
        if told.tag != f"{{{SASL}}}success":
            why = next((one.tag.rpartition("}")[2] for one in told), "refused")
            passing = why == "temporary-auth-failure"
            raise XmppLost(why, SendFailure(f"signing in: {why}", "down" if passing else "signed_out"))


async def connect_xmpp(where: XmppAddress, password: Secret, clock: Clock) -> XmppStream:
    """Raises XmppLost."""
    try:
        async with asyncio.timeout(CONNECT):
            reader, writer = await asyncio.open_connection(where.host, where.port)
    except (OSError, TimeoutError) as exc:
        raise XmppLost(f"{where.host} cannot be reached ({type(exc).__name__})") from exc
    stream = XmppStream(reader, writer, clock)
    try:
        await stream.sign_in(where, password)
    except BaseException as exc:
        writer.close()
        if isinstance(exc, (OSError, ssl.SSLError)):
            raise XmppLost(f"TLS with {where.host} failed: {exc}", SendFailure(str(exc), "refused")) from exc
        raise
    return stream
