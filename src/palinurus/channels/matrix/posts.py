"""Replies and acts on Matrix. Each event has a transaction id made of our client id: the server shows it once however
often it is sent. Servers forget these ids after a while; then `find` reads the room back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

from palinurus.channels.kit import PASSING, ChannelKit
from palinurus.channels.matrix import api
from palinurus.channels.matrix.api import CLIENT_ID_FIELD, MatrixApi, build_path
from palinurus.channels.matrix.inbound import read_content, read_relation
from palinurus.channels.matrix.rooms import MatrixRooms
from palinurus.core.types import channel
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.late import load_part
from palinurus.store.port import make_id

MEDIA = 50 * 1024 * 1024
PAGE, PAGES = 100, 5  # how far back `find` reads
TYPING = 20.0  # seconds
NO_CRYPTO = "the room is encrypted, and its keys are not to be had here: see `pal channels status`"


class MatrixPoster:
    """What one account says."""

    def __init__(self, kit: ChannelKit, calls: MatrixApi, rooms: MatrixRooms) -> None:
        self._kit = kit
        self._calls = calls
        self._rooms = rooms
        self._typing: set[str] = set()

    async def send(self, reply: Reply) -> channel.SendResult:
        """The text, then its files, each an event with its own transaction id. Uploads come first: when one fails,
        nothing was said yet."""
        room = await self._rooms.resolve_room(reply.target.to)
        if isinstance(room, channel.SendFailure):
            return room
        pieces: list[tuple[str, dict[str, Any]]] = []
        if reply.text.strip() or not reply.media:
            notice = reply.kind in ("notice", "tool")
            pieces.append((reply.client_id, api.build_text(reply.text, plain=reply.plain, notice=notice)))
        limits = await self._rooms.get_encryption(room)
        if isinstance(limits, channel.SendFailure):
            return limits
        for number, source in enumerate(reply.media):
            uploaded = await self._uploaded(source, voice=reply.voice, sealed=limits is not None)
            if isinstance(uploaded, channel.SendFailure):
                return uploaded
            pieces.append((_piece(reply, number), uploaded))
        first: channel.SendReceipt | None = None
        for ident, made in pieces:
            sent = await self._event(room, reply, made, ident)
            if isinstance(sent, channel.SendFailure):
                return sent
            first = first or sent
        if room in self._typing:
            self._typing.discard(room)
            await self._type(room, on=False)
        return first or channel.SendFailure("there is nothing to send", "refused")

    async def _event(self, room: str, reply: Reply, made: dict[str, Any], ident: str) -> channel.SendResult:
        made = api.add_relation({**made, CLIENT_ID_FIELD: ident}, reply.target.thread, reply.reply_to)
        return await self._put(room, "m.room.message", made, ident)

    async def _put(self, room: str, kind: str, made: Mapping[str, Any], ident: str) -> channel.SendResult:
        """Said as it is, or encrypted where the room is."""
        limits = await self._rooms.get_encryption(room)
        if isinstance(limits, channel.SendFailure):
            return limits
        if limits is None or kind == "m.reaction":  # reactions are readable everywhere, as all clients send them
            return await self._done("PUT", build_path("rooms", room, "send", kind, ident), made)
        if self._rooms.crypto is None:
            return self._no_keys()
        people = await self._rooms.list_readers(room)
        if isinstance(people, channel.SendFailure):
            return people
        sealed = await self._rooms.crypto.seal_event(room, kind, made, people=people, limits=limits)
        if isinstance(sealed, channel.SendFailure):
            return sealed
        return await self._done("PUT", build_path("rooms", room, "send", "m.room.encrypted", ident), sealed)

    def _no_keys(self) -> channel.SendFailure:
        """For good, or only until we are signed in after a start."""
        return channel.SendFailure(NO_CRYPTO, "refused" if self._rooms.me else "down")

    async def _uploaded(self, source: str, *, voice: bool, sealed: bool) -> dict[str, Any] | channel.SendFailure:
        loaded = await self._kit.media.load(source, MEDIA)
        if isinstance(loaded, str):
            return channel.SendFailure(loaded, "media")
        data, mime, key = loaded.data, loaded.mime, None
        if sealed:
            if self._rooms.crypto is None:
                return self._no_keys()
            data, key = await asyncio.to_thread(load_part("matrix-files").seal_file, data)
            mime = "application/octet-stream"
        name = "" if sealed else f"?filename={quote(loaded.name, safe='')}"
        told = await self._calls.call(
            "POST", f"/_matrix/media/v3/upload{name}", data, headers={"Content-Type": mime}, seconds=300.0
        )
        if isinstance(told, channel.SendFailure):
            return told if told.trouble in PASSING else channel.SendFailure(told.reason, "media")
        address = str(told.get("content_uri") or "")
        made = api.build_file(loaded.name, loaded.mime, loaded.data, address, voice=voice)
        if key is not None:
            del made["url"]
            made["file"] = {**key, "url": address}
        return made

    async def find(self, reply: Reply) -> channel.SendReceipt | None:
        """Read the room back. Found when all of its events are there; else sending again adds what is missing."""
        room = await self._rooms.resolve_room(reply.target.to)
        if isinstance(room, channel.SendFailure):
            return None
        wanted = [_piece(reply, number) for number in range(len(reply.media))]
        if reply.text.strip() or not reply.media:
            wanted = [reply.client_id, *wanted]
        met: dict[str, str] = {}
        async for event in self._back(room, []):  # where it cannot be asked, the transaction id still keeps it one
            mark = read_content(event).get(CLIENT_ID_FIELD)
            if event.get("sender") == self._rooms.me and mark in wanted:
                met[str(mark)] = str(event.get("event_id"))
                if len(met) == len(wanted):
                    return channel.SendReceipt(met[wanted[0]])
        return None

    async def _back(self, room: str, troubles: list[channel.SendFailure]) -> AsyncIterator[Mapping[str, Any]]:
        """The events of a room, newest first. What ends it early is told."""
        query = {"dir": "b", "limit": str(PAGE)}
        for _ in range(PAGES):
            told = await self._calls.call("GET", build_path("rooms", room, "messages"), query=query)
            if isinstance(told, channel.SendFailure):
                troubles.append(told)
                return
            for event in told.get("chunk") or ():
                yield await self._rooms.reveal(room, event)
            if not told.get("end") or not told.get("chunk"):
                return
            query["from"] = str(told["end"])

    # --- acts

    async def act(self, target: Target, act: channel.ChannelAction) -> channel.SendResult:
        room = await self._rooms.resolve_room(target.to)
        if isinstance(room, channel.SendFailure):
            return room
        match act:
            case channel.TypingAction():
                self._typing.add(room)
                return await self._type(room, on=True)
            case channel.EditAction():
                made = api.build_edit(api.build_text(act.text, plain=act.plain), act.message_id)
                sent = await self._put(room, "m.room.message", made, self._new())
                return sent if isinstance(sent, channel.SendFailure) else channel.SendReceipt(act.message_id)
            case channel.DeleteAction():
                return await self._redact(room, act.message_id)
            case channel.ReactAction():
                return await self._react(room, act)
            case channel.PinAction():
                return await self._pin(room, act)
            case channel.ThreadAction():
                return await self._thread(room, act)
            case channel.ReadAction():
                return await self._read(room, act.limit)
        return channel.SendFailure("Matrix cannot do that", "refused")

    def _new(self) -> str:
        """A transaction id for what is done once."""
        return make_id(self._kit.clock.now())

    async def _done(self, method: str, address: str, given: Mapping[str, Any]) -> channel.SendResult:
        told = await self._calls.call(method, address, given)
        return told if isinstance(told, channel.SendFailure) else channel.SendReceipt(str(told.get("event_id") or ""))

    async def _type(self, room: str, *, on: bool) -> channel.SendResult:
        given = {"typing": True, "timeout": int(TYPING * 1000)} if on else {"typing": False}
        return await self._done("PUT", build_path("rooms", room, "typing", self._rooms.me), given)

    async def _redact(self, room: str, event: str) -> channel.SendResult:
        return await self._done("PUT", build_path("rooms", room, "redact", event, self._new()), {})

    async def _react(self, room: str, act: channel.ReactAction) -> channel.SendResult:
        if not act.remove:
            about = {"rel_type": "m.annotation", "event_id": act.message_id, "key": act.emoji}
            return await self._put(room, "m.reaction", {"m.relates_to": about}, self._new())
        base = "/_matrix/client/v1"
        where = build_path("rooms", room, "relations", act.message_id, "m.annotation", "m.reaction", base=base)
        told = await self._calls.call("GET", where)
        if isinstance(told, channel.SendFailure):
            return told
        for event in told.get("chunk") or ():
            key = (read_content(event).get("m.relates_to") or {}).get("key")
            if event.get("sender") == self._rooms.me and act.emoji in ("", key):
                await self._redact(room, str(event.get("event_id")))
        return channel.SendReceipt(act.message_id)

    async def _pin(self, room: str, act: channel.PinAction) -> channel.SendResult:
        where = build_path("rooms", room, "state", "m.room.pinned_events", "")
        told = await self._calls.call("GET", where)
        if isinstance(told, channel.SendFailure) and told.trouble != "gone":
            return told
        now = [] if isinstance(told, channel.SendFailure) else list(told.get("pinned") or ())
        pinned = [one for one in now if one != act.message_id]
        return await self._done("PUT", where, {"pinned": pinned if act.remove else [*pinned, act.message_id]})

    async def _thread(self, room: str, act: channel.ThreadAction) -> channel.SendResult:
        """A thread is an event that others are below."""
        if act.message_id:
            return channel.SendReceipt(act.message_id)
        return await self._put(room, "m.room.message", api.build_text(act.name, plain=True), self._new())

    async def _read(self, room: str, limit: int) -> channel.SendResult:
        """What people see: edits in their place, what was taken back left out."""
        lines: list[dict[str, Any]] = []
        newest: dict[str, Mapping[str, Any]] = {}
        troubles: list[channel.SendFailure] = []
        async for event in self._back(room, troubles):
            held, about = read_content(event), read_relation(event)
            if event.get("type") != "m.room.message" or not held.get("body"):
                continue
            if about.get("rel_type") == "m.replace":
                newest.setdefault(str(about.get("event_id")), held.get("m.new_content") or held)
                continue
            ident = str(event.get("event_id"))
            words = str(newest.get(ident, held).get("body") or "")
            lines.append({"id": ident, "from": event.get("sender"), "text": words, "at": event.get("origin_server_ts")})
            if len(lines) >= max(1, min(limit, PAGE)):
                break
        return troubles[0] if troubles and not lines else channel.SendReceipt("", lines[::-1])


def _piece(reply: Reply, number: int) -> str:
    return f"{reply.client_id}.file{number + 1}"
