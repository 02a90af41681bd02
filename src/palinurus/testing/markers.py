"""A little language in the user's message that steers the fake provider, so that text can drive a whole program.

Pure and stateless: the answer follows from the request alone, so it survives restarts of both sides. How many rounds
are done is read from the conversation: assistant messages with tool calls after the newest user message.
The words are in the docstring of `answer_markers`.
"""

from __future__ import annotations

import re
import zlib
from typing import Any, get_args

import msgspec

from palinurus.core.types.model import FailureKind, ModelFailure
from palinurus.core.types.usage import TokenUsage
from palinurus.patterns import compile_late
from palinurus.testing.model import ScriptedTurn

_LINE = compile_late(
    r"^(?:\[[^\]\n]*\]\s*)?(THINK|TOOLS|TOOL|SAY|WORDS|SLOW|USED|FAIL|CUT|STALL)[ \t]+(.*?)[ \t]*$", re.M
)


class MarkerAnswer(msgspec.Struct, frozen=True):
    """What the message asks the provider to do."""

    turn: ScriptedTurn
    delay: float = 0.0
    cut: int | None = None
    stall: int | None = None


class MarkerConversation(msgspec.Struct, frozen=True):
    """The conversation, as far as the markers need it."""

    text: str  # the newest user message
    rounds: int  # tool rounds done since
    length: int  # messages in all
    results: tuple[str, ...] = ()  # tool results since, as text

    def call_id(self, index: int) -> str:
        """The same for the same request, different for every other call of the conversation."""
        return f"call_{zlib.crc32(self.text.encode()):08x}_{self.length}_{index}"


def parse_conversation(body: dict[str, Any]) -> MarkerConversation:
    """Read a request body of either wire."""
    messages = [m for m in body.get("messages", ()) if isinstance(m, dict)]
    rounds = 0
    results: list[str] = []
    for message in reversed(messages):
        role, content = message.get("role"), message.get("content")
        if role == "tool":
            results.append(_text(content))
        elif role == "user":
            found = [b for b in _blocks(content) if b.get("type") == "tool_result"]
            if not found:
                return MarkerConversation(_text(content), rounds, len(messages), tuple(reversed(results)))
            results += [_text(b.get("content")) for b in reversed(found)]
            if text := _text(content):  # a steered message beside the results, as Anthropic wants it
                return MarkerConversation(text, 0, len(messages))
        elif role == "assistant":
            rounds += bool(message.get("tool_calls") or [b for b in _blocks(content) if b.get("type") == "tool_use"])
    return MarkerConversation("", rounds, len(messages), tuple(reversed(results)))


def answer_markers(said: MarkerConversation) -> MarkerAnswer:
    """What to answer. The words, each at the start of a line:

    THINK why                      reasoning before the answer
    TOOL exec {"command": "ls"}    a round of tool calls; several lines are several rounds, in order
    TOOLS [["read", {…}], …]       one round of several calls
    SAY hello                      the final answer (lines are joined); $RESULT in it is the newest tool result
    WORDS 50                       the final answer is w0 w1 … w49; without either it is `echo: <message>`
    SLOW 20                        milliseconds between the pieces
    USED 20000                     tokens that it read, as it says
    FAIL rate_limit                a failure; FAIL rate_limit 2: only while fewer than 2 rounds are done
    CUT 200 / STALL 200            the stream is cut, or stands still, after so many bytes
    """
    lines = [(m[1], m[2]) for m in _LINE.finditer(said.text)]

    def all_of(word: str) -> list[str]:
        return [rest for found, rest in lines if found == word]

    def number(word: str) -> int | None:
        return int(all_of(word)[-1]) if all_of(word) else None

    thinking = "\n".join(all_of("THINK"))
    usage = TokenUsage(number("USED") or 10, 5, 0, 0, totalTokens=(number("USED") or 10) + 5)
    limits: dict[str, Any] = {"delay": (number("SLOW") or 0) / 1000, "cut": number("CUT"), "stall": number("STALL")}
    failure = _failure(all_of("FAIL"), said.rounds)
    if failure is not None:
        return MarkerAnswer(ScriptedTurn(failure=failure))
    rounds = [_round(word, rest) for word, rest in lines if word in ("TOOL", "TOOLS")]
    if said.rounds < len(rounds):
        return MarkerAnswer(ScriptedTurn(thinking=thinking, calls=rounds[said.rounds], usage=usage), **limits)
    newest = said.results[-1] if said.results else ""
    text = "\n".join(all_of("SAY")).replace("$RESULT", newest)
    if not text:
        count = number("WORDS")
        text = " ".join(f"w{n}" for n in range(count)) if count else f"echo: {said.text}"
    return MarkerAnswer(ScriptedTurn(text, thinking, usage=usage), **limits)


def _round(word: str, rest: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    if word == "TOOLS":
        return tuple(msgspec.json.decode(rest, type=list[tuple[str, dict[str, Any]]]))
    name, _, args = rest.partition(" ")
    return ((name, msgspec.json.decode(args or "{}", type=dict[str, Any])),)


def _failure(wanted: list[str], rounds: int) -> ModelFailure | None:
    for rest in wanted:
        kind, _, below = rest.partition(" ")
        if kind in get_args(FailureKind) and (not below or rounds < int(below)):
            return msgspec.convert({"kind": kind, "message": f"scripted {kind}"}, ModelFailure)
    return None


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(b.get("text", "")) for b in _blocks(content) if b.get("type") == "text")
