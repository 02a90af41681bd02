"""What Slack's events do not say: names of people and chats, the files, and what was said while nobody listened. Names
are asked for once and remembered for a while. The token goes only to Slack: files that lie elsewhere are not fetched.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from palinurus.channels.intake import FileUnavailable, RemoteFile
from palinurus.channels.kit import ChannelKit, MemoTable, RecentDict
from palinurus.channels.slack.api import SlackApi
from palinurus.channels.slack.inbound import find_chat_kind
from palinurus.config.secrets import Secret
from palinurus.core.types.channel import SendFailure
from palinurus.core.types.inbound import ChatKind

MOST_CHATS = 40  # chats, the last used ones
PAGE, PAGES = 100, 3
DAY = 86_400
MOST_NAMES = 2000  # names remembered
SECONDS = 120.0  # for one file


class SlackBacklog:
    """What one account missed. Slack tells an event again for some minutes only; after a longer absence the chats are
    read back, from the newest message that was taken (kept in one small record), at most a day. Answers in threads are
    not found so."""

    def __init__(self, kit: ChannelKit, calls: SlackApi) -> None:
        self._kit = kit
        self._calls = calls
        self._seen = MemoTable(kit.memo, "seen", MOST_CHATS)

    async def mark_taken(self, channel: str, ts: str) -> None:
        """A message is on disk."""
        if ts > (await self._seen.rows()).get(channel, ""):
            await self._seen.put(channel, ts)

    async def chats(self) -> list[str]:
        """Those that we would read back."""
        return list(await self._seen.rows())

    async def read_missed(self, channel: str) -> AsyncIterator[Mapping[str, Any]]:
        """The messages of a chat since then, oldest first, as their events would be."""
        floor = f"{self._kit.clock.now() // 1000 - DAY}.000000"
        oldest = max((await self._seen.rows()).get(channel, floor), floor)
        pages = self._calls.read_pages("conversations.history", PAGES, [], channel=channel, oldest=oldest, limit=PAGE)
        found = [one async for one in pages if isinstance(one, Mapping)]
        for message in reversed(found):
            yield {**message, "channel": channel}


class SlackLookup:
    """For one account."""

    def __init__(self, kit: ChannelKit, calls: SlackApi, token: Secret, base: str) -> None:
        self._kit = kit
        self._calls = calls
        self._token = token
        self._origin = _origin(base)
        self._names: RecentDict[str, str] = RecentDict(MOST_NAMES)
        self._chats: RecentDict[str, tuple[ChatKind, str]] = RecentDict(MOST_NAMES)
        self._http: aiohttp.ClientSession | None = None

    def use(self, http: aiohttp.ClientSession) -> None:
        self._http = http

    async def name(self, user: str) -> str:
        """A person's name for display; "" while Slack does not tell."""
        if user not in self._names:
            told = await self._calls.call("users.info", user=user)
            if isinstance(told, SendFailure):
                return ""
            known = told.get("user") or {}
            profile = known.get("profile") or {}
            name = profile.get("display_name") or profile.get("real_name") or known.get("name") or ""
            self._names[user] = str(name)
        return self._names[user]

    async def chat(self, channel: str, hint: str) -> tuple[ChatKind, str]:
        """What kind of chat it is, and its title."""
        if find_chat_kind(channel, hint) == "direct":
            return "direct", ""
        if channel not in self._chats:
            told = await self._calls.call("conversations.info", channel=channel)
            if isinstance(told, SendFailure):
                return find_chat_kind(channel, hint), ""
            known = told.get("channel") or {}
            kind: ChatKind = "group" if known.get("is_mpim") else find_chat_kind(channel, hint)
            self._chats[channel] = (kind, str(known.get("name") or ""))
        return self._chats[channel]

    async def fetch_file(self, file: RemoteFile) -> AsyncGenerator[bytes, None]:
        """Implements `FetchFile`."""
        if not self._ours(file.source) or self._http is None:
            raise FileUnavailable("is not on Slack itself and was not fetched")
        headers = {"Authorization": f"Bearer {self._token.reveal()}"}
        wait = aiohttp.ClientTimeout(total=SECONDS)
        try:
            # A redirect leads to Slack's sign-in page: the app may not read files.
            async with self._http.get(file.source, headers=headers, timeout=wait, allow_redirects=False) as answer:
                if answer.status != 200:
                    raise FileUnavailable(f"could not be fetched from Slack ({answer.status}); files:read is needed")
                async for chunk in answer.content.iter_any():
                    yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as exc:
            raise FileUnavailable(f"could not be fetched from Slack ({type(exc).__name__})") from exc

    def _ours(self, address: str) -> bool:
        """May the token be sent there?"""
        scheme, host, port = _origin(address)
        return (scheme, host, port) == self._origin or (
            scheme == "https" and port in (None, 443) and host.endswith(".slack.com")
        )


def _origin(address: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(address)
        return parts.scheme, (parts.hostname or "").lower(), parts.port
    except ValueError:
        return "", "", None
