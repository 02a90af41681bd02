from __future__ import annotations

from palinurus.testing.conformance.channel import ChannelSuite
from palinurus.testing.mail import FakeMail


class TestConformance(ChannelSuite):
    platform = FakeMail


class TestOldServer(ChannelSuite):
    """Without IDLE, and without copies of what is sent."""

    @staticmethod
    def platform() -> FakeMail:
        return FakeMail(idle=False, keeps=False)
