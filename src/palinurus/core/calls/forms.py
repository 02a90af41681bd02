"""The forms in which models write calls, read whole: text from an opening on -> calls, or None. Pure.

Marked forms (`<tool_call>`, `<tools>`, `<function=…>`, `<|python_tag|>`, `[TOOL_CALLS]`) say what they are. Bare forms
(a JSON object, an array, `[f(a=1)]`, a fenced block of those) count only if they have exactly the shape of a call. In
both the name must be one of those on offer.
"""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from palinurus.core.calls.mend import clean_value, parse_loose_json
from palinurus.core.text import skip_pattern
from palinurus.core.types.tool import ToolSpec
from palinurus.patterns import compile_late

NAME_KEYS = ("name", "tool", "tool_name", "function", "function_name")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "tool_input", "kwargs", "params")
EXTRA_KEYS = frozenset({"id", "type", "call_id", "tool_call_id", "index"})
FENCE_LANGUAGES = frozenset(
    {"", "json", "jsonc", "json5", "xml", "tool_call", "tool_calls", "tool_code", "tool", "text"}
)
MAX_CALLS = 64
_END_CALL = "</tool_call>"
_FUNCTION = compile_late(r"<function=([\w.:-]{1,128})>")
_ATTRIBUTES = compile_late(r"""<function\s+name=(["']?)([\w.:-]{1,128})\1\s+arguments=(["']?)""")
_END_ATTRIBUTES = compile_late(r"\s*/?>(?:\s*</function>)?")
_PARAMETER = compile_late(r"<parameter=([\w.:-]{1,128})>")
_PARAMETER_END = compile_late(r"</parameter>|(?=<parameter=)|(?=</function>)|\Z")
_MISTRAL = compile_late(r"\s*([\w.:-]{1,128})\s*(?:\[CALL_ID\]\s*\w+\s*)?(?:\[ARGS\]\s*)?(?=\{)")
_NAMED = compile_late(r"""\{\s*["']?name["']?\s*:\s*["']([\w.:-]{1,128})["']""")
_EOT = compile_late(r"(?<!\s)\s*(?:<\|(?:eom_id|eot_id|im_end)\|>|</s>)")
_SPACE = compile_late(r"\s*")
_GAP = compile_late(r"[\s;,]*")
_CLOSING = compile_late(r"[ \t]*(?:`{3,}|~{3,})[ \t]*(?=\n|\Z)")


class TextCall(msgspec.Struct, frozen=True):
    """A call that was written. `cut`: the text ended before the call did. `invalid`: why it cannot be run."""

    name: str
    arguments: dict[str, Any]
    cut: bool = False
    invalid: str = ""


class TextCallMatch(msgspec.Struct, frozen=True):
    """Calls, and the index after them."""

    calls: tuple[TextCall, ...]
    end: int


class CallableTools:
    """The tools a request offers, as this folder needs them."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self.schemas: dict[str, Mapping[str, Any]] = {t.name: t.parameters for t in tools}

    @cached_property
    def keys(self) -> frozenset[str]:
        """Every name that may stand before a colon in a call."""
        found = set(NAME_KEYS) | set(ARGUMENT_KEYS) | EXTRA_KEYS
        for schema in self.schemas.values():
            _collect(schema, found, 0)
        return frozenset(found)

    def properties(self, name: str) -> Mapping[str, Any]:
        """The arguments a tool takes."""
        found = self.schemas.get(name, {}).get("properties")
        return found if isinstance(found, Mapping) else {}

    def fits(self, call: TextCall) -> bool:
        """Has the call arguments, those it must have and none that the tool does not know?"""
        known, needed = self.properties(call.name), self.schemas[call.name].get("required") or ()
        return bool(call.arguments) and all(k in known for k in call.arguments) and {*needed} <= {*call.arguments}


def _collect(schema: Any, found: set[str], depth: int) -> None:
    if depth > 8 or not isinstance(schema, Mapping):
        return
    for key, value in schema.items():
        if key == "properties" and isinstance(value, Mapping):
            found.update(str(k) for k in value)
            for inner in value.values():
                _collect(inner, found, depth + 1)
        elif isinstance(value, Mapping):
            _collect(value, found, depth + 1)


# --- marked ----------------------------------------------------------------------------------------------------


def parse_hermes(text: str, at: int, tools: CallableTools) -> TextCallMatch | None:
    """`<tool_call>{"name": …, "arguments": …}</tool_call>`, or Qwen's function inside it. `at` is after the mark."""
    return _parse_tagged(text, at, tools, _END_CALL)


def parse_tools_tag(text: str, at: int, tools: CallableTools) -> TextCallMatch | None:
    """`<tools>` around a call in any of these forms: the tag in which the model was shown its tools."""
    return _parse_tagged(text, at, tools, "</tools>")


def _parse_tagged(text: str, at: int, tools: CallableTools, closing: str) -> TextCallMatch | None:
    inside = skip_pattern(_SPACE, text, at)
    if (opening := next((mark for mark in _AT_MARK if text.startswith(mark, inside)), None)) is not None:
        form = MARKED_FORMS[opening](text, inside, tools)
        return form and TextCallMatch(form.calls, _past(text, form.end, closing))
    if text.startswith("[", inside) or text.startswith("{", inside):
        form = _value(text, inside, tools, marked=True)
        return TextCallMatch(form.calls, _past(text, form.end, closing)) if form else _broken(text, inside, tools)
    return None


def parse_attributes(text: str, at: int, tools: CallableTools) -> TextCallMatch | None:
    """`<function name="read" arguments='{…}'/>`; `at` is the mark itself."""
    head = _ATTRIBUTES.match(text, at)
    if head is None or head.group(2) not in tools.schemas:
        return None
    start, quote = head.end(), head.group(3)
    closed = re.compile(rf"(?<!\\){quote}\s*/?>").search(text, start) if quote else None
    if not quote:
        found = parse_loose_json(text, start, tools.keys)
        end = found.end if found is not None else start
    else:
        end = closed.start() if closed is not None else len(text)
        raw = text[start:end].replace(f"\\{quote}", quote)
        found = parse_loose_json(html.unescape(raw), 0, tools.keys)
        end = min(len(text), end + 1)
    if found is None or not isinstance(found.value, dict):
        return None
    cut = found.cut or (bool(quote) and closed is None)
    return TextCallMatch((TextCall(head.group(2), found.value, cut),), skip_pattern(_END_ATTRIBUTES, text, end))


def _broken(text: str, at: int, tools: CallableTools) -> TextCallMatch | None:
    """A call whose name can be read and nothing else: the model is told, and may try again."""
    end = text.find(_END_CALL, at)
    named = _NAMED.match(text, at)
    if end < 0 or named is None or named.group(1) not in tools.schemas:
        return None
    return TextCallMatch(
        (TextCall(named.group(1), {}, invalid="the arguments are not valid JSON"),), end + len(_END_CALL)
    )


def parse_function_tag(text: str, at: int, tools: CallableTools) -> TextCallMatch | None:
    """`<function=name><parameter=key>value</parameter>…</function>`; `at` is the mark itself."""
    head = _FUNCTION.match(text, at)
    if head is None or head.group(1) not in tools.schemas:
        return None
    name, at = head.group(1), head.end()
    known = tools.properties(name)
    arguments: dict[str, Any] = {}
    start = skip_pattern(_SPACE, text, at)
    if text.startswith("{", start):  # Llama: <function=name>{json}</function>
        found = parse_loose_json(text, start, tools.keys)
        if found is None or not isinstance(found.value, dict):
            return None
        return TextCallMatch((TextCall(name, found.value, found.cut),), _past(text, found.end, "</function>"))
    while (parameter := _PARAMETER.match(text, start)) is not None:
        end = _PARAMETER_END.search(text, parameter.end())
        stop = end.start() if end is not None else len(text)
        arguments[parameter.group(1)] = _plain(text[parameter.end() : stop], known.get(parameter.group(1)), tools)
        start = skip_pattern(_SPACE, text, end.end() if end is not None else len(text))
    closed = text.startswith("</function>", start)
    if not closed and start < len(text) and not text.startswith(("<function=", _END_CALL, "<tool_call>"), start):
        return None
    return TextCallMatch((TextCall(name, arguments, not closed),), start + len("</function>") if closed else start)


def _plain(text: str, schema: Any, tools: CallableTools) -> Any:
    """A parameter's value: text, unless the schema wants a list or an object. Numbers are coerced where it is run."""
    text = text.removeprefix("\n").removesuffix("\n")
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind in ("array", "object") and text.lstrip()[:1] in ("[", "{"):
        found = parse_loose_json(text.strip(), 0, tools.keys)
        if found is not None:
            return found.value
    return text


def parse_llama(text: str, at: int, tools: CallableTools) -> TextCallMatch | None:
    """`<|python_tag|>` and then JSON calls with `;` between them, or `name.call(a=1)`."""
    calls: list[TextCall] = []
    end = at
    while len(calls) < MAX_CALLS:
        start = skip_pattern(_GAP, text, end)
        form = _value(text, start, tools, marked=True) if text[start : start + 1] in ("{", "[") else None
        form = form or _single(text, start, tools)
        if form is None:
            break
        calls += form.calls
        end = form.end
    if not calls:
        return None
    return TextCallMatch(tuple(calls), skip_pattern(_EOT, text, end))


def parse_mistral(text: str, at: int, tools: CallableTools) -> TextCallMatch | None:
    """`[TOOL_CALLS]` and then an array of calls, or `name{json}` / `name[ARGS]{json}`."""
    start = skip_pattern(_SPACE, text, at)
    if text[start : start + 1] in ("[", "{"):
        form = _value(text, start, tools, marked=True)
    else:
        head = _MISTRAL.match(text, at)
        if head is None or head.group(1) not in tools.schemas:
            return None
        found = parse_loose_json(text, head.end(), tools.keys)
        if found is None or not isinstance(found.value, dict):
            return None
        form = TextCallMatch((TextCall(head.group(1), found.value, found.cut),), found.end)
    return form and msgspec.structs.replace(form, end=skip_pattern(_EOT, text, form.end))


# --- bare ------------------------------------------------------------------------------------------------------


def parse_bare(text: str, at: int, tools: CallableTools) -> TextCallMatch | None:
    """An object, an array of objects, or `[f(a=1), g()]`, with nothing in it that a call would not have."""
    return _value(text, at, tools, marked=False) or parse_pythonic(text, at, tools)


def parse_fenced(text: str, at: int, tools: CallableTools) -> TextCallMatch | None:
    """A fenced block that holds calls and nothing else; `at` is the first line inside."""
    calls: list[TextCall] = []
    while len(calls) < MAX_CALLS:
        start = skip_pattern(_GAP, text, at)
        if start == len(text) and calls:
            return TextCallMatch(tuple(calls), start)
        closing = _CLOSING.match(text, start)
        if closing is not None:
            return TextCallMatch(tuple(calls), closing.end()) if calls else None
        opening = next((m for m in MARKED_FORMS if text.startswith(m, start)), None)
        if opening is not None:
            form = parse_marked(text, start, opening, tools)
        else:
            form = parse_bare(text, start, tools)
        if form is None:
            return None
        calls += form.calls
        at = form.end
    return None


def parse_pythonic(text: str, at: int, tools: CallableTools) -> TextCallMatch | None:
    """`[f(a=1), g()]`: keyword arguments with literal values only."""
    end = _list_end(text, at)
    if end < 0:
        return None
    try:
        tree = ast.parse(text[at:end].strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(tree, ast.List) or not 0 < len(tree.elts) <= MAX_CALLS:
        return None
    calls = [_called(node, tools) for node in tree.elts]
    return TextCallMatch(tuple(c for c in calls if c is not None), end) if all(calls) else None


def _single(text: str, at: int, tools: CallableTools) -> TextCallMatch | None:
    """`name.call(a=1)` or `name(a=1)` up to the end of its line."""
    line = text[at:].split("\n", 1)[0]
    stripped = _EOT.sub("", line).strip()
    try:
        node = ast.parse(stripped, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    call = _called(node, tools)
    return TextCallMatch((call,), at + len(line)) if call is not None else None


def _called(node: ast.AST, tools: CallableTools) -> TextCall | None:
    if not isinstance(node, ast.Call) or node.args:
        return None
    target = node.func
    if isinstance(target, ast.Attribute) and target.attr == "call":
        target = target.value
    name = ast.unparse(target) if isinstance(target, ast.Name | ast.Attribute) else ""
    if name not in tools.schemas:
        return None
    try:
        raw = {k.arg: ast.literal_eval(k.value) for k in node.keywords if k.arg}
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    if len(raw) != len(node.keywords):  # **kwargs
        return None
    arguments = clean_value(raw)
    return TextCall(name, arguments) if isinstance(arguments, dict) else None


def _list_end(text: str, at: int) -> int:
    """The index after the bracket that closes the one at `at`; -1 when it does not close."""
    depth, quote, skip = 0, "", False
    for index in range(at, len(text)):
        char = text[index]
        if skip:
            skip = False
        elif quote:
            skip = char == "\\"
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "[({":
            depth += 1
        elif char in "])}":
            depth -= 1
            if depth == 0:
                return index + 1
    return -1


# --- one value -------------------------------------------------------------------------------------------------


def _value(text: str, at: int, tools: CallableTools, *, marked: bool) -> TextCallMatch | None:
    if text.startswith("{{", at):  # Qwen copies the doubled braces of its template
        inner = _value(text, at + 1, tools, marked=marked)
        if inner is not None and (text.startswith("}", inner.end) or inner.end == len(text)):
            return TextCallMatch(inner.calls, min(inner.end + 1, len(text)))
    found = parse_loose_json(text, at, tools.keys)
    if found is None:
        return None
    items = found.value if isinstance(found.value, list) else [found.value]
    if not 0 < len(items) <= MAX_CALLS:
        return None
    calls = [_call(item, tools, marked) for item in items]
    if any(call is None for call in calls):
        return None
    made = [call for call in calls if call is not None]
    if found.cut:
        made[-1] = msgspec.structs.replace(made[-1], cut=True)
    return TextCallMatch(tuple(made), found.end)


def _call(item: Any, tools: CallableTools, marked: bool) -> TextCall | None:
    """The call an object describes. A bare one may hold nothing but a name and arguments."""
    if not isinstance(item, dict):
        return None
    if isinstance(item.get("function"), dict) and not set(item) - EXTRA_KEYS - {"function"}:
        item = item["function"]
    label = next((k for k in NAME_KEYS if isinstance(item.get(k), str) and item[k] in tools.schemas), None)
    if label is None:
        return None
    name, rest = item[label], {k: v for k, v in item.items() if k != label}
    holder = next((k for k in ARGUMENT_KEYS if k in rest), None)
    if holder is None:
        rest = {k: v for k, v in rest.items() if k not in EXTRA_KEYS or k in tools.properties(name)}
        # A bare {"name": "ls", "path": "/bin/ls"} may be data about a program; marked, it is a call.
        return TextCall(name, rest) if marked and all(k in tools.properties(name) for k in rest) else None
    if set(rest) - EXTRA_KEYS - {holder} and not marked:
        return None
    arguments = rest[holder]
    if isinstance(arguments, str) and arguments.strip()[:1] == "{":
        found = parse_loose_json(arguments.strip(), 0, tools.keys)
        arguments = found.value if found is not None else arguments
    if arguments is None or arguments == "":
        arguments = {}
    if not isinstance(arguments, dict):
        return TextCall(name, {}, invalid="the arguments must be a JSON object") if marked else None
    if {"type", "properties"} <= set(arguments) and "properties" not in tools.properties(name):
        return None  # a description of the tool, not a call of it
    return TextCall(name, arguments)


def _past(text: str, at: int, closing: str) -> int:
    """After the closing tag if it comes next, with stray brackets in between."""
    return skip_pattern(re.compile(r"[\s}\]]*" + re.escape(closing)), text, at)


def parse_marked(text: str, at: int, mark: str, tools: CallableTools) -> TextCallMatch | None:
    """The form that begins with this mark at `at`."""
    return MARKED_FORMS[mark](text, at if mark in _AT_MARK else at + len(mark), tools)


_AT_MARK = ("<function=", "<function name=")  # forms whose mark is part of what is read
MARKED_FORMS = {
    "<tool_call>": parse_hermes,
    "<tools>": parse_tools_tag,
    "<function name=": parse_attributes,
    "<function=": parse_function_tag,
    "<|python_tag|>": parse_llama,
    "[TOOL_CALLS]": parse_mistral,
}
