"""The gate as a machine: tables of peers, and modes that must not start."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.host import TOKEN, settings
from palinurus.config.settings import Secret
from palinurus.core.types.caller import SCOPES, Caller
from palinurus.errors import ConfigError
from palinurus.gateway.auth import GatewayAuth, GatewayPeer
from palinurus.gateway.http import HttpFault


def gate(**options: object) -> GatewayAuth:
    return GatewayAuth(settings(**options).gateway, TOKEN, lambda: 0.0)  # type: ignore[arg-type]


def peer(**changes: object) -> GatewayPeer:
    base = GatewayPeer("/", ("127.0.0.1:18789",), (), (f"Bearer {TOKEN}",), "127.0.0.1")
    return msgspec.structs.replace(base, **changes)


def test_the_right_token_makes_the_owner() -> None:
    found = gate().identify_caller(peer())
    assert found == Caller("owner", SCOPES, "token", address="127.0.0.1")


@pytest.mark.parametrize(
    "credentials",
    [
        (),
        ("",),
        ("Bearer",),
        ("Bearer ",),
        (TOKEN,),
        (f"Bearer {TOKEN}\n",),
        (f"Bearer {TOKEN} ",),
        (f"Bearer {TOKEN.upper()}",),
        (f"Bearer {TOKEN}{TOKEN}",),
        ("Bearer " + "x" * 1_000_000,),
        ("Bearer \udcff\ud800",),
        (f"Bearer {TOKEN}", f"Bearer {TOKEN}"),
        (f"Token {TOKEN}",),
    ],
)
def test_everything_else_is_refused(credentials: tuple[str, ...]) -> None:
    found = gate().identify_caller(peer(credentials=credentials))
    assert isinstance(found, HttpFault) and found.status == 401


@given(st.text(max_size=60))
def test_no_other_text_opens(text: str) -> None:
    found = gate().identify_caller(peer(credentials=(text,)))
    scheme, _, secret = text.partition(" ")
    assert isinstance(found, HttpFault) or (scheme.lower() == "bearer" and secret == TOKEN)


def test_a_password_works_in_its_mode_and_the_token_does_not() -> None:
    guarded = gate(auth_mode="password", password=Secret("open sesame"))
    assert isinstance(guarded.identify_caller(peer(credentials=("Bearer open sesame",))), Caller)
    assert isinstance(guarded.identify_caller(peer()), HttpFault)


@pytest.mark.parametrize(
    "options",
    [
        {"auth_mode": "none", "bind": "0.0.0.0"},
        {"auth_mode": "none", "bind": "192.168.1.5"},
        {"auth_mode": "none", "bind": "gateway.local"},
        {"auth_mode": "password"},
        {"auth_mode": "trusted-proxy"},
    ],
)
def test_modes_that_protect_nothing_do_not_start(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"gateway\.auth"):
        gate(**options)


def test_an_empty_token_does_not_start() -> None:
    with pytest.raises(ConfigError):
        GatewayAuth(settings().gateway, "", lambda: 0.0)


def test_mode_none_still_checks_host_and_origin() -> None:
    guarded = gate(auth_mode="none")
    assert isinstance(guarded.identify_caller(peer(credentials=())), Caller)
    assert guarded.check_request(peer(origins=("http://evil.example",))) is not None
    assert guarded.check_request(peer(hosts=("evil.example",))) is not None


@pytest.mark.parametrize(
    ("host", "fine"),
    [
        ("127.0.0.1", True),
        ("localhost:1", True),
        ("LocalHost.", True),
        ("[::1]", True),
        ("[::1]:18789", True),
        ("mine.example:443", True),
        ("192.168.1.5:18789", True),  # the socket's own address
        ("192.168.1.6", False),
        ("", False),
        (" ", False),
        ("127.0.0.1@evil.example", False),
        ("evil.example#127.0.0.1", False),
        ("127.0.0.1:", False),
        ("127.0.0.1:80x", False),
        ("[::1]evil", False),
        ("[::1", False),
        ("localhost..", False),
        ("2130706433", False),
        ("127.1", False),
    ],
)
def test_hosts(host: str, fine: bool) -> None:
    guarded = gate(allowed_hosts=("Mine.example",))
    assert (guarded.check_request(peer(hosts=(host,), local="192.168.1.5")) is None) is fine


@pytest.mark.parametrize(
    ("origins", "fine"),
    [
        ((), True),
        (("http://127.0.0.1:18789",), True),
        (("https://ui.example",), True),
        (("HTTPS://UI.example",), True),
        (("https://ui.example.evil",), False),
        (("http://ui.example",), False),
        (("https://127.0.0.1:18789",), False),
        (("http://127.0.0.1",), False),
        (("",), False),
        (("null",), False),
        (("*",), False),
        (("http://127.0.0.1:18789", "http://evil.example"), False),
    ],
)
def test_origins(origins: tuple[str, ...], fine: bool) -> None:
    guarded = gate(allowed_origins=("https://ui.example/",))
    assert (guarded.check_request(peer(origins=origins)) is None) is fine


def test_guesses_are_counted_for_all_addresses_together_too() -> None:
    guarded = gate()
    wrong = ("Bearer wrong",)
    found = [guarded.identify_caller(peer(credentials=wrong, address=f"10.0.{n // 250}.{n % 250}")) for n in range(400)]
    assert sum(isinstance(f, HttpFault) and f.status == 401 for f in found) == 100
    assert isinstance(guarded.identify_caller(peer(known=True)), Caller)


def test_a_request_without_a_credential_is_no_guess() -> None:
    guarded = gate()
    for _ in range(50):
        guarded.identify_caller(peer(credentials=()))
    assert isinstance(guarded.identify_caller(peer()), Caller)
