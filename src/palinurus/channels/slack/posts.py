"""Replies and acts on Slack: posting, files, reading back, editing. Knows the calls, nothing of the connection.

A message carries our client id as metadata, so `find` can tell whether it was posted. A message with files cannot
carry any; the ids of its files are kept before it is posted, and `find` looks for these.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp

from palinurus.channels.emoji import find_emoji_name
from palinurus.channels.kit import PASSING, ChannelFile, ChannelKit, MemoTable, RecentDict
from palinurus.channels.slack.api import VALUE, SlackApi, build_body, build_metadata, has_client_id, has_files
from palinurus.channels.slack.inbound import SlackIdentity, to_millis, to_readable
from palinurus.core.types import channel
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Button, Reply

MEDIA = 100 * 1024 * 1024  # Slack takes 1 GB; this is held in memory
PAGE, PAGES = 200, 5  # how far back `find` reads
DOUBTS = 1000
SHARED = 200  # messages with files that are remembered
THREADS = 300  # threads in which we spoke
KEY = "key:"  # before the short name of a text that is too long for a button


class SlackPoster:
    """What one account says. `me` is set once Slack has told who we are."""

    def __init__(self, kit: ChannelKit, calls: SlackApi) -> None:
        self._kit = kit
        self._calls = calls
        self._unfurl = kit.flag("unfurlLinks", False)
        self._unfurl_media = kit.flag("unfurlMedia", self._unfurl)
        self._direct: dict[str, str] = {}  # chats with people, by their user id
        self._unsure: RecentDict[str, None] = RecentDict(DOUBTS)  # client ids that were posted, or not
        self._shown = MemoTable(kit.memo, "files", SHARED)  # ids of files by client id, before they are shown
        self._threads = MemoTable(kit.memo, "threads", THREADS)
        self.me = SlackIdentity("", "", "")

    # --- messages

    async def send(self, reply: Reply) -> channel.SendResult:
        """Post one message; files go with the text, or before it when it has buttons. One that may be there already
        is looked up first, and not posted while that is not possible."""
        chat = await self.chat(reply.target.to)
        if isinstance(chat, channel.SendFailure):
            return chat
        if reply.client_id in self._unsure:
            found = await self._sought(chat, reply)
            if found is not None and not (isinstance(found, channel.SendFailure) and found.trouble not in PASSING):
                return found
        answer = await self._posted(chat, reply)
        if isinstance(answer, channel.SendFailure) and answer.trouble == "cut":
            self._unsure[reply.client_id] = None
        else:
            self._unsure.pop(reply.client_id, None)
        if isinstance(answer, channel.SendReceipt) and not await self.has_spoken(chat, reply.target.thread):
            await self._threads.put(f"{chat}:{reply.target.thread}", 1)
        return answer

    async def has_spoken(self, chat: str, thread: str) -> bool:
        """Have we spoken in this thread? Outside of threads there is nothing to remember."""
        return not thread or f"{chat}:{thread}" in await self._threads.rows()

    async def _posted(self, chat: str, reply: Reply) -> channel.SendResult:
        if reply.media:
            text = "" if reply.buttons else reply.text
            shared = await self._share(chat, reply, text)
            if isinstance(shared, channel.SendFailure) or not reply.buttons:
                return shared
        fields = build_body(reply.text, reply.buttons, await self._keys(reply.buttons), plain=reply.plain)
        answer = await self._calls.call(
            "chat.postMessage",
            channel=chat,
            thread_ts=reply.target.thread or None,
            metadata=build_metadata(reply.client_id),
            # Slack would fetch what is behind a link: that tells others, and a model can be talked into it.
            unfurl_links=self._unfurl,
            unfurl_media=self._unfurl_media,
            **fields,
        )
        return answer if isinstance(answer, channel.SendFailure) else channel.SendReceipt(str(answer.get("ts") or ""))

    async def find(self, reply: Reply) -> channel.SendReceipt | None:
        """Was it posted? While Slack cannot be asked, `send` asks again before it posts."""
        chat = await self.chat(reply.target.to)
        found = chat if isinstance(chat, channel.SendFailure) else await self._sought(chat, reply)
        if isinstance(found, channel.SendFailure):
            self._unsure[reply.client_id] = None
            return None
        return found

    async def _sought(self, chat: str, reply: Reply) -> channel.SendResult | None:
        """Read the chat back until our client id, or one of our files, is met. None: it is not there."""
        files = await self._files(reply) if reply.media and not reply.buttons else ()
        troubles: list[channel.SendFailure] = []
        async for message in self._back(chat, reply.target.thread, troubles):
            if has_client_id(message, reply.client_id) or has_files(message, files):
                return channel.SendReceipt(str(message.get("ts") or ""))
        return troubles[0] if troubles else None

    async def chat(self, to: str) -> str | channel.SendFailure:
        """The chat's id; with a person (U…) one is opened."""
        if not to.startswith(("U", "W")):
            return to
        if to not in self._direct:
            answer = await self._calls.call("conversations.open", users=to)
            if isinstance(answer, channel.SendFailure):
                return answer
            self._direct[to] = str((answer.get("channel") or {}).get("id") or to)
        return self._direct[to]

    def _back(self, chat: str, thread: str, troubles: list[channel.SendFailure]) -> AsyncIterator[Mapping[str, Any]]:
        """The messages of a chat, newest first; those of a thread as Slack gives them. What ends it early is told."""
        method = "conversations.replies" if thread else "conversations.history"
        given = {"channel": chat, "ts": thread or None, "limit": PAGE, "include_all_metadata": True}
        return self._calls.read_pages(method, PAGES, troubles, **given)

    # --- buttons

    async def _keys(self, buttons: tuple[Button, ...]) -> list[str]:
        """What stands behind the buttons: their texts, or the name under which a long one is kept."""
        keys = []
        for button in buttons:
            key = button.text
            if len(key) > VALUE or key.startswith(KEY):
                key = KEY + hashlib.sha256(button.text.encode()).hexdigest()[:32]
                await self._kit.memo.put(key, button.text.encode())
            keys.append(key)
        return keys

    async def decode_button(self, value: str) -> str:
        """The text of a pressed button; "" if nobody knows it any more."""
        if not value.startswith(KEY):
            return value
        kept = await self._kit.memo.get(value)
        return kept.decode() if kept else ""

    # --- files

    async def _share(self, chat: str, reply: Reply, text: str) -> channel.SendResult:
        before = await self._files(reply)
        if before:  # posted with buttons that did not follow, or not posted at all
            troubles: list[channel.SendFailure] = []
            async for message in self._back(chat, reply.target.thread, troubles):
                if has_files(message, before):
                    return channel.SendReceipt(str(message.get("ts") or ""))
            if troubles and troubles[0].trouble in PASSING:
                return troubles[0]
        uploads: list[dict[str, str]] = []
        for source in reply.media:
            file = await self._kit.media.load(source, MEDIA)
            if isinstance(file, str):
                return channel.SendFailure(file, "media")
            ident = await self._upload(file)
            if isinstance(ident, channel.SendFailure):
                return ident
            uploads.append({"id": ident, "title": file.name})
        await self._shown.put(reply.client_id, [one["id"] for one in uploads])
        comment = build_body(text, (), (), plain=reply.plain)["text"] if text else None
        answer = await self._calls.call(
            "files.completeUploadExternal",
            files=uploads,
            channel_id=chat,
            thread_ts=reply.target.thread or None,
            initial_comment=comment,
        )
        if isinstance(answer, channel.SendFailure):
            return _of_media(answer)
        return channel.SendReceipt(await self._shared(uploads[0]["id"], chat))

    async def _upload(self, file: ChannelFile) -> str | channel.SendFailure:
        """The id of the file, which nobody sees yet."""
        place = await self._calls.call("files.getUploadURLExternal", filename=file.name, length=len(file.data))
        if isinstance(place, channel.SendFailure):
            return _of_media(place)
        try:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=300)) as http:
                async with http.post(str(place["upload_url"]), data=file.data) as answer:
                    if answer.status != 200:
                        return channel.SendFailure(f"Slack did not take {file.name} ({answer.status})", "media")
        except (aiohttp.ClientError, TimeoutError, OSError, KeyError, ValueError) as exc:
            return channel.SendFailure(f"{file.name} could not be uploaded ({type(exc).__name__})")
        return str(place.get("file_id") or "")

    async def _shared(self, file: str, chat: str) -> str:
        """The time stamp of the message that shows the file; "" while Slack does not know."""
        answer = await self._calls.call("files.info", file=file)
        shares = {} if isinstance(answer, channel.SendFailure) else (answer.get("file") or {}).get("shares") or {}
        for where in shares.values():
            for share in where.get(chat) or ():
                return str(share.get("ts") or "")
        return ""

    async def _files(self, reply: Reply) -> tuple[str, ...]:
        return tuple((await self._shown.rows()).get(reply.client_id, ()))

    # --- acts

    async def act(self, target: Target, act: channel.ChannelAction) -> channel.SendResult:
        chat = await self.chat(target.to)
        if isinstance(chat, channel.SendFailure):
            return chat
        match act:
            case channel.EditAction():
                fields = build_body(act.text, act.buttons, await self._keys(act.buttons), plain=act.plain)
                return await self._done("chat.update", channel=chat, ts=read_timestamp(act.message_id), **fields)
            case channel.DeleteAction():
                return await self._done("chat.delete", channel=chat, ts=read_timestamp(act.message_id))
            case channel.ReactAction():
                return await self._react(chat, act)
            case channel.PinAction():
                method = "pins.remove" if act.remove else "pins.add"
                return await self._done(method, channel=chat, timestamp=read_timestamp(act.message_id))
            case channel.ThreadAction():
                return await self._thread(chat, act)
            case channel.ReadAction():
                return await self._read(chat, target.thread, act.limit)
            case channel.LookAction():
                return await self._look(act)
        return channel.SendFailure("Slack cannot do that", "refused")

    async def _look(self, act: channel.LookAction) -> channel.SendResult:
        answer = await self._calls.call("users.info" if act.user else "emoji.list", user=act.user or None)
        if isinstance(answer, channel.SendFailure):
            return answer
        if not act.user:
            return channel.SendReceipt("", sorted(answer.get("emoji") or ()))
        known = answer.get("user") or {}
        profile = known.get("profile") or {}
        told = {"id": known.get("id"), "name": profile.get("real_name") or profile.get("display_name")}
        return channel.SendReceipt("", {**told, "title": profile.get("title"), "timezone": known.get("tz")})

    async def _done(self, method: str, **given: Any) -> channel.SendResult:
        answer = await self._calls.call(method, **given)
        if isinstance(answer, channel.SendFailure):
            return answer
        return channel.SendReceipt(str(answer.get("ts") or given.get("ts") or given.get("timestamp") or ""))

    async def _react(self, chat: str, act: channel.ReactAction) -> channel.SendResult:
        ts = read_timestamp(act.message_id)
        if act.remove and not act.emoji:
            return await self._bare(chat, ts)
        name = find_emoji_name(act.emoji)
        if not name:
            return channel.SendFailure(f"Slack's name of {act.emoji!r} is not known; write it as :name:", "refused")
        method = "reactions.remove" if act.remove else "reactions.add"
        answer = await self._done(method, channel=chat, timestamp=ts, name=name)
        already = isinstance(answer, channel.SendFailure) and answer.reason.endswith(("already_reacted", "no_reaction"))
        return channel.SendReceipt(ts) if already else answer

    async def _bare(self, chat: str, ts: str) -> channel.SendResult:
        answer = await self._calls.call("reactions.get", channel=chat, timestamp=ts, full=True)
        if isinstance(answer, channel.SendFailure):
            return answer
        for one in (answer.get("message") or {}).get("reactions") or ():
            if self.me.user in (one.get("users") or ()):
                await self._done("reactions.remove", channel=chat, timestamp=ts, name=one.get("name"))
        return channel.SendReceipt(ts)

    async def _thread(self, chat: str, act: channel.ThreadAction) -> channel.SendResult:
        """A thread is a message that others are below."""
        if act.message_id:
            return channel.SendReceipt(read_timestamp(act.message_id))
        return await self._done("chat.postMessage", channel=chat, **build_body(act.name, (), (), plain=True))

    async def _read(self, chat: str, thread: str, limit: int) -> channel.SendResult:
        method = "conversations.replies" if thread else "conversations.history"
        answer = await self._calls.call(method, channel=chat, ts=thread or None, limit=max(1, min(limit, PAGE)))
        if isinstance(answer, channel.SendFailure):
            return answer
        found = sorted(answer.get("messages") or (), key=lambda one: str(one.get("ts")))
        return channel.SendReceipt("", [_row(one) for one in found])


def _row(message: Mapping[str, Any]) -> dict[str, Any]:
    ts, who = str(message.get("ts") or ""), str(message.get("user") or message.get("bot_id") or "")
    text = to_readable(str(message.get("text") or ""), SlackIdentity("", "", ""))
    return {"id": ts, "from": who, "text": text, "at": to_millis(ts)}


def read_timestamp(message_id: str) -> str:
    """The time stamp of a message: our events name the channel before it."""
    return message_id.rpartition(":")[2]


def _of_media(trouble: channel.SendFailure) -> channel.SendFailure:
    """What Slack refuses about a file is the file's trouble; the text can go without it."""
    return channel.SendFailure(trouble.reason, "media") if trouble.trouble == "refused" else trouble
