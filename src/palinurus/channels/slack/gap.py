"""What was said while nobody listened. Slack tells an event again for some minutes only; after a longer absence the
chats are read back, from the newest message that was taken, at most a day. Answers in threads are not found so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from palinurus.channels.kit import ChannelKit
from palinurus.channels.slack.outbound import SlackApi
from palinurus.channels.slack.record import MemoTable
from palinurus.core.types.channel import SendFailure

MOST_CHATS = 40  # chats, the last used ones
PAGE, PAGES = 100, 3
DAY = 86_400


class SlackBacklog:
    """For one account. The newest time stamp of each chat is kept in one small record."""

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
        found: list[Mapping[str, Any]] = []
        cursor: str | None = None
        for _ in range(PAGES):
            told = await self._calls.call(
                "conversations.history", channel=channel, oldest=oldest, limit=PAGE, cursor=cursor
            )
            if isinstance(told, SendFailure):
                break
            found += [one for one in told.get("messages") or () if isinstance(one, Mapping)]
            cursor = (told.get("response_metadata") or {}).get("next_cursor") or None
            if cursor is None:
                break
        for message in reversed(found):
            yield {**message, "channel": channel}
