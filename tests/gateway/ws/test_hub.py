"""Who gets which event, with which number; what a client that comes back is given."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.types.caller import Caller, has_scope
from palinurus.gateway.rpc import (
    ADMIN,
    APPROVALS,
    EVENTS,
    NODE,
    PAIRING,
    READ,
    SCOPES,
    WRITE,
    ClientDescription,
    ConnectedClient,
)
from palinurus.gateway.ws.hub import PAST_SECONDS, RECONNECT_SECONDS, ClientHub, ResumePoint, Ring

INFO = ClientDescription("cli", "1", "linux", "cli")


class Fake:
    def __init__(self, conn: str, *scopes: str, caps: tuple[str, ...] = (), device: str = "d") -> None:
        self.client = ConnectedClient(
            conn, Caller("owner", frozenset(scopes), "token", device=device), INFO, caps=frozenset(caps)
        )
        self.got: list[dict[str, Any]] = []
        self.ended: tuple[int, str] | None = None

    def push(self, head: bytes, payload: bytes, tail: bytes, droppable: bool = False) -> None:
        self.got.append(json.loads(head + payload + tail))

    def close(self, code: int, reason: str) -> None:
        self.ended = (code, reason)


def hub(*members: Fake) -> ClientHub:
    made = ClientHub(lambda: 0.0)
    for member in members:
        made.join(member)
    return made


@pytest.mark.parametrize("event", sorted(EVENTS))
@pytest.mark.parametrize("scopes", [(), *((s,) for s in sorted(SCOPES))])
def test_every_event_against_every_scope(event: str, scopes: tuple[str, ...]) -> None:
    one, all_ = Fake("a", *scopes), Fake("b", ADMIN)
    made = hub(one, all_)
    made.broadcast(event, {})
    needed = EVENTS[event].scope
    table = {
        READ: {READ, WRITE, ADMIN},
        WRITE: {WRITE, ADMIN},
        PAIRING: {PAIRING, ADMIN},
        APPROVALS: {APPROVALS, ADMIN},
        ADMIN: {ADMIN},
        NODE: set(),
    }
    assert bool(one.got) is (needed is None or bool(table[needed] & set(scopes)))
    assert len(all_.got) == (0 if needed == NODE else 1)


def test_numbers_are_per_client_and_without_holes() -> None:
    reader, pairer = Fake("a", READ), Fake("b", PAIRING)
    made = hub(reader, pairer)
    for event in ("chat", "device.pair.requested", "tick", "chat"):
        made.broadcast(event, {})
    assert [f["seq"] for f in reader.got] == [1, 2, 3]
    assert [f["seq"] for f in pairer.got] == [1, 2]


def test_topics_reach_followers_once_and_without_a_number() -> None:
    one, two, blind = Fake("a", READ), Fake("b", READ), Fake("c")
    made = hub(one, two, blind)
    for conn in ("a", "c"):
        made.follow(conn, "sessions")
        made.follow(conn, "session:x")
    made.tell(("sessions", "session:x"), "session.message", {"n": 1})
    assert [f["payload"] for f in one.got] == [{"n": 1}] and "seq" not in one.got[0] and "pos" not in one.got[0]
    assert not two.got and not blind.got
    assert made.followers(("sessions",)) == {"a", "c"}
    made.unfollow("a", "sessions")
    made.tell(("sessions",), "sessions.changed", {})
    assert len(one.got) == 1
    made.leave("c")
    assert made.followers(("sessions",)) == frozenset()


def test_one_connection_can_be_addressed() -> None:
    one, blind = Fake("a", READ), Fake("b")
    made = hub(one, blind)
    assert made.send("a", "agent", {}) and not made.send("b", "agent", {}) and not made.send("z", "agent", {})
    assert len(one.got) == 1 and not blind.got


def test_an_event_nobody_declared_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        hub().broadcast("no.such", {})


def back(made: ClientHub, conn: str, old: Fake, pos: int, **client: Any) -> tuple[Fake, list[dict[str, Any]] | None]:
    member = Fake(conn, READ, caps=("resume",), **client)
    missed = made.join(member, ResumePoint(made.epoch, pos, old.client.conn))
    if missed is None:
        return member, None
    made.replay(conn, missed)
    return member, member.got


def test_a_client_that_comes_back_gets_what_it_missed() -> None:
    old = Fake("a", READ, caps=("resume",))
    made = hub(old)
    made.follow("a", "session:x")
    made.broadcast("chat", {"n": 1})
    assert old.got[-1]["pos"] == 1
    made.leave("a")
    made.broadcast("chat", {"n": 2})
    made.broadcast("device.pair.requested", {"n": "not its business"})
    made.tell(("session:x",), "session.message", {"n": 3})
    made.tell(("session:y",), "session.message", {"n": "nor this"})
    made.send("a", "agent", {"n": 4})
    made.send("other", "agent", {"n": "nor this"})
    made.broadcast("tick", {})
    new, missed = back(made, "b", old, 1)
    assert missed is not None and [f["payload"]["n"] for f in missed] == [2, 3, 4]
    assert [f.get("seq") for f in missed] == [1, None, None]
    made.send("a", "agent", {"n": 5})
    made.tell(("session:x",), "session.message", {"n": 6})
    made.broadcast("chat", {"n": 7})
    assert [f["payload"]["n"] for f in new.got[3:]] == [5, 6, 7] and new.got[-1]["seq"] == 2


def test_another_device_does_not_inherit() -> None:
    old = Fake("a", READ, caps=("resume",))
    made = hub(old)
    made.follow("a", "session:x")
    made.leave("a")
    made.tell(("session:x",), "session.message", {})
    made.send("a", "agent", {})
    assert back(made, "b", old, 0, device="thief")[1] == []


def test_a_gap_or_another_life_is_said_so() -> None:
    made = ClientHub(lambda: 0.0, Ring(events=2))
    made.join(Fake("stays", READ, caps=("resume",)))
    for n in range(5):
        made.broadcast("chat", {"n": n})
    old = Fake("a", READ, caps=("resume",))
    assert back(made, "b", old, 1)[1] is None
    assert back(made, "c", old, 3)[1] is not None
    assert back(made, "d", old, 99)[1] is None
    assert made.join(Fake("e", READ), ResumePoint("another epoch", 5)) is None


class Unread:
    """A payload that must not be encoded."""


def test_what_nobody_can_ask_for_is_neither_encoded_nor_kept() -> None:
    now = 0.0
    made = ClientHub(lambda: now)
    made.broadcast("chat", Unread())
    made.tell(("session:x",), "session.message", Unread())
    assert not made.send("a", "agent", Unread())
    plain, old = Fake("plain", READ), Fake("old", READ, caps=("resume",))
    made.join(plain)
    made.broadcast("chat", {})  # seen, but by nobody who takes note of positions
    assert len(plain.got) == 1 and len(made.ring) == 0
    made.join(old)
    made.broadcast("chat", {})
    assert old.got[-1]["pos"] == made.ring.pos == 5 and len(made.ring) == 1
    made.leave("plain")
    made.leave("old")
    made.broadcast("chat", {})
    assert len(made.ring) == 2  # it may come back
    now = RECONNECT_SECONDS
    made.broadcast("tick", Unread())
    assert len(made.ring) == 0
    assert back(made, "late", old, 5)[1] is None  # it must read anew
    assert back(made, "later", old, 6)[1] == []


def test_a_client_that_stays_for_days_does_not_keep_the_past() -> None:
    now = 0.0
    made = ClientHub(lambda: now)
    old = Fake("a", READ, caps=("resume",))
    made.join(old)
    made.broadcast("chat", {"n": 1})
    now = PAST_SECONDS - 1
    made.broadcast("chat", {"n": 2})
    made.broadcast("tick", {})
    assert len(made.ring) == 2
    now = PAST_SECONDS + 1
    made.broadcast("tick", {})
    assert len(made.ring) == 1
    made.leave("a")
    assert [f["payload"]["n"] for f in back(made, "b", old, 1)[1] or ()] == [2]


@given(st.lists(st.sampled_from(["chat", "tell", "send", "drop", "other"]), max_size=60))
def test_however_often_a_client_loses_its_connection_it_sees_everything_once(script: list[str]) -> None:
    made = ClientHub(lambda: 0.0)
    member = Fake("c0", READ, caps=("resume",))
    made.join(member)
    made.follow("c0", "session:x")
    seen: list[int] = []
    wanted: list[int] = []
    for n, step in enumerate(script):
        if step == "chat":
            made.broadcast("chat", n)
        elif step == "tell":
            made.tell(("session:x",), "session.message", n)
        elif step == "send":
            made.send("c0", "agent", n)
        elif step == "other":
            made.tell(("session:y",), "session.message", n)
        else:
            # The last frames were on their way when the connection broke.
            received = member.got[: len(member.got) // 2]
            pos = received[-1]["pos"] if received else getattr(member, "base", 0)
            seen += [f["payload"] for f in received]
            made.leave(member.client.conn)
            made.broadcast("chat", n)
            wanted.append(n)
            fresh, got = back(made, f"c{n + 1}", member, pos)
            assert got is not None
            fresh.base = pos  # type: ignore[attr-defined]
            member = fresh
            continue
        if step != "other":
            wanted.append(n)
    seen += [f["payload"] for f in member.got]
    assert seen == wanted


def test_scopes_open_what_they_should() -> None:
    assert has_scope({ADMIN}, PAIRING) and has_scope({WRITE}, READ) and not has_scope({READ}, WRITE)
    assert has_scope(set(), None) and not has_scope({ADMIN}, "node")
