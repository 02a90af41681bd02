"""Google Chat keeps what every channel promises."""

from palinurus.testing.conformance.channel import ChannelSuite
from palinurus.testing.web.googlechat import FakeGoogleChat


class TestConformance(ChannelSuite):
    platform = FakeGoogleChat
