"""Letting strangers in: a code each, which the owner approves. Who was let in is a record on disk, asked for each time.

Kinds: `pairing` (a stranger who has a code), `paired` (let in), `owner` (the first who was let in while the config
names no owner). Killed between two of them: the code still holds, and approving it again ends the job.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable

import msgspec

from palinurus.clock import Clock
from palinurus.core.policy.admission import FloodGuard
from palinurus.core.types.inbound import Inbound, Target
from palinurus.core.types.keys import escape_key_part
from palinurus.core.types.outbound import Reply
from palinurus.core.untrusted import clean_label
from palinurus.store.port import Store
from palinurus.store.records import Records

ASKING, LET_IN, OWNER = "pairing", "paired", "owner"
FIRST = "first"
LETTERS = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"  # no 0 O 1 I
SIZE = 8
VALID = 3_600_000  # milliseconds
MOST = 3  # open codes of one account
TRIES = 5  # wrong codes in a minute


class PairingPerson(msgspec.Struct, frozen=True, omit_defaults=True):
    """Somebody on one account of one channel. `name` is for display only."""

    channel: str
    account: str
    id: str
    at: int
    name: str = ""
    target: Target | None = None  # where they wrote from

    @property
    def key(self) -> str:
        return make_person_key(self.channel, self.account, self.id)

    @property
    def who(self) -> str:
        """As a list in the config would name them."""
        account = f" (account {self.account})" if self.account != "default" else ""
        return f"{self.channel}:{self.id}{account}"


class PairingStranger(PairingPerson, frozen=True):
    """A stranger who waits to be let in."""

    code: str = ""

    def expired(self, now: int) -> bool:
        return now >= self.at + VALID

    def reply(self) -> Reply | None:
        """What the stranger is told, once: its id comes from the code."""
        if self.target is None:
            return None
        text = (
            f"I do not know you yet, so I have not read your message.\n\nYour code: {self.code} (good for one hour)\n"
            f"Your id here: {self.channel}:{self.id}\n\n"
            f"The owner of this assistant lets you in with: pal pairing approve {self.code}"
        )
        return Reply(self.target, text, make_notice_id(ASKING, self.key, self.code), "notice", plain=True)


class PairedPerson(PairingPerson, frozen=True):
    """Somebody who was let in, and by whom."""

    by: str = ""
    owner: bool = False  # the first one, so the owner

    def reply(self) -> Reply | None:
        """What they are told."""
        if self.target is None:
            return None
        return Reply(
            self.target,
            "You are let in. Write away.",
            make_notice_id(LET_IN, self.key, str(self.at)),
            "notice",
            plain=True,
        )


class PairingStanding(msgspec.Struct, frozen=True):
    """What a person may by pairing alone."""

    paired: bool = False
    owner: bool = False


class ChatPairing:
    """`owned`: the config names an owner, so nobody becomes it by being the first. `gone` is told who was put out."""

    def __init__(
        self, store: Store, clock: Clock, *, owned: bool, gone: Callable[[PairingPerson], None] = lambda person: None
    ) -> None:
        self._store = store
        self._asking = Records(store, ASKING, PairingStranger)
        self._let_in = Records(store, LET_IN, PairedPerson)
        self._clock = clock
        self._owned = owned
        self._gone = gone
        self._lock = asyncio.Lock()
        self._wrong = FloodGuard(1)

    async def standing(self, channel: str, account: str, ident: str) -> PairingStanding:
        """As it is on disk now: what was taken away counts at once."""
        own = make_person_key(channel, account, ident)
        if await self._store.get_record(LET_IN, own) is None:
            return PairingStanding()
        first = None if self._owned else await self._store.get_record(OWNER, FIRST)
        return PairingStanding(True, first is not None and first.data == own.encode())

    async def ask(self, inbound: Inbound) -> PairingStranger | None:
        """The stranger's code: the one they have, or a new one. None when too many strangers wait already."""
        now, target, sender = self._clock.now(), inbound.target, inbound.sender
        async with self._lock:
            waiting = await self.list_waiting()
            here = [one for one in waiting if (one.channel, one.account) == (target.channel, target.account)]
            for one in here:
                if one.id == sender.id:
                    return one
            if len(here) >= MOST:
                return None
            name = clean_label(sender.name, 60)
            code = _code({one.code for one in waiting})
            made = PairingStranger(target.channel, target.account, sender.id, now, name=name, target=target, code=code)
            await self._asking.put(made.key, made)
            return made

    async def list_waiting(self) -> list[PairingStranger]:
        """Who waits, oldest first. Codes that are too old are removed."""
        now, found = self._clock.now(), []
        for key, one in (await self._asking.all()).items():
            if one.expired(now):
                await self._asking.swap(key, one, None)
            else:
                found.append(one)
        return sorted(found, key=lambda one: one.at)

    async def list_paired(self) -> list[PairedPerson]:
        """Who was let in, oldest first."""
        return sorted((await self._let_in.all()).values(), key=lambda one: one.at)

    async def approve(self, code: str, by: str, *, first: bool = True) -> PairedPerson | str:
        """Let in whoever has this code; or why nothing happened. A code works once.

        `first`: whoever approves may make the first one the owner.
        """
        async with self._lock:
            now = self._clock.now()
            wanted = code.strip().upper().replace("-", "")
            found = [
                one for one in await self.list_waiting() if hmac.compare_digest(one.code.encode(), wanted.encode())
            ]
            if not found:
                if self._wrong.step("", now / 1000, TRIES) != "fine":
                    return "too many wrong codes; wait a minute"
                return "no stranger has this code now (codes are good for one hour, and once)"
            one = found[0]
            made = PairedPerson(one.channel, one.account, one.id, now, name=one.name, target=one.target, by=by)
            if not self._owned and first:
                await self._store.put_record(OWNER, FIRST, made.key.encode(), expect=None)
                held = await self._store.get_record(OWNER, FIRST)
                made = msgspec.structs.replace(made, owner=held is not None and held.data == made.key.encode())
            await self._let_in.put(made.key, made)
            await self._asking.drop(made.key)
            return made

    async def reject(self, code: str) -> PairingStranger | str:
        """Forget a code; or why not. The stranger is not told."""
        wanted = code.strip().upper().replace("-", "")
        for one in await self.list_waiting():
            if one.code == wanted:
                await self._asking.drop(one.key)
                return one
        return "no stranger has this code now"

    async def revoke(self, who: str) -> PairedPerson | str:
        """Take back what was given to `channel:id` (or an id that only one of them has); or why not."""
        found = [
            one for one in await self.list_paired() if who in (one.id, f"{one.channel}:{one.id}", one.key, one.who)
        ]
        if len(found) != 1:
            return "nobody of this id was let in" if not found else "several have this id; write channel:id"
        gone = found[0]
        async with self._lock:
            await self._let_in.drop(gone.key)
            await self._store.put_record(OWNER, FIRST, None, expect=gone.key.encode())
        self._gone(gone)
        return gone


def make_person_key(channel: str, account: str, ident: str) -> str:
    """One person's records; no two share one."""
    return f"{escape_key_part(channel)}/{escape_key_part(account)}/{escape_key_part(ident)}"


def make_notice_id(kind: str, *parts: str) -> str:
    """The id of a notice: short, and the same for the same parts."""
    return f"{kind}.{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:20]}"


def _code(taken: set[str]) -> str:
    while True:
        code = "".join(secrets.choice(LETTERS) for _ in range(SIZE))
        if code not in taken:
            return code
