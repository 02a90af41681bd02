"""Does a model call tools, and how? Asked once, remembered in `models/capabilities.json`. Raises nothing but OSError.

Works on any Model port: the answer tells whether the call came structured, as text, or not at all.
"""

from __future__ import annotations

import os
from typing import Any, Literal, TypeAlias

import msgspec

from palinurus.abort import Abort
from palinurus.config.files import replace
from palinurus.core.calls.events import PREFIX, TextCalls
from palinurus.core.types.messages import Assistant, User
from palinurus.core.types.model import Done, Failed, Failure, Model, ModelInfo, Prompt, Request
from palinurus.core.types.tool import ToolSpec
from palinurus.providers.local.weights import folder

Calls: TypeAlias = Literal["structured", "text", "none", "unknown"]

FILE = "capabilities.json"
CODE = "4711"
TOOL = ToolSpec(
    "open_box",
    "Open the box with the given code. The only way to open it",
    {"type": "object", "properties": {"code": {"type": "string", "description": "the code"}}, "required": ["code"]},
)
_MOST = 1_000_000


class Capabilities(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a probe found. `unknown`: the model could not be asked; `problem` says why."""

    calls: Calls = "unknown"
    exact: bool = False  # the argument was the one asked for
    asked: int = 0  # wall clock, ms
    problem: str = ""


async def probe(model: Model, info: ModelInfo, stop: Abort | None = None, now: int = 0) -> Capabilities:
    """Ask this model to use one tool, and see what it does."""
    request = Request(
        msgspec.structs.replace(info, tools=True),
        Prompt("You have a tool. Use it; do not describe it."),
        (User(f"Open the box. The code is {CODE}."),),
        (TOOL,),
        max_tokens=200,
        temperature=0.0,
    )
    reader = TextCalls(request)
    message: Assistant | None = None
    failure: Failure | None = None
    async for event in model.stream(request, stop or Abort()):
        for made in reader.feed(event):
            if isinstance(made, Done | Failed):
                message = made.message
                failure = made.failure if isinstance(made, Failed) else None
    if message is None or failure is not None:
        problem = failure.message if failure is not None else "no answer"
        # A server that refuses tools altogether has answered the question.
        refused = failure is not None and failure.kind == "format" and "tool" in problem.lower()
        return Capabilities("none" if refused else "unknown", asked=now, problem=problem)
    call = next((c for c in message.calls if c.name == TOOL.name and not c.invalid), None)
    if call is None:
        return Capabilities("none", asked=now)
    exact = str(call.arguments.get("code")).strip() == CODE
    return Capabilities("text" if call.id.startswith(PREFIX) else "structured", exact, now)


def remembered(home: str) -> dict[str, Capabilities]:
    """What is known, by model ref. A file that cannot be read counts as empty."""
    try:
        with open(os.path.join(folder(home), FILE), "rb") as stream:
            return msgspec.json.decode(stream.read(_MOST), type=dict[str, Capabilities])
    except (OSError, msgspec.DecodeError, ValueError):
        return {}


def remember(home: str, info: ModelInfo, found: Capabilities) -> None:
    """Keep it: whole or not at all. Raises OSError."""
    os.makedirs(folder(home), mode=0o700, exist_ok=True)
    known: dict[str, Any] = {**remembered(home), str(info.ref): found}
    data = msgspec.json.format(msgspec.json.encode(known), indent=2) + b"\n"
    replace(os.path.join(folder(home), FILE), data)


def writes_calls(info: ModelInfo, local: bool, known: Capabilities | None = None) -> bool:
    """May this model's text hold calls? compat.textToolCalls decides; else a probe; else small local models may."""
    told = info.compat.get("textToolCalls")
    if isinstance(told, bool):
        return told
    if known is not None and known.calls in ("structured", "text"):
        return known.calls == "text"
    return info.api in ("local", "ollama") or (info.api == "openai-completions" and local)
