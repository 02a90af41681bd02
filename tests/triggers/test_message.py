"""Where a heartbeat's answer goes."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from palinurus.config.sections.schedule import HeartbeatSettings, HeartbeatVisibility
from palinurus.core.types.keys import SessionKey
from palinurus.services.inbox import InboxPort
from palinurus.sessions.record import SessionRecord
from palinurus.store.port import SessionRow
from palinurus.triggers.message import resolve_target
from palinurus.triggers.ports import TriggerPort
from triggers.world import World

MAIN = SessionKey("main", "main")


def port(*groups: str, key: SessionKey = MAIN, **last: Any) -> TriggerPort:
    world = World()
    for name in (str(key), *groups):
        record = SessionRecord.fresh(SessionKey("main", name.split(":", 2)[2]), 0, "s")
        if name == str(key):
            record = msgspec.structs.replace(record, **last)
        world.memory.rows[name] = SessionRow(name, "main", "s", 0, record.encode())
    inbox = cast(InboxPort, world.inbox)
    return TriggerPort(world.settings, world.memory, world.clock, inbox, channels=("tg", "irc"))


LAST = {"lastChannel": "tg", "lastTo": "7", "lastAccountId": "work"}


@pytest.mark.parametrize(
    ("beat", "wanted"),
    [
        ({}, "target-none"),
        ({"target": "last"}, ("tg", "7", "work")),
        ({"target": "last", "to": "8"}, ("tg", "8", "work")),
        ({"target": "last", "account": "home"}, ("tg", "7", "home")),
        ({"target": "tg"}, ("tg", "7", "work")),  # without `to`: where they wrote last on that channel
        ({"target": "irc"}, "no-target"),
        ({"target": "irc", "to": "#sea"}, ("irc", "#sea", "default")),
        ({"target": "irc", "to": "#sea", "account": "b"}, ("irc", "#sea", "b")),
        ({"target": "pigeon", "to": "7"}, "no-target"),
        ({"target": "last", "direct": "block"}, "dm-blocked"),
        ({"target": "tg", "to": "8", "direct": "block"}, "dm-blocked"),
        ({"target": "tg", "to": "-100123", "direct": "block"}, ("tg", "-100123", "work")),
        ({"target": "irc", "to": "#sea", "direct": "block"}, ("irc", "#sea", "default")),
        ({"target": "tg", "to": "g9", "direct": "block"}, ("tg", "g9", "work")),  # known as a group
    ],
)
async def test_aim(beat: dict[str, Any], wanted: str | tuple[str, str, str]) -> None:
    found = await resolve_target(port("agent:main:tg:group:g9", **LAST), HeartbeatSettings(**beat), MAIN)
    target = found.destination.target
    assert (found.why or (target.channel, target.to, target.account)) == wanted
    assert found.destination.push is (found.why == "")


async def test_the_last_place_of_a_group_is_no_direct_chat_and_nobody_there_is_no_target() -> None:
    own = HeartbeatSettings(target="last", direct="block")
    group = SessionKey("main", "tg:group:g1")
    assert (await resolve_target(port(key=group, lastChannel="tg", lastTo="g1"), own, group)).destination.push
    assert (await resolve_target(port(), own, MAIN)).why == "no-target"
    assert (await resolve_target(port(), own, SessionKey("main", "other"))).why == "no-target"


@pytest.mark.parametrize(
    ("place", "wanted", "useless"),
    [
        ({"": HeartbeatVisibility(False, False, True)}, "alerts-disabled", False),
        ({"": HeartbeatVisibility(False, False, False)}, "alerts-disabled", True),
        ({"": HeartbeatVisibility(False, False, False), "tg": HeartbeatVisibility()}, "", False),
        ({"tg": HeartbeatVisibility(), "tg/work": HeartbeatVisibility(False, False, False)}, "alerts-disabled", True),
        ({"irc": HeartbeatVisibility(False, False, False)}, "", False),
        ({"tg": HeartbeatVisibility(ok=True, alerts=False)}, "", False),
    ],
)
async def test_what_may_be_seen_there(place: dict[str, HeartbeatVisibility], wanted: str, useless: bool) -> None:
    found = await resolve_target(port(**LAST), HeartbeatSettings(target="last", seen=place), MAIN)
    assert (found.why, found.useless) == (wanted, useless)
