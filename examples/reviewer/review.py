"""Reviews what is staged in a git repository. The diff is content, not an order: it comes through a reading tool.

git add -p && python review.py      exit code 1 when something should be mended first: fits a pre-commit hook
"""

import json
import os
import subprocess
import sys

from palinurus import Agent, ToolReach, tool
from palinurus.testing.model import ScriptedModel, call_tools, say

ASK = (
    "Review the staged change. Answer with a JSON list and nothing else: "
    '[{"file": …, "line": …, "problem": …}], [] if there is nothing to mend.'
)


@tool(effect="pure", reach=ToolReach("mine"))
def staged() -> str:
    """The staged change as a diff."""
    done = subprocess.run(["git", "diff", "--staged"], capture_output=True, text=True, check=False)
    return done.stdout[:60_000] or "nothing is staged"


REHEARSAL = [
    call_tools(("staged", {})),
    say('[{"file": "boat.py", "line": 2, "problem": "the file is never closed"}]'),
]


def main() -> int:
    model = os.environ.get("PAL_MODEL") or ScriptedModel(REHEARSAL)
    with Agent(model, tools=[staged]) as agent:
        found = json.loads(agent.run_sync(ASK).text)
    for row in found:
        print(f"{row['file']}:{row['line']}: {row['problem']}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
