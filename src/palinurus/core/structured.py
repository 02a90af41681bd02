"""Answers in a form: what the model is told, which JSON an answer holds, whether that fits, and what is said when it
does not. Pure.

Models wrap JSON in fences and kind words; the value inside counts, and only that is handed on.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from palinurus.core.jsonschema import find_violations
from palinurus.core.stream.tags import split_reasoning
from palinurus.core.types.inbound import AnswerForm
from palinurus.patterns import compile_late

TRIES = 4  # further answers after one that does not fit
_PLACES = 40  # where JSON may begin that are looked at
_FENCE = compile_late(r"```[\w-]*[ \t]*\n(.*?)```", re.DOTALL)
_BEGIN = compile_late(r"[\[{]")


class CheckedAnswer(NamedTuple):
    """`text` is the JSON that fits, `problem` why there is none."""

    text: str = ""
    problem: str = ""
    value: Any = None


LLM_TASK = "llm-task"  # the tool, and the id it is enabled by


class StructuredTask(msgspec.Struct, frozen=True):
    """What is asked. "" and None: as configured."""

    prompt: str
    form: AnswerForm
    input: Any = None
    provider: str = ""
    model: str = ""
    thinking: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    timeout_ms: int | None = None


def write_form_request(form: AnswerForm) -> str:
    """What the system prompt says about the form."""
    head = "Your last message of this turn is read by a program: it must be one JSON value and nothing else, no fences."
    if form.schema is None:
        return f"{head} The value is an object."
    return f"{head} It must fit this JSON schema ({form.name}):\n{msgspec.json.encode(form.schema).decode()}"


def write_correction(problem: str) -> str:
    """What the model is told about an answer that does not fit."""
    return f"[Palinurus] The answer does not have the form that was asked for: {problem}. Answer again: the JSON alone."


def check_answer(text: str, form: AnswerForm) -> CheckedAnswer:
    """The first JSON in the text that fits; else what is wrong with the most likely one."""
    problem = ""
    for raw, value in _candidates(text):
        wrong = find_misfits(value, form)
        if not wrong:
            return CheckedAnswer(raw, value=value)
        problem = problem or "; ".join(wrong)
    return CheckedAnswer(problem=problem or "it holds no JSON")


def find_misfits(value: Any, form: AnswerForm) -> list[str]:
    """What is wrong with a value; [] when it has the form."""
    if form.schema is None:
        return [] if isinstance(value, dict) else ["the answer must be a JSON object"]
    return find_violations(form.schema, value)


def _candidates(text: str) -> Iterator[tuple[str, Any]]:
    """Pieces of the text that are JSON: all of it; then, reasoning aside, what stands in fences and what begins with a
    bracket."""
    try:
        yield text.strip(), _DECODER.decode(text.strip())
    except (ValueError, RecursionError):
        pass
    text = split_reasoning(text)[0]
    whole = text.strip()
    for piece in (whole, *(found.strip() for found in _FENCE.findall(text))):
        try:
            yield piece, _DECODER.decode(piece)
        except (ValueError, RecursionError):
            continue
    after = 0
    for count, begin in enumerate(_BEGIN.finditer(whole)):
        if count == _PLACES:
            return
        if begin.start() < after:
            continue  # inside a value that was looked at
        try:
            value, after = _DECODER.raw_decode(whole, begin.start())
        except (ValueError, RecursionError):
            continue
        yield whole[begin.start() : after], value


def _read_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _refuse(text: str) -> Any:
    raise ValueError(text)


_DECODER = json.JSONDecoder(parse_float=_read_float, parse_constant=_refuse)
