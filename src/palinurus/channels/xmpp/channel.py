"""The XMPP channel: one account on one server. What is said while we are away is read from the archives (XEP-0313) of
the account and of its rooms; `find` looks there too. After a message we ask the server for a sign (XEP-0199): what it
sends back until then is the answer.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import AsyncGenerator
from functools import partial
from xml.sax.saxutils import quoteattr

import aiohttp

from palinurus.channels.intake import ChatWorkers, FileUnavailable, RemoteFile, fetch_message_files, hand_in
from palinurus.channels.kit import (
    LOCAL_HOSTS,
    READABLE_PASSWORD,
    AccountChannel,
    ChannelFile,
    ChannelKit,
    MemoTable,
    load_reply_files,
)
from palinurus.channels.xmpp import stanzas
from palinurus.channels.xmpp.stanzas import CLIENT, XmppContext, build_query, get_bare
from palinurus.channels.xmpp.wire import XmlElement, XmppAddress, XmppLost, XmppStream, connect_xmpp
from palinurus.config.secrets import Secret
from palinurus.core.format.render import render_markdown
from palinurus.core.types.channel import (
    ChannelAbilities,
    ChannelAction,
    EditAction,
    SendFailure,
    SendReceipt,
    SendResult,
    SubmitInbound,
    TypingAction,
)
from palinurus.core.types.inbound import Inbound, Target
from palinurus.core.types.outbound import Reply

log = logging.getLogger(__name__)

ANSWER = 60.0  # seconds for an answer
PAGE, PAGES = 50, 20  # how far an absence is read back, and how far `find` looks
MEDIA = 50 * 1024 * 1024
RETRY = 300.0  # seconds after a refusal


def make_xmpp_channel(kit: ChannelKit) -> XmppChannel:
    """Raises ConfigError without an address or a password, and where the password would travel readable."""
    jid = get_bare(kit.text("jid"))
    name, found, domain = jid.partition("@")
    if not (name and found and domain):
        raise kit.wrong("jid", hint='set it to the account\'s address, e.g. "agent@example.org"')
    host, tls = kit.text("host", domain), kit.flag("tls", True)
    if not tls and host not in LOCAL_HOSTS:
        raise kit.wrong("tls", what=READABLE_PASSWORD, hint="leave tls on")
    where = XmppAddress(jid, host, int(kit.number("port", 5222, 1)), tls, authority=kit.text("tlsCaFile"))
    return XmppChannel(kit, where, kit.secret("password"))


class XmppChannel(AccountChannel):
    """Implements `Channel`."""

    name = "xmpp"
    abilities = ChannelAbilities(limit=8000, acts=frozenset(("typing", "edit")), typing=20.0, pace=2.0, media=MEDIA)

    def __init__(self, kit: ChannelKit, where: XmppAddress, password: Secret) -> None:
        super().__init__(kit)
        self._where = where
        self._password = password
        named = [*kit.texts("rooms"), *(room for room in kit.settings.groups if "@" in room)]
        self._rooms = tuple(dict.fromkeys(get_bare(room) for room in named))
        self._nick = kit.text("nick", where.jid.partition("@")[0])
        self._stream: XmppStream | None = None
        self._asked: dict[str, asyncio.Future[XmlElement]] = {}
        self._sent: dict[str, SendFailure | None] = {}  # messages whose fate is not known yet, and what came back
        self._pages: dict[str, list[tuple[str, XmlElement]]] = {}
        self._real: dict[str, str] = {}  # who is who in rooms, where they tell
        self._seen = MemoTable(kit.memo, "seen", 200)  # how far each archive was read
        self._uploads: str | None = None  # the service that takes files
        self._count = itertools.count(1)
        self._workers: ChatWorkers[tuple[XmlElement, str, str]] | None = None
        self._open: dict[str, int] = {}  # messages of an archive that are not on disk yet

    # --- the stream

    async def run(self, submit: SubmitInbound) -> None:
        workers: ChatWorkers[tuple[XmlElement, str, str]] = ChatWorkers(partial(self._take, submit), self._overrun)
        self._workers, self._open = workers, {}
        try:
            await self.keep_connected(self._attempt, RETRY)
        finally:
            await workers.close()

    async def _attempt(self) -> SendFailure:
        try:
            stream = await connect_xmpp(self._where, self._password, self._kit.clock)
        except XmppLost as exc:
            return exc.failure
        task = asyncio.ensure_future(self._settle(stream))
        try:
            async for stanza in stream.stanzas():
                self._heard(stanza)
        except XmppLost as exc:
            return exc.failure
        finally:
            self._stream = None
            task.cancel()
            stream.close()
            for waiting in self._asked.values():
                waiting.cancel()
            self._asked.clear()
        return SendFailure("the server ended the stream")

    async def _settle(self, stream: XmppStream) -> None:
        """Once signed in: be there, enter the rooms, read what was said meanwhile."""
        self._stream = stream
        stream.send("<presence/>")
        for room in self._rooms:
            to = quoteattr(f"{room}/{self._nick}")
            stream.send(f"<presence to={to}><x xmlns='{stanzas.MUC}'><history maxstanzas='0'/></x></presence>")
        for archive in (self._where.jid, *self._rooms):
            await self._catch_up(archive)
        self._backoff.reset()
        self.set_status("ready", "", self._where.jid)

    async def _catch_up(self, archive: str) -> None:
        """What an archive got since we read it last. At the very first start only its end is noted."""
        after = (await self._seen.rows()).get(archive)
        if after is None:
            page = await self._read_archive(archive, before="", most=1)
            await self._seen.put(archive, page[-1][0] if page else "")
            return
        for _ in range(PAGES):
            page = await self._read_archive(archive, after=after)
            for ident, message in page:
                self._give(message, archive, ident)
            if len(page) < PAGE:
                return
            after = page[-1][0]

    async def _read_archive(
        self, archive: str, *, after: str | None = None, before: str | None = None, person: str = "", most: int = PAGE
    ) -> list[tuple[str, XmlElement]]:
        """[] also where there is no archive."""
        query = stanzas.build_archive_query(after=after, before=before, person=person, most=most)
        self._pages[archive] = []
        told = await self._ask("set", "" if archive == self._where.jid else archive, query)
        page = self._pages.pop(archive, [])
        if isinstance(told, SendFailure):
            log.warning("xmpp: the archive of %s cannot be read: %s", archive, told.reason)
            return []
        return page

    async def _ask(self, kind: str, to: str, inside: str) -> XmlElement | SendFailure:
        """The answer to a query."""
        stream = self._stream
        if stream is None:
            return SendFailure("XMPP is not connected")
        ident = f"q{next(self._count)}-{secrets.token_hex(4)}"
        self._asked[ident] = asyncio.get_running_loop().create_future()
        stream.send(build_query(kind, to, ident, inside))
        try:
            async with asyncio.timeout(ANSWER):
                told = await asyncio.shield(self._asked[ident])
        except TimeoutError:
            return SendFailure("the server did not answer", "cut")
        except asyncio.CancelledError:
            if self._stream is stream and not self._asked.get(ident, asyncio.Future()).cancelled():
                raise
            return SendFailure("the connection broke", "cut")
        finally:
            self._asked.pop(ident, None)
        return stanzas.explain_xmpp_error(told) if told.get("type") == "error" else told

    def _heard(self, stanza: XmlElement) -> None:
        ident, kind = str(stanza.get("id") or ""), stanza.get("type")
        if stanza.tag == f"{{{CLIENT}}}iq":
            self._answered(stanza, ident, str(kind))
        elif stanza.tag == f"{{{CLIENT}}}presence":
            self._present(stanza, str(kind or ""))
        elif (archived := stanzas.unwrap_archived(stanza)) is not None:
            archive = get_bare(str(stanza.get("from") or "")) or self._where.jid
            if archive in self._pages:
                self._pages[archive].append(archived)
        elif kind == "error":
            if ident in self._sent:
                self._sent[ident] = stanzas.explain_xmpp_error(stanza)
        elif stanza.tag == f"{{{CLIENT}}}message":
            sender = get_bare(str(stanza.get("from") or ""))
            archive = sender if sender in self._rooms else self._where.jid
            self._give(stanza, archive, stanzas.find_archive_id(stanza, archive))

    def _answered(self, stanza: XmlElement, ident: str, kind: str) -> None:
        waiting = self._asked.get(ident)
        if kind in ("result", "error"):
            if waiting is not None and not waiting.done():
                waiting.set_result(stanza)
        elif self._stream is not None:  # a question to us: a sign of life is given, all else is not known
            to, ours = str(stanza.get("from") or ""), stanza.find(f"{{{stanzas.PING}}}ping") is not None
            inside = "<error type='cancel'><service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
            self._stream.send(build_query("result" if ours else "error", to, ident, "" if ours else inside))

    def _present(self, stanza: XmlElement, kind: str) -> None:
        sender = str(stanza.get("from") or "")
        item = stanza.find(f"{{{stanzas.MUC}#user}}x/{{{stanzas.MUC}#user}}item")
        if item is not None and item.get("jid"):
            self._real[sender] = get_bare(str(item.get("jid")))
        made = any(one.get("code") == "201" for one in stanza.iter(f"{{{stanzas.MUC}#user}}status"))
        if made and self._stream is not None:  # a room that did not exist: locked for others until its owner is content
            form = f"<query xmlns='{stanzas.MUC}#owner'><x xmlns='jabber:x:data' type='submit'/></query>"
            self._stream.send(build_query("set", get_bare(sender), f"room{next(self._count)}", form))
        if kind == "subscribe" and self._stream is not None:  # a contact list wants to show us
            self._stream.send(f"<presence type='subscribed' to={quoteattr(get_bare(sender))}/>")
        if kind == "error" and get_bare(sender) in self._rooms:
            log.warning("xmpp: not in %s: %s", get_bare(sender), stanzas.explain_xmpp_error(stanza).reason)

    # --- in

    def _give(self, message: XmlElement, archive: str, ident: str) -> None:
        if self._workers is None or not (stanzas.is_message(message) or ident):
            return
        if self._workers.give(archive, (message, archive, ident)):
            self._open[archive] = self._open.get(archive, 0) + 1

    def _overrun(self, one: tuple[XmlElement, str, str]) -> None:
        message = one[0]
        self.tell_overrun(Target(self.name, get_bare(str(message.get("from")))), str(message.get("id")))

    async def _take(self, submit: SubmitInbound, one: tuple[XmlElement, str, str]) -> None:
        """One archive's messages come one after another, so what is before this one is on disk."""
        message, archive, ident = one
        around = XmppContext(
            self._where.jid, self._kit.account, self._nick, frozenset(self._rooms), now=self._kit.clock.now()
        )
        known = self._real.get(str(message.get("from") or ""), "")
        found = stanzas.parse_message(message, ident, around, known)
        if found is not None:
            heard = await fetch_message_files(self._kit, found.inbound, found.files, self._fetch)
            await hand_in(submit, heard, self._kit.clock)
            self._confirm(message, heard)
        if ident:
            await self._seen.put(archive, ident)

    def _confirm(self, message: XmlElement, heard: Inbound) -> None:
        """Who asks for a receipt (XEP-0184) gets it when the message is on disk."""
        wanted = message.find(f"{{{stanzas.RECEIPTS}}}request") is not None
        if wanted and heard.kind == "direct" and self._stream is not None and message.get("id"):
            inside = f"<received xmlns='{stanzas.RECEIPTS}' id={quoteattr(str(message.get('id')))}/>"
            self._stream.send(f"<message type='chat' to={quoteattr(str(message.get('from')))}>{inside}</message>")

    async def _fetch(self, file: RemoteFile) -> AsyncGenerator[bytes, None]:
        """Implements `FetchFile`: an address, through the one guard of outgoing calls."""
        loaded = await self._kit.media.load(str(file.source), self._kit.settings.media)
        if isinstance(loaded, str):
            raise FileUnavailable(f"could not be fetched: {loaded}")
        yield loaded.data

    # --- out

    async def send(self, reply: Reply) -> SendResult:
        """The text, then each file as an address of its own message."""
        files = await load_reply_files(self._kit, reply, MEDIA)
        if isinstance(files, SendFailure):
            return files
        pieces: list[tuple[str, str, str]] = []
        if reply.text.strip() or not files:
            text = reply.text if reply.plain else render_markdown(reply.text, "plain").text
            pieces.append((reply.client_id, text, ""))
        for number, file in enumerate(files, 1):
            address = await self._upload(file)
            if isinstance(address, SendFailure):
                return address
            pieces.append((f"{reply.client_id}.file{number}", address, address))
        for ident, text, address in pieces:
            sent = await self._say(reply.target.to, ident, text, address=address)
            if isinstance(sent, SendFailure):
                return sent
        return SendReceipt(pieces[0][0])

    async def _say(self, to: str, ident: str, text: str, *, instead: str = "", address: str = "") -> SendResult:
        stream = self._stream
        if stream is None:
            return SendFailure("XMPP is not connected")
        self._sent[ident] = None
        try:
            group = to in self._rooms
            stream.send(stanzas.build_message(to, text, ident, group=group, instead=instead, address=address))
            # Stanzas are taken in order: whoever answers this has seen what came before. A room answers for itself.
            told = await self._ask("get", f"{to}/{self._nick}" if group else "", f"<ping xmlns='{stanzas.PING}'/>")
            failed = self._sent[ident]
            if failed is None and isinstance(told, SendFailure) and told.trouble in ("cut", "down"):
                return SendFailure(told.reason, "cut")
            return failed or SendReceipt(instead or ident)
        finally:
            self._sent.pop(ident, None)

    async def find(self, reply: Reply) -> SendReceipt | None:
        """Is it in the archive?"""
        to, own = reply.target.to, self._where.jid
        room, before = to in self._rooms, ""
        if not await self.wait_ready():
            return None
        for _ in range(PAGES):
            page = await self._read_archive(to if room else own, before=before, person="" if room else to)
            for _, message in page:
                sender = str(message.get("from") or "")
                ours = sender == f"{to}/{self._nick}" if room else get_bare(sender) == own
                if ours and message.get("id") == reply.client_id:
                    return SendReceipt(reply.client_id)
            if len(page) < PAGE:
                return None
            before = page[0][0]
        return None

    async def act(self, target: Target, act: ChannelAction) -> SendResult:
        if isinstance(act, EditAction):
            text = act.text if act.plain else render_markdown(act.text, "plain").text
            ident = f"{act.message_id}.e{secrets.token_hex(4)}"
            return await self._say(target.to, ident, text, instead=act.message_id)
        if isinstance(act, TypingAction) and self._stream is not None:
            kind = "groupchat" if target.to in self._rooms else "chat"
            state = f"<composing xmlns='{stanzas.STATES}'/>"
            self._stream.send(f"<message type='{kind}' to={quoteattr(target.to)}>{state}</message>")
            return SendReceipt("")
        return SendFailure("XMPP cannot do that", "refused")

    # --- files (XEP-0363)

    async def _upload(self, file: ChannelFile) -> str | SendFailure:
        """The address of a file that the server took."""
        if self._uploads is None:
            self._uploads = await self._find_uploads()
        if not self._uploads:
            return SendFailure("the server takes no files (XEP-0363)", "media")
        given = f"filename={quoteattr(file.name)} size='{len(file.data)}' content-type={quoteattr(file.mime)}"
        told = await self._ask("get", self._uploads, f"<request xmlns='{stanzas.UPLOAD}' {given}/>")
        if isinstance(told, SendFailure):
            return told if told.trouble in ("down", "cut", "limited") else SendFailure(told.reason, "media")
        put = told.find(f"{{{stanzas.UPLOAD}}}slot/{{{stanzas.UPLOAD}}}put")
        get = told.find(f"{{{stanzas.UPLOAD}}}slot/{{{stanzas.UPLOAD}}}get")
        if put is None or get is None:
            return SendFailure("the server gives no place for the file", "media")
        headers = {str(one.get("name")): one.text or "" for one in put}
        allowed = {name: value for name, value in headers.items() if name in ("Authorization", "Cookie", "Expires")}
        try:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=300)) as http:
                where, more = str(put.get("url")), {**allowed, "Content-Type": file.mime}
                async with http.put(where, data=file.data, headers=more, allow_redirects=False) as answer:
                    if answer.status >= 300:
                        return SendFailure(f"the server does not take the file ({answer.status})", "media")
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as exc:
            return SendFailure(f"the file could not be sent ({type(exc).__name__})")
        return str(get.get("url"))

    async def _find_uploads(self) -> str:
        told = await self._ask("get", self._where.domain, f"<query xmlns='{stanzas.DISCO}#items'/>")
        if isinstance(told, SendFailure):
            return ""
        for item in told.iter(f"{{{stanzas.DISCO}#items}}item"):
            about = await self._ask("get", str(item.get("jid")), f"<query xmlns='{stanzas.DISCO}#info'/>")
            names = [] if isinstance(about, SendFailure) else [one.get("var") for one in about.iter() if one.get("var")]
            if stanzas.UPLOAD in names:
                return str(item.get("jid"))
        return ""
