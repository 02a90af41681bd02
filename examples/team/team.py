"""A bot for a team with a budget: everybody has a session, all of them together a hard limit for the day.

Beyond it no model is asked, and whoever writes is told why. The same keys stand in a gateway's config.
"""

import os

from palinurus import Agent
from palinurus.testing.model import ScriptedModel, say

CONFIG = {"budgets": {"day": {"softTokens": 40_000, "hardTokens": int(os.environ.get("TOKENS", "60000"))}}}
PEOPLE = {"ann": "What is on today?", "bob": "And tomorrow?"}


def main() -> None:
    model = os.environ.get("PAL_MODEL") or ScriptedModel([say("The yard at nine.")], repeat=True)
    with Agent(model, config=CONFIG) as agent:
        for name, text in PEOPLE.items():
            answer = agent.run_sync(text, session=name)
            print(f"{name}: {answer.text or answer.error}  [{answer.outcome}]")


if __name__ == "__main__":
    main()
