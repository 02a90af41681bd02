"""`pal channels`: what it writes into the config, and what it asks a running gateway."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.methods.test_channels import place
from palinurus import channels
from palinurus.channels.kit import ChannelKit
from palinurus.cli.channels import NEEDS, run_channels
from palinurus.config.load import load_config
from palinurus.errors import BadRequest, GatewayUnreachable, NotFound
from palinurus.testing.channel import FakeChannel

Printed = Callable[[], str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path / "h"))
    monkeypatch.delenv("TELEGRAM_BOT_TOKEN", raising=False)
    (tmp_path / "h").mkdir()
    (tmp_path / "h" / "palinurus.json").write_text('{ // mine\n  "gateway": {"port": 1} }')
    return tmp_path / "h"


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    return lambda: capsys.readouterr().out


def written(home: Path) -> dict[str, Any]:
    return dict(load_config(str(home), {"TELEGRAM_BOT_TOKEN": "x"}).raw.get("channels") or {})


def test_values_are_written_as_what_they_are(home: Path) -> None:
    """W14: everything was written as text, and then passed over in silence."""
    typed = ["port=20530", "tls=false", 'channels=["#den"]', "host=127.0.0.1", "nick=bot", "historyLimit=3"]
    typed.append('allowFrom=["ann"]')
    assert run_channels(["add", "irc", *(word for one in typed for word in ("--set", one))]) == 0
    assert written(home)["irc"] == {
        "port": 20530, "tls": False, "channels": ["#den"], "host": "127.0.0.1", "nick": "bot", "historyLimit": 3,
        "allowFrom": ["ann"], "enabled": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("prt=1", "did you mean 'port'?"),
        ("nonsense=1", "it has "),
        ("port=abc", "a number"),
        ("tls=maybe", "true or false"),
        ("dmPolicy=maybe", "pairing"),
        ("historyLimit=many", "historyLimit"),
    ],
)
def test_what_would_be_passed_over_is_refused(home: Path, typed: str, told: str) -> None:
    with pytest.raises(BadRequest) as refused:
        run_channels(["add", "irc", "--set", "host=h", "--set", "nick=n", "--set", typed])
    assert told in f"{refused.value.message} {refused.value.fix}" and written(home) == {}


def test_adding_and_removing(home: Path, printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_channels([]) == 0 and "no channels yet" in printed()
    assert run_channels(["add", "telegram", "--set", "botToken=123:abc"]) == 0
    assert "123:abc" not in printed()
    file = home / "palinurus.json"
    assert written(home) == {"telegram": {"botToken": "123:abc", "enabled": True}}
    assert "// mine" in file.read_text() and file.stat().st_mode & 0o077 == 0
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", "456:def")
    assert run_channels(["add", "telegram", "--account", "work", "--use-env"]) == 0
    assert written(home)["telegram"]["accounts"] == {"default": {}, "work": {"botToken": "${TELEGRAM_BOT_TOKEN}"}}
    assert "456:def" not in file.read_text()
    by = load_config(str(home), {"TELEGRAM_BOT_TOKEN": "456:def"}).settings.accounts["telegram"]
    assert {name: one.own["botToken"].reveal() for name, one in by.items()} == {"default": "123:abc", "work": "456:def"}
    printed()
    assert run_channels(["list"]) == 0
    assert printed().splitlines() == [f"telegram/{a}  dm pairing, groups allowlist" for a in ("default", "work")]
    assert run_channels(["remove", "telegram", "--account", "work"]) == 0
    assert written(home)["telegram"]["accounts"]["work"]["enabled"] is False
    assert run_channels(["remove", "telegram", "--delete"]) == 0 and written(home) == {}
    printed()
    assert run_channels(["list", "--all"]) == 0
    assert all(f"{name}  not set up" in shown for shown in [printed()] for name in channels.CHANNELS)


def test_what_is_wrong_is_said_and_nothing_is_written(home: Path) -> None:
    before = (home / "palinurus.json").read_text()
    for argv, error in (
        (["add", "telegram"], BadRequest),  # nobody to ask
        (["add", "telegram", "--use-env"], BadRequest),
        (["add", "telegram", "--set", "botToken"], BadRequest),
        (["add", "telegram", "--account", "a.b", "--set", "botToken=x"], BadRequest),
        (["add", "carrier-pigeon"], NotFound),
        (["remove", "telegram"], NotFound),
        (["login", "telegram"], BadRequest),
        (["test", "telegram", "5"], GatewayUnreachable),
        (["fly"], BadRequest),
    ):
        with pytest.raises(error):
            run_channels(argv)
    assert (home / "palinurus.json").read_text() == before


def test_every_channel_that_needs_something_says_what() -> None:
    assert set(NEEDS) <= set(channels.CHANNELS)
    assert all(need.key and need.about for needs in NEEDS.values() for need in needs)


def test_add_alone_says_what_there_is(home: Path, printed: Printed) -> None:
    assert run_channels(["add"]) == 0
    shown = printed()
    assert "telegram        the token that @BotFather gave" in shown and "pal channels add NAME" in shown
    assert [line.split()[0] for line in shown.splitlines()[:-1]] == sorted(channels.CHANNELS)


def test_without_a_gateway_no_channel_runs(home: Path, printed: Printed) -> None:
    with pytest.raises(GatewayUnreachable):
        run_channels(["status", "--json"])


async def login(kit: ChannelKit, show: Callable[[str], None]) -> str:
    await kit.memo.put("a", b"b")
    show(f"scan this, {kit.account}: {await kit.memo.get('a') == b'b'}")
    return ""


async def logout(kit: ChannelKit) -> str:
    return f"{kit.settings.channel} would not let go"


async def test_beside_a_gateway(tmp_path: Path, printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = FakeChannel()
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path / "h"))
    monkeypatch.setitem(channels.LOGINS, "fake", "cli.test_channels:login")
    monkeypatch.setitem(channels.LOGOUTS, "fake", "cli.test_channels:logout")
    async with place(tmp_path / "h", channel) as here:
        channel.set_status("ready", me="@pal\x1b[2J")
        assert await asyncio.to_thread(run_channels, ["status"]) == 0
        shown = printed()
        assert "fake/default  ready as @pal" in shown and "\x1b" not in shown
        assert await asyncio.to_thread(run_channels, ["status", "--json"]) == 0
        assert json.loads(printed())["channelOrder"] == ["fake"]
        assert await asyncio.to_thread(run_channels, ["test", "fake", "chat", "--text", "ahoy"]) == 0
        assert "receipt: fake-1" in printed() and channel.texts == ["ahoy"]
        assert await asyncio.to_thread(run_channels, ["test", "fake", "chat", "--json"]) == 0
        assert json.loads(printed())["state"] == "sent"
        channel.faults = ["refused"]
        assert await asyncio.to_thread(run_channels, ["test", "fake", "nowhere"]) == 1
        assert "does not exist" in printed()
        assert await asyncio.to_thread(run_channels, ["login", "fake"]) == 0
        assert "scan this, default: True" in printed()
        assert here.app.receivers.all()[0].running
        assert await asyncio.to_thread(run_channels, ["logout", "fake"]) == 1
        assert "would not let go" in printed()
        channel.set_status("signed_out", "sign in again")
        assert await asyncio.to_thread(run_channels, ["status"]) == 1 and "sign in again" in printed()
        assert await asyncio.to_thread(run_channels, ["status", "--json"]) == 1 and "sign in again" in printed()
        with pytest.raises(NotFound, match="no channel"):
            await asyncio.to_thread(run_channels, ["test", "other", "x"])
