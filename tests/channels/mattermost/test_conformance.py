"""Mattermost keeps what every channel promises."""

from palinurus.testing.conformance.channel import ChannelSuite
from palinurus.testing.web.mattermost import FakeMattermost


class TestConformance(ChannelSuite):
    platform = FakeMattermost
