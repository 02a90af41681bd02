"""Microsoft Teams keeps what every channel promises."""

from palinurus.testing.conformance.channel import ChannelSuite
from palinurus.testing.web.msteams import FakeTeams


class TestConformance(ChannelSuite):
    platform = FakeTeams
