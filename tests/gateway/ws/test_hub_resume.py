"""The ring of past events and the memory of ended connections."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palinurus.gateway.ws.hub import RECONNECT_MOST, RECONNECT_SECONDS, ReconnectWindow, Ring


@given(st.integers(0, 60), st.integers(0, 70), st.integers(1, 20))
def test_either_everything_after_a_position_or_nothing(added: int, pos: int, room: int) -> None:
    ring = Ring(events=room)
    for n in range(added):
        ring.add("chat", b"%d" % (n + 1))
    past = ring.since(pos)
    if pos > added or added - pos > room:
        assert past is None
    else:
        assert past is not None
        assert [p.pos for p in past] == list(range(pos + 1, added + 1))
        assert [int(p.payload) for p in past] == [p.pos for p in past]


def test_the_ring_is_bounded_in_bytes() -> None:
    ring = Ring(events=100, size=1000)
    for _ in range(50):
        ring.add("chat", b"x" * 100)
    assert ring.since(40) is not None and ring.since(39) is None
    ring.add("chat", b"x" * 5000)
    assert ring.since(50) is None and ring.since(51) == []


def test_a_negative_position_is_no_position() -> None:
    assert Ring().since(-1) is None


def test_only_its_owner_takes_a_connection_up_and_only_once() -> None:
    now = 0.0
    gone = ReconnectWindow(lambda: now)
    gone.add("a", ("owner", "d1"), frozenset({"t"}), frozenset({"a"}))
    assert gone.take("a", ("owner", "d2")) is None
    assert gone.take("b", ("owner", "d1")) is None
    left = gone.take("a", ("owner", "d1"))
    assert left is not None and left.topics == {"t"}
    assert gone.take("a", ("owner", "d1")) is None
    gone.add("a", ("owner", "d1"), frozenset(), frozenset())
    now = RECONNECT_SECONDS
    assert gone.take("a", ("owner", "d1")) is None


def test_ended_connections_are_bounded() -> None:
    gone = ReconnectWindow(lambda: 0.0)
    for n in range(RECONNECT_MOST + 5):
        gone.add(str(n), ("o", ""), frozenset(), frozenset())
    assert gone.take("4", ("o", "")) is None
    assert gone.take("5", ("o", "")) is not None
