"""An XMPP server with people on loopback, as Prosody is set up by docs/channels/xmpp.md: archives, a room, a place for
files. Without TLS; signing in is PLAIN (SCRAM is proved against its RFC and a real server).
"""

from __future__ import annotations

import asyncio
import base64
from typing import Any, ClassVar
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from aiohttp import web

from palinurus.channels.xmpp import stanzas
from palinurus.channels.xmpp.stanzas import CLIENT, get_bare, write_text
from palinurus.channels.xmpp.wire import BIND, SASL, STREAM, XmlElement
from palinurus.core.types.channel import SendTrouble
from palinurus.testing.loopback import LoopbackHttp, LoopbackTcp
from palinurus.testing.platform import FakePlatform, HumanMessage, VisibleMessage

ME, PASSWORD, HUMAN, ROOM = "pal@fake", "open sesame", "human@fake", "room@rooms.fake"
_ERRORS: dict[SendTrouble, str] = {
    "gone": "item-not-found", "blocked": "forbidden", "long": "policy-violation", "limited": "resource-constraint",
    "refused": "bad-request",
}  # fmt: skip


class FakeXmpp(FakePlatform):
    """Implements `FakePlatform`."""

    name = "xmpp"
    troubles: ClassVar[tuple[SendTrouble, ...]] = ("cut", *_ERRORS)

    def __init__(self) -> None:
        self._server = LoopbackTcp(self._serve)
        self._http = LoopbackHttp({"PUT /f/{name}": self._put, "GET /f/{name}": self._get})
        super().__init__(self._server, self._http)
        self.archive: list[tuple[str, str, str, str]] = []  # whose (us, the room), id, the message, who it is with
        self.files: dict[str, bytes] = {}
        self.received: list[str] = []  # receipts of ours
        self.states: list[str] = []
        self.looked: list[str] = []  # archives that were read
        self._clients: set[asyncio.StreamWriter] = set()

    @property
    def section(self) -> dict[str, Any]:
        where = {"host": "127.0.0.1", "port": self._server.port, "tls": False}
        return {"jid": ME, "password": PASSWORD, "rooms": [ROOM], **where}

    # --- people

    async def _say(self, said: HumanMessage, more: dict[str, Any]) -> str:
        """`more`: `inside`, further elements."""
        group = said.chat == "group"
        who = said.sender or HUMAN
        sender = f"{ROOM}/{who.partition('@')[0]}" if group else f"{who}/phone"
        text = f"pal: {said.text}" if said.mention else said.text
        ident = said.event or f"h{len(self.archive) + 1}"
        head = f"type={quoteattr('groupchat' if group else 'chat')} from={quoteattr(sender)} id={quoteattr(ident)}"
        body = f"<body>{write_text(text)}</body><request xmlns='{stanzas.RECEIPTS}'/>{more.get('inside', '')}"
        kept = self._keep(ROOM if group else ME, f"<message xmlns='{CLIENT}' {head}>{body}", ROOM if group else who)
        for _ in range(said.times):
            for client in self._clients:
                client.write(kept.encode())
        return ident

    def _keep(self, owner: str, message: str, person: str) -> str:
        """In the archive; the message with its id there."""
        ident = f"a{len(self.archive) + 1}"
        whole = f"{message}<stanza-id xmlns='{stanzas.IDS}' by='{owner}' id='{ident}'/></message>"
        self.archive.append((owner, ident, whole, person))
        return whole

    def visible_messages(self, chat: str = "") -> list[VisibleMessage]:
        shown: dict[str, VisibleMessage] = {}
        for _, _, text, person in self.archive:
            message = stanzas.parse_stanza(text)
            sender, ident = str(message.get("from")), str(message.get("id"))
            if person != {"": HUMAN, "group": ROOM}.get(chat, chat) or sender not in (f"{ME}/x", f"{ROOM}/pal"):
                continue
            body, fixed = message.findtext(f"{{{CLIENT}}}body") or "", message.find(f"{{{stanzas.FIX}}}replace")
            address = message.findtext(f"{{{stanzas.OOB}}}x/{{{stanzas.OOB}}}url")
            media = (address.rpartition("/")[2],) if address else ()
            key = str(fixed.get("id")) if fixed is not None else ident
            while key in shown and fixed is None:
                key += "+"  # the same id twice: two copies
            shown[key] = VisibleMessage(ident if fixed is None else key, "" if address else body, media)
        return list(shown.values())

    # --- the server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parser: Any = ElementTree.XMLPullParser(("start", "end"))
        depth, signed = 0, False
        try:
            while data := await reader.read(65536):
                parser.feed(data)
                for kind, element in parser.read_events():
                    depth += 1 if kind == "start" else -1
                    if kind == "start" and depth == 1:
                        offered = f"<bind xmlns='{BIND}'/>" if signed else ""
                        ways = f"<mechanisms xmlns='{SASL}'><mechanism>PLAIN</mechanism></mechanisms>"
                        head = f"<stream:stream xmlns='{CLIENT}' xmlns:stream='{STREAM}' version='1.0'>"
                        writer.write(f"{head}<stream:features>{offered or ways}</stream:features>".encode())
                    elif kind == "end" and depth == 1 and element.tag == f"{{{SASL}}}auth":
                        signed = base64.b64decode(element.text or "").split(b"\0")[2] == PASSWORD.encode()
                        word = "<success xmlns='{}'/>" if signed else "<failure xmlns='{}'><not-authorized/></failure>"
                        writer.write(word.format(SASL).encode())
                        parser, depth = ElementTree.XMLPullParser(("start", "end")), 0
                        break
                    elif kind == "end" and depth == 1 and not self._take(writer, element):
                        writer.transport.abort()
                        return
        finally:
            self._clients.discard(writer)

    def _take(self, writer: asyncio.StreamWriter, stanza: XmlElement) -> bool:
        """False: the connection breaks."""
        if stanza.tag == f"{{{CLIENT}}}presence":
            self._clients.add(writer)
        elif stanza.tag == f"{{{CLIENT}}}message":
            return self._said(writer, stanza)
        elif stanza.tag == f"{{{CLIENT}}}iq" and len(stanza):
            self._asked(writer, stanza, stanza[0])
        return True

    def _said(self, writer: asyncio.StreamWriter, stanza: XmlElement) -> bool:
        to, ident = str(stanza.get("to")), str(stanza.get("id"))
        self.states += [one.tag.rpartition("}")[2] for one in stanza if one.tag.startswith(f"{{{stanzas.STATES}}}")]
        self.received += [str(one.get("id")) for one in stanza.iter(f"{{{stanzas.RECEIPTS}}}received")]
        if stanza.find(f"{{{CLIENT}}}body") is None:
            return True
        fault = self.next_fault()
        if fault in _ERRORS:
            inside = f"<error type='cancel'><{_ERRORS[fault]} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
            writer.write(
                f"<message type='error' from={quoteattr(to)} id={quoteattr(ident)}>{inside}</message>".encode()
            )
            return True
        group = stanza.get("type") == "groupchat"
        stanza.set("from", f"{ROOM}/pal" if group else f"{ME}/x")
        owner, name = ROOM if group else ME, f"a{len(self.archive) + 1}"
        ElementTree.SubElement(stanza, f"{{{stanzas.IDS}}}stanza-id", {"by": owner, "id": name})
        whole = ElementTree.tostring(stanza, encoding="unicode")
        self.archive.append((owner, name, whole, get_bare(to)))
        if group:
            writer.write(whole.encode())
        return fault != "cut"

    def _asked(self, writer: asyncio.StreamWriter, stanza: XmlElement, asked: XmlElement) -> None:
        ident, to = quoteattr(str(stanza.get("id"))), str(stanza.get("to") or "")
        inside = ""
        if asked.tag == f"{{{BIND}}}bind":
            inside = f"<bind xmlns='{BIND}'><jid>{ME}/x</jid></bind>"
        elif asked.tag == f"{{{stanzas.MAM}}}query":
            self._read_back(writer, get_bare(to) or ME, asked)
            inside = f"<fin xmlns='{stanzas.MAM}'/>"
        elif asked.tag == f"{{{stanzas.DISCO}#items}}query":
            inside = f"<query xmlns='{stanzas.DISCO}#items'><item jid='files.fake'/></query>"
        elif asked.tag == f"{{{stanzas.DISCO}#info}}query":
            inside = f"<query xmlns='{stanzas.DISCO}#info'><feature var='{stanzas.UPLOAD}'/></query>"
        elif asked.tag == f"{{{stanzas.UPLOAD}}}request":
            url = quoteattr(f"{self._http.url}/f/{asked.get('filename')}")
            inside = f"<slot xmlns='{stanzas.UPLOAD}'><put url={url}/><get url={url}/></slot>"
        writer.write(f"<iq type='result' id={ident} from={quoteattr(to or ME)}>{inside}</iq>".encode())

    def _read_back(self, writer: asyncio.StreamWriter, owner: str, asked: XmlElement) -> None:
        self.looked.append(owner)
        most = int(asked.findtext(f"{{{stanzas.RSM}}}set/{{{stanzas.RSM}}}max") or 50)
        after = asked.findtext(f"{{{stanzas.RSM}}}set/{{{stanzas.RSM}}}after")
        before = asked.findtext(f"{{{stanzas.RSM}}}set/{{{stanzas.RSM}}}before")
        person = next((f.findtext("{jabber:x:data}value") for f in asked.iter("{jabber:x:data}field")
                       if f.get("var") == "with"), None)  # fmt: skip
        rows = [row for row in self.archive if row[0] == owner and person in (None, row[3])]
        names = [row[1] for row in rows]
        if before is not None:
            rows = rows[: names.index(before) if before else None][-most:]
        else:
            rows = rows[names.index(after) + 1 if after in names else 0 :][:most]
        for _, ident, text, _ in rows:
            inner = f"<forwarded xmlns='{stanzas.FORWARD}'>{text}</forwarded>"
            result = f"<result xmlns='{stanzas.MAM}' id='{ident}'>{inner}</result>"
            writer.write(f"<message from='{owner}' to='{ME}/x'>{result}</message>".encode())

    async def _put(self, request: web.Request) -> web.StreamResponse:
        self.files[request.match_info["name"]] = await request.read()
        return web.Response(status=201)

    async def _get(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=self.files[request.match_info["name"]])
