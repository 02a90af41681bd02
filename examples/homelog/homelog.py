"""A log of the house that can be asked: what is said is a line in a file, and answers come from that file.

The session lives in a home of its own, so that tomorrow's question knows today's.
"""

import os
import sys
import time
from pathlib import Path

from palinurus import Agent, ToolReach, tool
from palinurus.testing.model import ScriptedModel, call_tools, say

HOME = Path(os.environ.get("HOMELOG", "homelog"))
LOG = HOME / "log.txt"
MINE = ToolReach("mine", undo=True)


@tool(reach=MINE)
def note(line: str) -> str:
    """Write a line into the log, with the time."""
    with LOG.open("a", encoding="utf-8") as file:
        file.write(f"{time.strftime('%Y-%m-%d')} {line}\n")
    return "noted"


@tool(effect="pure", reach=MINE)
def look(word: str) -> str:
    """The lines of the log with a word in them."""
    lines = LOG.read_text(encoding="utf-8").splitlines() if LOG.is_file() else []
    return "\n".join(line for line in lines if word.lower() in line.lower()) or "nothing"


REHEARSAL = [
    call_tools(("note", {"line": "changed the filter of the boiler"})),
    say("Noted."),
    call_tools(("look", {"word": "filter"})),
    say("Today."),
]


def main() -> None:
    HOME.mkdir(exist_ok=True)
    said = sys.argv[1:] or ["I changed the boiler's filter", "When did I change the filter?"]
    with Agent(os.environ.get("PAL_MODEL") or ScriptedModel(REHEARSAL), tools=[note, look], home=HOME / "pal") as agent:
        for text in said:
            print(f"> {text}\n{agent.run_sync(text)}")


if __name__ == "__main__":
    main()
