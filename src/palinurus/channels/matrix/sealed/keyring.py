"""The keys of one device: its Olm account and sessions, and the Megolm keys of one room. Pure: nothing is sent and
nothing written here. `dump` is what has to be on disk before anybody hears of it (docs/decisions/0119).
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import vodozemac

from palinurus.channels.kit import RecentDict, decode_object
from palinurus.channels.matrix.unread import Undecipherable

OLM, MEGOLM = "m.olm.v1.curve25519-aes-sha2", "m.megolm.v1.aes-sha2"
PEERS, SESSIONS = 500, 4  # devices we have Olm sessions with, and sessions of each
INBOUND = 100  # Megolm sessions of a room that are kept
WINDOW = 128  # messages of a session that may come out of order
SPARE = 50  # one-time keys that the server should have of us
_BROKEN = (ValueError, KeyError, TypeError)  # vodozemac's errors are ValueErrors


def encode_base64(data: bytes) -> str:
    """As Matrix writes it: without padding."""
    return base64.b64encode(data).decode().rstrip("=")


def decode_base64(text: str) -> bytes:
    """Raises ValueError. Takes the alphabet for addresses too."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_" if {"-", "_"} & {*text} else None)


def write_canonical(value: Mapping[str, Any]) -> bytes:
    """What signatures are made over."""
    kept = {key: one for key, one in value.items() if key not in ("signatures", "unsigned")}
    return json.dumps(kept, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def is_signed_by(value: Mapping[str, Any], user: str, name: str, key: str) -> bool:
    """Does `user`'s Ed25519 key (base64) with that name sign it?"""
    try:
        made = vodozemac.Ed25519Signature.from_base64(value["signatures"][user][f"ed25519:{name}"])
        vodozemac.Ed25519PublicKey.from_base64(key).verify_signature(write_canonical(value), made)
    except _BROKEN:
        return False
    return True


class OlmKeyring:
    """Who we are to other devices. `kept` is what `dump` gave; raises Undecipherable when `secret` does not open it."""

    def __init__(self, me: str, device: str, secret: bytes, kept: Mapping[str, Any] | None = None) -> None:
        self.me = me
        self.device = device
        self._secret = secret
        self._peers: RecentDict[str, list[str]] = RecentDict(PEERS)
        self.seeds: dict[str, str] = {}  # of the account's cross-signing keys, where we made them
        try:
            # Any: the library's stubs leave fallback keys out
            self._account: Any = vodozemac.Account.from_pickle(kept["account"], secret) if kept else vodozemac.Account()
        except _BROKEN as exc:
            raise Undecipherable("the kept keys cannot be opened") from exc
        if kept:
            self._peers.update(kept["peers"])
            self.seeds = dict(kept["seeds"])

    def dump(self) -> dict[str, Any]:
        return {"account": self._account.pickle(self._secret), "peers": dict(self._peers), "seeds": self.seeds}

    @property
    def curve(self) -> str:
        return str(self._account.curve25519_key.to_base64())

    @property
    def signing(self) -> str:
        return str(self._account.ed25519_key.to_base64())

    def sign(self, value: dict[str, Any]) -> dict[str, Any]:
        made = self._account.sign(write_canonical(value)).to_base64()
        return {**value, "signatures": {self.me: {f"ed25519:{self.device}": made}}}

    def describe_device(self) -> dict[str, Any]:
        """What the server tells others of us."""
        return self.sign(
            {
                "user_id": self.me,
                "device_id": self.device,
                "algorithms": [OLM, MEGOLM],
                "keys": {f"curve25519:{self.device}": self.curve, f"ed25519:{self.device}": self.signing},
            }
        )

    def make_one_time_keys(self, there: int, fallback: bool) -> dict[str, Any]:
        """What to upload, so that the server has enough of them; {} for nothing. On disk first: a key that somebody
        was given and whose other half is lost makes a message unreadable for ever."""
        if there < SPARE // 2 and len(self._account.one_time_keys) < SPARE - there:
            self._account.generate_one_time_keys(SPARE - there - len(self._account.one_time_keys))
        if fallback and not self._account.fallback_key:
            self._account.generate_fallback_key()
        given: dict[str, Any] = {}
        for name, more, keys in (
            ("one_time_keys", {}, self._account.one_time_keys),
            ("fallback_keys", {"fallback": True}, self._account.fallback_key),
        ):
            if keys:
                rows = {ident: self.sign({"key": key.to_base64(), **more}) for ident, key in keys.items()}
                given[name] = {f"signed_curve25519:{ident}": row for ident, row in rows.items()}
        return given

    def mark_published(self) -> None:
        self._account.mark_keys_as_published()

    # --- Olm: to one device

    def has_session(self, curve: str) -> bool:
        return bool(self._peers.get(curve))

    def begin_session(self, curve: str, one_time_key: str) -> None:
        """Raises Undecipherable for keys that are none."""
        try:
            theirs = vodozemac.Curve25519PublicKey.from_base64
            made = self._account.create_outbound_session(theirs(curve), theirs(one_time_key))
        except _BROKEN as exc:
            raise Undecipherable("the other device's keys are not valid") from exc
        self._keep(curve, made)

    def seal(self, curve: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """For a device there is a session with. Save `dump` before it is sent."""
        session = vodozemac.Session.from_pickle(self._peers[curve][0], self._secret)
        kind, body = session.encrypt(json.dumps(payload).encode()).to_parts()
        self._keep(curve, session)
        return {"type": kind, "body": encode_base64(body)}

    def open(self, curve: str, sealed: Mapping[str, Any]) -> dict[str, Any]:
        """What another device sealed for us. Raises Undecipherable."""
        try:
            message: Any = vodozemac.AnyOlmMessage.from_parts(int(sealed["type"]), decode_base64(str(sealed["body"])))
        except _BROKEN as exc:
            raise Undecipherable("no Olm message") from exc
        for pickle in self._peers.get(curve, ()):
            session = vodozemac.Session.from_pickle(pickle, self._secret)
            try:
                text = session.decrypt(message)
            except _BROKEN:
                continue
            self._keep(curve, session)
            return decode_object(text)
        if (first := message.to_pre_key()) is None:
            raise Undecipherable("there is no Olm session that opens it", missing=True)
        try:
            session, text = self._account.create_inbound_session(
                vodozemac.Curve25519PublicKey.from_base64(curve), first
            )
        except _BROKEN as exc:
            raise Undecipherable("the one-time key it was made with is not known", missing=True) from exc
        self._keep(curve, session)
        return decode_object(text)

    def _keep(self, curve: str, session: Any) -> None:
        """The one that was used last is first: what both sides have used is what both sides have."""
        rest = list(self._peers.get(curve, ()))
        ids = [vodozemac.Session.from_pickle(one, self._secret).session_id for one in rest]
        rest = [one for one, ident in zip(rest, ids, strict=True) if ident != session.session_id]
        self._peers[curve] = [session.pickle(self._secret), *rest][:SESSIONS]


class InboundKey(msgspec.Struct):
    """A Megolm session of somebody's device."""

    pickle: str
    user: str
    curve: str
    signing: str  # the device's Ed25519 key, as it said itself


class OutboundKey(msgspec.Struct):
    """Our own Megolm session of a room. `shared`: from which place on a device ("user device") can read."""

    pickle: str
    since: int  # milliseconds
    shared: dict[str, int] = {}
    starts: dict[int, str] = {}  # the session's key at these places
    count: int = 0


class RoomKeys:
    """The Megolm keys of one room, and who may read what we say."""

    def __init__(self, room: str, secret: bytes) -> None:
        self.room = room
        self._secret = secret
        self.inbound: dict[str, InboundKey] = {}  # what was used last is last
        self.out: OutboundKey | None = None
        self._seen: dict[str, dict[int, str]] = {}  # of each session: which event had which place in it

    def load(self, inbound: bytes | None, out: bytes | None, seen: bytes | None) -> None:
        self.inbound = msgspec.json.decode(inbound, type=dict[str, InboundKey]) if inbound else {}
        self.out = msgspec.json.decode(out, type=OutboundKey) if out else None
        self._seen = msgspec.json.decode(seen, type=dict[str, dict[int, str]]) if seen else {}

    def dump_seen(self) -> bytes:
        self._seen = {ident: rows for ident, rows in self._seen.items() if ident in self.inbound}
        return msgspec.json.encode(self._seen)

    def add(self, key: str, row: InboundKey, *, exported: bool = False) -> bool:
        """A session that somebody gave us; `row.pickle` is made here. False: nothing new. A copy that reads from
        further back takes the other's place, if it is of the same device. When there are too many, the device with
        the most loses the one that was not used for longest. Raises Undecipherable."""
        try:
            made = (
                vodozemac.InboundGroupSession.import_session(vodozemac.ExportedSessionKey(key))
                if exported
                else vodozemac.InboundGroupSession(vodozemac.SessionKey(key))
            )
        except _BROKEN as exc:
            raise Undecipherable("no Megolm key") from exc
        if (known := self.inbound.get(made.session_id)) is not None:
            held = vodozemac.InboundGroupSession.from_pickle(known.pickle, self._secret)
            if known.curve != row.curve or held.first_known_index <= made.first_known_index:
                return False
        row.pickle = made.pickle(self._secret)
        self.inbound[made.session_id] = row
        if len(self.inbound) > INBOUND:
            ((greedy, _),) = Counter(one.curve for one in self.inbound.values()).most_common(1)
            del self.inbound[next(ident for ident, one in self.inbound.items() if one.curve == greedy)]
        return True

    def open(self, event: Mapping[str, Any], *, fresh: bool) -> tuple[dict[str, Any], InboundKey]:
        """The event as it was before it was encrypted, and whose key that was. `fresh`: it must not have been here as
        another event, which only a server that plays an old message again brings about. Raises Undecipherable."""
        content = event.get("content")
        held = content if isinstance(content, Mapping) else {}
        ident = str(held.get("session_id") or "")
        row = self.inbound.get(ident)
        if held.get("algorithm") != MEGOLM:
            raise Undecipherable("it is encrypted in a way that is not known here")
        if row is None:
            raise Undecipherable("the key has not come", missing=True)
        session = vodozemac.InboundGroupSession.from_pickle(row.pickle, self._secret)
        try:
            found = session.decrypt(vodozemac.MegolmMessage.from_base64(str(held["ciphertext"])))
        except _BROKEN as exc:
            raise Undecipherable("the key does not reach back to it", missing=True) from exc
        payload = decode_object(found.plaintext)
        self.inbound[ident] = self.inbound.pop(ident)
        if row.user != event.get("sender") or payload.get("room_id") != self.room:
            raise Undecipherable("it was not written by who is said to have, or not here")
        if fresh:
            self._check_fresh(ident, found.message_index, str(event.get("event_id")))
        inner = payload.get("content")
        inner = dict(inner) if isinstance(inner, dict) else {}
        if "m.relates_to" in held:
            inner["m.relates_to"] = held["m.relates_to"]
        return {**event, "type": str(payload.get("type") or ""), "content": inner}, row

    def _check_fresh(self, ident: str, index: int, event: str) -> None:
        seen = self._seen.setdefault(ident, {})
        newest = max(seen, default=index)
        if seen.get(index, event) != event or (index not in seen and index < newest - WINDOW):
            raise Undecipherable("it was said before: somebody plays an old message again")
        seen[index] = event
        for old in [one for one in seen if one < max(newest, index) - WINDOW]:
            del seen[old]

    # --- our own

    def rotate(self, me: str, curve: str, signing: str, now: int) -> None:
        """A new session of ours; what it says, we can read too. Save `inbound` before it is used."""
        made = vodozemac.GroupSession()
        key = made.session_key.to_base64()
        self.out = OutboundKey(made.pickle(self._secret), now, {}, {0: key})
        self.add(key, InboundKey("", me, curve, signing))

    def is_worn(self, now: int, limits: Mapping[str, Any], devices: Iterable[str]) -> bool:
        """Is a new session due: by age, by count, or since somebody who could read it is not to read on?"""
        if self.out is None:
            return True
        age, count = limits.get("rotation_period_ms"), limits.get("rotation_period_msgs")
        longest = age if isinstance(age, int) and age > 0 else 604_800_000
        most = count if isinstance(count, int) and count > 0 else 100
        return now - self.out.since > longest or self.out.count >= most or bool(set(self.out.shared) - set(devices))

    def describe_session(self, device: str = "") -> dict[str, Any]:
        """The content of m.room_key: from where `device` was let in, or from here on."""
        assert self.out is not None
        session = vodozemac.GroupSession.from_pickle(self.out.pickle, self._secret)
        place = self.out.shared.get(device, session.message_index)
        self.out.starts.setdefault(session.message_index, session.session_key.to_base64())
        key = self.out.starts.get(place, session.session_key.to_base64())
        return {"algorithm": MEGOLM, "room_id": self.room, "session_id": session.session_id, "session_key": key}

    def mark_shared(self, devices: Iterable[str]) -> None:
        assert self.out is not None
        place = vodozemac.GroupSession.from_pickle(self.out.pickle, self._secret).message_index
        self.out.shared.update(dict.fromkeys(devices, place))

    def seal(self, kind: str, content: Mapping[str, Any], keyring: OlmKeyring) -> dict[str, Any]:
        """The content of m.room.encrypted. Save `out` before it is sent: a place in the session is used once."""
        assert self.out is not None
        session = vodozemac.GroupSession.from_pickle(self.out.pickle, self._secret)
        inner = {key: one for key, one in content.items() if key != "m.relates_to"}
        payload = {"type": kind, "content": inner, "room_id": self.room}
        made: dict[str, Any] = {
            "algorithm": MEGOLM,
            "ciphertext": session.encrypt(json.dumps(payload, ensure_ascii=False).encode()).to_base64(),
            "session_id": session.session_id,
            "sender_key": keyring.curve,
            "device_id": keyring.device,
        }
        self.out.pickle = session.pickle(self._secret)
        self.out.count += 1
        if "m.relates_to" in content:  # the server groups threads and edits by it
            made["m.relates_to"] = content["m.relates_to"]
        return made
