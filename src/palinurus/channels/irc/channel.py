"""The channel: one nick on one network. IRC acknowledges nothing and repeats nothing: after our lines we ask the server
for a sign (PING) and take what it complains about until then as the answer; what is said while we are away comes only
where the server keeps history (chathistory), and there a reply whose fate is not known is looked up.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import secrets
from functools import partial

from palinurus.backoff import Backoff
from palinurus.channels.intake import ChatWorkers, hand_in
from palinurus.channels.irc import messages
from palinurus.channels.irc.messages import ROOM_PREFIXES, parse_message
from palinurus.channels.irc.session import IrcRefusal, IrcSession, IrcSettings
from palinurus.channels.irc.wire import IrcAddress, IrcConnection, IrcConnectionLost, IrcLine, connect_irc, format_line
from palinurus.channels.kit import LOCAL_HOSTS, READABLE_PASSWORD, AccountChannel, ChannelKit, MemoTable, read_secret
from palinurus.core.types.channel import ChannelAbilities, SendFailure, SendReceipt, SendResult, SubmitInbound
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.outbound import Reply
from palinurus.patterns import compile_late

log = logging.getLogger(__name__)

PACE = 1.5  # seconds between two lines, after a burst
ANSWER = 60.0  # seconds until the server must have taken our lines
KEEP = 60.0  # seconds between tries for rooms we are not in and for our own nick
RETRY = 300.0  # seconds after a refusal
SAVE = 5.0  # seconds between two writes of how far we have read
HISTORY = 100  # messages asked for after an absence
_HISTORY, _CHATHISTORY = {"server-time", "batch"}, {"chathistory", "draft/chathistory"}
_STAMP = compile_late(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def make_irc_channel(kit: ChannelKit) -> IrcChannel:
    """Raises ConfigError without host or nick, and where a password would travel readable."""
    if missing := [key for key in ("host", "nick") if not kit.text(key)]:
        raise kit.wrong(*missing)
    plan, tls, host = _plan(kit), kit.flag("tls", True), kit.text("host")
    if not tls and host not in LOCAL_HOSTS and (plan.secret or plan.password):
        raise kit.wrong("tls", what=READABLE_PASSWORD, hint="leave tls on, or remove the password")
    where = IrcAddress(host, int(kit.number("port", 6697 if tls else 6667, 1)), tls, kit.text("tlsCaFile"))
    return IrcChannel(kit, plan, where)


def _plan(kit: ChannelKit) -> IrcSettings:
    services = kit.section("nickserv")
    services = services if services.get("enabled") is not False else {}
    named = [*kit.texts("channels"), *kit.settings.groups]
    return IrcSettings(
        kit.text("nick"),
        re.sub(r"[^\w-]", "", kit.text("username", "palinurus"))[:10] or "palinurus",
        kit.text("realname", "Palinurus, a personal agent"),
        tuple(dict.fromkeys(room for room in named if room.startswith(ROOM_PREFIXES))),
        account=kit.account,
        login=str(services.get("account") or ""),
        secret=read_secret(services.get("password")),
        password=read_secret(kit.own.get("password")),
        service=str(services.get("service") or "NickServ"),
        register=str(services.get("registerEmail") or "") if services.get("register") is True else "",
    )


class _Waiting:
    """Lines of ours whose fate is not known yet."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.token = f"sent-{secrets.token_hex(6)}"
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.failed: SendFailure | None = None
        self.ids: list[str] = []


class IrcChannel(AccountChannel):
    """Implements `Channel`."""

    name = "irc"
    abilities = ChannelAbilities("irc", messages.LIMIT, "bytes")

    def __init__(self, kit: ChannelKit, plan: IrcSettings, where: IrcAddress) -> None:
        super().__init__(kit)
        self._plan = plan
        self._where = where
        self._pace = kit.number("paceMs", PACE * 1000, least=0) / 1000
        self._backoff = Backoff(1.0 if self._pace else 0.05)
        self._wire: IrcConnection | None = None
        self._session = IrcSession(plan)
        self._waiting: _Waiting | None = None
        self._turn = asyncio.Lock()
        self._saved = -SAVE
        self._began = f"{kit.clock.now():x}"
        self._count = itertools.count(1)
        self._seen = self._newest = ""  # how far all is on disk, and the newest that is
        self._open = 0  # messages that are not on disk yet
        self._time = ""  # the server's, as it said last
        self._begun = MemoTable(kit.memo, "sending", 50)  # the server's time before a reply, by client id
        self._back: list[tuple[str, str]] = []  # what history says that we said: text and id

    async def run(self, submit: SubmitInbound) -> None:
        self._seen = (await self._kit.memo.get("seen") or b"").decode()
        self._open = 0
        workers: ChatWorkers[tuple[Inbound, str]] = ChatWorkers(
            lambda found: self._take(*found, submit), lambda found: self.tell_overrun(found[0].target, found[0].event)
        )
        try:
            await self.keep_connected(partial(self._attempt, workers), RETRY)
        finally:
            await workers.close()

    async def _attempt(self, workers: ChatWorkers[tuple[Inbound, str]]) -> SendFailure:
        try:
            await self._serve(workers)
        except IrcRefusal as exc:
            return SendFailure(str(exc), "signed_out" if exc.login else "refused")
        except IrcConnectionLost as exc:
            return SendFailure(str(exc))
        return SendFailure("the server hangs up")

    async def _serve(self, workers: ChatWorkers[tuple[Inbound, str]]) -> None:
        """One connection, until it ends."""
        wire = await connect_irc(self._where, self._kit.clock, self._pace)
        session = self._session = IrcSession(self._plan)
        keeper: asyncio.Task[None] | None = None
        lines = wire.lines()
        try:
            wire.send_now(*session.opening())
            async for got in lines:
                if got.command == "ERROR":
                    raise IrcConnectionLost(f"the server hangs up: {got.get(-1)[:200]}")
                wire.send_now(*session.feed(got))
                if session.ready and keeper is None:
                    self._backoff.reset()
                    self._wire = wire
                    keeper = asyncio.ensure_future(self._keep(wire, session))
                    self._catch_up(wire, session)
                if keeper is not None:
                    self._told(session)
                if (found := self._heard(got, session, wire)) is not None:
                    self._open += workers.give(found.target.to, (found, got.tags.get("time", "")))
        finally:
            self._wire = None
            await lines.aclose()
            wire.send_now(format_line("QUIT", "see you"))
            wire.close()
            if keeper is not None:
                keeper.cancel()
            if self._waiting is not None and not self._waiting.done.done():
                self._waiting.done.set_exception(IrcConnectionLost("the connection broke"))

    def _told(self, session: IrcSession) -> None:
        out = [f"{room}: {why[:80]}" for room, why in session.refused.items()]
        detail = f"not in {'; '.join(out)}" if out else ""
        if self._status.state != "ready" or self._status.detail != detail or self._status.me != session.nick:
            self.set_status("ready", detail, session.nick)

    async def _keep(self, wire: IrcConnection, session: IrcSession) -> None:
        """Rooms we were put out of, and our own nick: asked for again and again."""
        try:
            while True:
                await self._kit.clock.sleep(KEEP)
                for room in session.missing():
                    await wire.send_paced(format_line("JOIN", room))
                if session.fold(session.nick) != session.fold(self._plan.nick):
                    await wire.send_paced(format_line("NICK", self._plan.nick))
        except IrcConnectionLost:
            pass  # the reader says so

    # --- in

    def _heard(self, got: IrcLine, session: IrcSession, wire: IrcConnection) -> Inbound | None:
        if _STAMP.fullmatch(at := got.tags.get("time", "")):
            self._time = max(self._time, at)
        if "batch" in got.tags and got.command == "PRIVMSG" and session.fold(got.nick) == session.fold(session.nick):
            self._back.append((got.get(1), got.tags.get("msgid", "")))
        if self._waiting is not None:
            self._fate(got, self._waiting, session)
        if got.command == "CHATHISTORY" and got.get(0) == "TARGETS" and not got.get(1).startswith(ROOM_PREFIXES):
            wire.send_now(self._history("AFTER", got.get(1)))
        return parse_message(got, session.here, f"{self._began}-{next(self._count)}", self._kit.clock.now())

    async def _take(self, found: Inbound, at: str, submit: SubmitInbound) -> None:
        try:
            await hand_in(submit, found, self._kit.clock)
        finally:
            self._open -= 1
        if _STAMP.fullmatch(at):
            self._newest = max(self._newest, at)
        # While any message waits, history is still wanted from before it.
        if self._open or self._newest <= self._seen:
            return
        self._seen = self._newest
        now = self._kit.clock.monotonic()
        if now >= self._saved + SAVE:
            self._saved = now
            await self._kit.memo.put("seen", self._seen.encode())

    def _catch_up(self, wire: IrcConnection, session: IrcSession) -> None:
        """Ask for what was said while we were away, where the server keeps it. Ids make what we know harmless."""
        if not self._seen or not session.caps & _CHATHISTORY:
            return
        for room in session.joined:
            wire.send_now(self._history("AFTER", room))
        wire.send_now(f"CHATHISTORY TARGETS timestamp={self._seen} timestamp=2999-01-01T00:00:00.000Z 50\r\n".encode())

    def _history(self, how: str, target: str) -> bytes:
        clean = re.sub(r"[\s:]", "", target)
        return f"CHATHISTORY {how} {clean} timestamp={self._seen} {HISTORY}\r\n".encode()

    # --- out

    async def send(self, reply: Reply) -> SendResult:
        async with self._turn:
            wire, session = self._wire, self._session
            if wire is None:
                return SendFailure("IRC is not connected")
            to, taken = self._whither(reply.target.to, session)
            if taken:
                return SendFailure(f"the nick {to} is held by somebody else now", "gone")
            if [one for one in reply.media if not one.startswith(("http://", "https://"))]:
                return SendFailure("IRC takes no files", "media")
            rows = messages.split_reply(reply, messages.measure_prefix(session.mask, session.nick, to))
            waits = self._waiting = _Waiting(session.fold(to))
            if self._time and session.caps >= _HISTORY and session.caps & _CHATHISTORY:
                await self._begun.put(reply.client_id, self._time)
            try:
                return await self._shown(wire, to, rows, waits, client=reply.client_id)
            finally:
                self._waiting = None

    async def find(self, reply: Reply) -> SendReceipt | None:
        """Where the server keeps history: have we said all of it since just before we began to?"""
        since = (await self._begun.rows()).get(reply.client_id)
        if not since or not await self.wait_ready():
            return None
        async with self._turn:
            wire, session = self._wire, self._session
            if wire is None or not session.caps & _CHATHISTORY:
                return None
            to = self._whither(reply.target.to, session)[0]
            waits, self._back = _Waiting(session.fold(to)), []
            self._waiting = waits
            wire.send_now(f"CHATHISTORY AFTER {to} timestamp={since} {HISTORY}\r\n".encode())
            done = await self._shown(wire, to, [], waits, client=reply.client_id)
            self._waiting = None
            rows = messages.split_reply(reply, messages.measure_prefix(session.mask, session.nick, to))
            said = dict(self._back)
            return SendReceipt(said[rows[-1]]) if isinstance(done, SendReceipt) and said.keys() >= {*rows} else None

    def _whither(self, to: str, session: IrcSession) -> tuple[str, bool]:
        """The name to write to, and whether it has come to mean somebody else than the one who wrote to us."""
        nick, found, home = to.partition("!")
        if not found or to.startswith(ROOM_PREFIXES):
            return re.sub(r"[\s,:]", "", to), False
        seen = session.masks.get(session.fold(nick), "")
        return re.sub(r"[\s,:]", "", nick), bool(seen) and seen.partition("!")[2] != home

    async def _shown(self, wire: IrcConnection, to: str, rows: list[str], waits: _Waiting, client: str) -> SendResult:
        begun = False
        try:
            for row in rows:
                await wire.send_paced(format_line("PRIVMSG", to, row))
                begun = True
            wire.send_now(format_line("PING", waits.token))
            async with asyncio.timeout(ANSWER):
                await waits.done
        except (IrcConnectionLost, TimeoutError) as exc:
            return SendFailure(str(exc) or "the server did not answer", "cut" if begun else "down")
        return waits.failed or SendReceipt(waits.ids[-1] if waits.ids else client)

    def _fate(self, got: IrcLine, waits: _Waiting, session: IrcSession) -> None:
        """What a line says about the message we wait for."""
        if got.command == "PONG" and got.get(-1) == waits.token and not waits.done.done():
            waits.done.set_result(None)
        elif got.command == "PRIVMSG" and session.fold(got.nick) == session.fold(session.nick):
            if "batch" not in got.tags and "msgid" in got.tags and session.fold(got.get(0)) == waits.target:
                waits.ids.append(got.tags["msgid"])
        elif got.command in ("263", "FAIL") or session.fold(got.get(1)) == waits.target:
            waits.failed = messages.explain_irc_refusal(got) or waits.failed
