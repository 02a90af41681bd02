"""The JSON a model writes as arguments of a tool call -> a dict, or the reason why not. Pure; never raises.

What comes out can be stored and sent again: no lone surrogates, no NaN, no numbers beyond 64 bits, no deep nests.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from palinurus.patterns import compile_late

MAX_CHARS = 8_000_000
MAX_DEPTH = 64
_BIG = compile_late(r"[0-9]{19}|[eE]\+?[0-9]{3}")
_SURROGATE = compile_late("[\ud800-\udfff]")
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def parse_arguments(text: str) -> tuple[dict[str, Any], str | None]:
    """(arguments, None), or ({}, what is wrong with them). No text at all means no arguments."""
    if len(text) > MAX_CHARS:
        return {}, f"the arguments are longer than {MAX_CHARS} characters"
    if not text or text.isspace():
        return {}, None
    try:
        value = _decode(text)
        plain = True
    except (msgspec.DecodeError, ValueError, RecursionError):
        value, problem = _lenient(text)
        if problem is not None:
            return {}, problem
        plain = False
    if not isinstance(value, dict):
        return {}, f"the arguments must be a JSON object, not {_NAMES.get(type(value), 'that')}"
    if not plain or text.count("{") + text.count("[") > MAX_DEPTH or _BIG.search(text):
        problem = _unfit(value)
        if problem is not None:
            return {}, problem
    return value if plain else scrub_surrogates(value), None


_NAMES: dict[type, str] = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"} | dict.fromkeys(
    (int, float), "a number"
)


class _NotJson(ValueError):
    pass


def _constant(name: str) -> Any:
    raise _NotJson(f"{name} is not JSON")


def _lenient(text: str) -> tuple[Any, str | None]:
    """Raw line breaks inside strings and lone surrogates are understood; everything else is refused."""
    try:
        return json.loads(text, strict=False, parse_constant=_constant), None
    except RecursionError:
        return None, f"the arguments are nested deeper than {MAX_DEPTH}"
    except json.JSONDecodeError as error:
        return None, f"the arguments are not valid JSON: {error.msg} at character {error.pos}"
    except _NotJson as error:
        return None, f"the arguments are not valid JSON: {error}"
    except ValueError:  # Python refuses integers of more than 4,300 digits
        return None, "the arguments hold a number with too many digits"


def _unfit(value: Any) -> str | None:
    """Why this value could not be kept, walked without recursion."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for node in level:
            for item in node.values() if isinstance(node, dict) else node:
                if isinstance(item, dict | list):
                    below.append(item)
                elif isinstance(item, int) and not -(2**63) <= item < 2**64:
                    return "the arguments hold a number beyond 64 bits"
                elif isinstance(item, float) and item in (float("inf"), float("-inf")):
                    return "the arguments hold a number that is too large"
        if not below:
            return None
        level = below
    return f"the arguments are nested deeper than {MAX_DEPTH}"


def encode_json(value: Any) -> bytes:
    """JSON; text with half characters in it is mended first. Raises TypeError, ValueError."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(scrub_surrogates(value))


class BodyEncoder:
    """Writes bodies. Tools are most of one: those of the last body are not written again."""

    def __init__(self) -> None:
        self._asked: object = None
        self._tools: object = None
        self._written = msgspec.Raw()

    def encode(self, body: dict[str, Any], asked: object) -> bytes:
        """`asked`: the request's own tools, the very same object if they are the same. Raises as `encode_json`."""
        tools = body.get("tools")
        if not tools:
            return encode_json(body)
        if asked is not self._asked or tools != self._tools:
            written = msgspec.Raw(encode_json(tools))
            self._asked, self._tools, self._written = asked, tools, written
        return encode_json({**body, "tools": self._written})


def write_arguments(args: Any) -> str:
    """Arguments that came as an object, or as text, as JSON text. What cannot be written is refused by `arguments`."""
    if isinstance(args, str):
        return args
    if args is None:
        return "{}"
    try:
        return str(encode_json(args), "utf-8")
    except (msgspec.EncodeError, ValueError, OverflowError, TypeError, RecursionError):
        return "[unreadable]"


def scrub_surrogates(value: Any) -> Any:
    """The same value with surrogate pairs joined and lone surrogates replaced by U+FFFD, so that it is UTF-8."""
    if isinstance(value, str):
        return mend_text(value)
    if isinstance(value, dict):
        return {mend_text(k) if isinstance(k, str) else k: scrub_surrogates(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [scrub_surrogates(v) for v in value]
    return value


def mend_text(text: str) -> str:
    """Text that can be encoded."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
