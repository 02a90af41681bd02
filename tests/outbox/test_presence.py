"""Typing and reactions: when they begin, when they end, and that they harm nobody."""

from __future__ import annotations

import pytest

from palinurus.config.forms import Typing
from palinurus.config.sections.delivery import AckScope, PresenceSettings
from palinurus.core.types.channel import ChannelAbilities, ReactAction, TypingAction
from palinurus.core.types.events import AgentEnd, MessageUpdate
from palinurus.core.types.inbound import ChatKind, Inbound
from palinurus.core.types.usage import TokenUsage
from palinurus.outbox.presence import LONGEST, RunPresence, choose_typing_mode, wants_acknowledgement
from palinurus.tasks import TaskSet
from palinurus.testing.channel import FakeChannel
from palinurus.testing.clock import FakeClock
from support import inbound

ABLE = ChannelAbilities(acts=frozenset(("typing", "react")), typing=5.0)
END = AgentEnd((), "stop", TokenUsage())


def message(kind: ChatKind = "direct", *, mentioned: bool = False, pressed: str = "") -> Inbound:
    return inbound(event="e1", kind=kind, mentioned=mentioned, pressed=pressed)


class Scene:
    def __init__(
        self, said: Inbound, settings: PresenceSettings = PresenceSettings(), able: ChannelAbilities = ABLE
    ) -> None:
        self.channel, self.clock, self.helpers = FakeChannel(abilities=able), FakeClock(), TaskSet("a sign of life")
        self.presence = RunPresence(self.channel, said, settings, self.clock, self.helpers)

    @property
    def typed(self) -> int:
        return sum(isinstance(act, TypingAction) for _, act in self.channel.acts)

    @property
    def reactions(self) -> list[ReactAction]:
        return [act for _, act in self.channel.acts if isinstance(act, ReactAction)]


async def test_typing_goes_on_as_long_as_the_run() -> None:
    scene = Scene(message())
    await scene.clock.advance(0)
    assert scene.typed == 1
    await scene.clock.advance(10)
    assert scene.typed == 3  # every five seconds: that long it lasts there
    scene.presence.feed(END)
    await scene.clock.advance(20)
    assert scene.typed == 3


async def test_a_run_that_never_ends_does_not_type_for_ever() -> None:
    scene = Scene(message())
    await scene.clock.advance(LONGEST + 100)
    count = scene.typed
    await scene.clock.advance(100)
    assert scene.typed == count


@pytest.mark.parametrize(
    ("mode", "thought", "said"),
    [("instant", 1, 1), ("message", 0, 1), ("thinking", 1, 1), ("never", 0, 0)],
)
async def test_when_typing_begins(mode: Typing, thought: int, said: int) -> None:
    scene = Scene(message(), PresenceSettings(typing=mode))
    scene.presence.feed(MessageUpdate("hm", "thinking"))
    await scene.clock.advance(0)
    assert scene.typed == thought
    scene.presence.feed(MessageUpdate("yes"))
    await scene.clock.advance(0)
    assert scene.typed == said


def test_groups_in_which_nobody_asked_see_typing_with_the_first_word() -> None:
    assert choose_typing_mode(message(), None) == "instant"
    assert choose_typing_mode(message("group", mentioned=True), None) == "instant"
    assert choose_typing_mode(message("group"), None) == "message"
    assert choose_typing_mode(message("group"), "never") == "never"


@pytest.mark.parametrize(
    ("scope", "direct", "group", "mention"),
    [
        ("all", True, True, True),
        ("direct", True, False, False),
        ("group-all", False, True, True),
        ("group-mentions", False, False, True),
        ("off", False, False, False),
    ],
)
def test_which_messages_get_a_reaction(scope: AckScope, direct: bool, group: bool, mention: bool) -> None:
    settings = PresenceSettings(scope=scope)
    found = [
        wants_acknowledgement(m, settings) for m in (message(), message("group"), message("group", mentioned=True))
    ]
    assert found == [direct, group, mention]
    assert not wants_acknowledgement(message(pressed="m"), PresenceSettings(scope="all"))
    assert not wants_acknowledgement(message(), PresenceSettings(ack="", scope="all"))


async def test_the_reaction_stays_unless_it_is_to_go() -> None:
    for remove, expected in (
        (False, [ReactAction("e1", "👀")]),
        (True, [ReactAction("e1", "👀"), ReactAction("e1", "👀", True)]),
    ):
        scene = Scene(message(), PresenceSettings(scope="all", remove=remove))
        await scene.clock.advance(0)
        scene.presence.close()
        await scene.clock.advance(0)
        assert scene.reactions == expected
        await scene.helpers.close()


async def test_a_channel_that_can_do_neither_is_not_asked() -> None:
    scene = Scene(message(), PresenceSettings(scope="all"), ChannelAbilities())
    scene.presence.feed(MessageUpdate("x"))
    scene.presence.close()
    await scene.clock.advance(10)
    assert scene.channel.acts == []


async def test_what_goes_wrong_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    helpers = TaskSet("a sign of life")

    async def breaks() -> None:
        raise RuntimeError("broken")

    helpers.start(breaks())
    await helpers.settle()
    assert "a sign of life failed" in caplog.text
