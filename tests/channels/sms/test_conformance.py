"""SMS keeps what every channel promises."""

from palinurus.testing.conformance.channel import ChannelSuite
from palinurus.testing.web.sms import FakeTwilio


class TestConformance(ChannelSuite):
    platform = FakeTwilio
