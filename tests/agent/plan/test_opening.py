"""What the options of a turn that nobody wrote for do, and that nobody else's have that power."""

from __future__ import annotations

import msgspec

from palinurus.agent.plan.offer import ToolOffer, restrict_tools
from palinurus.agent.plan.opening import limit_timeout, prepend_preface
from palinurus.agent.plan.runplan import RunLimits
from palinurus.core.types.inbound import InlineDirectives, TurnOptions
from palinurus.core.types.messages import UserMessage
from support import inbound, tool

HIGH = InlineDirectives(thinking="high")
JOB = TurnOptions(trigger="cron", timeout_seconds=5, tools_allow=("a", "nothing"), inline=HIGH)


def test_limits_tools_and_directives_of_a_job() -> None:
    message = inbound("x", system=True, options=JOB)
    assert message.triggered
    assert limit_timeout(RunLimits(timeout=100), JOB).timeout == 5
    assert limit_timeout(RunLimits(timeout=3), JOB).timeout == 3
    tools = {name: tool(name) for name in "ab"}
    offer = ToolOffer(tools, tuple(t.spec for t in tools.values()), {})
    assert list(restrict_tools(offer, JOB).tools) == ["a"] and [s.name for s in restrict_tools(offer, JOB).specs] == [
        "a"
    ]


def test_a_persons_message_cannot_ask_for_that() -> None:
    asked = msgspec.structs.replace(JOB, trigger="")
    message = inbound("x", options=JOB)
    assert not message.triggered
    assert limit_timeout(RunLimits(timeout=100), asked).timeout == 100
    offer = ToolOffer({"b": tool("b")}, (), {})
    assert restrict_tools(offer, asked) is offer


def test_what_is_told_goes_before_the_message_with_its_source() -> None:
    (opened,) = prepend_preface((UserMessage("hi", 1, "member x"),), "System: tea", "session")
    assert (
        isinstance(opened, UserMessage) and opened.text == "System: tea\n\nhi" and opened.source == "session\nmember x"
    )
    plain = (UserMessage("hi"),)
    assert prepend_preface(plain, "") is plain and prepend_preface((), "x") == ()
    assert msgspec.json.encode(opened)
