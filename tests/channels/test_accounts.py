"""Several accounts of one channel: each message goes out on the one it names."""

from __future__ import annotations

import pytest

from palinurus.channels.accounts import AccountsChannel
from palinurus.clock import SystemClock
from palinurus.core.types.channel import ReactAction, SendFailure, SendReceipt
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.testing.channel import FakeChannel


@pytest.mark.parametrize(
    ("names", "account", "at"),
    [
        (("home", "work"), "work", 1),
        (("home", "work"), "default", 0),  # none was named
        (("home", "default"), "default", 1),
        (("home", "work"), "gone", None),
    ],
)
async def test_who_sends(names: tuple[str, ...], account: str, at: int | None) -> None:
    every = {name: FakeChannel("fake") for name in names}
    both = AccountsChannel("fake", every, SystemClock())
    reply = Reply(Target("fake", "1", account), "hi", "c")
    sent, acted = await both.send(reply), await both.act(reply.target, ReactAction("1", "x"))
    texts = [len(one.seen) for one in every.values()]
    if at is None:
        assert isinstance(sent, SendFailure) and isinstance(acted, SendFailure) and sent.trouble == "refused"
        assert texts == [0, 0] and await both.find(reply) is None
        return
    assert texts == [int(n == at) for n in range(2)] and [len(one.acts) for one in every.values()] == texts
    assert isinstance(sent, SendReceipt) and await both.find(reply) == sent
