"""Change one value inside a JSON5 text and leave the rest of the text, comments included, as it is. Pure.

Best effort by design: the caller parses what comes out and compares it with what it wanted, so an edit that went wrong
is noticed there. `None` means that the text cannot be edited here at all.
"""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from palinurus.config.keypath import Path
from palinurus.config.lines import JsonNode, JsonScan, scan_json
from palinurus.patterns import compile_late

_IDENTIFIER = compile_late(r"[A-Za-z_$][A-Za-z0-9_$]*")
STEP = "  "


def render_json(value: Any, indent: str = "") -> str:
    """`value` as JSON, its later lines indented by `indent`."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=len(STEP)).decode()
    return text.replace("\n", "\n" + indent)


def put_value(raw: Any, path: Path, value: Any) -> Any:
    """A copy of `raw` with `value` at `path`; objects on the way are made. Raises ValueError if that cannot be."""
    if not path:
        return value
    head, rest = path[0], path[1:]
    if isinstance(head, int):
        items = [] if raw is None else raw
        if not isinstance(items, list):
            raise ValueError("this is not a list")
        if head > len(items):
            raise ValueError(f"the list has only {len(items)} items")
        below = items[head] if head < len(items) else None
        return [*items[:head], put_value(below, rest, value), *items[head + 1 :]]
    body = {} if raw is None else raw
    if not isinstance(body, dict):
        raise ValueError("this is a single value, nothing can stand below it")
    return {**body, head: put_value(body.get(head), rest, value)}


def remove_value(raw: Any, path: Path) -> Any:
    """A copy of `raw` without what stands at `path`, which must exist."""
    result = copy.deepcopy(raw)
    around = result
    for part in path[:-1]:
        around = around[part]
    del around[path[-1]]
    return result


def put_text(text: str, path: Path, value: Any) -> str | None:
    """`text` with `value` at `path`."""
    found = scan_json(text)
    if found.fault is not None or () not in found.nodes:
        return None
    node = found.nodes.get(path)
    if node is not None:
        return text[: node.start] + render_json(value, _indent(text, node.key)) + text[node.end :]
    size = next(n for n in range(len(path) - 1, -1, -1) if path[:n] in found.nodes)
    around, new, below = path[:size], path[size], path[size + 1 :]
    if found.nodes[around].kind != ("array" if isinstance(new, int) else "object"):
        return None
    try:
        body = put_value(None, below, value)
    except ValueError:
        return None
    return _insert(text, found, around, new, body=body)


def _insert(text: str, found: JsonScan, around: Path, new: str | int, body: Any) -> str:
    """A new last member of the object or list at `around`."""
    box = found.nodes[around]
    siblings = _members(found, around)
    closing = box.end - 1
    own_line = text[text.rfind("\n", 0, closing) + 1 : closing].strip() == "" and "\n" in text[box.start : closing]
    indent = _indent(text, siblings[-1].key) if siblings and own_line else _indent(text, box.key) + STEP
    bare = bool(siblings) and not any(node.quoted for node in siblings)
    item = _key(new, bare) + render_json(body, indent)
    if not siblings:
        start = box.start + 1
        tail = "\n" + _indent(text, box.key) if not own_line else ""
        return f"{text[:start]}\n{indent}{item}{tail}{text[start:]}"
    last = siblings[-1]
    if not own_line:
        at = last.comma + 1 if last.comma >= 0 else last.end
        return f"{text[:at]}{' ' if last.comma >= 0 else ', '}{item}{text[at:]}"
    line = text.rfind("\n", 0, closing) + 1
    between = text[last.end : line]
    if last.comma >= 0:
        return f"{text[:line]}{indent}{item},\n{text[line:]}"
    return f"{text[: last.end]},{between}{indent}{item}\n{text[line:]}"


def remove_text(text: str, path: Path) -> str | None:
    """`text` without the member at `path`; a comment on its own line above it stays."""
    found = scan_json(text)
    node = found.nodes.get(path)
    if found.fault is not None or node is None or not path:
        return None
    start, end = node.key, node.comma + 1 if node.comma >= 0 else node.end
    line_start = text.rfind("\n", 0, start) + 1
    rest = text.find("\n", end)
    line_end = len(text) if rest < 0 else rest + 1
    if not text[line_start:start].strip() and not text[end:line_end].strip():
        start, end = line_start, line_end
    out = text[:start] + text[end:]
    before = [n for n in _members(found, path[:-1]) if n.end <= node.key]
    if node.comma < 0 and before and before[-1].comma >= 0 and before[-1].comma < start:
        # It was the last one: the comma before it would be left over. JSON5 allows that, plain JSON does not.
        comma = before[-1].comma
        out = out[:comma] + out[comma + 1 :]
    return out


def _members(found: JsonScan, around: Path) -> list[JsonNode]:
    size = len(around) + 1
    below = [node for path, node in found.nodes.items() if len(path) == size and path[:-1] == around]
    return sorted(below, key=lambda node: node.start)


def _indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _key(new: str | int, bare: bool) -> str:
    if isinstance(new, int):
        return ""
    return f"{new}: " if bare and _IDENTIFIER.fullmatch(new) else f"{msgspec.json.encode(new).decode()}: "
