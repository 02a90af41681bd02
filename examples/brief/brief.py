"""A morning brief: the agent looks at two sources of yours and tells the day in a few lines. Run it from cron.

PAL_MODEL=anthropic/claude-sonnet-4-6 python brief.py      (without it: a rehearsal with a scripted model)
"""

import os

from palinurus import Agent, ToolReach, tool
from palinurus.testing.model import ScriptedModel, call_tools, say

MINE = ToolReach("mine")  # only reads what is yours: nothing to ask about


@tool(effect="pure", reach=MINE)
def calendar(day: str) -> list[str]:
    """What is on a day."""
    return ["09:00 pilot comes aboard", "14:00 call with the yard"]


@tool(effect="pure", reach=MINE)
def weather(place: str) -> str:
    """The forecast of a place."""
    return "rain until noon, wind 4"


REHEARSAL = [
    call_tools(("calendar", {"day": "today"}), ("weather", {"place": "Brest"})),
    say("09:00 the pilot, 14:00 the yard. Rain until noon: take a coat."),
]


def main() -> None:
    model = os.environ.get("PAL_MODEL") or ScriptedModel(REHEARSAL)
    with Agent(model, tools=[calendar, weather], instructions="Three lines at most.") as agent:
        print(agent.run_sync("What is my day like, and what shall I wear in Brest?"))


if __name__ == "__main__":
    main()
