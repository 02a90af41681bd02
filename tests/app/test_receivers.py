"""Receivers that are looked after: gateway.channel*, channels.*.healthMonitor.enabled, web.*."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import settings, until
from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.core.types.channel import SubmitInbound
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel


class Counting(FakeChannel):
    """Counts how often it is connected; `state` is what it says then, `breaks` how often it fails first."""

    def __init__(self, name: str = "fake", state: Any = "ready", breaks: int = 0) -> None:
        super().__init__(name)
        self.runs, self.state, self.breaks = 0, state, breaks

    async def run(self, submit: SubmitInbound) -> None:
        self.runs += 1
        if self.runs <= self.breaks:
            raise RuntimeError("it broke")
        self.set_status(self.state)
        await asyncio.get_running_loop().create_future()


CHECK = 0.05 / 60  # minutes
ROWS: list[tuple[dict[str, Any], dict[str, Any], str, bool]] = [
    ({"channelHealthCheckMinutes": CHECK}, {}, "reconnecting", True),
    ({"channelHealthCheckMinutes": CHECK}, {}, "ready", False),
    ({"channelHealthCheckMinutes": CHECK, "channelStaleEventThresholdMinutes": CHECK}, {}, "ready", True),
    ({"channelHealthCheckMinutes": CHECK, "channelMaxRestartsPerHour": 0}, {}, "reconnecting", False),
    ({"channelHealthCheckMinutes": CHECK}, {"healthMonitor": {"enabled": False}}, "reconnecting", False),
    ({"channelHealthCheckMinutes": CHECK}, {"accounts": {"a": {"healthMonitor": {"enabled": False}}}}, "failed", False),
    ({}, {}, "reconnecting", False),
]


@pytest.mark.parametrize(("gateway", "own", "state", "again"), ROWS)
async def test_a_channel_that_is_down_is_connected_anew_as_the_config_says(
    tmp_path: Path, gateway: dict[str, Any], own: dict[str, Any], state: str, again: bool
) -> None:
    channel, other = Counting("telegram", state), Counting("irc", "reconnecting")
    changes = {"gateway": gateway, "channels": {"telegram": {"botToken": "t", **own}}}
    mapping = {"telegram": channel, "irc": other}
    app = App(settings(tmp_path / "h", **changes), {}, SystemClock(), model=ScriptedModel([]), channels=mapping)
    await app.start()
    try:
        if again:
            await until(lambda: channel.runs > 1)
        elif gateway.get("channelMaxRestartsPerHour") != 0 and gateway:
            await until(lambda: other.runs > 2)  # the other one was looked at often enough
        else:
            await asyncio.sleep(0.3)
        assert (channel.runs > 1) is again
    finally:
        await app.stop()


@pytest.mark.parametrize(
    ("web", "runs"),
    [
        # the longest wait is also how long a connection must hold to count as one that ran well
        ({"reconnect": {"initialMs": 1, "maxMs": 60_000, "factor": 1, "jitter": 0, "maxAttempts": 3}}, 3),
        ({"reconnect": {"initialMs": 1, "maxMs": 60_000, "factor": 1, "jitter": 0}}, 6),
    ],
)
async def test_whatsapp_is_tried_again_as_the_config_says(
    tmp_path: Path, web: dict[str, Any], runs: int, caplog: pytest.LogCaptureFixture
) -> None:
    channel = Counting("whatsapp", breaks=5)
    loaded = settings(tmp_path / "h", web=web, channels={"whatsapp": {"enabled": True}})
    app = App(loaded, {}, SystemClock(), model=ScriptedModel([]), channels={"whatsapp": channel})
    with caplog.at_level(logging.ERROR):
        await app.start()
        try:
            await until(lambda: "it is left alone" in caplog.text or channel.status().state == "ready")
        finally:
            await app.stop()
    assert channel.runs == runs


def test_waits_grow_by_the_factor_up_to_the_longest(tmp_path: Path) -> None:
    web = {"reconnect": {"initialMs": 2000, "maxMs": 9000, "factor": 1.5, "jitter": 0.5}}
    made = settings(tmp_path / "h", web=web, channels={"whatsapp": {"enabled": True}})
    rules = made.accounts["whatsapp"]["default"].reconnect
    assert [rules.wait(attempt, 0.5) for attempt in (1, 2, 3, 9)] == [2.0, 3.0, 4.5, 9.0]
    assert rules.wait(1, 0.0) == 1.0 and rules.wait(1, 0.999) == pytest.approx(3.0, abs=0.01)


def test_web_enabled_false_leaves_whatsapp_out(tmp_path: Path) -> None:
    made = settings(tmp_path / "h", web={"enabled": False}, channels={"whatsapp": {"enabled": True}, "irc": {}})
    assert set(made.channels) == set(made.accounts) == {"irc"}
