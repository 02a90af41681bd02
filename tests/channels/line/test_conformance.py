"""LINE keeps what every channel promises."""

from palinurus.testing.conformance.channel import ChannelSuite
from palinurus.testing.web.line import FakeLine


class TestConformance(ChannelSuite):
    platform = FakeLine
