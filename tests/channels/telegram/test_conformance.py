"""Telegram keeps the promises of every channel."""

from __future__ import annotations

from palinurus.testing.conformance.channel import ChannelSuite
from palinurus.testing.telegram.server import FakeTelegram


class TestConformance(ChannelSuite):
    platform = FakeTelegram
