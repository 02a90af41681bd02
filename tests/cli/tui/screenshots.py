"""The pictures of docs/chat.md: `PYTHONPATH=tests python tests/cli/tui/screenshots.py docs/chat`."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from pathlib import Path

from cli.tui.screen import seat
from palinurus.testing.model import ScriptedModel, call_tools, say

ANSWER = """The suite is green again. What was wrong:

1. `tick()` was called **twice** when the timer fired late.
2. The second call saw an empty queue.

```python
def tick(queue: list[int]) -> int | None:
    return queue.pop() if queue else None
```

| before | after |
|---|---|
| 3 failed | 12 passed |
"""
THINKER = {
    "models": {
        "providers": {
            "fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m", "reasoning": True}]}
        }
    }
}


async def main(folder: Path) -> None:
    """Draw them all."""
    tests = call_tools(
        ("exec", {"command": "echo '9 passed'; echo '12 passed in 0.41s'"}), text="I run the tests first."
    )
    model = ScriptedModel([tests, say(ANSWER, thinking="The timer may be late.")])
    with tempfile.TemporaryDirectory() as home:
        async with seat(Path(home), model, size=(80, 32), **THINKER) as here:
            await here.type("fix the flaky test, please")
            await here.until(lambda: len(here.said("words")) == 2 and not here.chat.remote.talk.run)
            await here.pilot.pause(0.5)
            drawn = here.chat.export_screenshot(title="pal chat")
    # The fonts of the picture would be fetched from elsewhere.
    (folder / "answer.svg").write_text(re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
