"""The Matrix channel: one account on one homeserver, over plain HTTP calls. Knows the stream of the server (`sync`)
and what is acknowledged when: the place in the stream is kept only when all before it is on disk.

Encrypted rooms are read with the extra `matrix` (`sealed/crypto.py`); without it the log and `status` say so.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import aiohttp

from palinurus.backoff import Backoff
from palinurus.channels.intake import ChatOrder, fetch_message_files, hand_in
from palinurus.channels.kit import PASSING, ChannelKit, PostingChannel
from palinurus.channels.matrix import inbound
from palinurus.channels.matrix.api import MatrixApi, MatrixLogin, build_path
from palinurus.channels.matrix.posts import MEDIA, TYPING, MatrixPoster
from palinurus.channels.matrix.rooms import MatrixRooms
from palinurus.channels.matrix.unread import UNREADABLE, Undecipherable, UnreadMessages
from palinurus.core.policy.admission import EVERYBODY, parse_allowlist
from palinurus.core.types.channel import ChannelAbilities, SendFailure, SubmitInbound
from palinurus.core.types.inbound import Inbound, MessageQuote, Target
from palinurus.core.types.outbound import Reply
from palinurus.late import load_part
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

POLL = 30.0  # seconds the server may wait for something to happen
GAP = (100, 10)  # events a page, and pages, that are read back after a long absence
AHEAD = 20  # batches of the stream in hand at once
PLACE = "since"

_CHANGES = ("m.room.member", "m.room.name", "m.room.encryption")
_NOTHING: dict[str, Any] = {"types": []}
_FILTER = {
    "presence": _NOTHING,
    "account_data": {"types": ["m.direct"]},
    "room": {
        "state": {"types": ["m.room.name", "m.room.member"], "lazy_load_members": True},
        "timeline": {"limit": 50},
        "ephemeral": _NOTHING,
        "account_data": _NOTHING,
    },
}
_FIRST = {**_FILTER, "room": {"state": _NOTHING, "timeline": {"limit": 1}, "ephemeral": _NOTHING}}
_SIGN_IN = "the homeserver does not take the access token or the password: sign in again and set the new one"
_SECRET = "a room is encrypted: `pal extras add matrix` lets the agent read it, or use one without encryption"
_MOVED = "the identity keys of {who} are others than before: a reset, or somebody else under that name"


class MatrixChannel(PostingChannel):
    """Implements `Channel`. Raises ConfigError without a homeserver or a token."""

    name = "matrix"
    dedupes = True
    abilities = ChannelAbilities(
        markup="matrix",
        limit=4000,  # an event is at most 64 KiB, and an edit holds the text four times
        acts=frozenset(("typing", "edit", "delete", "react", "pin", "thread", "read")),
        typing=TYPING,
        pace=1.5,
        replies=True,
        threads=True,
        media=MEDIA,
        voice=True,
    )

    def __init__(self, kit: ChannelKit) -> None:
        super().__init__(kit)
        server = kit.text("homeserver")
        if not server.startswith(("https://", "http://")):
            raise kit.wrong("homeserver", hint='set it to its address, e.g. "https://matrix.example.org"')
        self._login = MatrixLogin(kit)
        self._calls = MatrixApi(server, self._login.token, kit.text("proxy"))
        self._rooms = MatrixRooms(kit, self._calls)
        self._posts: MatrixPoster = MatrixPoster(kit, self._calls, self._rooms)
        self._order = ChatOrder()
        self._commands = frozenset(name for name, _ in kit.commands)
        self._sealed: set[str] = set()  # encrypted rooms that cannot be read, and were told of
        self._trouble = ""  # why there are no keys of encrypted rooms
        self._unread = UnreadMessages(kit, self._tell_unreadable)
        self._kept: asyncio.Task[None] | None = None  # the newest batch on its way to disk
        self._ahead = asyncio.Semaphore(AHEAD)
        self._going = TaskSet("matrix: taking a batch in")
        self._since = ""  # where in the stream we are

    # --- the stream

    async def run(self, submit: SubmitInbound) -> None:
        """Receive until cancelled; ends when the homeserver does not take our token any more."""
        self._since, self._kept, self._ahead = "", None, asyncio.Semaphore(AHEAD)  # from where all is on disk
        try:
            async with aiohttp.ClientSession() as http:
                self._calls.use(http)
                await self._unread.start(partial(self._read_late, submit))
                await self.keep_connected(partial(self._attempt, submit))
        finally:
            await self._unread.close()
            await self._going.close()

    async def _attempt(self, submit: SubmitInbound) -> SendFailure:
        ended = await self._streamed(submit)
        if ended.trouble != "signed_out":
            return ended
        signed_in_again = await self._login.drop_token(self._calls)
        return SendFailure(ended.reason) if signed_in_again else SendFailure(_SIGN_IN, "signed_out")

    async def _streamed(self, submit: SubmitInbound) -> SendFailure:
        """Follow the stream until something goes wrong."""
        trouble = await self._introduced()
        if trouble is not None:
            return trouble
        if not self._since and (kept := await self._kit.memo.get(PLACE)):
            self._since = kept.decode()
        self._going.start(self._unread.take())
        while True:
            since = self._since
            wait = POLL if self.status().state == "ready" else 0.0  # the first answer tells that all is well
            query = {"filter": json.dumps(_FILTER if since else _FIRST), "timeout": str(int(wait * 1000))}
            if since:
                query["since"] = since
            told = await self._calls.call("GET", build_path("sync"), query=query, seconds=POLL + 20)
            if isinstance(told, SendFailure):
                return told
            following = str(told.get("next_batch") or "")
            if not following:
                return SendFailure("the homeserver answered without a place in its stream")
            self._backoff.reset()
            self.set_status("ready", self._describe(), self._rooms.me)
            await self._batch(told, since, following, submit)
            self._since = following
            if self._kept is not None and self._kept.done():
                self._kept.result()  # raises what kept a batch from the disk: all begins anew from the last that is

    async def _introduced(self) -> SendFailure | None:
        trouble = await self._login.ensure_token(self._calls)
        if trouble is not None or self._rooms.me:
            return trouble
        told = await self._calls.call("GET", build_path("account", "whoami"))
        if isinstance(told, SendFailure):
            return told
        me, device = str(told.get("user_id") or ""), str(told.get("device_id") or "")
        if self._kit.flag("encryption", True) and device:
            trouble = await self._open_keys(me, device)
            if trouble is not None and trouble.trouble in PASSING:
                return trouble
            self._trouble = trouble.reason if trouble is not None else ""
        self._rooms.me = me
        await self._rooms.read_direct()
        return None

    async def _open_keys(self, me: str, device: str) -> SendFailure | None:
        try:
            crypto = load_part("matrix-crypto")
        except ModuleNotFoundError:  # the extra is not installed: rooms without encryption are enough for many
            return None
        opened = await crypto.open(self._kit, self._calls, me, device)
        if not isinstance(opened, SendFailure):
            self._rooms.crypto = opened
            return None
        log.warning("matrix, account %s: encrypted rooms cannot be read: %s", self._kit.account, opened.reason)
        return opened

    def _describe(self) -> str:
        crypto = self._rooms.crypto
        if crypto is None:
            why = f"an encrypted room cannot be read: {self._trouble}" if self._trouble else _SECRET
            return why if self._sealed else ""
        return _MOVED.format(who=", ".join(crypto.devices.changed)) if crypto.devices.changed else crypto.detail

    async def _batch(self, told: Mapping[str, Any], since: str, following: str, submit: SubmitInbound) -> None:
        """Take one batch. Rooms go side by side, so one that must wait holds up no other; the place in the stream
        moves on when all of it, and all before it, is on disk. Keys first: the server forgets them with the next."""
        if self._rooms.crypto is not None:
            await self._rooms.crypto.feed(told)
            if arrived := self._rooms.crypto.take_arrived():
                self._going.start(self._unread.take(arrived))
        for event in _events(told, "account_data"):
            if event.get("type") == "m.direct":
                self._rooms.set_direct_rooms(inbound.read_content(event))
        rooms = told.get("rooms") or {}
        tasks = [self._going.start(self._invited(room, held)) for room, held in (rooms.get("invite") or {}).items()]
        if since:  # at the very first start, what was said before is not for us
            for room, held in (rooms.get("join") or {}).items():
                tasks.append(self._going.start(self._told(room, held, since, submit)))
        self._kept = self._going.start(self._keep(self._kept, tasks, following))
        await self._ahead.acquire()

    async def _keep(self, before: asyncio.Task[None] | None, tasks: list[asyncio.Task[None]], place: str) -> None:
        try:
            await asyncio.gather(*tasks)
            if before is not None:
                await before
            await self._kit.memo.put(PLACE, place.encode())
        finally:
            self._ahead.release()

    # --- rooms

    async def _invited(self, room: str, held: Mapping[str, Any]) -> None:
        """Join where somebody we may listen to asks us in. Who may speak there is decided by message."""
        state = [e for e in _events(held, "invite_state") if e.get("type") == "m.room.member"]
        mine = [e for e in state if e.get("state_key") == self._rooms.me]
        who = str(mine[-1].get("sender") or "") if mine else ""
        if not who or not self._welcome(who, direct=bool(inbound.read_content(mine[-1]).get("is_direct"))):
            log.warning("matrix: %s asks us into %s; not joined (allowFrom, groupAllowFrom, autoJoin)", who, room)
            return
        self._rooms.forget_room(room)
        backoff = Backoff()
        while isinstance(done := await self._calls.call("POST", build_path("rooms", room, "join"), {}), SendFailure):
            log.warning("matrix: cannot join %s: %s", room, done.reason)
            if done.trouble not in ("down", "cut", "limited"):
                return
            await self._kit.clock.sleep(done.retry_after or backoff.next_delay())

    def _welcome(self, who: str, *, direct: bool) -> bool:
        settings, rule = self._kit.settings, self._kit.text("autoJoin", "allowlist")
        if rule != "allowlist":
            return rule == "always"
        if {EVERYBODY, who} & parse_allowlist((*settings.allow_from, *settings.group_allow_from), self.name):
            return True
        return direct and settings.dm in ("pairing", "open")  # there a stranger is to be answered

    async def _told(self, room: str, held: Mapping[str, Any], since: str, submit: SubmitInbound) -> None:
        """What happened in a room, in order."""
        timeline = held.get("timeline") or {}
        events = [e for e in timeline.get("events") or () if isinstance(e, Mapping)]
        async with self._order.turn(room):
            events, new = inbound.select_since_joined(events, self._rooms.me)
            if timeline.get("limited") and timeline.get("prev_batch") and not new:
                events = [*await self._missed(room, str(timeline["prev_batch"]), since), *events]
            if any(e.get("type") in _CHANGES for e in (*_events(held, "state"), *events)):
                self._rooms.forget_room(room)
            for event in events:
                await self._hand_in(room, event, submit)
            if self._rooms.crypto is not None and any(e.get("type") == "m.room.encrypted" for e in events):
                await self._rooms.crypto.keep_seen(room)

    async def _hand_in(self, room: str, event: Mapping[str, Any], submit: SubmitInbound) -> None:
        try:
            heard = await self._heard(room, event)
        except Exception:  # border: one strange event stops no other
            log.exception("matrix, account %s: an event could not be read", self._kit.account)
            return
        if heard is not None:
            await hand_in(submit, heard, self._kit.clock)

    async def _read_late(self, submit: SubmitInbound, room: str, event: Mapping[str, Any]) -> bool:
        """Implements `ReadLate`."""
        if self._rooms.crypto is None:
            return False
        async with self._order.turn(room):
            if (await self._rooms.crypto.reveal(room, event)) is event:
                return False
            await self._hand_in(room, event, submit)
        return True

    async def _missed(self, room: str, start: str, since: str) -> list[Mapping[str, Any]]:
        """What the server left out because it was much: read back until where we were, or where we came in."""
        found: list[Mapping[str, Any]] = []
        limit, pages = GAP
        for _ in range(pages):
            query = {"dir": "b", "limit": str(limit), "from": start, "to": since}
            told = await self._calls.call("GET", build_path("rooms", room, "messages"), query=query)
            if isinstance(told, SendFailure):
                log.warning("matrix: what was said in %s meanwhile cannot be read: %s", room, told.reason)
                break
            page = [e for e in told.get("chunk") or () if isinstance(e, Mapping)]
            found += page
            ours, new = inbound.select_since_joined(list(reversed(found)), self._rooms.me)
            if new:
                return ours
            start = str(told.get("end") or "")
            if not start or not page:
                break
        return list(reversed(found))

    async def _heard(self, room: str, event: Mapping[str, Any]) -> Inbound | None:
        if event.get("type") == "m.room.encrypted":
            event = await self._opened(room, event)
        if not inbound.is_message(event, self._rooms.me):
            return None
        heard = inbound.parse_message(event, room, await self._around(room, event))
        if heard is None:
            return None
        return await fetch_message_files(self._kit, heard.inbound, heard.files, self._rooms.fetch_file)

    async def _around(self, room: str, event: Mapping[str, Any]) -> inbound.MatrixContext:
        known, me = await self._rooms.get(room), self._rooms.me
        names = known.names if known else {}
        quote: MessageQuote | None = None
        if target := inbound.find_answered_event(event) or inbound.find_thread_root(event):
            quote = inbound.make_quote(await self._rooms.event(room, target))
        kind = self._rooms.kind(room, known)
        title = known.title if known and kind != "direct" else ""
        name = names.get(str(event.get("sender")), "")
        return inbound.MatrixContext(
            me,
            self._kit.account,
            kind,
            title,
            name=name,
            called=names.get(me, ""),
            quote=quote,
            commands=self._commands,
        )

    async def _opened(self, room: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """What somebody said in an encrypted room; {} while it cannot be read."""
        if self._rooms.crypto is None:
            if room not in self._sealed:
                self._sealed.add(room)
                log.warning("matrix: %s is encrypted and cannot be read here", room)
                self.set_status("ready", self._describe())
            return {}
        if event.get("sender") == self._rooms.me:
            return {}
        try:
            return await self._rooms.crypto.open_event(room, event)
        except Undecipherable as exc:
            log.warning("matrix: %s in %s cannot be read: %s", event.get("event_id"), room, exc)
            if exc.missing:
                await self._unread.add(room, event, str(exc))
                await self._rooms.crypto.request_key(room, event)
            else:
                await self._tell_unreadable(room, event, str(exc))
            return {}

    async def _tell_unreadable(self, room: str, event: Mapping[str, Any], why: str) -> None:
        """In a chat between two. In a group nobody knows whether it was meant for us."""
        if self._rooms.kind(room, await self._rooms.get(room)) == "direct":
            ident = f"unread-{event.get('event_id')}"
            self._notices.start(self.send(Reply(Target(self.name, room), UNREADABLE.format(why=why), ident, "notice")))


def _events(held: Mapping[str, Any], key: str) -> Iterable[Mapping[str, Any]]:
    section = held.get(key)
    found = section.get("events") if isinstance(section, Mapping) else None
    return [event for event in found or () if isinstance(event, Mapping)]
