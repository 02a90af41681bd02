"""What the options of a turn that nobody wrote for do, and that nobody else's have that power."""

from __future__ import annotations

import msgspec

from palinurus.agent.offer import Offer
from palinurus.agent.plan import Limits
from palinurus.agent.trigger import directives, limited, only, prefaced, triggered
from palinurus.core.types.messages import UserMessage
from palinurus.triggers.events import Told
from support import inbound, tool

JOB = {"trigger": "cron", "timeoutSeconds": 5, "toolsAllow": ["a", "nothing"], "inline": {"thinking": "high"}}


def test_limits_tools_and_directives_of_a_job() -> None:
    message = inbound("x", system=True, options=JOB)
    assert triggered(message) and directives(message) == {"thinking": "high"}
    assert limited(Limits(timeout=100), JOB).timeout == 5
    assert limited(Limits(timeout=3), JOB).timeout == 3
    tools = {name: tool(name) for name in "ab"}
    offer = Offer(tools, tuple(t.spec for t in tools.values()), {}, None)  # type: ignore[arg-type]
    assert list(only(offer, JOB).tools) == ["a"] and [s.name for s in only(offer, JOB).specs] == ["a"]


def test_a_persons_message_cannot_ask_for_that() -> None:
    asked = {key: value for key, value in JOB.items() if key != "trigger"}
    message = inbound("x", options=JOB)
    assert not triggered(message) and directives(message) == {}
    assert limited(Limits(timeout=100), asked).timeout == 100
    offer = Offer({"b": tool("b")}, (), {}, None)  # type: ignore[arg-type]
    assert only(offer, asked) is offer


def test_what_is_told_goes_before_the_message_with_its_source() -> None:
    (opened,) = prefaced((UserMessage("hi", 1, "member x"),), Told("System: tea", "session"))
    assert (
        isinstance(opened, UserMessage) and opened.text == "System: tea\n\nhi" and opened.source == "session, member x"
    )
    plain = (UserMessage("hi"),)
    assert prefaced(plain, Told()) is plain and prefaced((), Told("x")) == ()
    assert msgspec.json.encode(opened)
