"""Letting strangers in by a code: S37, and what a kill leaves behind."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from palinurus.core.types.inbound import Sender, Target
from palinurus.inbox.pairing import (
    ASKING,
    LET_IN,
    LETTERS,
    VALID,
    ChatPairing,
    PairedPerson,
    PairingStanding,
    PairingStranger,
    make_person_key,
)
from palinurus.store.factory import open_store
from palinurus.store.port import Store
from palinurus.testing.clock import FakeClock
from support import inbound


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    made = await open_store(str(tmp_path), FakeClock(0))
    yield made
    await made.close()


def asks(who: str, account: str = "default", channel: str = "telegram") -> object:
    return inbound(target=Target(channel, f"chat-{who}", account), sender=Sender(who, f"I am {who}"))


async def ask(
    pairing: ChatPairing, who: str, account: str = "default", channel: str = "telegram"
) -> PairingStranger | None:
    return await pairing.ask(asks(who, account, channel))  # type: ignore[arg-type]


async def test_a_stranger_has_one_code_for_an_hour(store: Store) -> None:
    clock = FakeClock(0)
    pairing = ChatPairing(store, clock, owned=True)
    one = await ask(pairing, "7")
    assert one is not None and len(one.code) == 8 and set(one.code) <= set(LETTERS)
    assert not set(LETTERS) & set("0O1I") and len(set(LETTERS)) == 32
    assert await ask(pairing, "7") == one
    said = one.reply()
    assert said is not None and one.code in said.text and said == one.reply()
    await clock.advance(VALID / 1000)
    other = await ask(pairing, "7")
    assert other is not None and other.code != one.code
    again = other.reply()
    assert again is not None and again.client_id != said.client_id
    assert isinstance(await pairing.approve(one.code, "test"), str)  # too old


async def test_at_most_three_wait_per_account_also_when_fifty_ask_at_once(store: Store) -> None:
    pairing = ChatPairing(store, FakeClock(0), owned=True)
    made = await asyncio.gather(*(ask(pairing, str(n)) for n in range(50)))
    assert sum(one is not None for one in made) == 3
    assert len({one.code for one in made if one is not None}) == 3
    assert await ask(pairing, "9", account="other") is not None
    assert await ask(pairing, "9", channel="discord") is not None


async def test_a_code_works_once_and_for_its_account_only(store: Store) -> None:
    pairing = ChatPairing(store, FakeClock(0), owned=True)
    one = await ask(pairing, "7")
    assert one is not None
    done = await pairing.approve(f" {one.code.lower()} ", "me")
    assert isinstance(done, PairedPerson) and (done.id, done.by, done.owner) == ("7", "me", False)
    assert isinstance(await pairing.approve(one.code, "me"), str)
    assert await pairing.list_waiting() == []
    assert await pairing.standing("telegram", "default", "7") == PairingStanding(True, False)
    for other in (("telegram", "work", "7"), ("discord", "default", "7"), ("telegram", "default", "07")):
        assert await pairing.standing(*other) == PairingStanding()


async def test_guessing_ends_soon(store: Store) -> None:
    pairing = ChatPairing(store, FakeClock(0), owned=True)
    assert await ask(pairing, "7") is not None
    said = [await pairing.approve("".join(p), "x") for p in itertools.islice(itertools.product(LETTERS, repeat=8), 50)]
    assert all(isinstance(one, str) for one in said)
    assert sum("too many wrong codes" in str(one) for one in said) == 45


async def test_the_first_is_the_owner_where_the_config_names_none(store: Store) -> None:
    pairing = ChatPairing(store, FakeClock(0), owned=False)
    for who, owner in (("1", True), ("2", False)):
        one = await ask(pairing, who)
        assert one is not None
        done = await pairing.approve(one.code, "me")
        assert isinstance(done, PairedPerson) and done.owner is owner
        assert await pairing.standing("telegram", "default", who) == PairingStanding(True, owner)
    assert isinstance(await pairing.revoke("telegram:1"), PairedPerson)
    assert await pairing.standing("telegram", "default", "1") == PairingStanding()
    again = await ask(pairing, "1")
    assert again is not None
    done = await pairing.approve(again.code, "me", first=False)
    assert isinstance(done, PairedPerson) and not done.owner  # what was taken back does not come back with a new code
    assert await pairing.standing("telegram", "default", "1") == PairingStanding(True, False)
    owned = ChatPairing(store, FakeClock(0), owned=True)  # the config names one now: nobody is it by being first
    assert (await owned.standing("telegram", "default", "2")).owner is False


@pytest.mark.parametrize("fails", [1, 2])
async def test_killed_while_approving_the_code_still_holds(store: Store, fails: int) -> None:
    class Dying:
        """The store of a process that is killed at its n-th write."""

        def __init__(self) -> None:
            self.left = fails

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        async def put_record(self, *args: object, **options: object) -> bool:
            self.left -= 1
            if self.left < 0:
                raise ConnectionAbortedError
            return await store.put_record(*args, **options)  # type: ignore[arg-type]

    one = await ask(ChatPairing(store, FakeClock(0), owned=False), "7")
    assert one is not None
    with pytest.raises(ConnectionAbortedError):
        await ChatPairing(Dying(), FakeClock(0), owned=False).approve(one.code, "me")  # type: ignore[arg-type]
    after = ChatPairing(store, FakeClock(0), owned=False)
    done = await after.approve(one.code, "me")
    assert isinstance(done, PairedPerson) and done.owner and await after.list_waiting() == []


async def test_taking_it_back_counts_at_once(store: Store) -> None:
    pairing = ChatPairing(store, FakeClock(0), owned=True)
    for account in ("default", "work"):
        one = await ask(pairing, "7", account)
        assert one is not None
        await pairing.approve(one.code, "me")
    assert await pairing.revoke("7") == "several have this id; write channel:id"
    gone = await pairing.revoke(make_person_key("telegram", "work", "7"))
    assert isinstance(gone, PairedPerson) and gone.account == "work"
    assert await pairing.standing("telegram", "work", "7") == PairingStanding()
    assert await pairing.standing("telegram", "default", "7") == PairingStanding(True)
    assert isinstance(await pairing.revoke("8"), str)


async def test_a_code_can_be_refused(store: Store) -> None:
    pairing = ChatPairing(store, FakeClock(0), owned=True)
    one = await ask(pairing, "7")
    assert one is not None and await pairing.reject(one.code) == one
    assert isinstance(await pairing.reject(one.code), str) and isinstance(await pairing.approve(one.code, "x"), str)


def test_no_two_people_share_a_record() -> None:
    odd = ["a", "a/b", "b", "a:b", "../x", "%3a", "a\n", "ａ", "~a", "agent:main:main", "x" * 10_000]
    keys = [make_person_key(channel, "default", who) for channel in ("t", "t/default") for who in odd]
    assert len(set(keys)) == len(keys)


async def test_a_record_that_cannot_be_read_is_passed_over(store: Store) -> None:
    pairing = ChatPairing(store, FakeClock(0), owned=True)
    for kind in (ASKING, LET_IN):
        await store.put_record(kind, "junk", b"{}")
    one = await ask(pairing, "7")
    assert one is not None and isinstance(await pairing.approve(one.code, "me"), PairedPerson)
    assert [person.id for person in await pairing.list_paired()] == ["7"]
