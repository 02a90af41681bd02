from typing import Any

import pytest

from configs import read_settings
from palinurus.config.findings import ConfigFinding
from palinurus.config.sections.gateway import (
    GatewaySettings,
    choose_tailnet_address,
    is_loopback,
    list_own_addresses,
)
from palinurus.config.sections.tools import UNLIMITED

CANARY = "canary-6931471"
TOKEN = "until that is put right a token is asked for, as with 'token'"


def made(section: dict[str, Any], environ: dict[str, str] | None = None) -> tuple[GatewaySettings, list[ConfigFinding]]:
    settings, findings = read_settings({"gateway": section}, environ)
    return settings.gateway, findings


def test_nothing_configured_is_a_token_on_loopback() -> None:
    settings, findings = made({})
    assert settings == GatewaySettings()
    assert (settings.bind, settings.auth_mode, findings) == ("127.0.0.1", "token", [])


@pytest.mark.parametrize(
    ("section", "bind"),
    [
        ({"bind": "loopback"}, "127.0.0.1"),
        ({"bind": "lan"}, "0.0.0.0"),
        ({"bind": "auto"}, "127.0.0.1"),
        ({"bind": "custom", "customBindHost": "10.0.0.5"}, "10.0.0.5"),
        ({"bind": "custom", "customBindHost": "pal.example.org"}, "pal.example.org"),
        ({"bind": "192.168.1.5"}, "192.168.1.5"),
        ({"bind": "::1"}, "::1"),
        ({"bind": "localhost"}, "localhost"),
    ],
)
def test_bind(section: dict[str, Any], bind: str) -> None:
    settings, findings = made(section)
    assert (settings.bind, findings) == (bind, [])


@pytest.mark.parametrize(
    ("section", "path", "hint"),
    [
        ({"bind": "lann"}, ("gateway", "bind"), "did you mean 'lan'?"),
        ({"bind": "custom"}, ("gateway", "bind"), "name the address to listen on"),
        ({"bind": "custom", "customBindHost": "a b"}, ("gateway", "customBindHost"), ""),
        ({"bind": "tailnet"}, ("gateway", "bind"), "is Tailscale up? then start it again"),
        ({"auth": {"mode": "password"}}, ("gateway", "auth", "mode"), TOKEN),
        ({"auth": {"mode": "trusted-proxy"}}, ("gateway", "auth", "mode"), TOKEN),
        ({"auth": {"token": "a", "password": "b"}}, ("gateway", "auth"), "say which with gateway.auth.mode"),
        (
            {"bind": "lan", "auth": {"mode": "none"}},
            ("gateway", "auth", "mode"),
            TOKEN,
        ),
        (
            {"controlUi": {"allowedOrigins": ["https://a.b", "a.b/c"]}},
            ("gateway", "controlUi", "allowedOrigins", 1),
            "write scheme and host, such as https://pal.example.org",
        ),
        (
            {"auth": {"token": {"source": "exec", "id": "x"}}},
            ("gateway", "auth", "token"),
            "",
        ),
        (
            {"auth": {"token": {"source": "env", "id": "MY_TOKN"}}},
            ("gateway", "auth", "token"),
            "did you mean 'MY_TOKEN'?",
        ),
    ],
)
def test_what_is_refused(section: dict[str, Any], path: tuple[str | int, ...], hint: str) -> None:
    _, findings = made(section, {"MY_TOKEN": CANARY})
    assert [(f.path, f.hint, f.fatal) for f in findings] == [(path, hint, True)]
    assert CANARY not in repr(findings)


def test_no_authentication_is_for_this_machine_only() -> None:
    settings, findings = made({"auth": {"mode": "none"}})
    assert (settings.auth_mode, findings) == ("none", [])


@pytest.mark.parametrize(
    ("auth", "environ", "expected"),
    [
        ({"token": "t"}, {}, ("token", "t", "")),
        ({"password": "p"}, {}, ("password", "", "p")),
        ({"mode": "password", "token": "t", "password": "p"}, {}, ("password", "t", "p")),
        ({}, {"PALINURUS_GATEWAY_TOKEN": "e"}, ("token", "e", "")),
        ({"token": "t"}, {"PALINURUS_GATEWAY_TOKEN": "e"}, ("token", "t", "")),
        ({}, {"PALINURUS_GATEWAY_PASSWORD": "e"}, ("password", "", "e")),
        ({"token": {"source": "env", "id": "X"}}, {"X": "x"}, ("token", "x", "")),
    ],
)
def test_auth(auth: dict[str, Any], environ: dict[str, str], expected: tuple[str, str, str]) -> None:
    settings, findings = made({"auth": auth}, environ)
    assert (settings.auth_mode, settings.token.reveal(), settings.password.reveal()) == expected
    assert findings == []


def test_origins_name_hosts() -> None:
    origins = ["https://Pal.Example.org", "http://10.0.0.5:8080/", "http://[::1]:1"]
    settings, findings = made({"controlUi": {"allowedOrigins": origins}})
    assert settings.allowed_origins == ("https://pal.example.org", "http://10.0.0.5:8080", "http://[::1]:1")
    assert settings.allowed_hosts == ("pal.example.org", "10.0.0.5", "::1")
    assert findings == []


def test_chat_completions_can_be_switched_off() -> None:
    assert made({})[0].chat_completions
    assert not made({"http": {"endpoints": {"chatCompletions": {"enabled": False}}}})[0].chat_completions


@pytest.mark.parametrize(
    ("address", "expected"), [("127.0.0.1", True), ("::1", True), ("0.0.0.0", False), ("::", False)]
)
def test_loopback(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected


def test_the_address_that_tailscale_gave_is_found_among_those_of_the_machine() -> None:
    assert "127.0.0.1" in list_own_addresses()
    assert choose_tailnet_address(["127.0.0.1", "10.0.0.7", "100.101.102.103"]) == "100.101.102.103"
    assert choose_tailnet_address(["100.63.0.1", "100.128.0.1"]) == ""


@pytest.mark.parametrize(("written", "seconds"), [(1500, 1.5), (0, UNLIMITED)])
def test_a_restart_waits_for_turns_and_zero_is_without_end(written: int, seconds: float) -> None:
    settings, _ = read_settings({"gateway": {"reload": {"deferralTimeoutMs": written}}})
    assert settings.gateway.deferral == seconds
