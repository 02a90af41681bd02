"""The login as a machine: the table of refusals, and what each credential opens."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gateway.host import TOKEN, Ledger, settings
from palinurus.config.sections.gateway import TrustedProxySettings
from palinurus.config.settings import Secret
from palinurus.gateway.auth import GatewayAuth, GatewayPeer
from palinurus.gateway.client import DeviceIdentity, LoginOptions, make_connect_params, make_identity
from palinurus.gateway.pairing import DevicePairing
from palinurus.gateway.rpc import ADMIN, PAIRING, READ, WRITE, ClientDescription
from palinurus.gateway.ws.handshake import ClientLogin, Handshake, LoginRefusal, PairingNeeded
from palinurus.testing.clock import FakeClock

NONCE = "nonce-1"
ME = make_identity(b"m" * 32)
UI = ClientDescription("openclaw-control-ui", "control-ui", "Linux x86_64", "webchat")
OWN = ("http://127.0.0.1:18789",)


class Desk:
    """A gate, its devices, and a fresh handshake for each frame."""

    def __init__(self, **gateway: Any) -> None:
        self.clock = FakeClock()
        self.gate = GatewayAuth(settings(**gateway).gateway, TOKEN, self.clock.monotonic)
        self.pairing = DevicePairing(Ledger(), self.clock)

    def feed(self, frame: object, peer: GatewayPeer | None = None) -> LoginRefusal | ClientLogin | PairingNeeded:
        data = frame if isinstance(frame, str) else json.dumps(frame)
        return Handshake(self.gate, self.pairing, peer or door(), NONCE).feed(data, self.clock.now())

    def connect(self, peer: GatewayPeer | None = None, change: dict[str, Any] | None = None, **options: Any) -> Any:
        options.setdefault("identity", ME)
        params = make_connect_params(LoginOptions(**options), NONCE, self.clock.now()) | (change or {})
        return self.feed({"type": "req", "id": "c", "method": "connect", "params": params}, peer)


def door(**changes: Any) -> GatewayPeer:
    return msgspec.structs.replace(GatewayPeer("/", ("127.0.0.1:18789",), (), (), "127.0.0.1"), **changes)


def refused(outcome: object) -> tuple[str, str | None, int]:
    """message, details.code, close code"""
    assert isinstance(outcome, LoginRefusal) and outcome.error is not None, outcome
    return outcome.error.message, (outcome.error.details or {}).get("code"), outcome.close


TOKEN_TEXT = "(set gateway.remote.token to match gateway.auth.token)"
WORD_TEXT = "(set gateway.remote.password to match gateway.auth.password)"
ORIGIN = (
    "origin not allowed (open the Control UI from the gateway host or allow it in gateway.controlUi.allowedOrigins)"
)
UI_TEXT = "control ui requires device identity (use HTTPS or localhost secure context)"
BAD_SIGNATURE = {"device": {"id": ME.id, "publicKey": "", "signature": "", "signedAt": 0, "nonce": ""}}

TABLE: list[tuple[str, dict[str, Any], tuple[str, str | None]]] = [
    ("token", {"token": "wrong"}, (f"unauthorized: gateway token mismatch {TOKEN_TEXT}", "AUTH_TOKEN_MISMATCH")),
    ("token", {}, (f"unauthorized: gateway token missing {TOKEN_TEXT}", "AUTH_TOKEN_MISSING")),
    ("token", {"password": "x"}, (f"unauthorized: gateway token missing {TOKEN_TEXT}", "AUTH_TOKEN_MISSING")),
    (
        "token",
        {"device_token": "x"},
        ("unauthorized: device token mismatch (rotate/reissue device token)", "AUTH_DEVICE_TOKEN_MISMATCH"),
    ),
    ("token", {"identity": None}, ("device identity required", "DEVICE_IDENTITY_REQUIRED")),
    ("token", {"token": TOKEN, "client": UI}, (ORIGIN, "CONTROL_UI_ORIGIN_NOT_ALLOWED")),
    ("token", {"token": TOKEN, "role": "king"}, ("invalid role", None)),
    ("password", {}, (f"unauthorized: gateway password missing {WORD_TEXT}", "AUTH_PASSWORD_MISSING")),
    (
        "password",
        {"token": "open sesame"},
        (f"unauthorized: gateway password missing {WORD_TEXT}", "AUTH_PASSWORD_MISSING"),
    ),
    (
        "password",
        {"password": "nope"},
        (f"unauthorized: gateway password mismatch {WORD_TEXT}", "AUTH_PASSWORD_MISMATCH"),
    ),
    ("password", {"identity": None}, ("device identity required", "DEVICE_IDENTITY_REQUIRED")),
    ("none", {"identity": None}, ("device identity required", "DEVICE_IDENTITY_REQUIRED")),
    ("none", {"token": TOKEN, "identity": None}, ("device identity required", "DEVICE_IDENTITY_REQUIRED")),
]


@pytest.mark.parametrize(("mode", "options", "said"), TABLE)
def test_refusals(mode: str, options: dict[str, Any], said: tuple[str, str | None]) -> None:
    desk = Desk(auth_mode=mode, password=Secret("open sesame"))
    assert refused(desk.connect(**options)) == (*said, 1008)


@pytest.mark.parametrize("mode", ["token", "password", "none"])
def test_a_browser_needs_an_origin_and_a_device(mode: str) -> None:
    desk = Desk(auth_mode=mode, password=Secret("open sesame"))
    right = {"token": TOKEN, "password": "open sesame"}
    assert refused(desk.connect(client=UI, **right))[1] == "CONTROL_UI_ORIGIN_NOT_ALLOWED"
    outcome = desk.connect(door(origins=OWN), client=UI, identity=None, **right)
    assert refused(outcome) == (UI_TEXT, "CONTROL_UI_DEVICE_IDENTITY_REQUIRED", 1008)
    assert isinstance(desk.connect(door(origins=OWN), client=UI, version=2, **right), ClientLogin)


def test_a_token_mismatch_tells_the_client_what_to_do() -> None:
    outcome = Desk().connect(token="wrong")
    assert isinstance(outcome, LoginRefusal) and outcome.error is not None
    assert outcome.error.details == {
        "code": "AUTH_TOKEN_MISMATCH",
        "authReason": "token_mismatch",
        "canRetryWithDeviceToken": True,
        "recommendedNextStep": "retry_with_device_token",
    }


@pytest.mark.parametrize(
    ("least", "most", "fine"), [(4, 4, True), (3, 4, True), (1, 9, True), (3, 3, False), (5, 6, False), (5, 3, False)]
)
def test_protocols(least: int, most: int, fine: bool) -> None:
    outcome = Desk().connect(token=TOKEN, change={"minProtocol": least, "maxProtocol": most})
    if fine:
        assert isinstance(outcome, ClientLogin)
        return
    assert refused(outcome) == ("protocol mismatch", "PROTOCOL_MISMATCH", 1002)
    assert isinstance(outcome, LoginRefusal) and outcome.error is not None
    assert outcome.error.details | {"code": ""} == {
        "code": "",
        "clientMinProtocol": least,
        "clientMaxProtocol": most,
        "expectedProtocol": 4,
        "minimumProbeProtocol": 4,
    }


@pytest.mark.parametrize(
    ("frame", "said", "close"),
    [
        ({"type": "req", "id": "1", "method": "health"}, "invalid handshake: first request must be connect", 1008),
        ({"type": "req", "id": "1", "method": "connect"}, "invalid connect params: must have required property", 1008),
        ({"type": "req", "method": "connect"}, "invalid request frame: must have required property 'id'", 1008),
        ({"type": "req", "id": "1", "method": "connect", "params": []}, "invalid connect params: must be object", 1008),
        ("not json", "", 1000),
        ("", "", 1000),
    ],
)
def test_a_first_frame_that_is_no_connect_ends_it(frame: object, said: str, close: int) -> None:
    outcome = Desk().feed(frame)
    assert isinstance(outcome, LoginRefusal) and outcome.close == close
    assert (outcome.error is None) is (said == "")
    assert outcome.error is None or outcome.error.message.startswith(said)


def test_a_broken_device_is_refused_even_with_the_right_token() -> None:
    desk = Desk()
    assert refused(desk.connect(token=TOKEN, change=BAD_SIGNATURE))[1] == "DEVICE_AUTH_PUBLIC_KEY_INVALID"
    stolen = make_connect_params(LoginOptions(token=TOKEN, identity=ME), "another nonce", desk.clock.now())
    outcome = desk.feed({"type": "req", "id": "c", "method": "connect", "params": stolen})
    assert refused(outcome) == ("device nonce mismatch", "DEVICE_AUTH_NONCE_MISMATCH", 1008)


@pytest.mark.parametrize("token", ["", " ", "x", TOKEN + "\n", " " + TOKEN, TOKEN.upper(), TOKEN + TOKEN, "x" * 50_000])
def test_only_the_token_itself_opens(token: str) -> None:
    assert refused(Desk().connect(token=token))[1] in ("AUTH_TOKEN_MISMATCH", "AUTH_TOKEN_MISSING")


@pytest.mark.parametrize("token", [None, [], {}, 0, True, [TOKEN]])
def test_a_token_of_another_kind_is_no_token(token: object) -> None:
    outcome = Desk().connect(change={"auth": {"token": token}})
    assert isinstance(outcome, LoginRefusal)


def test_the_shared_token_opens_what_was_asked_and_no_more() -> None:
    outcome = Desk().connect(token=TOKEN, scopes=(READ, "operator.king", "owner", READ))
    assert isinstance(outcome, ClientLogin) and outcome.scopes == (READ,) and outcome.how == "token"
    assert Desk().connect(token=TOKEN, scopes=()).scopes == ()
    ask = {"owner": True, "isOwner": True, "effectiveScopes": [ADMIN]}
    assert Desk().connect(token=TOKEN, scopes=(), change=ask).scopes == ()
    assert Desk().connect(token=TOKEN, identity=None, scopes=(WRITE,)).scopes == (WRITE,)


HEADERS = {
    "X-Forwarded-For": "127.0.0.1",
    "Forwarded": "for=127.0.0.1",
    "X-Real-IP": "127.0.0.1",
    "Tailscale-User-Login": "me",
    "x-openclaw-scopes": ADMIN,
    "x-user": "alice",
}


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1"])
@pytest.mark.parametrize("headers", [{}, HEADERS])
def test_no_address_and_no_header_lets_anyone_in(address: str, headers: dict[str, str]) -> None:
    outcome = Desk().connect(door(address=address, headers=headers))
    assert refused(outcome)[1] == "AUTH_TOKEN_MISSING"


async def enrolled(desk: Desk, who: DeviceIdentity, scopes: tuple[str, ...]) -> str:
    login = desk.connect(token=TOKEN, identity=who, scopes=scopes)
    assert isinstance(login, ClientLogin) and login.enrol is not None
    return (await desk.pairing.enrol(login.enrol))[1]


async def test_a_device_token_opens_what_its_device_was_given() -> None:
    desk = Desk()
    token = await enrolled(desk, ME, (READ, PAIRING))
    for options in ({"token": token}, {"device_token": token}):
        outcome = desk.connect(scopes=(READ,), **options)
        assert isinstance(outcome, ClientLogin) and (outcome.scopes, outcome.how, outcome.enrol) == (
            (READ,),
            "device",
            None,
        )
    wish = desk.connect(device_token=token, scopes=(READ, WRITE))
    assert isinstance(wish, PairingNeeded)
    assert (wish.reason, wish.device.scopes, wish.approved) == ("scope-upgrade", (READ, WRITE), (PAIRING, READ))


async def test_a_device_token_is_worth_nothing_to_another_device_or_without_a_proof() -> None:
    desk = Desk()
    token = await enrolled(desk, ME, (READ,))
    assert refused(desk.connect(token=token, identity=make_identity(b"z" * 32)))[1] == "AUTH_TOKEN_MISMATCH"
    assert refused(desk.connect(token=token, identity=None))[1] == "AUTH_TOKEN_MISMATCH"
    assert refused(desk.connect(token=token, change=BAD_SIGNATURE))[1] == "AUTH_TOKEN_MISMATCH"


async def test_a_blocked_device_must_be_approved_again_whatever_it_brings() -> None:
    desk = Desk()
    token = await enrolled(desk, ME, (ADMIN,))
    await desk.pairing.remove(ME.id, (ADMIN,))
    assert refused(desk.connect(token=token))[1] == "AUTH_TOKEN_MISMATCH"
    wish = desk.connect(token=TOKEN)
    assert isinstance(wish, PairingNeeded) and (wish.reason, wish.approved) == ("not-paired", ())


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_guesses_are_limited_before_anything_is_compared(address: str) -> None:
    desk = Desk()
    seen = [refused(desk.connect(door(address=address), token=f"guess{n}"))[1] for n in range(200)]
    assert seen[:10] == ["AUTH_TOKEN_MISMATCH"] * 10
    assert set(seen[10:]) == {"AUTH_RATE_LIMITED"}
    outcome = desk.connect(token=f"x{TOKEN}")
    assert refused(outcome)[1] == "AUTH_RATE_LIMITED"
    assert isinstance(outcome, LoginRefusal) and outcome.error is not None and outcome.error.retry_after_ms
    assert isinstance(desk.connect(door(address="10.1.1.1"), token=TOKEN), ClientLogin)


async def test_the_guesses_of_others_lock_nobody_out_who_has_a_long_token() -> None:
    """Another user of this machine has the same address. What can be guessed has to wait all the same."""
    desk = Desk()
    token = await enrolled(desk, ME, (ADMIN,))
    desk.gate.holder = desk.pairing.holder
    weak = Desk(auth_mode="password", password=Secret("hunter2"))
    for n in range(20):
        desk.connect(token=f"guess{n}")
        weak.connect(password=f"guess{n}")
    assert refused(desk.connect(token="guess"))[1] == "AUTH_RATE_LIMITED"
    assert isinstance(desk.connect(token=TOKEN), ClientLogin)
    assert isinstance(desk.connect(device_token=token), ClientLogin)
    assert refused(weak.connect(password="hunter2"))[1] == "AUTH_RATE_LIMITED"


async def test_guessing_device_tokens_is_limited_too_and_the_window_passes() -> None:
    desk = Desk()
    for n in range(10):
        desk.connect(device_token=f"guess{n}")
    assert refused(desk.connect(device_token="guess"))[1] == "AUTH_RATE_LIMITED"
    await desk.clock.advance(61)
    assert refused(desk.connect(device_token="guess"))[1] != "AUTH_RATE_LIMITED"
    assert isinstance(desk.connect(token=TOKEN), ClientLogin)


def proxied(**rules: Any) -> Desk:
    base = {"peers": ("10.0.0.0/24",), "user_header": "x-user", "required_headers": ("x-proto",)}
    return Desk(auth_mode="trusted-proxy", proxy=TrustedProxySettings(**{**base, **rules}))


GOOD = {"x-user": "alice", "x-proto": "https"}


@pytest.mark.parametrize(
    ("address", "headers", "rules", "fine"),
    [
        ("10.0.0.7", GOOD, {}, True),
        ("::ffff:10.0.0.7", GOOD, {}, True),
        ("10.0.1.7", GOOD, {}, False),
        ("127.0.0.1", GOOD, {"peers": ("127.0.0.1/32",)}, False),
        ("127.0.0.1", GOOD, {"peers": ("127.0.0.1/32",), "loopback": True}, True),
        ("10.0.0.7", {"x-user": "alice"}, {}, False),
        ("10.0.0.7", {"x-user": " ", "x-proto": "https"}, {}, False),
        ("10.0.0.7", {"x-proto": "https"}, {}, False),
        ("10.0.0.7", GOOD, {"users": ("bob",)}, False),
        ("10.0.0.7", GOOD, {"users": ()}, False),
        ("10.0.0.7", GOOD, {"users": ("alice",)}, True),
        ("?", GOOD, {}, False),
    ],
)
def test_only_the_configured_proxy_names_a_user(
    address: str, headers: dict[str, str], rules: dict[str, Any], fine: bool
) -> None:
    outcome = proxied(**rules).connect(door(address=address, headers=headers), token=TOKEN)
    if fine:
        assert isinstance(outcome, ClientLogin) and (outcome.principal, outcome.how) == ("alice", "proxy")
    else:
        assert refused(outcome)[1] == "AUTH_UNAUTHORIZED"


@pytest.mark.parametrize(
    ("header", "scopes"),
    [("operator.read", ()), ("", ()), ("operator.admin", (ADMIN,)), ("operator.read, operator.write", ())],
)
def test_the_proxy_may_only_lower_scopes(header: str, scopes: tuple[str, ...]) -> None:
    peer = door(address="10.0.0.7", headers={**GOOD, "x-openclaw-scopes": header})
    assert proxied().connect(peer, scopes=(ADMIN,)).scopes == scopes


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from([TOKEN, ADMIN, "operator", 4]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
COVERED = ("client", "role", "scopes", "auth", "device")


@given(st.sampled_from(COVERED), JSON)
@example("scopes", [ADMIN])
@example("device", None)
@hypothesis_settings(deadline=None)
def test_no_change_of_what_was_signed_gets_in(field: str, value: object) -> None:
    """A signed connect for `operator.read` with one field replaced: never more than what was signed for, and never a
    crash. Leaving the device out altogether is a login with the token alone, for the scopes it asked for; the role
    `operator` is what was signed."""
    outcome = Desk().connect(token=TOKEN, scopes=(READ,), change={field: value})
    if isinstance(outcome, ClientLogin):
        assert outcome.scopes == (READ,) and (field, value) in (("device", None), ("role", "operator"))
    else:
        assert isinstance(outcome, LoginRefusal) and outcome.error is not None and outcome.error.message


def test_a_frame_that_is_judged_again_counts_its_wrong_credential_once() -> None:
    desk = Desk()
    params = make_connect_params(LoginOptions(token="guess", identity=ME), NONCE, desk.clock.now())
    frame = json.dumps({"type": "req", "id": "c", "method": "connect", "params": params})
    for _ in range(9):
        login = Handshake(desk.gate, desk.pairing, door(), NONCE)
        for _ in range(2):  # something was taken away meanwhile
            assert refused(login.feed(frame, desk.clock.now()))[1] == "AUTH_TOKEN_MISMATCH"
    assert isinstance(desk.connect(token=TOKEN), ClientLogin)
