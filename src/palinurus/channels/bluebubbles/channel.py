"""One BlueBubbles server, which is one Apple account. It calls us with a password in the address, once; what it says is
believed as far as that goes, and its own list of messages is read besides (`web/readback.py`).

Without its Private API it only sends; with it there are typing, edits, tapbacks and taking back.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp

from palinurus.channels.intake import InboundWithFiles, RemoteFile
from palinurus.channels.kit import ChannelKit, RecentDict, decode_object, load_reply_files
from palinurus.channels.web.api import ApiFacts, HttpApi, make_upload_form, read_mapping, read_rows
from palinurus.channels.web.hook import REFUSED, HookBatch, is_same_secret
from palinurus.channels.web.readback import ReadBackChannel, SentMessage, write_plain
from palinurus.core.types import channel
from palinurus.core.types.channel import (
    ChannelAbilities,
    ChannelHttpRequest,
    ChannelHttpResponse,
    SendFailure,
    SendReceipt,
    SendResult,
)
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.outbound import Reply

V1 = "/api/v1"
MEDIA = 50 * 1024 * 1024
PAGE = 200
LOOK = 60.0  # seconds between two looks: the server is near, and costs nothing
ACTS: frozenset[channel.ActionName] = frozenset(("typing", "edit", "delete", "react"))
TAPBACKS = {"❤": "love", "👍": "like", "👎": "dislike", "😂": "laugh", "‼": "emphasize", "❓": "question"}


def _read_error(told: Mapping[str, Any]) -> tuple[str, str]:
    about = read_mapping(told.get("error"))
    words = str(about.get("message") or told.get("message") or "")
    return ("queued" if "already queued" in words else str(about.get("type") or "")), words


# Types of errors: types.ts and messageValidator.ts of its server.
# What iMessage itself makes of a message is often told after a time-out: then nobody knows.
FACTS = ApiFacts("BlueBubbles", _read_error, codes={"queued": "down", "iMessage Error": "cut"})


class BlueBubblesChannel(ReadBackChannel):
    """Implements `Channel`. Raises ConfigError without an address and the password."""

    name = "bluebubbles"

    def __init__(self, kit: ChannelKit) -> None:
        super().__init__(kit, HttpApi(FACTS, kit.address("serverUrl", "http://…")))
        self._password = kit.secret("password")
        self.pause = kit.number("pollSeconds", LOOK)
        self._private = False
        self._ours: RecentDict[str, None] = RecentDict(500)
        self.abilities = self._able()

    def _able(self) -> ChannelAbilities:
        """What the server can: the rest takes its Private API."""
        acts: frozenset[channel.ActionName] = ACTS if self._private else frozenset()
        return ChannelAbilities("plain", 4000, acts=acts, pace=2.0, replies=self._private, media=MEDIA)

    async def _call(
        self, method: str, path: str, body: Mapping[str, Any] | aiohttp.FormData | None = None, seconds: float = 60.0
    ) -> dict[str, Any] | SendFailure:
        query = {"password": self._password.reveal()}
        return await self._api.call(method, V1 + path, body, query=query, seconds=seconds)

    async def greet(self) -> str | SendFailure:
        told = await self._call("GET", "/server/info")
        if isinstance(told, SendFailure):
            return told
        about = read_mapping(told.get("data"))
        self._private = about.get("private_api") is True and about.get("helper_connected") is True
        self.abilities = self._able()
        return str(about.get("detected_imessage") or about.get("detected_icloud") or "iMessage")

    # --- in

    async def accept(self, request: ChannelHttpRequest) -> HookBatch | ChannelHttpResponse:
        given = request.query.get("password") or request.query.get("guid") or ""
        if not is_same_secret(self._password.reveal().encode(), given):
            return REFUSED
        told = decode_object(request.body)
        data = read_mapping(told.get("data")) if told.get("type") == "new-message" else {}
        heard = self._parse(data)
        return HookBatch((heard,) if heard is not None else ())

    def _parse(self, data: Mapping[str, Any]) -> InboundWithFiles | None:
        """Tapbacks, changes of a group and what we said ourselves are no messages."""
        ident, chats = str(data.get("guid") or ""), read_rows(data.get("chats"))
        who = str(read_mapping(data.get("handle")).get("address") or "")
        where = str(chats[0].get("guid") or "") if chats else ""
        if not ident or not who or not where or data.get("isFromMe") is True:
            return None
        if data.get("associatedMessageGuid") or data.get("itemType") not in (0, None):
            return None
        direct = ";+;" not in where
        answered = str(data.get("threadOriginatorGuid") or "")
        at = data.get("dateCreated")
        inbound = Inbound(
            Target(self.name, where, self._kit.account),
            Sender(who),
            ident,
            str(data.get("text") or "").replace("\ufffc", "").strip(),  # where a file stands
            at=at if isinstance(at, int) else self._kit.clock.now(),
            kind="direct" if direct else "group",
            reply_to=answered,
            mentioned=direct or answered in self._ours,
            title="" if direct else str(chats[0].get("displayName") or "")[:200],
        )
        return InboundWithFiles(inbound, tuple(_file(one) for one in read_rows(data.get("attachments"))))

    async def list_heard(self, since: int) -> list[InboundWithFiles] | SendFailure:
        rows = await self._rows({"after": max(since, 0), "sort": "ASC", "with": ["chats", "attachments"]})
        if isinstance(rows, SendFailure):
            return rows
        found = (self._parse(one) for one in rows)
        return [one for one in found if one is not None and one.inbound.at >= since]

    async def _rows(self, asked: Mapping[str, Any]) -> list[Mapping[str, Any]] | SendFailure:
        told = await self._call("POST", "/message/query", {**asked, "limit": PAGE})
        return told if isinstance(told, SendFailure) else read_rows(told.get("data"))

    def fetch_file(self, file: RemoteFile) -> AsyncGenerator[bytes, None]:
        """Implements `FetchFile`."""
        query = urlencode({"password": self._password.reveal(), "original": "true"})
        where = f"{self._api.base}{V1}/attachment/{quote(str(file.source), safe='')}/download?{query}"
        return self._api.fetch_file(self._kit, file._replace(source=where))

    # --- out

    async def post(self, reply: Reply) -> SendResult:
        """The files, each once, then the text."""
        files = await load_reply_files(self._kit, reply, MEDIA)
        if isinstance(files, SendFailure):
            return files
        last: SendResult = SendFailure("there is nothing to send", "refused")
        for number, file in enumerate(files):
            piece = f"{reply.client_id}.file{number}"
            if piece in await self._sending.rows():
                continue
            form = make_upload_form({**self._head(reply, piece), "name": file.name}, "attachment", file)
            last = self._shown(await self._call("POST", "/message/attachment", form, seconds=300.0))
            if isinstance(last, SendFailure):
                return last
            await self._sending.put(piece, [self._kit.clock.now(), last.message_id])
        text = write_plain(reply)
        if not text and files:
            return last
        body = {**self._head(reply, reply.client_id), "message": text}
        if reply.reply_to and self._private:
            body["selectedMessageGuid"] = reply.reply_to
        return self._shown(await self._call("POST", "/message/text", body))

    def _head(self, reply: Reply, piece: str) -> dict[str, str]:
        """`tempGuid` keeps a message out that is still being sent; afterwards the server has forgotten it."""
        ident = str(uuid.uuid5(uuid.NAMESPACE_URL, f"palinurus:{piece}"))
        how = "private-api" if self._private else "apple-script"
        return {"chatGuid": reply.target.to, "tempGuid": f"temp-{ident}", "method": how}

    def _shown(self, told: dict[str, Any] | SendFailure) -> SendResult:
        if isinstance(told, SendFailure):
            return told
        ident = str(read_mapping(told.get("data")).get("guid") or "")
        self._ours[ident] = None
        return SendReceipt(ident)

    async def list_sent(self, chat: str, since: int) -> list[SentMessage] | SendFailure:
        rows = await self._rows({"chatGuid": chat, "after": max(since, 0), "sort": "DESC"})
        if isinstance(rows, SendFailure):
            return rows
        ours = [one for one in rows if one.get("isFromMe") is True and isinstance(one.get("dateCreated"), int)]
        return [SentMessage(str(one.get("guid")), str(one.get("text") or ""), one["dateCreated"]) for one in ours]

    async def act(self, target: Target, act: channel.ChannelAction) -> SendResult:
        chat, message = quote(target.to, safe=""), quote(getattr(act, "message_id", ""), safe="")
        match act:
            case channel.TypingAction():
                return self._did(await self._call("POST", f"/chat/{chat}/typing"), "")
            case channel.EditAction():
                text = write_plain(Reply(target, act.text, "", plain=act.plain))
                given = {"editedMessage": text, "backwardsCompatibilityMessage": f"Edited to: {text}", "partIndex": 0}
                return self._did(await self._call("POST", f"/message/{message}/edit", given), act.message_id)
            case channel.DeleteAction():
                done = await self._call("POST", f"/message/{message}/unsend", {"partIndex": 0})
                return self._did(done, act.message_id)
            case channel.ReactAction():
                word = TAPBACKS.get(act.emoji.replace("\ufe0f", ""))
                if word is None:
                    return SendFailure(f"iMessage has the tapbacks {' '.join(TAPBACKS)}", "refused")
                given = {"chatGuid": target.to, "selectedMessageGuid": act.message_id}
                done = await self._call("POST", "/message/react", {**given, "reaction": f"{'-' * act.remove}{word}"})
                return self._did(done, act.message_id)
        return SendFailure("iMessage cannot do that", "refused")

    def _did(self, told: dict[str, Any] | SendFailure, ident: str) -> SendResult:
        return told if isinstance(told, SendFailure) else SendReceipt(ident)


def _file(one: Mapping[str, Any]) -> RemoteFile:
    size = one.get("totalBytes")
    name, mime = str(one.get("transferName") or "file"), str(one.get("mimeType") or "")
    voice = mime in ("audio/x-caf", "audio/amr") or name.endswith(".caf")
    return RemoteFile(name, mime, str(one.get("guid") or ""), size if isinstance(size, int) else 0, voice=voice)
