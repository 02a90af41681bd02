"""Nextcloud Talk keeps what every channel promises."""

from palinurus.testing.conformance.channel import ChannelSuite
from palinurus.testing.web.nextcloud import FakeNextcloud


class TestConformance(ChannelSuite):
    platform = FakeNextcloud
