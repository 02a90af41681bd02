"""The fake homeserver with end-to-end encryption: it keeps keys of devices as a real one does, and its people have
devices of their own (the pure half of our client: both sides use the same library, as most clients do).
"""

from __future__ import annotations

from typing import Any

from aiohttp import web

from palinurus.channels.matrix.sealed.files import open_file, seal_file
from palinurus.channels.matrix.sealed.keyring import MEGOLM, OLM, InboundKey, OlmKeyring, RoomKeys
from palinurus.channels.matrix.unread import Undecipherable
from palinurus.testing.matrix.server import DIRECT, GROUP, FakeMatrix, Routes, resolve_room
from palinurus.testing.matrix.state import ALICE, BOB, ME, MatrixJson
from palinurus.testing.platform import VisibleMessage

SECRET = bytes(range(32))
_C = "/_matrix/client/v3"
DEVICE = "PAL"


class SealedPerson:
    """Somebody with one device."""

    def __init__(self, user: str) -> None:
        self.keyring = OlmKeyring(user, f"{user[1:].partition(':')[0].upper()}1", SECRET)
        self.rooms: dict[str, RoomKeys] = {}
        self.inbox: list[MatrixJson] = []  # what was sent to the device

    def room(self, room: str) -> RoomKeys:
        return self.rooms.setdefault(room, RoomKeys(room, SECRET))

    def open_inbox(self) -> None:
        """Take the keys that we sent."""
        for content in self.inbox:
            mine = content["ciphertext"][self.keyring.curve]
            payload = self.keyring.open(content["sender_key"], mine)
            if payload["type"] == "m.room_key":
                given = payload["content"]
                row = InboundKey("", payload["sender"], content["sender_key"], payload["keys"]["ed25519"])
                self.room(given["room_id"]).add(given["session_key"], row)
        self.inbox.clear()


class FakeSealedMatrix(FakeMatrix):
    """Both rooms are encrypted."""

    def __init__(self) -> None:
        super().__init__()
        self.people = {user: SealedPerson(user) for user in (ALICE, BOB)}
        self.devices: dict[str, dict[str, MatrixJson]] = {}  # by person and device
        self.cross: dict[str, dict[str, MatrixJson]] = {"master": {}, "self_signing": {}, "user_signing": {}}
        self.spare: dict[str, MatrixJson] = {}  # our one-time keys
        self.fallback: dict[str, MatrixJson] = {}
        self.to_us: list[MatrixJson] = []  # all that was ever sent to our device; the first ones are gone
        self.gone = 0
        self.withhold = False  # keys are not sent
        self.requests_for_keys: list[MatrixJson] = []
        for person in self.people.values():
            self.devices[person.keyring.me] = {person.keyring.device: person.keyring.describe_device()}

    # --- people

    def session(self, user: str) -> SealedPerson:
        """Somebody who can write to our device. We have to have been here."""
        person = self.people[user]
        ours = self.devices[ME][DEVICE]["keys"]
        if not person.keyring.has_session(ours[f"curve25519:{DEVICE}"]):
            name = next(iter(self.spare), "")
            row = self.spare.pop(name) if name else next(iter(self.fallback.values()))
            person.keyring.begin_session(ours[f"curve25519:{DEVICE}"], row["key"])
        return person

    def give_key(self, user: str, room: str) -> None:
        """Somebody's key of a room comes to our device."""
        person = self.session(user)
        ours = self.devices[ME][DEVICE]["keys"]
        payload = {
            "type": "m.room_key", "content": person.room(room).describe_session(f"{ME} {DEVICE}"), "sender": user,
            "recipient": ME, "recipient_keys": {"ed25519": ours[f"ed25519:{DEVICE}"]},
            "keys": {"ed25519": person.keyring.signing},
        }  # fmt: skip
        curve = ours[f"curve25519:{DEVICE}"]
        sealed = {curve: person.keyring.seal(curve, payload)}
        content = {"algorithm": OLM, "sender_key": person.keyring.curve, "ciphertext": sealed}
        self.to_us.append({"type": "m.room.encrypted", "sender": user, "content": content})

    def seal(self, room: str, user: str, content: MatrixJson) -> MatrixJson:
        """A message of somebody's, encrypted; its key is sent first."""
        person = self.people[user]
        keys = person.room(room)
        if keys.out is None:
            keys.rotate(user, person.keyring.curve, person.keyring.signing, 0)
            keys.mark_shared([f"{ME} {DEVICE}"])
            if not self.withhold:
                self.give_key(user, room)
        return keys.seal("m.room.message", content, person.keyring)

    def add(self, room: str, sender: str, kind: str, content: MatrixJson, **more: Any) -> MatrixJson:
        if kind == "m.room.message" and sender != ME and room in (DIRECT, GROUP):
            return super().add(room, sender, "m.room.encrypted", self.seal(room, sender, content), **more)
        return super().add(room, sender, kind, content, **more)

    async def send_file(
        self, name: str, mime: str, data: bytes, *, chat: str = "", sender: str = "", **more: Any
    ) -> str:
        sealed, told = seal_file(data)
        self.media[f"in{len(self.media)}"] = ("application/octet-stream", sealed)
        content = {"msgtype": "m.image", "body": name, "info": {"mimetype": mime}, **more}
        content["file"] = {**told, "url": f"mxc://fake/{list(self.media)[-1]}"}
        event = self.add(resolve_room(chat), sender or ALICE, "m.room.message", content)
        self.wake()
        return str(event["event_id"])

    def visible_messages(self, chat: str = "") -> list[VisibleMessage]:
        """As Alice's device shows them: what it cannot open is a line that says so."""
        alice, room = self.people[ALICE], resolve_room(chat)
        alice.open_inbox()
        raw, self.stream = self.stream, [self._opened(alice.room(room), event) for event in self.stream]
        try:
            return super().visible_messages(chat)
        finally:
            self.stream = raw

    def _opened(self, keys: RoomKeys, event: MatrixJson) -> MatrixJson:
        if event["type"] != "m.room.encrypted" or event["room_id"] != keys.room:
            return event
        try:
            opened = keys.open(event, fresh=False)[0]
        except Undecipherable as exc:
            return {**event, "type": "m.room.message", "content": {"body": f"unable to decrypt: {exc}"}}
        if "file" in opened["content"]:
            sealed = self.media[opened["content"]["file"]["url"].rpartition("/")[2]][1]
            assert open_file(sealed, opened["content"]["file"])
        return opened

    # --- the server

    def sync(self, since: str, limit: int) -> MatrixJson:
        told = super().sync(since, limit)
        self.gone = max(self.gone, int(since.partition(".")[2] or 0))
        told["to_device"] = {"events": self.to_us[self.gone :]}
        told["next_batch"] += f".{len(self.to_us)}"
        told["device_one_time_keys_count"] = {"signed_curve25519": len(self.spare)}
        told["device_unused_fallback_key_types"] = ["signed_curve25519"] if self.fallback else []
        return told

    def has_more(self, since: str) -> bool:
        return len(self.to_us) > int(since.partition(".")[2] or 0)

    @property
    def routes(self) -> Routes:
        return (*_ROUTES, *super().routes)

    async def _upload_keys(self, request: web.Request) -> web.StreamResponse:
        given = await request.json()
        if "device_keys" in given:
            self.devices.setdefault(ME, {})[DEVICE] = given["device_keys"]
        self.spare.update(given.get("one_time_keys", {}))
        self.fallback.update(given.get("fallback_keys", {}))
        return web.json_response({"one_time_key_counts": {"signed_curve25519": len(self.spare)}})

    async def _query_keys(self, request: web.Request) -> web.StreamResponse:
        users = (await request.json())["device_keys"]
        told: MatrixJson = {"device_keys": {user: self.devices.get(user, {}) for user in users}}
        for kind, rows in self.cross.items():
            told[f"{kind}_keys"] = {user: rows[user] for user in users if user in rows}
        return web.json_response(told)

    async def _claim_keys(self, request: web.Request) -> web.StreamResponse:
        found: MatrixJson = {}
        for user in (await request.json())["one_time_keys"]:
            keyring = self.people[user].keyring
            name, row = next(iter(keyring.make_one_time_keys(49, fallback=True)["fallback_keys"].items()))
            found[user] = {keyring.device: {name: row}}
        return web.json_response({"one_time_keys": found})

    async def _send_to_device(self, request: web.Request, kind: str, transaction: str) -> web.StreamResponse:
        for user, devices in (await request.json())["messages"].items():
            for content in devices.values():
                if kind == "m.room_key_request":
                    self.requests_for_keys.append(content)
                else:
                    self.people[user].inbox.append(content)
        return web.json_response({})

    async def _upload_cross(self, request: web.Request) -> web.StreamResponse:
        given = await request.json()
        for kind, rows in self.cross.items():
            rows[ME] = given[f"{kind}_key"]
        return web.json_response({})

    async def _upload_signatures(self, request: web.Request) -> web.StreamResponse:
        self.devices[ME][DEVICE] = (await request.json())[ME][DEVICE]
        return web.json_response({})

    async def _encryption(self, request: web.Request, room: str) -> web.StreamResponse:
        if room in (DIRECT, GROUP):
            return web.json_response({"algorithm": MEGOLM})
        return web.json_response({"errcode": "M_NOT_FOUND"}, status=404)

    async def _members(self, request: web.Request, room: str) -> web.StreamResponse:
        held = self.members.get(room, {})
        chunk = [{"state_key": who, "content": {"membership": how}} for who, how in held.items()]
        return web.json_response({"chunk": chunk})


_ROUTES: Routes = (
    (f"POST {_C}/keys/upload", FakeSealedMatrix._upload_keys),
    (f"POST {_C}/keys/query", FakeSealedMatrix._query_keys),
    (f"POST {_C}/keys/claim", FakeSealedMatrix._claim_keys),
    (f"PUT {_C}/sendToDevice/([^/]+)/([^/]+)", FakeSealedMatrix._send_to_device),
    (f"POST {_C}/keys/device_signing/upload", FakeSealedMatrix._upload_cross),
    (f"POST {_C}/keys/signatures/upload", FakeSealedMatrix._upload_signatures),
    (f"GET {_C}/rooms/([^/]+)/state/m.room.encryption/", FakeSealedMatrix._encryption),
    (f"GET {_C}/rooms/([^/]+)/members", FakeSealedMatrix._members),
)
