"""Slack keeps what every channel promises."""

from palinurus.testing.conformance.channel import ChannelSuite
from palinurus.testing.slack.server import FakeSlack


class TestConformance(ChannelSuite):
    platform = FakeSlack
