"""One bot on Telegram: receives by long polling or by requests to us, acknowledges what is on our disk.

Telegram keeps what we have not acknowledged for a day and tells it again; events are message ids, so that is one turn.
It takes no client ids and shows bots nothing of the past: a reply whose receipt is lost can be seen twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

from palinurus.backoff import Backoff
from palinurus.channels.intake import FileUnavailable, RemoteFile, fetch_message_files, hand_in_once
from palinurus.channels.kit import AccountChannel, ChannelKit
from palinurus.channels.telegram import inbound
from palinurus.channels.telegram.api import BotApi, TelegramFault
from palinurus.channels.telegram.outbound import ABILITIES, TelegramPoster
from palinurus.channels.web.api import read_mapping, read_rows
from palinurus.config.secrets import Secret
from palinurus.core.types.channel import (
    ChannelAction,
    ChannelHttpRequest,
    ChannelHttpResponse,
    SendResult,
    SubmitInbound,
)
from palinurus.core.types.inbound import Inbound, Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import BadRequest, PalinurusError, QueueFull
from palinurus.patterns import compile_late

log = logging.getLogger(__name__)

API = "https://api.telegram.org"
POLL = 30  # seconds Telegram may hold a request for updates
BATCH = 100  # updates of one request, the most there can be
FIRST, LONGEST = 0.1, 30.0  # seconds before another try
WATCH = 300.0  # seconds between looks at how Telegram gets on with our address
AT_ONCE = 3  # files that are fetched at the same time
BUSY = "⚠️ This message and those right after it could not be taken. Please send them again later."

_PROXY = compile_late(r"https?://\S")
_COMMAND = compile_late(r"[a-z0-9_]{1,32}")
T = TypeVar("T")


def make_telegram_channel(kit: ChannelKit) -> TelegramChannel:
    """Raises ConfigError without a token, or with a webhook that has no secret."""
    url = kit.own.get("webhookUrl")  # the configuration takes addresses of webhooks for secrets
    token = kit.secret_or_file("botToken", "tokenFile")
    if not url:
        return TelegramChannel(kit, token)
    return TelegramChannel(kit, token, kit.secret("webhookUrl").reveal(), kit.secret("webhookSecret"))


class TelegramChannel(AccountChannel):
    """Implements `Channel`."""

    name = "telegram"
    abilities = ABILITIES

    def __init__(self, kit: ChannelKit, token: Secret, url: str = "", secret: Secret | None = None) -> None:
        super().__init__(kit)
        self._url = url
        self._secret = secret
        # One pool for everything; a poll holds one of its connections.
        root, proxy = kit.address("apiRoot") if kit.text("apiRoot") else API, kit.text("proxy")
        if proxy and not _PROXY.match(proxy):
            raise kit.wrong("proxy", what="must be the address of an HTTP proxy, http://…")
        self._api = BotApi(token, root, proxy)
        self._out = TelegramPoster(self._api, kit, self._chat, self._migrated)
        self._names = {_listed(name): name for name, _ in kit.commands}
        self._me: inbound.TelegramIdentity | None = None
        self._hint = ""  # what a person should know although all is well
        self._fetching = asyncio.Semaphore(AT_ONCE)
        self._moved: dict[str, str] = {}  # groups that became supergroups: old id -> new id
        self._albums: set[str] = set()  # albums whose rest is waited for
        self._taken: set[int] = set()  # updates taken that are not acknowledged, because one before them is not taken

    async def run(self, submit: SubmitInbound) -> None:
        async with self._api.connected():
            if await self._signed_in():
                await (self._answering() if self._url else self._polling(submit))

    async def send(self, reply: Reply) -> SendResult:
        async with self._api.connected():
            return await self._out.send(reply)

    async def act(self, target: Target, act: ChannelAction) -> SendResult:
        async with self._api.connected():
            return await self._out.act(target, act)

    async def hook(self, request: ChannelHttpRequest, submit: SubmitInbound) -> ChannelHttpResponse:
        if self._secret is None:
            return ChannelHttpResponse(404, b"this account polls\n")
        given = request.headers.get("x-telegram-bot-api-secret-token", "")
        if not hmac.compare_digest(given.encode("utf-8", "replace"), self._secret.reveal().encode()):
            return ChannelHttpResponse(401, b"wrong secret\n")
        try:
            update = json.loads(request.body)
        except ValueError:
            return ChannelHttpResponse(400, b"no JSON\n")
        if not isinstance(update, dict):
            return ChannelHttpResponse(400, b"no update\n")
        if self._me is None:
            return ChannelHttpResponse(503, b"not yet\n")
        await self._take([update], submit)  # what it raises becomes an answer that has Telegram ask again
        return ChannelHttpResponse()

    # connecting

    async def _tried(self, call: Callable[[], Awaitable[T]]) -> T | None:
        """What the call gives, however often it takes; None once our token is refused."""
        backoff = Backoff(FIRST, LONGEST)
        while True:
            try:
                return await call()
            except TelegramFault as exc:
                trouble = exc.failure
            if trouble.trouble == "signed_out":
                self.set_status("signed_out", "Telegram refuses the token; get one from @BotFather and set botToken")
                return None
            self.set_status("reconnecting", f"{trouble.reason}; trying again")
            await self._kit.clock.sleep(trouble.retry_after or backoff.next_delay())

    async def _signed_in(self) -> bool:
        told = await self._tried(lambda: self._api.call("getMe"))
        if told is None:
            return False
        user = read_mapping(told)
        name = str(user.get("username") or "")
        self._me = inbound.TelegramIdentity(int(user.get("id") or 0), name, self._kit.account, self._names)
        self._moved = json.loads(await self._kit.memo.get("moved") or b"{}")
        await self._menu()
        # Without this right Telegram shows a bot only what names it: groups that want no mention stay silent.
        deaf = user.get("can_read_all_group_messages") is not True and any(
            not group.require_mention for group in self._kit.settings.groups.values()
        )
        self._hint = "privacy mode hides what does not mention the bot; /setprivacy at @BotFather" if deaf else ""
        self.set_status("starting", me=f"@{name}")
        return True

    async def _menu(self) -> None:
        """Telegram's own list of commands, told when it changed."""
        rows = [
            {"command": _listed(name), "description": help[:256] or name}
            for name, help in (*self._kit.menu, *_custom(self._kit.own.get("customCommands")))
            if _COMMAND.fullmatch(_listed(name))
        ][:100]
        mark = hashlib.sha256(repr([tuple(row.values()) for row in rows]).encode()).digest()
        if mark == await self._kit.memo.get("menu"):
            return
        try:
            await self._api.call("setMyCommands", commands=rows)
        except TelegramFault as exc:
            log.warning("telegram %s: the menu of commands is not set: %s", self._kit.account, exc)
        else:
            await self._kit.memo.put("menu", mark)

    async def _answering(self) -> None:
        """Have Telegram send updates to our address, and look now and then whether it can."""
        assert self._secret is not None
        asked = {"url": self._url, "allowed_updates": inbound.UPDATE_KINDS, "secret_token": self._secret.reveal()}
        set_up = await self._tried(lambda: self._api.call("setWebhook", **asked))
        while set_up is not None:
            told = await self._tried(lambda: self._api.call("getWebhookInfo"))
            if told is None:
                return
            info = read_mapping(told)
            late = info.get("last_error_message") if info.get("pending_update_count") else ""
            self.set_status("ready", f"Telegram cannot reach {self._url}: {late}" if late else self._hint)
            await self._kit.clock.sleep(WATCH)

    async def _polling(self, submit: SubmitInbound) -> None:
        offset, wait = 0, FIRST
        batch: list[dict[str, Any]] | None = None if await self._tried(self._undo_hook) is None else []
        while batch is not None:
            # A whole batch that came again: nobody else would be heard while a chat waits for its place.
            stuck = await self._all(batch, submit, refuse=len(batch) == BATCH and wait > FIRST)
            if batch:
                offset = min(stuck, default=batch[-1]["update_id"] + 1)
                self._taken = {one for one in self._taken if one >= offset}
            if stuck:
                await self._kit.clock.sleep(wait)
            wait = min(wait * 2, LONGEST) if stuck else FIRST
            # What is said while we wait for a place is not waited for.
            batch = await self._tried(partial(self._updates, offset, 0 if stuck else POLL))

    async def _undo_hook(self) -> Any:
        return await self._api.call("deleteWebhook")

    async def _updates(self, offset: int, wait: int) -> list[dict[str, Any]]:
        """Asking from `offset` on acknowledges all before it."""
        if self._status.state != "ready":
            wait = 0  # the first answer comes at once and says that all is well
        asked = {"offset": offset, "timeout": wait, "limit": BATCH, "allowed_updates": inbound.UPDATE_KINDS}
        found = await self._api.call("getUpdates", **asked)
        self.set_status("ready", self._hint)
        return [dict(one) for one in read_rows(found) if isinstance(one.get("update_id"), int)]

    # receiving

    async def _all(self, batch: list[dict[str, Any]], submit: SubmitInbound, *, refuse: bool) -> list[int]:
        """Take updates in, chats side by side, each in order. Returns the updates that have to come again."""
        chats: dict[str, list[dict[str, Any]]] = {}
        for update in batch:
            if update["update_id"] not in self._taken:
                chats.setdefault(inbound.find_chat_id(update), []).append(update)
        left = await asyncio.gather(*(self._some(one, submit, refuse) for one in chats.values()))
        return sorted(one for some in left for one in some)

    async def _some(self, updates: list[dict[str, Any]], submit: SubmitInbound, refuse: bool) -> list[int]:
        left = [one["update_id"] for one in updates]
        for album, parts in inbound.group_albums(updates):
            if album and len(parts) == len(left) and album not in self._albums:
                self._albums.add(album)  # the rest of it may be on its way: looked at once more in a moment
                return left
            try:
                await self._take(parts, submit)
            except Exception as exc:  # border: a message that breaks the program keeps no other chat waiting
                ours = isinstance(exc, PalinurusError)
                log.warning("telegram %s: messages wait: %s", self._kit.account, exc, exc_info=not ours)
                if refuse and (isinstance(exc, QueueFull) or not ours):
                    await self._refuse(parts[0])
                    return []
                return left
            self._albums.discard(album)
            self._taken.update(left[: len(parts)])
            del left[: len(parts)]
        return []

    async def _take(self, parts: list[dict[str, Any]], submit: SubmitInbound) -> None:
        """Put what an update (of an album: what all of them) says on our disk. Raises PalinurusError if it has to
        come again."""
        heards = [heard for one in parts if (heard := await self._read(one)) is not None]
        heard = inbound.join_album(heards) if heards else None
        message = await self._whole(heard) if heard is not None else None
        if heard is None or message is None:
            return
        try:
            await hand_in_once(submit, message)
        except BadRequest as exc:
            log.warning("telegram %s: message %s is not taken: %s", self._kit.account, message.event, exc.message)
        if heard.query:
            try:
                await self._api.call("answerCallbackQuery", callback_query_id=heard.query)
            except TelegramFault as exc:  # the button keeps its hourglass for a while, no more
                log.info("telegram %s: a press is not confirmed: %s", self._kit.account, exc)

    async def _read(self, update: dict[str, Any]) -> inbound.TelegramInbound | None:
        assert self._me is not None
        went = inbound.find_migration(update)
        if went is not None:
            await self._migrated(*went)
        return inbound.parse_update(update, self._me)

    async def _whole(self, heard: inbound.TelegramInbound) -> Inbound | None:
        """With its files, the words of its button, and the id under which we know the chat."""
        inbound = msgspec.structs.replace(heard.inbound, target=self._known(heard.inbound.target))
        if heard.data:
            text = await self._behind(heard.data)
            return msgspec.structs.replace(inbound, text=text, at=self._kit.clock.now()) if text else None
        return await fetch_message_files(self._kit, inbound, heard.files, self._fetch)

    async def _behind(self, data: str) -> str:
        """The words of a button. Who sends other data than a button of ours says only what he could have typed."""
        if data.startswith("t"):
            return data[1:]
        return (await self._kit.memo.get(f"button/{data}") or b"").decode() if data.startswith("k") else ""

    async def _fetch(self, file: RemoteFile) -> AsyncGenerator[bytes, None]:
        try:
            async with self._fetching:
                async for piece in self._api.download(file.source):
                    yield piece
        except TelegramFault as exc:
            again = exc.failure.trouble in ("down", "cut", "limited")
            raise FileUnavailable(f"could not be fetched: {exc}", again, exc.failure.retry_after) from exc

    async def _refuse(self, update: dict[str, Any]) -> None:
        heard = await self._read(update)
        if heard is not None:
            target, event = self._known(heard.inbound.target), heard.inbound.event
            log.warning("telegram %s: too many messages in %s; some are refused", self._kit.account, target.to)
            await self._out.send(Reply(target, BUSY, f"busy/{event}", "notice", reply_to=event, plain=True))

    # groups that get a new id

    def _chat(self, chat: str) -> str:
        """The id that Telegram knows a chat by today."""
        return self._moved.get(chat, chat)

    def _known(self, target: Target) -> Target:
        """A supergroup keeps the id of the group it was, and with it its session and its rules; not if the
        configuration already names the new one."""
        if target.to in self._kit.settings.groups:
            return target
        old = next((old for old, new in self._moved.items() if new == target.to), target.to)
        return msgspec.structs.replace(target, to=old)

    async def _migrated(self, old: str, new: str) -> None:
        if self._moved.get(old) != new:
            log.info("telegram %s: the group %s is now the supergroup %s", self._kit.account, old, new)
            self._moved[old] = new
            await self._kit.memo.put("moved", json.dumps(self._moved).encode())


def _listed(name: str) -> str:
    """A command's name as Telegram's menu takes it."""
    return name.lower().replace("-", "_")


def _custom(written: Any) -> list[tuple[str, str]]:
    rows = written if isinstance(written, list) else []
    pairs = [(row.get("command"), row.get("description")) for row in rows if isinstance(row, dict)]
    return [(name.lstrip("/"), str(help or "")) for name, help in pairs if isinstance(name, str)]
