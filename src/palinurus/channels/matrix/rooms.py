"""What we know of rooms: who is in them, what they are called, whether they are between two, or encrypted; and events
and files that messages point to. Asked when needed, forgotten when the server says that something changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from palinurus.backoff import Backoff
from palinurus.channels.intake import FileUnavailable, RemoteFile
from palinurus.channels.kit import PASSING, ChannelKit, MemoTable, RecentDict
from palinurus.channels.matrix.api import MatrixApi, build_path
from palinurus.core.types.channel import SendFailure
from palinurus.core.types.inbound import ChatKind
from palinurus.late import load_part

if TYPE_CHECKING:
    from palinurus.channels.matrix.sealed.crypto import MatrixCrypto

MOST = 1000  # rooms remembered
SECONDS = 120.0  # for one file
MEDIA = "/_matrix/client/v1/media/download"
OLD_MEDIA = "/_matrix/media/v3/download"  # servers before 1.11


class MatrixRoom(msgspec.Struct, frozen=True):
    """`names` of who is in it, by id."""

    names: Mapping[str, str]
    title: str


class MatrixRooms:
    """For one account. `me` is set once the server has told who we are."""

    def __init__(self, kit: ChannelKit, calls: MatrixApi) -> None:
        self._kit = kit
        self._calls = calls
        self._rooms: RecentDict[str, MatrixRoom] = RecentDict(MOST)
        self.direct: dict[str, list[str]] = {}  # m.direct: the rooms with a person
        self.me = ""
        self.crypto: MatrixCrypto | None = None  # what opens encrypted rooms, where its extra is installed
        self._sealed = MemoTable(kit.memo, "encrypted", MOST)  # their settings: encrypted once, encrypted for ever
        self._open: set[str] = set()  # rooms that are not

    async def get_encryption(self, room: str) -> Mapping[str, Any] | SendFailure | None:
        """How a room is encrypted; None if it is not."""
        known: Mapping[str, Any] | None = (await self._sealed.rows()).get(room)
        if known is not None or room in self._open:
            return known
        told = await self._calls.call("GET", build_path("rooms", room, "state", "m.room.encryption", ""))
        if not isinstance(told, SendFailure):
            await self._sealed.put(room, told)
        elif told.trouble not in PASSING:
            self._open.add(room)
            return None
        return told

    async def list_readers(self, room: str) -> list[str] | SendFailure:
        """Who is to read what is said in an encrypted room: who is in it, and who is asked in."""
        told = await self._calls.call("GET", build_path("rooms", room, "members"))
        if isinstance(told, SendFailure):
            return told
        chunk = [event for event in told.get("chunk") or () if isinstance(event, Mapping)]
        held = {str(e.get("state_key")): (e.get("content") or {}).get("membership") for e in chunk}
        return [who for who, how in held.items() if how in ("join", "invite")]

    async def reveal(self, room: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """An event of the past as it was before it was encrypted, where we have its key."""
        if event.get("type") != "m.room.encrypted" or self.crypto is None:
            return event
        return await self.crypto.reveal(room, event)

    async def get(self, room: str) -> MatrixRoom | None:
        """None if the server does not tell it to us."""
        if room not in self._rooms:
            told = await self._asked(build_path("rooms", room, "joined_members"))
            title = await self._asked(build_path("rooms", room, "state", "m.room.name", ""))
            if told is None:
                return None
            joined = told.get("joined") or {}
            names = {who: str((known or {}).get("display_name") or "") for who, known in joined.items()}
            self._rooms[room] = MatrixRoom(names, str((title or {}).get("name") or ""))
        return self._rooms[room]

    async def _asked(self, address: str) -> Mapping[str, Any] | None:
        """What the server says; None for never. While it cannot be asked we wait: a guess could take a person's
        message for something that was only overheard."""
        backoff = Backoff()
        while isinstance(told := await self._calls.call("GET", address), SendFailure):
            if told.trouble not in PASSING:
                return None
            await self._kit.clock.sleep(told.retry_after or backoff.next_delay())
        return told

    def forget_room(self, room: str) -> None:
        self._rooms.pop(room, None)
        self._open.discard(room)

    def kind(self, room: str, known: MatrixRoom | None) -> ChatKind:
        """Direct: nobody but the two of us is in it, and it is marked so or has no name. A room of which nothing is
        known is a group: nobody gets more rights by that."""
        if known is None or len(known.names) > 2:
            return "group"
        marked = any(room in rooms for rooms in self.direct.values())
        return "direct" if marked or not known.title else "group"

    async def read_direct(self) -> None:
        told = await self._calls.call("GET", build_path("user", self.me, "account_data", "m.direct"))
        if not isinstance(told, SendFailure):
            self.set_direct_rooms(told)

    def set_direct_rooms(self, told: Mapping[str, Any]) -> None:
        """The account's m.direct."""
        self.direct = {who: [str(r) for r in rooms] for who, rooms in told.items() if isinstance(rooms, list)}

    async def resolve_room(self, to: str) -> str | SendFailure:
        """The id of a room: of one with a person (@…; made if there is none), of one with an alias (#…)."""
        if to.startswith("#"):
            told = await self._calls.call("GET", build_path("directory", "room", to))
            return told if isinstance(told, SendFailure) else str(told.get("room_id") or "")
        if not to.startswith("@"):
            return to
        if to not in self.direct or not self.direct[to]:
            wanted = {"is_direct": True, "invite": [to], "preset": "trusted_private_chat", **self._private()}
            told = await self._calls.call("POST", build_path("createRoom"), wanted)
            if isinstance(told, SendFailure):
                return told
            self.direct[to] = [str(told.get("room_id") or "")]
            await self._calls.call("PUT", build_path("user", self.me, "account_data", "m.direct"), dict(self.direct))
        return self.direct[to][-1]

    def _private(self) -> dict[str, Any]:
        """A new chat between two is encrypted, where we can."""
        state = {"type": "m.room.encryption", "state_key": "", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}
        return {"initial_state": [state]} if self.crypto is not None else {}

    async def event(self, room: str, ident: str) -> Mapping[str, Any]:
        """One event; {} if it cannot be had."""
        return await self.reveal(room, await self._asked(build_path("rooms", room, "event", ident)) or {})

    async def fetch_file(self, file: RemoteFile) -> AsyncGenerator[bytes, None]:
        """Implements `FetchFile`."""
        if isinstance(file.source, str):
            async for chunk in self._fetch(file.source):
                yield chunk
            return
        if self.crypto is None:
            raise FileUnavailable("is encrypted and cannot be read here")
        sealed, most = bytearray(), self._kit.settings.media
        async for chunk in self._fetch(str(file.source.get("url") or "")):
            sealed += chunk
            if len(sealed) > most:
                raise FileUnavailable(f"is larger than {most // (1024 * 1024)} MB (mediaMaxMb) and was not taken")
        try:
            yield await asyncio.to_thread(load_part("matrix-files").open_file, bytes(sealed), file.source)
        except (ValueError, KeyError, TypeError) as exc:
            raise FileUnavailable("is encrypted with another key than it says, or was changed on the way") from exc

    async def _fetch(self, source: str) -> AsyncGenerator[bytes, None]:
        address, why = urlsplit(source), "could not be fetched from the homeserver"
        if address.scheme != "mxc":
            raise FileUnavailable("has no address")
        try:
            for base in (MEDIA, OLD_MEDIA):
                path = build_path(address.netloc, address.path.strip("/"), base=base)
                async with self._calls.open("GET", path, seconds=SECONDS) as answer:
                    if answer.status == 200:
                        async for chunk in answer.content.iter_any():
                            yield chunk
                        return
                    if answer.status != 404:  # then this server has it elsewhere, or not at all
                        raise FileUnavailable(f"{why} ({answer.status})")
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as exc:
            raise FileUnavailable(f"{why} ({type(exc).__name__})") from exc
        raise FileUnavailable(why)
