"""The channel keeps the port's promises, against a fake that speaks Discord's REST API and gateway."""

from __future__ import annotations

from palinurus.testing.conformance.channel import ChannelSuite
from palinurus.testing.discord.server import FakeDiscord


class TestConformance(ChannelSuite):
    platform = FakeDiscord
