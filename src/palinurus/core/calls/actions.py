"""Calls as one JSON object a turn, for models of a few billion parameters (`compat.calls: "json"`). Pure.

Such a model writes calls in forms of its own, repeats what succeeded, and ends with nothing. So it is not given tools:
it is told a handful of actions with examples, one of them the answer, and a JSON schema of exactly these (which
llama.cpp, Ollama, vLLM and LM Studio hold it to). `shape_actions` makes the request, `ActionDecoder` reads what comes.
Measured with Qwen2.5-Coder 1.5B: docs/decisions/0105.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from palinurus.core.calls.events import CUT, TextCallDecoder, make_call_id
from palinurus.core.calls.mend import parse_loose_json
from palinurus.core.types.messages import (
    REPEATED,
    AssistantMessage,
    Message,
    TextBlock,
    ToolCall,
    ToolResult,
    UserMessage,
)
from palinurus.core.types.model import (
    CallDelta,
    CallStart,
    ModelEvent,
    ModelRequest,
    Prompt,
    StreamDone,
    StreamFailed,
    TextDelta,
)
from palinurus.core.types.tool import ToolSpec
from palinurus.patterns import compile_late

DO, ANSWER, TEXT = "do", "answer", "text"
# What may be done after the first of these that came to nothing: its words were a guess.
LOOKS = {"edit": ("read",), "grep": ("read", "ls")}
MOST_ACTIONS = 12
_RESULT_CHARS = 6_000  # of one result: the model's window is small, and what it must answer comes after it
_OPENING = compile_late(r'\s*\{\s*"do"\s*:\s*"answer"\s*,\s*"text"\s*:\s*"')
# As much of a JSON string as is whole: an escape is not cut, nor are the two halves of a letter.
_LETTERS = compile_late(
    r'(?:[^"\\]|\\["\\/bfnrt]|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{4})*'
)
_TYPES = ("string", "integer", "number", "boolean")


class ActionShape(msgspec.Struct, frozen=True):
    """How a tool is told as an action: its fields, what it does, an example, and what the tool itself is given."""

    fields: tuple[str, ...]
    about: str
    examples: tuple[tuple[str, tuple[str, ...]], ...] = ()  # what a person says, and the fields' values then
    to_arguments: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    from_arguments: Callable[[dict[str, Any]], dict[str, Any]] | None = None


def _to_edit(fields: dict[str, Any]) -> dict[str, Any]:
    change = {"oldText": fields.get("old", ""), "newText": fields.get("new", "")}
    return {"path": fields.get("path", ""), "edits": [change]}


def _from_edit(arguments: dict[str, Any]) -> dict[str, Any]:
    edits = arguments.get("edits")
    first = edits[0] if isinstance(edits, list) and edits and isinstance(edits[0], dict) else {}
    return {"path": arguments.get("path", ""), "old": first.get("oldText", ""), "new": first.get("newText", "")}


# In the order in which they are told. A tool that is not here is told by its schema, without an example.
SHAPES: dict[str, ActionShape] = {
    "ls": ActionShape(("path",), "list a folder", (("what files are here?", (".",)),)),
    "read": ActionShape(("path",), "read a file", (("what does a.txt say about dogs?", ("a.txt",)),)),
    "grep": ActionShape(("pattern",), "find which files contain a word", (("where is Foo mentioned?", ("Foo",)),)),
    "write": ActionShape(
        ("path", "content"),
        "make a text file, or replace all of it",
        (("put call Bob into b.txt", ("b.txt", "call Bob\n")),),
    ),
    "edit": ActionShape(
        ("path", "old", "new"),
        "replace a text in a file",
        (("change cat to dog in a.txt", ("a.txt", "cat", "dog")),),
        _to_edit,
        _from_edit,
    ),
    "exec": ActionShape(
        ("command",),
        "run a shell command: mkdir, mv, cp, rm, wc, …",
        (
            ("which day is it?", ("date",)),
            ("make a folder x", ("mkdir x",)),
            ("add pears to the list in a.txt", ("echo pears >> a.txt",)),
            ("how many words has a.txt?", ("wc -w a.txt",)),
        ),
    ),
}
_RULES = """You work on a person's files. Each turn you write one JSON object, an action:
{actions}
{answer}  (words to the person)
You get the result of an action, then write the next one. When nothing is left to do, answer: say what the result \
says, never invent one. What has to do with no file you answer at once.
Examples:
{examples}
what is 2+3? -> {{"do":"answer","text":"2+3 is 5."}}
what is "cat" in German? -> {{"do":"answer","text":"Katze."}}
what is in a.txt? Result of read: 7 apples -> {{"do":"answer","text":"a.txt says: 7 apples."}}
change cat to dog in a.txt. Result of edit: Changed a.txt -> {{"do":"answer",\
"text":"I changed cat to dog in a.txt."}}"""


def shape_actions(request: ModelRequest) -> ModelRequest:
    """The request as such a model gets it: no tools, actions in the prompt, a schema, a history of actions."""
    request = msgspec.structs.replace(request, tools=choose_tools(request.tools))
    told = [(spec, SHAPES.get(spec.name) or _describe(spec)) for spec in sorted(request.tools, key=_rank)]
    rules = _RULES.format(
        actions="\n".join(f"{_write(s.name, {f: f.upper() for f in h.fields})}  ({h.about})" for s, h in told),
        answer=_write(ANSWER, {TEXT: "TEXT"}),
        examples="\n".join(
            f"{wish} -> {_write(s.name, dict(zip(h.fields, values, strict=True)))}"
            for s, h in told
            for wish, values in h.examples
        ),
    )
    stable = f"{request.prompt.stable}\n\n{rules}".strip()
    prompt = Prompt(stable, request.prompt.volatile, request.prompt.parts)
    messages = tuple(_retell(request.messages))
    return msgspec.structs.replace(
        request, prompt=prompt, messages=messages, tools=(), tool_choice=None, schema=build_schema(request)
    )


def choose_tools(tools: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    """Those that such a model can tell apart: of many only the ones that are told with an example."""
    return tools if len(tools) <= MOST_ACTIONS else tuple(spec for spec in tools if spec.name in SHAPES)


def build_schema(request: ModelRequest) -> dict[str, Any]:
    """What may be written: one of the actions; only the answer where no tool may be called, and once the model has been
    told that it repeats itself; only looking after the first edit that did not fit and an empty search."""
    looks = LOOKS.get(_find_miss(request.messages), ()) if request.tool_choice != "none" else ()
    if seen := [_describe_row(spec) for spec in request.tools if spec.name in looks]:
        return {"anyOf": seen}
    rows = [_row(ANSWER, {TEXT: {"type": "string", "minLength": 1}})]
    last, _ = _find_last_call(request.messages)
    if request.tool_choice != "none" and (last is None or last.invalid != REPEATED):
        rows += map(_describe_row, request.tools)
    return {"anyOf": rows}


def _describe_row(spec: ToolSpec) -> dict[str, Any]:
    shape = SHAPES.get(spec.name) or _describe(spec)
    return _row(spec.name, {name: _kind(spec, name) for name in shape.fields})


def _row(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    properties = {DO: {"const": name}, **fields}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _rank(spec: ToolSpec) -> int:
    return [*SHAPES].index(spec.name) if spec.name in SHAPES else len(SHAPES)


def _describe(spec: ToolSpec) -> ActionShape:
    """A tool we have no words for: its required arguments that are plain values, or its first one."""
    properties = spec.parameters.get("properties") or {}
    wanted = spec.parameters.get("required") or [*properties][:1]
    plain = tuple(name for name in wanted if (properties.get(name) or {}).get("type") in _TYPES)
    return ActionShape(plain, spec.description.split(". ")[0].split("\n")[0][:80])


def _kind(spec: ToolSpec, name: str) -> dict[str, Any]:
    found = (spec.parameters.get("properties") or {}).get(name) or {}
    return {"type": found["type"] if found.get("type") in _TYPES else "string"}


def _write(name: str, fields: Mapping[str, Any]) -> str:
    return msgspec.json.encode({DO: name, **fields}).decode()


# --- what was said before ------------------------------------------------------------------------------------


def _retell(messages: Sequence[Message]) -> list[Message]:
    """The conversation in actions. A result is told as a person's words: models of this size know no other role."""
    out: list[Message] = []
    for message in messages:
        if isinstance(message, UserMessage):
            out.append(message)
        elif isinstance(message, ToolResult):
            out.append(UserMessage(_tell_result(message), message.timestamp, message.source))
        else:
            out += _retell_answer(message)
    return _join_results(out)


def _tell_result(result: ToolResult) -> str:
    text = result.text.strip() or "(nothing)"
    if (over := len(text) - _RESULT_CHARS) > 0:
        half = _RESULT_CHARS // 2
        text = f"{text[:half]}\n… {over} characters left out …\n{text[-half:]}"
    head = f"{result.toolName} failed" if result.isError else f"Result of {result.toolName}"
    return f"{head}:\n{text}"


def _retell_answer(message: AssistantMessage) -> list[Message]:
    made = [_write(call.name, _to_fields(call)) for call in message.calls]
    if not made and message.text.strip():
        made = [_write(ANSWER, {TEXT: message.text.strip()})]
    return [msgspec.structs.replace(message, content=(TextBlock(made[0]),))] if made else []


def _to_fields(call: ToolCall) -> dict[str, Any]:
    shape = SHAPES.get(call.name)
    return shape.from_arguments(call.arguments) if shape and shape.from_arguments else dict(call.arguments)


def _join_results(messages: list[Message]) -> list[Message]:
    """Words of the person that follow each other become one message: some templates refuse two."""
    out: list[Message] = []
    for message in messages:
        last = out[-1] if out else None
        if isinstance(message, UserMessage) and isinstance(last, UserMessage) and not _has_pictures(last, message):
            text = f"{last.text}\n\n{message.text}"
            out[-1] = UserMessage(text, message.timestamp, message.source or last.source)
        else:
            out.append(message)
    return out


def _has_pictures(*messages: UserMessage) -> bool:
    return any(not isinstance(block, TextBlock) for message in messages for block in message.blocks)


def _since_person(messages: Sequence[Message]) -> Sequence[Message]:
    """What happened since a person last said something."""
    at = next((i for i in range(len(messages) - 1, -1, -1) if isinstance(messages[i], UserMessage)), -1)
    return messages[at + 1 :]


def _find_last_call(messages: Sequence[Message]) -> tuple[ToolCall | None, ToolResult | None]:
    """The last call since a person said something, and its result."""
    recent = _since_person(messages)
    call = next((m.calls[-1] for m in reversed(recent) if isinstance(m, AssistantMessage) and m.calls), None)
    results = (m for m in recent if isinstance(m, ToolResult) and call is not None and m.toolCallId == call.id)
    return call, next(results, None)


def _find_miss(messages: Sequence[Message]) -> str:
    """The tool that has just come to nothing, if it is the first time; "" otherwise."""
    recent = [m for m in _since_person(messages) if isinstance(m, ToolResult)]
    missed = [
        m.toolName for m in recent if m.isError or (isinstance(m.details, dict) and m.details.get("matches") == 0)
    ]
    return missed[-1] if missed and missed.count(missed[-1]) == 1 and recent[-1].toolName == missed[-1] else ""


# --- what comes ----------------------------------------------------------------------------------------------


class ActionDecoder:
    """`feed` one event, get the events it amounts to. An answer is shown as it is written; an action when it is whole.
    Of a model that keeps to no schema other forms are read as well."""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request  # as it was before it was shaped
        self._text = ""
        self._shown = ""
        self._at: int | None = None  # where the answer's text begins
        self._other = TextCallDecoder(request)
        self._plain = False  # it is no JSON: whatever it is, the other one reads it

    def feed(self, event: ModelEvent) -> list[ModelEvent]:
        """The events to hand on now; may be none."""
        if self._plain:
            return self._other.feed(event)
        if isinstance(event, TextDelta):
            self._text += event.text
            if self._text.lstrip()[:1] not in ("", "{"):
                self._plain = True
                return self._other.feed(TextDelta(self._text))
            return self._show()
        if isinstance(event, StreamDone):
            return self._done(event)
        if isinstance(event, StreamFailed):
            return [StreamFailed(event.failure, self._keep_shown(event.message))]
        return [event] if not isinstance(event, CallStart | CallDelta) else []

    def _show(self) -> list[ModelEvent]:
        """What is new of an answer that is being written, up to its last whole letter."""
        if self._at is None:
            opening = _OPENING.match(self._text)
            if opening is None:
                return []
            self._at = opening.end()
        whole = _LETTERS.match(self._text, self._at)
        if whole is None or whole.end() == self._at:
            return []
        piece, self._at = self._text[self._at : whole.end()], whole.end()
        new: str = json.loads(f'"{piece}"', strict=False)
        self._shown += new
        return [TextDelta(new)]

    def _done(self, event: StreamDone) -> list[ModelEvent]:
        found = parse_loose_json(self._text, self._text.find("{")) if "{" in self._text else None
        value = found.value if found is not None else None
        name = value.get(DO) if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(name, str):
            if event.message.stopReason == "length":
                return [StreamDone(self._keep_shown(event.message))]
            return [*self._other.feed(TextDelta(self._text)), *self._other.feed(event)] if self._text else [event]
        fields = {key: one for key, one in value.items() if key != DO}
        if name == ANSWER:
            text = fields.get(TEXT)
            text = text if isinstance(text, str) else ""
            rest = text[len(self._shown) :]
            message = msgspec.structs.replace(event.message, content=(TextBlock(text),) if text else ())
            return [*([TextDelta(rest)] if rest else []), StreamDone(message)]
        cut = found is not None and found.cut and event.message.stopReason == "length"
        return self._call(name, fields, event.message, CUT if cut else "")

    def _keep_shown(self, message: AssistantMessage) -> AssistantMessage:
        """Of an answer that broke off: what people have seen of it. Half an action is nothing for them."""
        return msgspec.structs.replace(message, content=(TextBlock(self._shown),) if self._shown else ())

    def _call(self, name: str, fields: dict[str, Any], message: AssistantMessage, invalid: str) -> list[ModelEvent]:
        shape = SHAPES.get(name)
        arguments = shape.to_arguments(fields) if shape and shape.to_arguments else fields
        last, result = _find_last_call(self._request.messages)
        succeeded = last is not None and result is not None and not result.isError
        if not invalid and succeeded and last is not None and (last.name, last.arguments) == (name, arguments):
            invalid = REPEATED
        call = ToolCall(make_call_id(self._request.messages, 0), name, arguments, invalid=invalid or None)
        made = msgspec.structs.replace(message, content=(call,), stopReason="toolUse")
        told = msgspec.json.encode(arguments).decode()
        return [CallStart(0, call.id, name), CallDelta(0, told), StreamDone(made)]
