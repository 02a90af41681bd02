"""A scenario in Python: for what a list of checks cannot say."""

from room import stock

from palinurus.testing.scenarios.read import scenario


@scenario(tools=[stock], script=[{"call": "stock", "with": {"item": "tar"}}, "None left."], runs=2)
def scenario_says_when_nothing_is_left(agent):
    turn = agent.say("Is there tar?")
    assert turn.tools[0].text == "0"
    assert "None left" in turn.text
