"""One bot on Discord: the connection's life, and what the program says and does there.

Sending needs no open gateway. A message carries a nonce: Discord shows it once for some minutes, and after that
`find` looks for it in the chat. At kill -9: what came in and was not handed in is read again; a reply is shown once.
"""

from __future__ import annotations

import hashlib
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp
import msgspec
from discord import Intents
from discord.errors import ConnectionClosed, HTTPException
from discord.gateway import ReconnectWebSocket
from discord.http import Route

from palinurus.channels.discord import inbound, outbound
from palinurus.channels.discord.inbound import DiscordIdentity
from palinurus.channels.discord.outbound import ACTS, LOOKS
from palinurus.channels.discord.reader import DiscordReader
from palinurus.channels.discord.wire import API, LEAVING, DiscordGateway, DiscordRateLimit, DiscordRest
from palinurus.channels.intake import ChatOrder
from palinurus.channels.kit import AccountChannel, ChannelKit, RecentDict, load_reply_files
from palinurus.core.types.channel import (
    ChannelAbilities,
    ChannelAction,
    SendFailure,
    SendReceipt,
    SendResult,
    SubmitInbound,
    ThreadAction,
)
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply

log = logging.getLogger(__name__)

MEDIA = 10 * 1024 * 1024
CHATS = 1000  # whose last message of ours is remembered
GOING = 8  # messages on their way out that are remembered for one chat
LOOK = 50  # messages looked through for one of ours
SKEW = 2_000  # milliseconds that our clock may be ahead of Discord's
PATIENCE = 5  # tries to take a session up again before a new one is begun
SIGNED_OUT = (
    "Discord does not take the bot token; make a new one in the developer portal and set channels.discord.token"
)
NO_CONTENT = "Discord shows us only messages that name the bot; turn on Message Content Intent in the developer portal"
BAD_TOKEN, NOT_ALLOWED = 4004, 4014  # why the gateway hangs up


def make_discord_channel(kit: ChannelKit) -> DiscordChannel:
    """Raises ConfigError without a token."""
    kit.secret("token")
    return DiscordChannel(kit)


# How a connection to Discord ends, or does not begin; a TimeoutError is an OSError.
_ENDS = (ReconnectWebSocket, ConnectionClosed, HTTPException, DiscordRateLimit, aiohttp.ClientError, OSError)


class _Elsewhere(Exception):
    """A thread that is not in the chat it was named with."""


class DiscordPendingReply(msgspec.Struct, frozen=True):
    """A message on its way out: its client id, the id of what came before it, and what it says, digested."""

    id: str
    since: int
    text: str


class DiscordChannel(AccountChannel):
    """Implements `Channel`."""

    name = "discord"
    dedupes = True
    abilities = ChannelAbilities(
        markup="discord",
        limit=outbound.LIMIT,
        acts=frozenset(("typing", "edit", "delete", "react", "pin", "poll", "thread", "read", *LOOKS)),
        typing=9.0,
        pace=1.2,
        buttons=outbound.BUTTONS,
        replies=True,
        threads=True,
        media=MEDIA,
        voice=True,
    )

    def __init__(self, kit: ChannelKit) -> None:
        super().__init__(kit)
        self._rest: DiscordRest | None = None
        self._stopped = False
        self._me = DiscordIdentity(account=kit.account)
        self._order = ChatOrder()
        self._tries = 0
        self._content = True  # may we read what people write?
        self._people: dict[str, str] = {}  # whom we wrote to -> the chat with them
        self._parents: RecentDict[str, str] = RecentDict(CHATS)  # threads -> the channels they are in
        self._said: RecentDict[str, int] = RecentDict(CHATS)  # our last message in a chat

    # --- the connection

    async def run(self, submit: SubmitInbound) -> None:
        self._stopped = False
        self.set_status("starting")
        rest = self._opened()
        try:
            if await self._signed_in(rest):
                reader = DiscordReader(self._kit, rest, self._me, submit, up=self._up)
                await reader.load()
                gateway = DiscordGateway(rest, reader.parsers)
                try:
                    await self._listen(gateway, reader)
                finally:
                    await reader.stop()
                    await gateway.close(LEAVING)
        finally:
            if self.status().state != "signed_out":
                self.set_status("stopped")
            self._stopped = True
            self._rest = None
            await rest.close()

    def _opened(self) -> DiscordRest:
        if self._rest is None:
            token = self._kit.secret("token").reveal().strip().removeprefix("Bot ")
            self._rest = DiscordRest(token, self._kit.text("apiBase", API))
        return self._rest

    async def _signed_in(self, rest: DiscordRest) -> bool:
        """Who are we? False when Discord does not know us."""
        while True:
            try:
                await self._know(rest)
                return True
            except _ENDS as exc:
                if self._is_signed_out(exc):
                    return False
            await self._pause()

    async def _know(self, rest: DiscordRest) -> str:
        """Our id. Raises what a request raises."""
        if not self._me.id:
            raw = await rest.request(Route("GET", "/users/@me"))
            self._me = msgspec.structs.replace(self._me, id=str(raw["id"]), name=str(raw["username"]))
        return self._me.id

    async def _listen(self, gateway: DiscordGateway, reader: DiscordReader) -> None:
        """Until the token is not taken. A broken connection is taken up again."""
        while True:
            try:
                wait = await gateway.open(self._intents())
                if wait > 0:
                    self.set_status("reconnecting", f"Discord allows no new session for {wait:.0f} s")
                    await self._kit.clock.sleep(wait)
                    continue
                while True:
                    await gateway.poll()
                    await reader.lanes.wait_for_room()
            except _ENDS as exc:
                if self._is_signed_out(exc):
                    return
                if isinstance(exc, ReconnectWebSocket) and not exc.resume:
                    await self._kit.clock.sleep(random.uniform(1, 5))  # Discord asks for it before a new session
            if self._tries >= PATIENCE:
                gateway.forget_session()
            await gateway.close()
            await self._pause()

    def _is_signed_out(self, exc: Exception) -> bool:
        """A connection ended: says why in the status. True: our token is not taken."""
        code = exc.code if isinstance(exc, ConnectionClosed) else 0
        if code == BAD_TOKEN or (isinstance(exc, HTTPException) and exc.status == 401):
            self.set_status("signed_out", SIGNED_OUT)
            return True
        if code == NOT_ALLOWED:
            log.warning("discord: %s", NO_CONTENT)
            self._content = False
        reason = f"Discord closed the connection ({code})" if code else outbound.explain_discord_error(exc).reason
        self.set_status("reconnecting", "the connection was closed" if isinstance(exc, ReconnectWebSocket) else reason)
        return False

    def _intents(self) -> Intents:
        return Intents(guilds=True, guild_messages=True, dm_messages=True, message_content=self._content)

    def _up(self) -> None:
        self._tries = 0
        self._backoff.reset()
        self.set_status("ready", "" if self._content else NO_CONTENT, self._me.name)

    async def _pause(self) -> None:
        self._tries += 1
        await self._kit.clock.sleep(self._backoff.next_delay())

    # --- what we say

    async def send(self, reply: Reply) -> SendResult:
        return await self._tried(lambda rest: self._send(rest, reply))

    async def _send(self, rest: DiscordRest, reply: Reply) -> SendResult:
        if len(reply.media) > outbound.FILES:
            return SendFailure(f"Discord takes {outbound.FILES} files with one message", "media")
        files = await load_reply_files(self._kit, reply, MEDIA)
        if isinstance(files, SendFailure):
            return files
        chat = await self._chat(rest, reply.target)
        text = outbound.render_content(reply.text, reply.plain)
        await self._remember(chat, reply, text)
        body = outbound.build_message(text, reply.buttons, reply.client_id, reply.reply_to)
        form = {"form": outbound.build_form(body, files, voice=reply.voice)}
        options: dict[str, Any] = form if files else {"json": body}
        raw = await rest.request(Route("POST", "/channels/{channel_id}/messages", channel_id=chat), **options)
        self._said[chat] = int(raw["id"])
        return SendReceipt(str(raw["id"]))

    async def _remember(self, chat: str, reply: Reply, text: str) -> None:
        """Before it is sent: what it is, and since when it can be there; and the texts behind its buttons."""
        for number, button in enumerate(reply.buttons):
            if outbound.KEY_MARK in outbound.encode_button(button.text, number)[:3]:
                await self._kit.memo.put(f"button/{outbound.make_button_key(button.text)}", button.text.encode())
        text = _digest(text, len(reply.media))
        async with self._order.turn(chat):
            going = await self._going(chat)
            before = next((one for one in going if one.id == reply.client_id), None)
            if before is not None and before.text == text:
                return
            since = max(inbound.make_lowest_id(self._kit.clock.now() - SKEW), self._said.get(chat, 0))
            now = DiscordPendingReply(reply.client_id, before.since if before is not None else since, text)
            others = [one for one in going if one.id != reply.client_id]
            await self._kit.memo.put(f"going/{chat}", msgspec.json.encode([*others[1 - GOING :], now]))

    async def _going(self, chat: str) -> list[DiscordPendingReply]:
        kept = await self._kit.memo.get(f"going/{chat}")
        return msgspec.json.decode(kept, type=list[DiscordPendingReply]) if kept is not None else []

    async def find(self, reply: Reply) -> SendReceipt | None:
        """By its nonce, which Discord forgets after a while; then by what was noted before it was sent."""
        found = await self._tried(lambda rest: self._found(rest, reply))
        return found if isinstance(found, SendReceipt) else None

    async def _found(self, rest: DiscordRest, reply: Reply) -> SendResult:
        chat = await self._chat(rest, reply.target)
        me, nonce = await self._know(rest), outbound.make_nonce(reply.client_id)
        noted = next((one for one in await self._going(chat) if one.id == reply.client_id), None)
        for raw in await rest.logs_from(chat, LOOK):
            if raw["author"]["id"] != me:
                continue
            says = _digest(raw["content"], len(raw["attachments"]))
            same = noted is not None and int(raw["id"]) > noted.since and says == noted.text
            if same or str(raw.get("nonce", "")) == nonce:
                return SendReceipt(str(raw["id"]))
        return SendFailure("it is not there", "refused")

    # --- what we do besides

    async def act(self, target: Target, act: ChannelAction) -> SendResult:
        # a thread begins in the channel, also when it is asked for inside of one
        place = Target(target.channel, target.to, target.account) if isinstance(act, ThreadAction) else target

        async def do(rest: DiscordRest) -> SendResult:
            return await ACTS[type(act)](rest, await self._chat(rest, place), act)

        return await self._tried(do)

    # --- for all of them

    async def _tried(self, call: Callable[[DiscordRest], Awaitable[SendResult]]) -> SendResult:
        if self._stopped:
            out = self.status().state == "signed_out"
            return SendFailure(SIGNED_OUT, "signed_out") if out else SendFailure("the channel is stopped")
        try:
            return await call(self._opened())
        except _Elsewhere as exc:
            return SendFailure(str(exc), "refused")
        except Exception as exc:  # border: the port promises that nothing is raised
            result = outbound.explain_discord_error(exc)
            if result.reason.startswith("unexpected"):
                log.exception("discord: a request failed")
            return result

    async def _chat(self, rest: DiscordRest, target: Target) -> str:
        """The id Discord knows the chat by. "user:<id>" is the chat with a person. Raises what a request raises, and
        _Elsewhere for a thread of another channel: who may be here may not be everywhere."""
        to = target.to.removeprefix("channel:")
        if target.thread and target.thread != to:
            if not target.thread.isdecimal():
                raise _Elsewhere("this is no id of a thread")
            if target.thread not in self._parents:
                raw: Mapping[str, Any] = dict(await rest.get_channel(target.thread))
                self._parents[target.thread] = inbound.parse_chat(raw).parent
            if self._parents[target.thread] != to:
                raise _Elsewhere("there is no such thread in this chat")
            return target.thread
        person = to.removeprefix("user:")
        if person == to:
            return to
        if person not in self._people:
            raw = await rest.start_private_message(person)
            self._people[person] = str(raw["id"])
        return self._people[person]


def _digest(text: str, files: int) -> str:
    return hashlib.sha256(f"{files} {text.strip()}".encode()).hexdigest()
