"""Replies and acts on Mattermost. The server drops a second post with the same pending id for half a minute; after
that, and after a kill, the channel is read back for our client id, which rides along in the post's props.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from palinurus.channels.emoji import find_emoji_name
from palinurus.channels.kit import PASSING, ChannelKit, MemoTable, RecentDict, load_reply_files
from palinurus.channels.mattermost.inbound import CLIENT_ID_PROP
from palinurus.channels.web.api import HttpApi, make_upload_form, read_mapping, read_rows
from palinurus.channels.web.markdown import write_text
from palinurus.core.types import channel
from palinurus.core.types.channel import SendFailure, SendReceipt, SendResult
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply

V4 = "/api/v4"
MEDIA = 50 * 1024 * 1024  # the server's usual limit is 100 MB; this is held in memory
FILES_AT_ONCE = 5
PAGE, PAGES = 200, 3  # how far back `find` reads
THREADS = 300  # threads in which we spoke
CHANGES = (channel.EditAction, channel.DeleteAction, channel.PinAction, channel.ReactAction)
NO_POST = SendFailure("there is no such post in this chat", "refused")


class MattermostPoster:
    """What one account says. `me` and `username` are set once the server has told who we are."""

    def __init__(self, kit: ChannelKit, api: HttpApi) -> None:
        self._kit = kit
        self._api = api
        self._direct: dict[str, str] = {}  # chats with people, by what they were called
        self._unsure: RecentDict[str, None] = RecentDict(1000)  # client ids that were posted, or not
        self._threads = MemoTable(kit.memo, "threads", THREADS)
        self._places: RecentDict[str, str] = RecentDict(1000)  # posts -> their channels
        self.me = ""
        self.username = ""

    async def send(self, reply: Reply) -> SendResult:
        """One that may be there already is looked up first, and not posted while that is not possible."""
        chat = await self._chat(reply.target.to)
        if isinstance(chat, SendFailure):
            return chat
        if reply.client_id in self._unsure:
            found = await self._sought(chat, reply)
            if isinstance(found, SendReceipt) or (isinstance(found, SendFailure) and found.trouble in PASSING):
                return found
        files = await self._uploaded(chat, reply)
        if isinstance(files, SendFailure):
            return files
        body = {
            "channel_id": chat,
            "message": write_text(reply.text, plain=reply.plain),
            "root_id": reply.target.thread,
            "file_ids": files,
            "pending_post_id": f"{self.me}:{reply.client_id}",
            "props": {CLIENT_ID_PROP: reply.client_id},
        }
        if not await self.has_spoken(reply.target.thread):  # first: who answers at once is answered, also after a kill
            await self._threads.put(reply.target.thread, 1)
        told = await self._api.call("POST", f"{V4}/posts", body)
        self._unsure.pop(reply.client_id, None)
        if isinstance(told, SendFailure):
            if told.trouble == "cut":
                self._unsure[reply.client_id] = None
            return told
        self.remember_place(str(told.get("id") or ""), chat)
        return SendReceipt(str(told.get("id") or ""))

    def remember_place(self, post: str, chat: str) -> None:
        """A post lies in that channel."""
        self._places[post] = chat

    async def _look_for(self, post: str, chat: str) -> SendFailure | None:
        """Why a post cannot be changed from a channel: ids hold for the whole server, rights for a channel."""
        if not _is_id(post):
            return NO_POST
        if post not in self._places:
            told = await self._api.call("GET", f"{V4}/posts/{post}")
            if isinstance(told, SendFailure):
                return told
            self.remember_place(post, str(told.get("channel_id") or ""))
        return None if self._places[post] == chat else NO_POST

    async def has_spoken(self, thread: str) -> bool:
        """Have we spoken in this thread? Outside of threads there is nothing to remember."""
        return not thread or thread in await self._threads.rows()

    async def _chat(self, to: str) -> str | SendFailure:
        """The channel's id. With a person (`user:ID`, `@name`) one is opened."""
        ident = to.removeprefix("channel:").removeprefix("user:")
        if not _is_id(ident) and not to.startswith("@"):
            return SendFailure("this is no id of a chat", "gone")
        if not to.startswith(("user:", "@")):
            return ident
        if to not in self._direct:
            if to.startswith("@"):
                found = await self._api.call("GET", f"{V4}/users/username/{quote(to[1:], safe='')}")
                if isinstance(found, SendFailure):
                    return found
                ident = str(found.get("id"))
            opened = await self._api.call("POST", f"{V4}/channels/direct", _as_list(self.me, ident))
            if isinstance(opened, SendFailure):
                return opened
            self._direct[to] = str(opened.get("id") or "")
        return self._direct[to]

    async def _uploaded(self, chat: str, reply: Reply) -> list[str] | SendFailure:
        """Ids of files that nobody sees yet."""
        if len(reply.media) > FILES_AT_ONCE:
            return SendFailure(f"Mattermost takes {FILES_AT_ONCE} files with a post", "media")
        files = await load_reply_files(self._kit, reply, MEDIA)
        if isinstance(files, SendFailure):
            return files
        idents = []
        for file in files:
            form = make_upload_form({"channel_id": chat}, "files", file)
            told = await self._api.call("POST", f"{V4}/files", form, seconds=300.0)
            if isinstance(told, SendFailure):
                return told if told.trouble in ("down", "limited", "signed_out") else SendFailure(told.reason, "media")
            idents += [str(one.get("id")) for one in read_rows(told.get("file_infos"))]
        return idents

    # --- reading back

    async def find(self, reply: Reply) -> SendReceipt | None:
        """Was it posted? While the server cannot be asked, `send` asks again before it posts."""
        chat = await self._chat(reply.target.to)
        found = chat if isinstance(chat, SendFailure) else await self._sought(chat, reply)
        if isinstance(found, SendFailure):
            self._unsure[reply.client_id] = None
            return None
        return found

    async def _sought(self, chat: str, reply: Reply) -> SendResult | None:
        for page in range(1 if reply.target.thread else PAGES):
            posts = await self._listed(chat, reply.target.thread, {"page": str(page), "per_page": str(PAGE)})
            if isinstance(posts, SendFailure):
                return posts
            for post in posts:
                if post.get("user_id") == self.me and _client_id(post) == reply.client_id:
                    return SendReceipt(str(post.get("id")))
            if len(posts) < PAGE:
                break
        return None

    async def _listed(self, chat: str, thread: str, query: Mapping[str, str]) -> list[Mapping[str, Any]] | SendFailure:
        """Newest first."""
        if thread and not _is_id(thread):
            return NO_POST
        if thread:
            told = await self._api.call("GET", f"{V4}/posts/{thread}/thread")
        else:
            told = await self._api.call("GET", f"{V4}/channels/{chat}/posts", query=query)
        if isinstance(told, SendFailure):
            return told
        posts = [one for one in read_mapping(told.get("posts")).values() if isinstance(one, Mapping)]
        return sorted((one for one in posts if one.get("channel_id") == chat), key=_born, reverse=True)

    async def read_since(self, chat: str, since: int) -> list[Mapping[str, Any]] | SendFailure:
        """Posts that were made in a channel after `since` (milliseconds), oldest first."""
        posts = await self._listed(chat, "", {"since": str(since)})
        return posts if isinstance(posts, SendFailure) else [one for one in posts[::-1] if _born(one) > since]

    # --- acts

    async def act(self, target: Target, act: channel.ChannelAction) -> SendResult:
        chat = await self._chat(target.to)
        if isinstance(chat, SendFailure):
            return chat
        if isinstance(act, CHANGES) and (away := await self._look_for(act.message_id, chat)) is not None:
            return away
        match act:
            case channel.TypingAction():
                given = {"channel_id": chat, "parent_id": target.thread}
                return await self._done("POST", f"{V4}/users/{self.me}/typing", given)
            case channel.EditAction():
                given = {"message": write_text(act.text, plain=act.plain)}
                return await self._done("PUT", f"{V4}/posts/{act.message_id}/patch", given, act.message_id)
            case channel.DeleteAction():
                return await self._done("DELETE", f"{V4}/posts/{act.message_id}", None, act.message_id)
            case channel.PinAction():
                word = "unpin" if act.remove else "pin"
                return await self._done("POST", f"{V4}/posts/{act.message_id}/{word}", {}, act.message_id)
            case channel.ReactAction():
                return await self._react(act)
            case channel.ThreadAction():
                return await self._thread(chat, act)
            case channel.ReadAction():
                return await self._read(chat, target.thread, act.limit)
        return SendFailure("Mattermost cannot do that", "refused")

    async def _done(self, method: str, path: str, given: Mapping[str, Any] | None, ident: str = "") -> SendResult:
        told = await self._api.call(method, path, given)
        return told if isinstance(told, SendFailure) else SendReceipt(ident or str(told.get("id") or ""))

    async def _react(self, act: channel.ReactAction) -> SendResult:
        name = find_emoji_name(act.emoji)
        if not name and not act.remove:
            return SendFailure(f"Mattermost's name of {act.emoji!r} is not known; write it as :name:", "refused")
        if not act.remove:
            given = {"user_id": self.me, "post_id": act.message_id, "emoji_name": name}
            return await self._done("POST", f"{V4}/reactions", given, act.message_id)
        names = [name] if name else []
        if not name:
            told = await self._api.call("GET", f"{V4}/posts/{act.message_id}")
            rows = (
                [] if isinstance(told, SendFailure) else read_rows(read_mapping(told.get("metadata")).get("reactions"))
            )
            names = [str(one.get("emoji_name")) for one in rows if one.get("user_id") == self.me]
        for one in names:
            done = await self._done("DELETE", f"{V4}/users/{self.me}/posts/{act.message_id}/reactions/{one}", None)
            if isinstance(done, SendFailure):
                return done
        return SendReceipt(act.message_id)

    async def _thread(self, chat: str, act: channel.ThreadAction) -> SendResult:
        """A thread is a post that others are below."""
        if act.message_id:
            return SendReceipt(act.message_id)
        return await self._done(
            "POST", f"{V4}/posts", {"channel_id": chat, "message": write_text(act.name, plain=True)}
        )

    async def _read(self, chat: str, thread: str, limit: int) -> SendResult:
        posts = await self._listed(chat, thread, {"per_page": str(max(1, min(limit, PAGE)))})
        if isinstance(posts, SendFailure):
            return posts
        rows = [
            {"id": one.get("id"), "from": one.get("user_id"), "text": one.get("message"), "at": one.get("create_at")}
            for one in posts[: max(1, limit)][::-1]
        ]
        return SendReceipt("", rows)


def _is_id(text: str) -> bool:
    return text.isascii() and text.replace("-", "").isalnum()


def _born(post: Mapping[str, Any]) -> int:
    at = post.get("create_at")
    return at if isinstance(at, int) else 0


def _client_id(post: Mapping[str, Any]) -> Any:
    return read_mapping(post.get("props")).get(CLIENT_ID_PROP) if not post.get("delete_at") else None


def _as_list(*idents: str) -> bytes:
    """The one call whose body is no object."""
    return ('["' + '","'.join(idents) + '"]').encode()
