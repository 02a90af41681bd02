"""Matrix keeps what every channel promises."""

from palinurus.testing.conformance.channel import ChannelSuite
from palinurus.testing.matrix.server import FakeMatrix


class TestConformance(ChannelSuite):
    platform = FakeMatrix
