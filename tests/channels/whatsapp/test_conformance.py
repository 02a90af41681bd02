from __future__ import annotations

from palinurus.testing.conformance.channel import ChannelSuite
from palinurus.testing.whatsapp import FakeWhatsApp


class TestConformance(ChannelSuite):
    platform = FakeWhatsApp
