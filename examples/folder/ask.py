"""Answers from a folder of texts, with its sources: retrieval in thirty lines, no vectors, no server.

python ask.py FOLDER "question"
"""

import math
import os
import re
import sys
from collections import Counter
from pathlib import Path

from palinurus import Agent, ToolReach, tool
from palinurus.testing.model import ScriptedModel, call_tools, say

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("texts"))
PIECES = {
    f"{file.name}:{at}": piece
    for file in sorted(FOLDER.glob("*.md"))
    for at, piece in enumerate(file.read_text(encoding="utf-8").split("\n\n"))
}
WORDS = {name: Counter(re.findall(r"\w+", piece.lower())) for name, piece in PIECES.items()}
SEEN = Counter(word for words in WORDS.values() for word in words)


@tool(effect="pure", reach=ToolReach("mine"))
def search(question: str) -> dict[str, str]:
    """The pieces of the folder that fit best, by name."""
    asked = re.findall(r"\w+", question.lower())
    score = {
        name: sum(words[w] * math.log(1 + len(WORDS) / SEEN[w]) for w in asked if w in words)
        for name, words in WORDS.items()
    }
    best = sorted((name for name in score if score[name] > 0), key=lambda name: -score[name])[:4]
    return {name: PIECES[name] for name in best}


REHEARSAL = [
    call_tools(("search", {"question": "when is high water in Brest"})),
    say("At 06:40 (tides.md:1)."),
]


def main() -> None:
    question = sys.argv[2] if len(sys.argv) > 2 else "When is high water in Brest?"
    model = os.environ.get("PAL_MODEL") or ScriptedModel(REHEARSAL)
    told = "Answer from what `search` finds alone, and name the pieces."
    with Agent(model, tools=[search], instructions=told) as agent:
        print(agent.run_sync(question))


if __name__ == "__main__":
    main()
