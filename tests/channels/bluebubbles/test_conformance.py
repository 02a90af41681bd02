"""iMessage through BlueBubbles keeps what every channel promises."""

from palinurus.testing.conformance.channel import ChannelSuite
from palinurus.testing.web.bluebubbles import FakeBlueBubbles


class TestConformance(ChannelSuite):
    platform = FakeBlueBubbles
