"""Matrix keeps what every channel promises."""

from palinurus.testing.conformance.channel import ChannelSuite
from palinurus.testing.matrix.sealed import FakeSealedMatrix
from palinurus.testing.matrix.server import FakeMatrix


class TestConformance(ChannelSuite):
    platform = FakeMatrix


class TestEncryptedConformance(ChannelSuite):
    platform = FakeSealedMatrix
