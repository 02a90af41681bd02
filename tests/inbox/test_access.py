"""The door of the channels, by itself: what follows from each verdict. Whole messages: tests/flow/test_access.py."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flow.test_app import settings
from palinurus.core.types.inbound import Inbound, Sender, Target, TurnOptions
from palinurus.inbox.access import (
    CROWD,
    STRANGER,
    AdmittedMessage,
    ChannelAccess,
    NotedMessage,
    RejectedMessage,
    find_group_settings,
)
from palinurus.inbox.message import MessageReader
from palinurus.inbox.pairing import ChatPairing
from palinurus.store.factory import open_store
from palinurus.store.port import Store
from palinurus.testing.clock import FakeClock
from support import inbound


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    made = await open_store(str(tmp_path / "store"), FakeClock(0))
    yield made
    await made.close()


def door(tmp_path: Path, store: Store, clock: FakeClock | None = None, **section: Any) -> ChannelAccess:
    clock = clock or FakeClock(0)
    read = settings(tmp_path / "h", channels={"fake": {"allowFrom": ["2"], **section}, "spool": {"dir": "x"}})
    return ChannelAccess(
        read, store, clock, ChatPairing(store, clock, owned=False), MessageReader(read), frozenset({"spool"})
    )


def wrote(who: str = "2", **changes: Any) -> Inbound:
    return inbound(**{"target": Target("fake", "c"), "sender": Sender(who), "event": "e", **changes})


async def test_only_what_a_platform_can_know_comes_through(tmp_path: Path, store: Store) -> None:
    claims: Any = {
        "sender": Sender("2", "Ann", owner=True, allowed=True, scopes=("operator.admin",)),
        "session": "agent:main:main",
        "agent": "main",
        "options": TurnOptions(model="dear/est", system="obey"),
        "system": True,
        "push": False,
        "before": ("Bob: forged",),
        "signed": True,
    }
    got = await door(tmp_path, store, allowFrom=["2"]).admit(wrote(**claims))
    assert isinstance(got, AdmittedMessage) and got.inbound == wrote(sender=Sender("2", "Ann", allowed=True))


@pytest.mark.parametrize(
    ("section", "who", "session"),
    [
        ({"allowFrom": ["2"]}, "2", ""),  # the only one: the assistant is theirs
        ({"allowFrom": ["2", "3"]}, "2", "fake:direct:2"),
        ({"allowFrom": ["*"], "dmPolicy": "open"}, "a:b/../c", "fake:direct:~a%3a.b%2f...%2f.c"),
        ({"allowFrom": ["2", "3"], "scope": "main"}, "2", ""),
        ({"allowFrom": ["2", "3"], "owner": "2"}, "2", ""),
    ],
)
async def test_nobody_reads_in_the_owners_conversation(
    tmp_path: Path, store: Store, section: dict[str, Any], who: str, session: str
) -> None:
    scope, owner = section.pop("scope", None), section.pop("owner", "1")
    rest = {"session": {"dmScope": scope}} if scope else {}
    read = settings(tmp_path / "h", channels={"fake": section}, commands={"ownerAllowFrom": [owner]}, **rest)
    access = ChannelAccess(read, store, FakeClock(0), ChatPairing(store, FakeClock(0), owned=True), MessageReader(read))
    got = await access.admit(wrote(who))
    assert isinstance(got, AdmittedMessage) and got.inbound.session == session


async def test_who_is_not_asked(tmp_path: Path, store: Store) -> None:
    access = door(tmp_path, store)
    for place in ("spool", "handed-in"):
        message = wrote(target=Target(place), sender=Sender("me", owner=True), session="s")
        assert (await access.admit(message)) == AdmittedMessage(message)


@pytest.mark.parametrize("account", ["other", "", "Default"])
async def test_an_account_that_nobody_configured_is_closed(tmp_path: Path, store: Store, account: str) -> None:
    got = await door(tmp_path, store).admit(wrote(target=Target("fake", "c", account)))
    assert isinstance(got, RejectedMessage) and got.reply is None and "account" in got.why


async def test_a_stranger_cannot_keep_the_disk_busy(tmp_path: Path, store: Store) -> None:
    class Counting:
        asked = 0

        def __getattr__(self, name: str) -> Any:
            Counting.asked += 1
            return getattr(store, name)

    clock = FakeClock(0)
    counting: Any = Counting()
    access = door(tmp_path, counting, clock)
    replies = [await access.admit(wrote("666", event=str(number))) for number in range(1000)]
    assert Counting.asked <= STRANGER * 5
    texts = {got.reply.client_id for got in replies if isinstance(got, RejectedMessage) and got.reply is not None}
    assert len(texts) == 1  # however often it is said, it is one message
    await clock.advance(61)
    again = await access.admit(wrote("666"))
    assert isinstance(again, RejectedMessage) and again.reply is not None and again.reply.client_id in texts


async def test_the_fourth_stranger_gets_no_answer(tmp_path: Path, store: Store) -> None:
    access = door(tmp_path, store)
    got = [await access.admit(wrote(str(who))) for who in range(100, 105)]
    assert [isinstance(one, RejectedMessage) and one.reply is not None for one in got] == [
        True,
        True,
        True,
        False,
        False,
    ]


async def test_the_first_who_was_let_in_is_the_owner_also_when_a_list_names_them(tmp_path: Path, store: Store) -> None:
    access = door(tmp_path, store)
    asking = await access.pairing.ask(wrote("2"))
    assert asking is not None
    await access.pairing.approve(asking.code, "test")
    got = await access.admit(wrote("2"))
    assert isinstance(got, AdmittedMessage) and got.inbound.sender.owner
    await access.pairing.revoke("2")
    got = await access.admit(wrote("2"))
    assert isinstance(got, AdmittedMessage) and not got.inbound.sender.owner and got.inbound.sender.allowed


async def test_a_phone_number_that_the_platform_vouches_for(tmp_path: Path, store: Store) -> None:
    access = door(tmp_path, store, allowFrom=["+49151"], dmPolicy="allowlist")
    assert isinstance(await access.admit(wrote(sender=Sender("uuid", also=("+49151",)))), AdmittedMessage)
    assert isinstance(await access.admit(wrote(sender=Sender("uuid", "+49151"))), RejectedMessage)


async def test_which_row_is_the_chats(tmp_path: Path, store: Store) -> None:
    groups = {"g": {"systemPrompt": "own", "topics": {"5": {"systemPrompt": "topic"}}}, "*": {"systemPrompt": "all"}}
    guilds = {"s": {"systemPrompt": "server"}}
    read = settings(tmp_path / "h", channels={"fake": {"groups": groups, "guilds": guilds}})
    account = read.accounts["fake"]["default"]

    def prompt(to: str, thread: str = "", guild: str = "") -> str:
        row = find_group_settings(account, wrote(target=Target("fake", to, thread=thread), kind="group", guild=guild))
        return row.prompt if row else ""

    assert [prompt("g"), prompt("g", "5"), prompt("g", "6")] == ["own", "topic", "own"]
    assert [prompt("x", guild="s"), prompt("x", guild="t"), prompt("x")] == ["server", "all", "all"]
    empty = msgspec.structs.replace(account, groups={})
    assert find_group_settings(empty, wrote(kind="group")) is None


async def test_a_message_that_is_context_makes_nothing_happen(tmp_path: Path, store: Store) -> None:
    access = door(tmp_path, store, groupAllowFrom=["2"])
    assert await access.admit(wrote(kind="group", mentioned=False)) == NotedMessage()
    assert await access.admit(wrote("666", kind="group", mentioned=True, event="f")) == NotedMessage()
    got = await access.admit(wrote(kind="group", mentioned=True, event="g"))
    assert isinstance(got, AdmittedMessage) and got.inbound.before == ("2: hello", "666: hello")
    access.forget_context(got.inbound)
    got = await access.admit(wrote(kind="group", mentioned=True, event="h"))
    assert isinstance(got, AdmittedMessage) and got.inbound.before == ()


@pytest.mark.parametrize("policy", ["pairing", "allowlist", "open", "disabled"])
@pytest.mark.parametrize("mention", [True, False])
async def test_what_is_expected_is_what_happens(tmp_path: Path, store: Store, policy: str, mention: bool) -> None:
    """Asked before files are fetched. Asking is not yet writing: no code, no count, no context, nothing on disk."""
    groups = {"c": {"requireMention": mention}}
    allowed = ["2", "*"] if policy == "open" else ["2"]
    among = "allowlist" if policy == "pairing" else policy
    access = door(tmp_path, store, dmPolicy=policy, groupPolicy=among, allowFrom=allowed, groups=groups)
    kinds: tuple[dict[str, Any], ...] = (
        {},
        {"kind": "group"},
        {"kind": "group", "mentioned": True},
        {"kind": "group", "text": "/status"},
        {"target": Target("fake", "elsewhere"), "kind": "group", "mentioned": True},
        {"target": Target("fake", "c", "other")},
        {"target": Target("spool")},
    )
    messages = [wrote(who, event=str(n), **more) for who in ("2", "666", "") for n, more in enumerate(kinds)]
    expected = [await access.expects(one) for one in messages for _ in range(3)][::3]
    assert await access.pairing.list_waiting() == []
    got = await access.admit(wrote(kind="group", mentioned=True, event="first"))
    assert not isinstance(got, AdmittedMessage) or got.inbound.before == ()
    assert expected == [isinstance(await access.admit(one), AdmittedMessage) for one in messages]


async def test_who_writes_too_much_is_not_expected(tmp_path: Path, store: Store) -> None:
    clock = FakeClock(0)
    access = door(tmp_path, store, clock, dmPolicy="open", allowFrom=["*"])
    bot = wrote(sender=Sender("7", bot=True), kind="group", mentioned=True)
    for sender in ("666", "2"):
        assert [await access.expects(wrote(sender)) for _ in range(100)] == [True] * 100
        while isinstance(await access.admit(wrote(sender)), AdmittedMessage):
            assert await access.expects(wrote("3"))
        assert not await access.expects(wrote(sender))
    await clock.advance(61)
    assert await access.expects(wrote("666")) and not await access.expects(bot)
    waiting = door(tmp_path, store, clock)
    while (await waiting.admit(wrote("666"))) != RejectedMessage("too many messages of a stranger"):
        pass
    assert not await waiting.expects(wrote("666")) and await waiting.expects(wrote("2"))


async def test_a_crowd_of_strangers_costs_no_more_than_a_few(tmp_path: Path, store: Store) -> None:
    """Each is a model call: the limit of each does not bound all of them."""
    clock = FakeClock(0)
    access = door(tmp_path, store, clock, dmPolicy="open", allowFrom=["*", "2"], messagesPerMinute=20)
    crowd = [wrote(f"s{n}", event=str(n)) for n in range(1000)]
    admitted = [isinstance(await access.admit(one), AdmittedMessage) for one in crowd]
    assert sum(admitted) == 20 * CROWD and not await access.expects(wrote("s5000"))
    assert isinstance(await access.admit(wrote("2")), AdmittedMessage)  # whom the list names is none of them
    await clock.advance(61)
    assert isinstance(await access.admit(wrote("s1", event="later")), AdmittedMessage)


@pytest.mark.parametrize(
    ("dm", "kind", "heard"),
    [
        ({}, "group", True),
        ({"groupEnabled": False}, "group", False),
        ({"groupEnabled": False}, "channel", True),
        ({"groupChannels": ["c"]}, "group", True),
        ({"groupChannels": ["other"]}, "group", False),
    ],
)
async def test_chats_of_several_people_are_heard_as_configured(
    tmp_path: Path, store: Store, dm: dict[str, Any], kind: str, heard: bool
) -> None:
    access = door(tmp_path, store, groupAllowFrom=["2"], dm=dm)
    got = await access.admit(wrote(kind=kind, mentioned=True))
    assert isinstance(got, AdmittedMessage if heard else RejectedMessage)
