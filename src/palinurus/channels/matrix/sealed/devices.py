"""The devices of people: asked for when needed, forgotten when the server says that they changed; and which of them
are believed. A person's own keys vouch for his devices (cross-signing); of one who has no such keys every device is
taken. The first keys seen of a person are kept, and others later are told of.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from palinurus.channels.kit import MemoTable, RecentDict
from palinurus.channels.matrix.api import MatrixApi, build_path
from palinurus.channels.matrix.sealed.keyring import MEGOLM, is_signed_by
from palinurus.core.types.channel import SendFailure

log = logging.getLogger(__name__)

PEOPLE = 1000


class MatrixDevice(msgspec.Struct, frozen=True):
    """`believed`: the person's own keys vouch for it, or he has none."""

    user: str
    id: str
    curve: str
    signing: str
    believed: bool

    @property
    def name(self) -> str:
        return f"{self.user} {self.id}"


def parse_devices(told: Mapping[str, Any], user: str) -> tuple[str, list[MatrixDevice]]:
    """Out of an answer of keys/query: the person's master key ("" for none) and devices. What does not vouch for
    itself is left out."""
    master = _find_key(told, "master_keys", user)
    own = told.get("self_signing_keys", {}).get(user) or {}
    vouching = _find_key(told, "self_signing_keys", user)
    if not is_signed_by(own, user, master, master):
        vouching = ""
    found = []
    for ident, row in (told.get("device_keys", {}).get(user) or {}).items():
        keys = row.get("keys") or {} if isinstance(row, Mapping) else {}
        curve, signing = keys.get(f"curve25519:{ident}"), keys.get(f"ed25519:{ident}")
        whole = (row.get("user_id"), row.get("device_id")) == (user, ident) and MEGOLM in (row.get("algorithms") or ())
        if curve and signing and whole and is_signed_by(row, user, ident, signing):
            vouched = bool(vouching) and is_signed_by(row, user, vouching, vouching)
            found.append(MatrixDevice(user, ident, curve, signing, believed=vouched or not master))
    return master, found


def _find_key(told: Mapping[str, Any], kind: str, user: str) -> str:
    row = told.get(kind, {}).get(user)
    keys = row.get("keys") if isinstance(row, Mapping) and row.get("user_id") == user else None
    return str(next(iter(keys.values()), "")) if isinstance(keys, Mapping) else ""


class DeviceDirectory:
    """`everyone`: devices that nobody vouches for are believed too."""

    def __init__(self, calls: MatrixApi, pins: MemoTable, *, everyone: bool) -> None:
        self._calls = calls
        self._pins = pins
        self._everyone = everyone
        self._known: RecentDict[str, list[MatrixDevice]] = RecentDict(PEOPLE)
        self.changed: dict[str, str] = {}  # people whose keys are others than at first, and the new ones

    def forget(self, users: Iterable[str]) -> None:
        for user in users:
            self._known.pop(user, None)

    async def get(self, users: Iterable[str]) -> list[MatrixDevice] | SendFailure:
        """The believed devices of people."""
        wanted = list(dict.fromkeys(users))
        if missing := [user for user in wanted if user not in self._known]:
            given: dict[str, Any] = {"device_keys": {user: [] for user in missing}}
            told = await self._calls.call("POST", build_path("keys", "query"), given)
            if isinstance(told, SendFailure):
                return told
            for user in missing:
                master, devices = parse_devices(told, user)
                await self._pin(user, master)
                self._known[user] = devices
        held = [one for user in wanted for one in self._known.get(user, ())]
        return [one for one in held if one.believed or self._everyone]

    async def _pin(self, user: str, master: str) -> None:
        first = (await self._pins.rows()).get(user)
        if master and first is None:
            await self._pins.put(user, master)
        elif first and master != first and self.changed.get(user) != master:
            self.changed[user] = master
            log.warning(
                "matrix: %s has other identity keys than before (signed out everywhere, or somebody else)", user
            )

    async def find(self, user: str, curve: str) -> MatrixDevice | SendFailure | None:
        """The believed device with this key; asked for again if we do not know it."""
        for again in (False, True):
            if again:
                self.forget((user,))
            held = await self.get((user,))
            if isinstance(held, SendFailure):
                return held
            if (found := next((one for one in held if one.curve == curve), None)) is not None:
                return found
        return None
