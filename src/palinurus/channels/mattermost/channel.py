"""One bot on one Mattermost server: its WebSocket, and what was said while we were away. The socket tells everything
once and takes no acknowledgement, so how far each channel was taken is on our disk, and after every connection the
channels are read back from there.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Any

import aiohttp

from palinurus.channels.intake import ChatWorkers, InboundWithFiles, RemoteFile, fetch_message_files, hand_in
from palinurus.channels.kit import ChannelKit, MemoTable, PostingChannel, RecentDict, decode_object, index_troubles
from palinurus.channels.mattermost.inbound import MattermostContext, MattermostRoom, parse_post
from palinurus.channels.mattermost.posts import MEDIA, V4, MattermostPoster
from palinurus.channels.web.api import ApiFacts, HttpApi, authorize_bearer, read_rows
from palinurus.core.types.channel import ChannelAbilities, SendFailure, SendTrouble, SubmitInbound

log = logging.getLogger(__name__)

HEARTBEAT = 20.0  # seconds; a socket that answers no ping for half of it is gone
DAY = 86_400_000  # milliseconds; what is older is not read back
CHATS = 300  # whose newest message is remembered
SINCE = "since"  # the row of `taken` for chats that have none
_SIGN_IN = "Mattermost does not take the token any more: make a new one and set botToken"

# Ids of its server's errors, as its source has them.
CODES: dict[str, SendTrouble] = index_troubles(
    {
        "long": ("model.post.is_valid.message_length.app_error", "model.post.is_valid.msg.app_error"),
        "signed_out": ("api.context.session_expired.app_error", "api.context.invalid_token.error"),
        "gone": ("api.post.create_post.can_not_post_to_deleted.error", "api.context.permissions.app_error"),
        "media": ("api.file.upload_file.too_large_detailed.app_error", "api.file.attachments.disabled.app_error"),
    }
)
WORDS = {"api.context.permissions.app_error": "the bot is not in this channel, or may not do that"}
FACTS = ApiFacts(
    "Mattermost", lambda told: (str(told.get("id") or ""), str(told.get("message") or "")), codes=CODES, words=WORDS
)


class MattermostChannel(PostingChannel):
    """Implements `Channel`. Raises ConfigError without an address and a token."""

    name = "mattermost"
    abilities = ChannelAbilities(
        "markdown",
        16_383,
        acts=frozenset(("typing", "edit", "delete", "react", "pin", "thread", "read")),
        threads=True,
        media=MEDIA,
    )

    def __init__(self, kit: ChannelKit) -> None:
        super().__init__(kit)
        base = kit.address("baseUrl").removesuffix("/api/v4")
        self._token = kit.secret("botToken")
        self._api = HttpApi(FACTS, base, authorize_bearer(self._token))
        self._posts: MattermostPoster = MattermostPoster(kit, self._api)
        self._taken = MemoTable(kit.memo, "taken", CHATS)  # by channel: when its newest taken post was made
        self._rooms: dict[str, MattermostRoom] = {}
        self._people: RecentDict[str, tuple[str, bool]] = RecentDict(2000)  # name, and is it a bot
        self._given: RecentDict[str, None] = RecentDict(2000)  # posts that are being taken, or were
        mode = kit.text("chatmode", "oncall")
        self._always = mode in ("onmessage", "always")
        self._prefixes = tuple(kit.texts("oncharPrefixes") or (">", "!")) if mode == "onchar" else ()
        self._threads = kit.text("replyToMode") == "all"

    # --- the connection

    async def run(self, submit: SubmitInbound) -> None:
        workers: ChatWorkers[InboundWithFiles] = ChatWorkers(partial(self._take, submit), self._full)
        try:
            async with aiohttp.ClientSession() as http:
                self._api.use(http)
                await self.keep_connected(partial(self._attempt, http, workers))
        finally:
            await workers.close()
            self._given.clear()

    async def _attempt(self, http: aiohttp.ClientSession, workers: ChatWorkers[InboundWithFiles]) -> SendFailure:
        ended = await self._connected(http, workers)
        return SendFailure(_SIGN_IN, "signed_out") if ended.trouble == "signed_out" else ended

    async def _connected(self, http: aiohttp.ClientSession, workers: ChatWorkers[InboundWithFiles]) -> SendFailure:
        """One connection, to its end, and why it ended."""
        told = await self._api.call("GET", f"{V4}/users/me")
        if isinstance(told, SendFailure):
            return told
        self._posts.me, self._posts.username = str(told.get("id") or ""), str(told.get("username") or "")
        address = "ws" + self._api.base.removeprefix("http") + f"{V4}/websocket"
        try:
            async with http.ws_connect(address, heartbeat=HEARTBEAT, max_msg_size=0) as socket:
                proof = {"token": self._token.reveal()}
                await socket.send_json({"seq": 1, "action": "authentication_challenge", "data": proof})
                async for frame in socket:
                    if frame.type is not aiohttp.WSMsgType.TEXT:
                        continue
                    trouble = await self._heard(decode_object(frame.data), workers)
                    if trouble is not None:
                        return trouble
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as exc:
            return SendFailure(f"the socket broke ({type(exc).__name__})")
        return SendFailure("the server closed the socket")

    async def _heard(self, frame: Mapping[str, Any], workers: ChatWorkers[InboundWithFiles]) -> SendFailure | None:
        """One frame. The first that is ours to hear is `hello`: from then on nothing is missed."""
        data = frame.get("data")
        if frame.get("event") == "hello":
            trouble = await self._catch_up(workers)
            if trouble is None:
                self._backoff.reset()
                self.set_status("ready", "", self._posts.username)
            return trouble
        if frame.get("status") == "FAIL":
            return SendFailure("the server refuses the token at its socket", "signed_out")
        if frame.get("event") != "posted" or not isinstance(data, Mapping):
            return None
        post = decode_object(str(data.get("post") or ""))
        ident = str(post.get("channel_id") or "")
        title, kind = str(data.get("channel_display_name") or ""), str(data.get("channel_type") or "")
        room = self._rooms[ident] = MattermostRoom(ident, kind, title, str(data.get("team_id") or ""))
        await self._give(post, room, workers)
        return None

    async def _catch_up(self, workers: ChatWorkers[InboundWithFiles]) -> SendFailure | None:
        """What was said in our channels since the newest post that was taken there, at most a day back."""
        now, rows = self._kit.clock.now(), await self._taken.rows()
        if SINCE not in rows:  # what was said before there was an agent is not answered
            await self._taken.put(SINCE, now)
        told = await self._api.call("GET", f"{V4}/users/me/channels")
        if isinstance(told, SendFailure):
            return told
        for one in read_rows(told.get("rows")):
            ident, newest = str(one.get("id") or ""), one.get("last_post_at")
            since = max(int(rows.get(ident) or rows[SINCE]), now - DAY)
            room = self._rooms[ident] = MattermostRoom(
                ident, str(one.get("type") or ""), str(one.get("display_name") or ""), str(one.get("team_id") or "")
            )
            if not isinstance(newest, int) or newest <= since:
                continue
            posts = await self._posts.read_since(ident, since)
            if isinstance(posts, SendFailure):
                if posts.trouble in ("gone", "refused"):
                    continue
                return posts
            for post in posts:
                await self._give(post, room, workers)
        return None

    # --- what people say

    async def _give(
        self, post: Mapping[str, Any], room: MattermostRoom, workers: ChatWorkers[InboundWithFiles]
    ) -> None:
        ident, who = str(post.get("id") or ""), str(post.get("user_id") or "")
        if not ident or ident in self._given or who == self._posts.me:
            return
        name, bot = await self._person(who)
        thread = str(post.get("root_id") or "")
        around = MattermostContext(
            self._posts.me,
            self._posts.username,
            self._kit.account,
            self._api.base,
            name=name,
            bot=bot,
            joined=bool(thread) and await self._posts.has_spoken(thread),
            always=self._always,
            prefixes=self._prefixes,
            threads=self._threads,
        )
        heard = parse_post(post, room, around)
        if heard is not None and workers.give(room.id, heard):
            self._given[ident] = None
            self._posts.remember_place(ident, room.id)

    async def _person(self, who: str) -> tuple[str, bool]:
        """Names are for display: where they cannot be had, ids do."""
        if who and who not in self._people:
            told = await self._api.call("GET", f"{V4}/users/{who}", seconds=5.0)
            if isinstance(told, SendFailure):
                return "", False
            self._people[who] = str(told.get("username") or ""), told.get("is_bot") is True
        return self._people.get(who, ("", False))

    async def _take(self, submit: SubmitInbound, heard: InboundWithFiles) -> None:
        """However long it takes. Then this channel is read back from here on only."""
        whole = await fetch_message_files(self._kit, heard.inbound, heard.files, self._fetch)
        await hand_in(submit, whole, self._kit.clock)
        room, at = heard.inbound.target.to, heard.inbound.at
        if at > int((await self._taken.rows()).get(room) or 0):
            await self._taken.put(room, at)

    def _fetch(self, file: RemoteFile) -> AsyncGenerator[bytes, None]:
        """Implements `FetchFile`."""
        return self._api.fetch_file(self._kit, file)

    def _full(self, heard: InboundWithFiles) -> None:
        self.tell_overrun(heard.inbound.target, heard.inbound.event)
