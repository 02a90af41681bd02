"""Asking a model to use one tool, to learn whether it can. Raises nothing.

Works on any Model port: the answer tells whether the call came structured, as text, or not at all.
"""

from __future__ import annotations

import msgspec

from palinurus.abort import Abort
from palinurus.core.calls.events import TEXT_CALL_PREFIX, TextCallDecoder
from palinurus.core.types.messages import AssistantMessage, UserMessage
from palinurus.core.types.model import Model, ModelFailure, ModelRequest, ModelSpec, Prompt, StreamDone, StreamFailed
from palinurus.core.types.tool import ToolSpec
from palinurus.providers.local.capabilities import ModelCapabilities

CODE = "4711"
TOOL = ToolSpec(
    "open_box",
    "Open the box with the given code. The only way to open it",
    {"type": "object", "properties": {"code": {"type": "string", "description": "the code"}}, "required": ["code"]},
)


async def probe_tool_calls(model: Model, info: ModelSpec, stop: Abort | None = None, now: int = 0) -> ModelCapabilities:
    """Ask this model to use one tool, and see what it does."""
    request = ModelRequest(
        msgspec.structs.replace(info, tools=True),
        Prompt("You have a tool. Use it; do not describe it."),
        (UserMessage(f"Open the box. The code is {CODE}."),),
        (TOOL,),
        max_tokens=200,
        temperature=0.0,
    )
    reader = TextCallDecoder(request)
    message: AssistantMessage | None = None
    failure: ModelFailure | None = None
    async for event in model.stream(request, stop or Abort()):
        for made in reader.feed(event):
            if isinstance(made, StreamDone | StreamFailed):
                message = made.message
                failure = made.failure if isinstance(made, StreamFailed) else None
    if message is None or failure is not None:
        problem = failure.message if failure is not None else "no answer"
        # A server that refuses tools altogether has answered the question.
        refused = failure is not None and failure.kind == "format" and "tool" in problem.lower()
        return ModelCapabilities("none" if refused else "unknown", asked=now, problem=problem)
    call = next((c for c in message.calls if c.name == TOOL.name and not c.invalid), None)
    if call is None:
        return ModelCapabilities("none", asked=now)
    exact = str(call.arguments.get("code")).strip() == CODE
    return ModelCapabilities("text" if call.id.startswith(TEXT_CALL_PREFIX) else "structured", exact, now)
