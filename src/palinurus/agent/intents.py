"""Do the owner's words ask for what a tool does, where the rules of `core/policy/intent.py` do not understand them? One
small question to the run's own model, which sees the owner's words and the tool's name and nothing else: nothing that
came from outside can speak to it. Asked only where every value is the owner's and a yes saves a question
(`tools.taint.intent: model`); remembered by what was asked. Whatever goes wrong is a no.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from palinurus.abort import Abort
from palinurus.core.types.messages import UserMessage
from palinurus.core.types.model import Model, ModelRequest, ModelSpec, Prompt, StreamDone
from palinurus.core.types.tool import Tool
from palinurus.core.untrusted import clean_label

SECONDS = 20.0
MAX_KEPT = 256
MAX_WORDS = 4_000  # characters of a wish
_PROMPT = (
    "Somebody wrote to an assistant, in whatever language. You are told a tool of that assistant. Does the message ask "
    "for just the kind of effect that the tool has? Answer with one word: yes or no. If in doubt, no."
)


class IntentReader:
    """Remembers what was answered, for all conversations."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._known: OrderedDict[tuple[str, str, str], bool] = OrderedDict()

    async def is_asked_for(self, words: str, tool: Tool, spec: ModelSpec, owner: str) -> bool:
        """`owner` is the session key: whose budget pays."""
        does = clean_label(tool.description, 200)
        key = (words, tool.name, does)
        if not words.strip() or len(words) > MAX_WORDS:
            return False
        if key not in self._known:
            self._known[key] = await self._ask(f"Tool: {tool.name}: {does}\n\nMessage:\n{words}", spec, owner)
            if len(self._known) > MAX_KEPT:
                self._known.popitem(last=False)
        return self._known[key]

    async def _ask(self, text: str, spec: ModelSpec, owner: str) -> bool:
        request = ModelRequest(spec, Prompt(_PROMPT), (UserMessage(text),), max_tokens=16, owner=owner)
        said = ""
        try:
            async with asyncio.timeout(SECONDS):
                async for event in self._model.stream(request, Abort()):
                    if isinstance(event, StreamDone):
                        said = event.message.text
        except TimeoutError:
            return False
        return said.strip(" .!\n\"'*").casefold() == "yes"
