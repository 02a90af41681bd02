"""One device of ours in encrypted rooms: its keys on the server, keys of rooms in and out. What is on disk before what
is decided here: keys that came before the place in the server's stream moves on, our own ratchets before they are used.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import msgspec
from nacl.bindings import crypto_secretbox, crypto_secretbox_open
from nacl.exceptions import CryptoError

from palinurus.channels.intake import ChatOrder
from palinurus.channels.kit import PASSING, ChannelKit, MemoTable, RecentDict, read_secret
from palinurus.channels.matrix.api import MatrixApi, build_path
from palinurus.channels.matrix.sealed.devices import DeviceDirectory, MatrixDevice
from palinurus.channels.matrix.sealed.keyring import MEGOLM, OLM, InboundKey, OlmKeyring, RoomKeys, is_signed_by
from palinurus.channels.matrix.sealed.signing import sign_own_device
from palinurus.channels.matrix.unread import Undecipherable
from palinurus.core.types.channel import SendFailure
from palinurus.files import write_whole_file
from palinurus.tasks import finish_in_thread

log = logging.getLogger(__name__)

OWN = "olm"
ROOMS, KEPT = 50, 500  # rooms whose keys are in memory, and on disk: anybody may send us keys of any room
DAY = 86_400_000
KEY_FILE = "pickle.key"
REQUESTS, MENDED = 500, 3_600_000  # keys asked for; milliseconds before a device's Olm session is begun anew once more
_ENDED = "the keys kept here cannot be opened: restore {path}, or sign in with a new device"
_TAKEN = (
    "this access token's device has keys of another program: set userId and password, then the agent gets a device of"
    " its own"
)


class SealedMemo:
    """Implements `AccountMemo` over another one: what it keeps is encrypted."""

    def __init__(self, kit: ChannelKit, secret: bytes) -> None:
        self._memo = kit.memo
        self._secret = secret

    async def get(self, key: str) -> bytes | None:
        kept = await self._memo.get(key)
        try:
            return crypto_secretbox_open(kept[24:], kept[:24], self._secret) if kept else None
        except CryptoError as exc:
            raise Undecipherable(f"the record {key} cannot be opened") from exc

    async def put(self, key: str, data: bytes | None) -> None:
        nonce = secrets.token_bytes(24)
        await self._memo.put(key, None if data is None else nonce + crypto_secretbox(data, nonce, self._secret))


async def read_pickle_key(kit: ChannelKit) -> bytes:
    """`pickleKey` of the config (nodes of a fleet need the same), else a file of this machine, made once."""
    if given := read_secret(kit.own.get("pickleKey")):
        return sha256(given.reveal().encode()).digest()
    return await finish_in_thread(_read_key_file, kit.folder)


def _read_key_file(folder: str) -> bytes:
    path = os.path.join(folder, KEY_FILE)
    try:
        with open(path, "rb") as source:
            return source.read(32)
    except FileNotFoundError:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        made = secrets.token_bytes(32)
        write_whole_file(path, made)
        return made


class MatrixCrypto:
    """For one account. `detail` is what a person should know of our own keys."""

    def __init__(self, kit: ChannelKit, calls: MatrixApi, secret: bytes, keyring: OlmKeyring) -> None:
        self._kit = kit
        self._calls = calls
        self._secret = secret
        self._keyring = keyring
        self._memo = SealedMemo(kit, secret)
        everyone = kit.text("deviceTrust", "signed") == "all"
        self.devices = DeviceDirectory(calls, MemoTable(self._memo, "masters", 1000), everyone=everyone)
        self._rooms: RecentDict[str, RoomKeys] = RecentDict(ROOMS)
        self._used = MemoTable(self._memo, "rooms", KEPT)  # of each room on disk, the day of its last message; 0: none
        self._order = ChatOrder()
        self._asked: RecentDict[str, str] = RecentDict(REQUESTS)  # whose key, by session
        self._mended: RecentDict[str, int] = RecentDict(REQUESTS)
        self._arrived: set[str] = set()
        self.detail = ""

    @classmethod
    async def open(cls, kit: ChannelKit, calls: MatrixApi, me: str, device: str) -> MatrixCrypto | SendFailure:
        """With what was kept, or new. The server knows our keys when this returns."""
        secret = await read_pickle_key(kit)
        try:
            kept = await SealedMemo(kit, secret).get(f"{OWN}/{device}")
            keyring = OlmKeyring(me, device, secret, json.loads(kept) if kept else None)
        except Undecipherable:
            return SendFailure(_ENDED.format(path=os.path.join(kit.folder, KEY_FILE)), "refused")
        made = cls(kit, calls, secret, keyring)
        if not kept:
            await made._save()
        return await made._introduce() or made

    async def _save(self) -> None:
        await self._memo.put(f"{OWN}/{self._keyring.device}", json.dumps(self._keyring.dump()).encode())

    async def _introduce(self) -> SendFailure | None:
        """Our device's keys on the server, and the account's own keys that vouch for it."""
        own = self._keyring
        told = await self._calls.call("POST", build_path("keys", "query"), {"device_keys": {own.me: []}})
        if isinstance(told, SendFailure):
            return told
        row = (told.get("device_keys", {}).get(own.me) or {}).get(own.device)
        if row is not None and (row.get("keys") or {}).get(f"ed25519:{own.device}") != own.signing:
            return SendFailure(_TAKEN, "refused")
        if row is None:
            given = {"device_keys": own.describe_device()}
            done = await self._calls.call("POST", build_path("keys", "upload"), given)
            if isinstance(done, SendFailure):
                return done
            await self._refill(0, fallback=True)
        self.detail = await sign_own_device(self._kit, self._calls, own, told, save=self._save)
        return None

    # --- the stream

    async def feed(self, told: Mapping[str, Any]) -> None:
        """One batch of the stream, before its rooms and before the next is asked for: the server forgets what was
        sent to our device then. On disk when this returns; room keys first, then the ratchets that opened them."""
        lists = told.get("device_lists") or {}
        self.devices.forget((*(lists.get("changed") or ()), *(lists.get("left") or ())))
        events = (told.get("to_device") or {}).get("events") or ()
        opened = False
        for event in events:
            if isinstance(event, Mapping) and isinstance(event.get("content"), Mapping):
                opened = await self._take(str(event.get("type")), str(event.get("sender")), event["content"]) or opened
        if opened:
            await self._save()
        counts, spare = told.get("device_one_time_keys_count"), told.get("device_unused_fallback_key_types")
        there = counts.get("signed_curve25519", 0) if isinstance(counts, Mapping) else 0
        if counts is not None or spare is not None:
            await self._refill(there, fallback=isinstance(spare, list) and "signed_curve25519" not in spare)

    def take_arrived(self) -> set[str]:
        """The sessions whose keys came since this was asked last."""
        arrived, self._arrived = self._arrived, set()
        return arrived

    async def _refill(self, there: int, *, fallback: bool) -> None:
        if not (given := self._keyring.make_one_time_keys(there, fallback)):
            return
        await self._save()
        done = await self._calls.call("POST", build_path("keys", "upload"), given)
        if isinstance(done, SendFailure) and done.trouble in PASSING:
            return  # with the next batch
        self._keyring.mark_published()
        await self._save()

    async def _take(self, kind: str, sender: str, content: Mapping[str, Any]) -> bool:
        """Something that was sent to our device. True: a ratchet moved on."""
        if kind == "m.room_key_request":
            await self._requested(sender, content)
        if kind != "m.room.encrypted" or content.get("algorithm") != OLM:
            return False
        curve = str(content.get("sender_key") or "")
        sealed = content.get("ciphertext")
        mine = sealed.get(self._keyring.curve) if isinstance(sealed, Mapping) else None
        if not isinstance(mine, Mapping):
            return False
        try:
            payload = self._keyring.open(curve, mine)
        except Undecipherable as exc:
            log.warning("matrix: a key of %s could not be opened: %s", sender, exc)
            if exc.missing:
                await self._mend(sender, curve)
            return False
        claimed = (payload.get("keys") or {}).get("ed25519")
        named = (payload.get("sender"), payload.get("recipient"), (payload.get("recipient_keys") or {}).get("ed25519"))
        inner = payload.get("content")
        if named == (sender, self._keyring.me, self._keyring.signing) and claimed and isinstance(inner, Mapping):
            await self._keyed(str(payload.get("type")), InboundKey("", sender, curve, str(claimed)), inner)
        return True

    async def _keyed(self, kind: str, row: InboundKey, inner: Mapping[str, Any]) -> None:
        """A key of a room. One that is handed on is taken only if we asked for it, and from who wrote the messages."""
        ident, room = str(inner.get("session_id") or ""), str(inner.get("room_id") or "")
        handed_on = kind == "m.forwarded_room_key"
        if kind not in ("m.room_key", "m.forwarded_room_key") or inner.get("algorithm") != MEGOLM or not room:
            return
        if handed_on and self._asked.get(ident) != row.user:
            return
        await self._note_use(room, 0)
        keys = await self.room(room)
        try:
            if keys.add(str(inner.get("session_key") or ""), row, exported=handed_on):
                await self._memo.put(f"in/{room}", msgspec.json.encode(keys.inbound))
                self._arrived.add(ident)
        except Undecipherable as exc:
            log.warning("matrix: a key of %s is not usable: %s", row.user, exc)

    async def room(self, room: str) -> RoomKeys:
        """Its keys, as they were kept."""
        if room not in self._rooms:
            made = RoomKeys(room, self._secret)
            made.load(*[await self._memo.get(f"{kind}/{room}") for kind in ("in", "out", "seen")])
            made = self._rooms.get(room, made)  # somebody else may have read it meanwhile
        else:
            made = self._rooms[room]
        self._rooms[room] = made  # what is used stays in memory
        return made

    async def _note_use(self, room: str, day: int) -> None:
        """On disk before keys of the room are. Too many rooms: first go those that nothing was ever said in."""
        rows = await self._used.rows()
        if rows.get(room, -1) >= day:
            return
        while room not in rows and len(rows) >= KEPT:
            unused = min(rows, key=lambda one: int(rows[one]))
            self._rooms.pop(unused, None)
            for kind in ("in", "out", "seen"):
                await self._memo.put(f"{kind}/{unused}", None)
            await self._used.remove(unused)
        await self._used.put(room, day)

    # --- reading

    async def open_event(self, room: str, event: Mapping[str, Any], *, fresh: bool = True) -> Mapping[str, Any]:
        """As it was before it was encrypted. Raises Undecipherable."""
        keys = await self.room(room)
        found, row = keys.open(event, fresh=fresh)
        await self._note_use(room, self._kit.clock.now() // DAY)
        if row.user == self._keyring.me and row.curve == self._keyring.curve:
            return found
        device = await self.devices.find(row.user, row.curve)
        if isinstance(device, SendFailure):
            raise Undecipherable(f"the device it came from cannot be looked up ({device.reason})", missing=True)
        if device is None or device.signing != row.signing:
            raise Undecipherable("it came from a device that its owner has not verified (deviceTrust)")
        return found

    async def reveal(self, room: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same for an event of the past; as it is, where there is no key."""
        try:
            return await self.open_event(room, event, fresh=False)
        except Undecipherable:
            return event

    async def keep_seen(self, room: str) -> None:
        """What was read, so that it is not taken a second time as something new."""
        await self._memo.put(f"seen/{room}", (await self.room(room)).dump_seen())

    async def request_key(self, room: str, event: Mapping[str, Any]) -> None:
        """Ask who wrote it for the key once more."""
        content, sender = event.get("content") or {}, str(event.get("sender"))
        ident = str(content.get("session_id") or "")
        if self._asked.get(ident) is not None:
            return
        self._asked[ident] = sender
        body = {"algorithm": MEGOLM, "room_id": room, "session_id": ident, "sender_key": content.get("sender_key", "")}
        given = {
            "action": "request",
            "body": body,
            "request_id": secrets.token_hex(8),
            "requesting_device_id": self._keyring.device,
        }
        await self._send_to_devices("m.room_key_request", {sender: {"*": given}})

    # --- writing

    async def seal_event(
        self, room: str, kind: str, content: Mapping[str, Any], *, people: Iterable[str], limits: Mapping[str, Any]
    ) -> dict[str, Any] | SendFailure:
        """The content of m.room.encrypted, which every believed device of `people` can read."""
        own = self._keyring
        async with self._order.turn(room):
            held = await self.devices.get(people)
            if isinstance(held, SendFailure):
                return held
            wanted = {one.name: one for one in held if one.curve != own.curve}
            now = self._kit.clock.now()
            await self._note_use(room, now // DAY)
            keys = await self.room(room)
            if keys.is_worn(now, limits, wanted):
                keys.rotate(own.me, own.curve, own.signing, now)
                await self._memo.put(f"in/{room}", msgspec.json.encode(keys.inbound))
            assert keys.out is not None
            if missing := [one for name, one in wanted.items() if name not in keys.out.shared]:
                failed = await self._hand_out("m.room_key", dict.fromkeys(missing, keys.describe_session()))
                if failed is not None:
                    return failed
                keys.mark_shared(one.name for one in missing)
            sealed = keys.seal(kind, content, own)
            await self._memo.put(f"out/{room}", msgspec.json.encode(keys.out))
            return sealed

    async def _hand_out(self, kind: str, what: Mapping[MatrixDevice, Mapping[str, Any]]) -> SendFailure | None:
        """Something for each of some devices, sealed with Olm. A device that has no one-time keys gets nothing."""
        failed = await self._begin([one for one in what if not self._keyring.has_session(one.curve)])
        if failed is not None:
            return failed
        given: dict[str, dict[str, Any]] = {}
        for device, content in what.items():
            if not self._keyring.has_session(device.curve):
                log.warning("matrix: %s has no one-time keys left: it cannot read what we say", device.name)
                continue
            payload = {
                "type": kind,
                "content": content,
                "sender": self._keyring.me,
                "sender_device": self._keyring.device,  # of an older specification: matrix-nio wants it
                "recipient": device.user,
                "recipient_keys": {"ed25519": device.signing},
                "keys": {"ed25519": self._keyring.signing},
            }
            sealed = {device.curve: self._keyring.seal(device.curve, payload)}
            row = {"algorithm": OLM, "sender_key": self._keyring.curve, "ciphertext": sealed}
            given.setdefault(device.user, {})[device.id] = row
        if not given:
            return None
        await self._save()
        return await self._send_to_devices("m.room.encrypted", given)

    async def _begin(self, devices: list[MatrixDevice]) -> SendFailure | None:
        if not devices:
            return None
        wanted: dict[str, dict[str, str]] = {}
        for one in devices:
            wanted.setdefault(one.user, {})[one.id] = "signed_curve25519"
        told = await self._calls.call("POST", build_path("keys", "claim"), {"one_time_keys": wanted})
        if isinstance(told, SendFailure):
            return told
        for one in devices:
            rows = (told.get("one_time_keys", {}).get(one.user) or {}).get(one.id) or {}
            for row in rows.values():
                if isinstance(row, Mapping) and is_signed_by(row, one.user, one.id, one.signing):
                    self._keyring.begin_session(one.curve, str(row.get("key")))
                    break
        return None

    async def _send_to_devices(self, kind: str, messages: Mapping[str, Any]) -> SendFailure | None:
        path = build_path("sendToDevice", kind, secrets.token_hex(8))
        done = await self._calls.call("PUT", path, {"messages": messages})
        return done if isinstance(done, SendFailure) else None

    async def _mend(self, sender: str, curve: str) -> None:
        """A device uses an Olm session that we do not have: a new one, with an empty message, takes its place."""
        now = self._kit.clock.now()
        if now - self._mended.get(curve, -MENDED) < MENDED:
            return
        self._mended[curve] = now
        device = await self.devices.find(sender, curve)
        if isinstance(device, MatrixDevice) and await self._begin([device]) is None:
            await self._hand_out("m.dummy", {device: {}})

    async def _requested(self, sender: str, content: Mapping[str, Any]) -> None:
        """Somebody misses a key of ours: a device that was let in gets it again, from the same place on."""
        body = content.get("body")
        if content.get("action") != "request" or not isinstance(body, Mapping):
            return
        keys = await self.room(str(body.get("room_id") or ""))
        name = f"{sender} {content.get('requesting_device_id')}"
        if keys.out is None or name not in keys.out.shared:
            return
        described = keys.describe_session(name)
        held = await self.devices.get((sender,))
        if isinstance(held, SendFailure) or described["session_id"] != body.get("session_id"):
            return
        await self._hand_out("m.room_key", {one: described for one in held if one.name == name})
