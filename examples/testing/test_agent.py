"""The same with pytest: the fixtures come with the package."""

import pytest

from palinurus import tool


@tool(effect="pure")
def stock(item: str) -> int:
    """How many of an item are in the store room."""
    return {"rope": 4}.get(item, 0)


def test_it_keeps_a_note(agent, assert_tools, assert_no_sink, assert_prefix_stable):
    agent.say("write notes.txt with buy milk")
    assert_tools(("write", {"path": "notes.txt"}))
    assert "buy milk" in agent.say("read notes.txt").text
    assert_tools("read")
    assert_no_sink()
    assert_prefix_stable()


@pytest.mark.agent(tools=[stock], script=[{"call": "stock", "with": {"item": "rope"}}, "There are 4."])
def test_it_counts(agent, assert_tools):
    assert agent.say("How many ropes?").text == "There are 4."
    assert_tools(("stock", {"item": "rope"}))


def test_what_was_recorded(agent, cassette):
    """cassettes/test_agent-test_what_was_recorded.jsonl answers: no model is asked."""
    assert "harbour" in agent.say("write words.txt with harbour").text
