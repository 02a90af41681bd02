"""Events of the gateway -> `submit`: messages in order, buttons and commands at once, and after a gap what was missed.

Decides nothing about rights. A message counts as read only when `submit` has it; how far that is goes into the memo.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, TypeVar

import aiohttp
import msgspec
from discord.errors import HTTPException
from discord.http import Route

from palinurus.backoff import Backoff
from palinurus.channels.discord import inbound, outbound
from palinurus.channels.discord.inbound import DiscordChat, DiscordIdentity
from palinurus.channels.discord.progress import DiscordLanes, DiscordReadMark
from palinurus.channels.discord.wire import DiscordRateLimit, DiscordRest, EventParsers
from palinurus.channels.intake import FileUnavailable, RemoteFile, fetch_message_files, hand_in
from palinurus.channels.kit import ChannelKit, RecentDict
from palinurus.core.types.channel import SubmitInbound
from palinurus.errors import BadRequest, PalinurusError
from palinurus.patterns import compile_late

log = logging.getLogger(__name__)

T = TypeVar("T")

DAY = 86_400_000  # what is older is not answered any more
OVERLAP = 10_000 << 22  # ids of the last ten seconds are read again: Discord delivers chats side by side
STEP = 5_000 << 22  # how far we get before it is written down
ASKERS = 8  # questions to Discord at the same time
PAGE, PAGES = 100, 10  # messages of one request; requests for one chat
CHATS = 500  # direct chats, and messages, that are remembered
PLACES = 5_000
EXPECTED = 20  # people whose first message is looked for
LONGEST = 30.0  # seconds between two tries
MENU = 100  # commands that Discord takes
HIDDEN = 64  # only who asked sees it
_NAME = compile_late(r"[a-z0-9_-]{1,32}")


class DiscordReadState(msgspec.Struct, frozen=True):
    """What is written down: every message up to `floor` was handed in, and of the last ones these."""

    floor: int
    taken: tuple[str, ...] = ()


class DiscordReader:
    """For one run of the channel. `up` is called when Discord has begun or taken up a session."""

    def __init__(
        self, kit: ChannelKit, rest: DiscordRest, me: DiscordIdentity, submit: SubmitInbound, up: Callable[[], None]
    ) -> None:
        self._kit = kit
        self._rest = rest
        self._me = me
        self._submit = submit
        self._up = up
        self.lanes = DiscordLanes()
        self._floor = DiscordReadMark()
        self._written = 0
        self._first = 1  # nothing before this is for us
        self._direct: RecentDict[str, str] = RecentDict(CHATS)  # chats with one person: chat -> who
        self._places: RecentDict[str, DiscordChat] = RecentDict(PLACES)
        self._waiting: dict[str, int] = {}  # servers that are still to be described: from where to read there
        self._coming: dict[str, None] = {}  # messages that are on their way through here
        self._taken: RecentDict[str, None] = RecentDict(CHATS)  # the last that were handed in
        self._askers = asyncio.Semaphore(ASKERS)
        events: EventParsers = {
            "READY": self._ready,
            "RESUMED": self._resumed,
            "GUILD_CREATE": self._guild,
            "THREAD_CREATE": self._channel,
            "CHANNEL_CREATE": self._channel,
            "CHANNEL_UPDATE": self._channel,
            "THREAD_UPDATE": self._channel,
            "MESSAGE_CREATE": self._message,
            "INTERACTION_CREATE": self._interaction,
        }
        self.parsers: EventParsers = {name: partial(_heard, name, event) for name, event in events.items()}

    async def load(self) -> None:
        """Take up what an earlier run wrote down."""
        if (kept := await self._kit.memo.get("read")) is not None:
            read = msgspec.json.decode(kept, type=DiscordReadState)
            self._floor = DiscordReadMark(read.floor)
            self._taken.update(dict.fromkeys(read.taken))
        else:
            self._first = inbound.make_lowest_id(self._kit.clock.now())
            self._floor = DiscordReadMark(self._first)
            await self._write(self._first)
        if (chats := await self._kit.memo.get("direct")) is not None:
            self._direct.update(msgspec.json.decode(chats, type=dict[str, str]))

    async def stop(self) -> None:
        """Write down how far we got, and leave the rest."""
        value = self._floor.value
        await self.lanes.stop()
        await self._write(value)

    # --- events, in the order in which they come

    def _ready(self, raw: Mapping[str, Any]) -> None:
        self.lanes.put("", partial(self._menu, str(raw["application"]["id"])))
        oldest = inbound.make_lowest_id(self._kit.clock.now() - DAY)
        after = max(self._floor.value - OVERLAP, self._first, oldest)
        before, self._waiting = self._waiting, {str(guild["id"]): after for guild in raw.get("guilds") or ()}
        for _ in self._waiting:
            self._floor.begin(after)
        for waited in before.values():  # only now: what they still had to read is not done
            self._floor.end(waited)
        for chat in self._direct:
            self._back(chat, "", after)
        for user in self._expected():
            self._put(f"user {user}", after, partial(self._opened, user, after))
        self._up()

    def _resumed(self, raw: Mapping[str, Any]) -> None:
        self._up()

    def _guild(self, raw: Mapping[str, Any]) -> None:
        guild = str(raw["id"])
        ours = {str(r["id"]) for r in raw.get("roles") or () if (r.get("tags") or {}).get("bot_id") == self._me.id}
        self._me = msgspec.structs.replace(self._me, roles=self._me.roles | ours)
        chats = [*(raw.get("channels") or ()), *(raw.get("threads") or ())]
        for one in chats:
            self._channel(one)
        after = self._waiting.pop(guild, None)
        if after is None:  # we were just invited: what was said before is not for us
            return
        for one in chats:
            if int(one.get("last_message_id") or 0) > after:
                self._back(str(one["id"]), guild, after)
        self._floor.end(after)

    def _channel(self, raw: Mapping[str, Any]) -> None:
        self._places[str(raw["id"])] = inbound.parse_chat(raw)

    def _message(self, raw: Mapping[str, Any]) -> None:
        if raw["id"] not in self._coming and raw["id"] not in self._taken:
            self._coming[raw["id"]] = None
            self._put(str(raw["channel_id"]), int(raw["id"]), partial(self._take, raw))

    def _interaction(self, raw: Mapping[str, Any]) -> None:
        # Discord waits three seconds for an answer: not behind what its chat still has to do
        self.lanes.put(f"interaction {raw['id']}", partial(self._done, raw))

    # --- messages

    async def _take(self, raw: Mapping[str, Any]) -> None:
        if raw["id"] not in self._taken:
            await self._handed(raw)
            self._taken[raw["id"]] = None

    async def _handed(self, raw: Mapping[str, Any]) -> None:
        if not raw.get("guild_id") and raw["author"]["id"] != self._me.id:
            await self._remember(str(raw["channel_id"]), str(raw["author"]["id"]))
        where = await self._place(str(raw["channel_id"])) if raw.get("guild_id") else DiscordChat()
        found = inbound.parse_message(raw, self._me, where)
        if found is None:
            return
        whole = await fetch_message_files(self._kit, found, inbound.list_attachments(raw), self._fetch)
        await hand_in(self._submit, whole, self._kit.clock)

    async def _fetch(self, file: RemoteFile) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(self._rest.chunks(file.source)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except (HTTPException, ValueError, aiohttp.ClientError, TimeoutError) as exc:
            again = isinstance(exc, (aiohttp.ClientError, TimeoutError))
            raise FileUnavailable("could not be fetched", again) from exc

    async def _place(self, chat: str) -> DiscordChat:
        if chat not in self._places:
            raw = await self._asked(partial(self._rest.get_channel, chat))
            self._places[chat] = inbound.parse_chat(raw or {})
        return self._places[chat]

    # --- buttons and commands

    async def _done(self, raw: Mapping[str, Any]) -> None:
        kind = raw["type"]
        if kind not in (inbound.COMMAND, inbound.COMPONENT):
            return
        pressed = kind == inbound.COMPONENT
        text = await self._behind(str(raw["data"]["custom_id"])) if pressed else inbound.read_command_text(raw)
        if not text:
            await self._tell(raw, "This button is too old.")
            return
        where = inbound.parse_chat(raw.get("channel") or {})
        try:
            taken = await self._submit(inbound.parse_interaction(raw, self._me, where, text))
        except BadRequest as exc:
            await self._tell(raw, f"That was not taken: {exc}")
        except PalinurusError:
            await self._tell(raw, "I cannot take that at the moment. Please try again shortly.")
        else:
            if pressed:
                await self._answer(raw, {"type": 6})
            else:
                await self._tell(raw, f"Taken: {text[:200]}" if taken else "That was not taken.")

    async def _behind(self, custom: str) -> str:
        """The text a button stands for; "" if it is not known any more."""
        number = len(custom) - len(custom.lstrip("0123456789"))
        mark, rest = custom[number : number + 1], custom[number + 1 :]
        if mark == outbound.TEXT_MARK:
            return rest
        kept = await self._kit.memo.get(f"button/{rest}") if mark == outbound.KEY_MARK else None
        return kept.decode() if kept is not None else ""

    async def _tell(self, raw: Mapping[str, Any], text: str) -> None:
        """Something that only who pressed or commanded sees."""
        await self._answer(raw, {"type": 4, "data": {"content": text, "flags": HIDDEN, "allowed_mentions": _NOBODY}})

    async def _answer(self, raw: Mapping[str, Any], body: dict[str, Any]) -> None:
        path = "/interactions/{webhook_id}/{webhook_token}/callback"
        route = Route("POST", path, webhook_id=raw["id"], webhook_token=raw["token"])
        try:
            await self._rest.request(route, json=body)
        except (HTTPException, DiscordRateLimit, aiohttp.ClientError, TimeoutError) as exc:
            log.info("discord: an interaction was not acknowledged: %s", outbound.explain_discord_error(exc).reason)

    async def _menu(self, application: str) -> None:
        """The commands that Discord offers while one types a slash; sent only when they have changed."""
        menu = [_entry(name, what) for name, what in self._kit.menu if _NAME.fullmatch(name)]
        digest = hashlib.sha256(json.dumps(menu[:MENU]).encode()).digest()
        before = await self._kit.memo.get("menu")
        if before == digest or (before is None and not menu):
            return
        if await self._asked(partial(self._rest.bulk_upsert_global_commands, application, menu[:MENU])) is not None:
            await self._kit.memo.put("menu", digest)

    # --- what was missed

    def _back(self, chat: str, guild: str, after: int) -> None:
        self._put(chat, after, partial(self._missed, chat, guild, after))

    async def _opened(self, user: str, after: int) -> None:
        """Somebody who may write to us, and perhaps did while nobody listened."""
        raw = await self._asked(partial(self._rest.start_private_message, user))
        if raw is not None:
            await self._remember(str(raw["id"]), user)
            self._back(str(raw["id"]), "", after)

    async def _missed(self, chat: str, guild: str, after: int) -> None:
        members: dict[str, Any] = {}
        for _ in range(PAGES):
            rows = await self._asked(partial(self._rest.logs_from, chat, PAGE, after=after))
            for raw in sorted(rows or (), key=lambda one: int(one["id"])):
                after = int(raw["id"])
                if raw["id"] in self._coming:  # from here on the gateway tells, and this chat's work is in order
                    return
                if raw["id"] in self._taken or raw["author"]["id"] == self._me.id:
                    continue
                whole: dict[str, Any] = dict(raw)
                if guild:  # what the gateway would have told with it
                    whole |= {"guild_id": guild, "member": await self._member(guild, raw, members)}
                await self._take(whole)
            if len(rows or ()) < PAGE:
                return
        log.warning("discord: more than %d messages were missed in one chat; the later ones are left", PAGE * PAGES)

    async def _member(self, guild: str, raw: Mapping[str, Any], members: dict[str, Any]) -> Any:
        user = str(raw["author"]["id"])
        if user not in members:
            bare = bool(raw.get("webhook_id"))
            members[user] = None if bare else await self._asked(partial(self._rest.get_member, guild, user))
        return members[user]

    def _expected(self) -> list[str]:
        known = set(self._direct.values())
        allowed = [one.removeprefix("discord:") for one in self._kit.settings.allow_from[:EXPECTED]]
        return [one for one in allowed if one.isdigit() and one not in known]

    async def _asked(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """Ask until there is an answer; None when we may not know."""
        backoff = Backoff(longest=LONGEST)
        while True:
            wait = backoff.next_delay()
            try:
                async with self._askers:
                    return await call()
            except HTTPException as exc:
                if 400 <= exc.status < 500:
                    log.info("discord: %s", outbound.explain_discord_error(exc).reason)
                    return None
            except DiscordRateLimit as exc:
                wait = max(exc.retry_after, 0.01)
            except (aiohttp.ClientError, TimeoutError):
                pass
            await self._kit.clock.sleep(wait)

    async def _remember(self, chat: str, user: str) -> None:
        """Written before its message is handed in: what is not known cannot be asked for later."""
        if self._direct.get(chat) != user:
            self._direct[chat] = user
            await self._kit.memo.put("direct", msgspec.json.encode(dict(self._direct)))

    # --- how far we are

    def _put(self, chat: str, ident: int, work: Callable[[], Awaitable[None]]) -> None:
        self._floor.begin(ident)
        self.lanes.put(chat, work, partial(self._reached, ident))

    async def _reached(self, ident: int) -> None:
        self._coming.pop(str(ident), None)
        self._floor.end(ident)
        if self._floor.value >= self._written + STEP:
            await self._write(self._floor.value)

    async def _write(self, value: int) -> None:
        if value >= self._written:
            self._written = value
            taken = tuple(one for one in self._taken if int(one) > value - OVERLAP)
            await self._kit.memo.put("read", msgspec.json.encode(DiscordReadState(value, taken)))


_NOBODY: dict[str, Any] = {"parse": []}


def _heard(name: str, event: Callable[[Any], None], raw: Any) -> None:
    try:
        event(raw)
    except Exception:  # border: an event that is not what we know must not break the connection
        log.exception("discord: %s cannot be read", name)


def _entry(name: str, what: str) -> dict[str, Any]:
    option = {"type": 3, "name": "text", "description": "what follows the command", "required": False}
    return {"name": name, "description": (what or name)[:100], "type": 1, "options": [option]}
