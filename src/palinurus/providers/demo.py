"""`builtin/demo`: a scripted model that says so, for the first minute without a key. No network, no learning.

`decide` is a pure function from the conversation to the next message: it understands a handful of plain requests
and serves them with the tools it is offered. It reads its own tool calls and their results back from the messages,
so it needs no state. Everything else gets an honest answer about what it is.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from palinurus.abort import Aborted
from palinurus.clock import Clock, SystemClock
from palinurus.core.spoken import read_spoken
from palinurus.core.types.messages import AssistantMessage, StopReason, TextBlock, ToolCall, ToolResult, UserMessage
from palinurus.core.types.model import (
    CallDelta,
    CallStart,
    ModelEvent,
    ModelFailure,
    ModelRequest,
    StopSignal,
    StreamDone,
    StreamFailed,
    TextDelta,
)
from palinurus.core.types.usage import TokenCost, TokenUsage
from palinurus.patterns import compile_late
from palinurus.providers.errors import make_failed

MEMORY = "MEMORY.md"
UNDONE = "[Undone: "
MOST = 4000  # characters of a tool result that are repeated
FILE = r"(?:\"([^\"]+)\"|'([^']+)'|`([^`]+)`|(\S+?))"

ABOUT = (
    "I am Palinurus' built-in demo: a small script, not a language model. I follow a few plain requests with real "
    "tools, so that you can see the loop work:\n"
    "  - list files\n  - read FILE\n  - write FILE with TEXT\n  - run COMMAND\n  - remember SOMETHING\n  - recall\n\n"
    "For a real model, set ANTHROPIC_API_KEY or OPENAI_API_KEY (or start Ollama) and restart, or run `pal setup`; "
    "`pal models status` shows what is found."
)
GREETING = "Hello! " + ABOUT
UNKNOWN = "I did not understand that. " + ABOUT


class DemoStep(msgspec.Struct, frozen=True):
    """What to do next: say something, or call a tool."""

    text: str = ""
    tool: str = ""
    args: dict[str, Any] = {}


class DemoTurn(msgspec.Struct, frozen=True):
    """Where we are: the tools on offer, and what was already called and answered since the user spoke."""

    tools: frozenset[str]
    done: tuple[tuple[ToolCall, ToolResult], ...]

    def pick(self, *options: tuple[str, dict[str, Any]]) -> DemoStep:
        """The first of these calls whose tool is on offer."""
        for tool, args in options:
            if tool in self.tools:
                return DemoStep(tool=tool, args=args)
        names = " or ".join(f"`{tool}`" for tool, _ in options)
        return DemoStep(f"For that I need the tool {names}, and I was not given it. `pal why` can tell the reason.")


def make_demo_model(home: str, clock: Clock) -> DemoModel:
    """For `providers.stream`."""
    return DemoModel(clock)


class DemoModel:
    """The `Model` port around `decide`. Words come one by one, as from a model."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    async def close(self) -> None:
        """Nothing to end."""

    async def stream(self, request: ModelRequest, stop: StopSignal) -> AsyncIterator[ModelEvent]:
        """The events of the decided message; StreamFailed (aborted) when stopped."""
        message = decide_message(request)
        shown: list[str] = []
        for word in re.findall(r"\S+\s*|\s+", message.text):
            try:
                await stop.wait(self._clock.sleep(0))
            except Aborted as error:
                yield _stopped(request, message, "".join(shown), error.reason)
                return
            shown.append(word)
            yield TextDelta(word)
        for index, call in enumerate(message.calls):
            yield CallStart(index, call.id, call.name)
            yield CallDelta(index, str(msgspec.json.encode(call.arguments), "utf-8"))
        if stop.reason is not None:
            yield _stopped(request, message, "".join(shown), stop.reason)
            return
        yield StreamDone(message)


def decide_message(request: ModelRequest) -> AssistantMessage:
    """The next message. The same conversation gives the same message."""
    at = max((i for i, m in enumerate(request.messages) if isinstance(m, UserMessage)), default=-1)
    said = request.messages[at] if at >= 0 else None
    text = (read_spoken(said).words or said.text) if isinstance(said, UserMessage) else ""
    turn = DemoTurn(frozenset(t.name for t in request.tools), _done(request, at))
    step = _understood(text.strip(), turn)
    model = request.model
    stop: StopReason = "stop"
    content: tuple[TextBlock | ToolCall, ...] = (TextBlock(step.text),)
    if step.tool:
        stop, content = "toolUse", (ToolCall(f"demo_{len(request.messages)}", step.tool, step.args),)
    return AssistantMessage(
        content, model.api, model.ref.provider, model.ref.model, usage=TokenUsage(cost=TokenCost()), stopReason=stop
    )


def _done(request: ModelRequest, at: int) -> tuple[tuple[ToolCall, ToolResult], ...]:
    calls: dict[str, ToolCall] = {}
    out: list[tuple[ToolCall, ToolResult]] = []
    for message in request.messages[at + 1 :]:
        if isinstance(message, AssistantMessage):
            calls.update({c.id: c for c in message.calls})
        elif isinstance(message, ToolResult) and message.toolCallId in calls:
            out.append((calls[message.toolCallId], message))
    return tuple(out)


def _understood(text: str, turn: DemoTurn) -> DemoStep:
    text = re.sub(r"^(?:System: [^\n]*\n+)+", "", text)  # events that were told with the message
    text = re.sub(r"^(?:\[[^\]\n]{1,400}\]\s*)+", "", text)  # time stamps and the like that channels put in front
    text = re.sub(r"^(?:(?:please|hey|ok|okay|can you|could you|would you)[,\s]+)+", "", text, flags=re.I)
    for pattern, act in REQUESTS:
        found = pattern.fullmatch(text)
        if found:
            return act([g.strip() for g in found.groups() if g is not None], turn)
    return DemoStep(UNKNOWN)


# --- what can be asked for -----------------------------------------------------------------------------------------


def _list(words: list[str], turn: DemoTurn) -> DemoStep:
    place = words[0] if words else "."
    if not turn.done:
        return turn.pick(("ls", {"path": place}), ("exec", {"command": f"ls -la -- {shlex.quote(place)}"}))
    where = "the workspace" if place == "." else place
    return _answer(turn, f"These are the files in {where}:", f"There is nothing in {where}.")


def _read(words: list[str], turn: DemoTurn) -> DemoStep:
    if not turn.done:
        command = f"cat -- {shlex.quote(words[0])}"
        return turn.pick(("read", {"path": words[0]}), ("exec", {"command": command}))
    return _answer(turn, f"{words[0]} says:", f"{words[0]} is empty.")


def _write(words: list[str], turn: DemoTurn) -> DemoStep:
    path, content = words[0], _unquoted(words[1])
    if not turn.done:
        command = f"printf '%s\\n' {shlex.quote(content)} > {shlex.quote(path)}"
        return turn.pick(("write", {"path": path, "content": content + "\n"}), ("exec", {"command": command}))
    if turn.done[-1][1].isError:
        return _answer(turn, "", "")
    return DemoStep(f"Done. {path} now holds: {content}")


def _run(words: list[str], turn: DemoTurn) -> DemoStep:
    command = words[0][1:-1] if len(words[0]) > 2 and words[0][0] == words[0][-1] == "`" else words[0]
    if not turn.done:
        return turn.pick(("exec", {"command": command}))
    return _answer(turn, f"`{command}` gave:", f"`{command}` ran and printed nothing.")


def _remember(words: list[str], turn: DemoTurn) -> DemoStep:
    """Read, then write; by a command where there is no `write` (what a command writes there is put to the owner)."""
    note = " ".join(words[0].rstrip(".").split())
    if "write" not in turn.tools or "read" not in turn.tools:
        if not turn.done:
            line = f"printf '%s\\n' {shlex.quote('- ' + note)} >> {MEMORY}"
            return turn.pick(("exec", {"command": line}), ("write", {}))
    elif not turn.done:
        return DemoStep(tool="read", args={"path": MEMORY})
    elif len(turn.done) == 1:
        result = turn.done[0][1]
        before = "" if result.isError else result.text.rstrip("\n") + "\n"
        if len(before) > 12_000:
            return DemoStep(f"{MEMORY} is too long for me to add to; please do it by hand.")
        return DemoStep(tool="write", args={"path": MEMORY, "content": f"{before}- {note}\n"})
    last = turn.done[-1][1]
    if last.isError:
        return _answer(turn, "", "")
    if UNDONE in last.text:  # by the gate: commands do not shape the agent once words from outside were read
        return DemoStep(f"That did not stay:\n{last.text.strip()[:MOST]}")
    return DemoStep(f"I wrote it down in {MEMORY}: {note}")


def _recall(words: list[str], turn: DemoTurn) -> DemoStep:
    if not turn.done:
        return turn.pick(("read", {"path": MEMORY}), ("exec", {"command": f"cat {MEMORY}"}))
    result = turn.done[-1][1]
    lines = [] if result.isError else [line for line in result.text.splitlines() if line.strip()]
    wanted = [w for w in re.findall(r"\w+", words[0].lower()) if len(w) > 2] if words else []
    found = [line for line in lines if any(w in line.lower() for w in wanted)] if wanted else lines
    if not found:
        return DemoStep(
            "I have nothing about that." if wanted and lines else f"I have nothing written down in {MEMORY} yet."
        )
    return DemoStep("I remember:\n" + "\n".join(found)[:MOST])


def _answer(turn: DemoTurn, lead: str, nothing: str) -> DemoStep:
    """The result of the last call, in words."""
    _, result = turn.done[-1]
    text = result.text.strip("\n")
    if result.isError:
        return DemoStep(f"That did not work: {text[:MOST] or 'no reason was given'}")
    if not text.strip():
        return DemoStep(nothing)
    cut = f"\n… ({len(text) - MOST} more characters)" if len(text) > MOST else ""
    return DemoStep(f"{lead}\n{text[:MOST]}{cut}")


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`" else text


def _stopped(request: ModelRequest, message: AssistantMessage, shown: str, reason: str) -> StreamFailed:
    said = msgspec.structs.replace(message, content=(TextBlock(shown),) if shown else ())
    return make_failed(request, ModelFailure("aborted", reason, partial=bool(shown)), said)


def _form(pattern: str) -> re.Pattern[str]:
    return compile_late(pattern + r"\s*[.!?]?", re.I | re.S)


_THE = r"(?:\s+(?:me|the|all|a|an|new|my|of))*"
REQUESTS: tuple[tuple[re.Pattern[str], Callable[[list[str], DemoTurn], DemoStep]], ...] = (
    (_form(r"(?:hi|hello|hey|good (?:morning|evening|day)|moin)\b.{0,20}"), lambda words, turn: DemoStep(GREETING)),
    (_form(r"(?:help|who are you|what are you|what can you do|what is this)"), lambda words, turn: DemoStep(ABOUT)),
    (_form(r"(?:do you remember|what do you (?:remember|know))(?:\s+about\s+(.+?))?"), _recall),
    (_form(r"recall(?:\s+(.+?))?"), _recall),
    (_form(r"remember(?:\s+that)?:?\s+(.+)"), _remember),
    (
        _form(rf"write\s+(\"[^\"]+\"|'[^']+')\s+(?:to|into|in){_THE}(?:\s+file)?\s+{FILE}"),
        lambda words, turn: _write(words[::-1], turn),
    ),
    (
        _form(
            rf"(?:write|create|make|save){_THE}(?:\s+file)?(?:\s+(?:named|called))?\s+{FILE}"
            r"(?:\s+(?:with|containing|saying|that says)(?:\s+(?:the\s+)?(?:text|content|words?))?:?|:)\s+(.+)"
        ),
        _write,
    ),
    (compile_late(r"(?:run|execute|exec)(?:\s+the\s+command)?:?\s+(.+?)\s*", re.I | re.S), _run),
    (compile_late(r"[$!]\s*(.+?)\s*", re.S), _run),
    (
        _form(
            rf"(?:list|show|ls|dir)(?:{_THE}\s+(?:files?|directory|folder|contents?|here))?(?:\s+in{_THE}\s+workspace)?"
        ),
        _list,
    ),
    (
        _form(
            rf"(?:list|show){_THE}(?:\s+files?|\s+contents?)?\s+(?:in|of|under){_THE}\s+(?:folder\s+|directory\s+)?{FILE}"
        ),
        _list,
    ),
    (_form(rf"(?:ls|dir)\s+{FILE}"), _list),
    (_form(r"(?:what|which) files (?:are|do you (?:see|have))(?: there| here| in the workspace)?"), _list),
    (_form(rf"(?:read|show|open|cat|print){_THE}(?:\s+file)?\s+{FILE}"), _read),
    (_form(rf"what(?:'s| is) in{_THE}(?:\s+file)?\s+{FILE}"), _read),
)
