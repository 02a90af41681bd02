from __future__ import annotations

import pytest

from palinurus.gateway.limits import ADDRESSES, TRIES, WINDOW, FreshConnections, LoginFailures, canonicalize_address


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("127.0.0.1", "loopback"),
        ("127.8.8.8", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("nonsense", "?"),
    ],
)
def test_one_name_for_one_peer(address: str, name: str) -> None:
    assert canonicalize_address(address) == name


def test_ten_a_minute_sliding() -> None:
    now = 0.0
    tries = LoginFailures(lambda: now)
    for number in range(TRIES):
        assert tries.wait("10.0.0.1") == 0
        now = float(number)
        tries.count_failure("10.0.0.1")
    assert tries.wait("10.0.0.1") == pytest.approx(WINDOW - 9)
    assert tries.wait("10.0.0.2") == 0
    now = WINDOW + 0.5
    assert tries.wait("10.0.0.1") == 0


def test_forgets_addresses_rather_than_growing() -> None:
    tries = LoginFailures(lambda: 0.0)
    for number in range(ADDRESSES + 50):
        tries.count_failure(f"10.{number // 65536}.{number // 256 % 256}.{number % 256}")
    assert len(tries._by._times) == ADDRESSES


def test_the_oldest_silent_one_goes() -> None:
    fresh: FreshConnections[str] = FreshConnections(2)
    assert fresh.add("a") is None
    assert fresh.add("b") is None
    assert fresh.add("c") == "a"
    assert fresh.drop("b") and not fresh.drop("a")
    assert fresh.add("d") is None
