"""Feishu keeps what every channel promises, with sealed and signed events."""

from functools import partial

from channels.feishu.sealing import seal_event
from palinurus.testing.conformance.channel import ChannelSuite
from palinurus.testing.web.feishu import FakeFeishu


class TestConformance(ChannelSuite):
    platform = partial(FakeFeishu, seal_event)
