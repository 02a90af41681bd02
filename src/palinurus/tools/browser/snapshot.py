"""A page as text: roles, names and refs out of the accessibility trees of its frames. Pure: trees in, lines out.

A ref (e12) stands for one element until its page goes; numbers are never used twice, so that an old ref fails instead
of meaning another element.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

AxNode: TypeAlias = dict[str, Any]

# What can be acted on.
INTERACTIVE = frozenset(
    (
        "button", "link", "textbox", "searchbox", "combobox", "listbox", "option", "checkbox", "radio", "switch",
        "slider", "spinbutton", "menuitem", "menuitemcheckbox", "menuitemradio", "tab", "treeitem", "scrollbar",
        "colorwell", "date", "datetime", "inputtime", "disclosuretriangle", "popupbutton", "textfield", "togglebutton",
        "textfieldwithcombobox",
    )
)  # fmt: skip
# Not acted on by most, but sometimes: they have refs, too.
_REFERRED = frozenset(
    (
        "canvas", "image", "img", "iframe", "iframepresentational", "listitem", "cell", "gridcell", "video", "audio",
    )
)  # fmt: skip
_SKIPPED = frozenset(
    (
        "none",
        "generic",
        "inlinetextbox",
        "linebreak",
        "rootwebarea",
        "webarea",
        "presentation",
        "genericcontainer",
        "menulistpopup",
        "ignored",
        "listmarker",
    )
)
_TOLD_BY_TEXT = frozenset(("listitem", "cell", "gridcell", "paragraph", "labeltext"))  # have no names of their own
_STRUCTURE = frozenset(
    (
        "group", "section", "region", "list", "table", "row", "rowgroup", "main", "banner", "form", "paragraph",
        "layouttable", "layouttablerow", "layouttablecell", "figure", "article", "navigation", "contentinfo",
        "complementary", "sectionheader", "sectionfooter",
    )
)  # fmt: skip
_FLAGS = ("disabled", "required", "readonly", "focused", "selected", "modal", "busy")
_STATES = ("checked", "pressed", "expanded", "level", "invalid")
_RENAMED = {"img": "image", "popupbutton": "combobox", "statictext": "text", "labeltext": "label"}
_NAME = 400  # characters of one name
MAX_CHARS, EFFICIENT_CHARS = 12_000, 6_000
_DEEPEST = 200


class ElementRef(msgspec.Struct, frozen=True):
    """One element: where it lives, and what it was called."""

    session: str
    frame: str
    node: int
    role: str
    name: str


class RefBook:
    """Refs of one tab."""

    def __init__(self) -> None:
        self._next = 1
        self._refs: dict[str, ElementRef] = {}
        self._known: dict[tuple[str, int], str] = {}

    def give(self, element: ElementRef) -> str:
        """Its ref, the same as before if it has one."""
        key = (element.session, element.node)
        ref = self._known.get(key)
        if ref is None:
            ref = f"e{self._next}"
            self._next += 1
            self._known[key] = ref
        self._refs[ref] = element
        return ref

    def find(self, ref: str) -> ElementRef | None:
        """What it stands for; None for one that was never given, or whose page is gone."""
        text = ref.strip().strip("[]").removeprefix("ref=").removeprefix("@")
        return self._refs.get(text if text.startswith("e") else f"e{text}")

    def forget(self) -> None:
        """The page has gone."""
        self._refs.clear()
        self._known.clear()


class SnapshotOptions(msgspec.Struct, frozen=True):
    """What is wanted of a page."""

    interactive: bool = False
    compact: bool = False
    depth: int = 0  # 0 = all
    chars: int = MAX_CHARS
    urls: bool = False
    root: int = 0  # the DOM node to begin with; 0 = the page


class FrameTree(msgspec.Struct, frozen=True):
    """The accessibility tree of one frame. `inner`: DOM node of an iframe -> the key of its tree."""

    session: str
    frame: str
    nodes: Sequence[AxNode]
    inner: Mapping[int, str] = {}
    marked: Mapping[int, str] = {}  # DOM nodes without a telling role that can be acted on -> a word for them


class PageSnapshot(msgspec.Struct, frozen=True):
    """`cut`: lines that were left out at the end."""

    lines: tuple[str, ...]
    cut: int = 0
    refs: int = 0

    @property
    def text(self) -> str:
        more = f"\n… {self.cut} more lines (selector, interactive or a larger maxChars shows them)" if self.cut else ""
        return "\n".join(self.lines) + more


def render_page(trees: Mapping[str, FrameTree], start: str, options: SnapshotOptions, refs: RefBook) -> PageSnapshot:
    """The lines of the page that begins with the tree `start`."""
    lines: list[str] = []
    chars = cut = given = 0
    for line, element in _Walker(trees, options).walk(start):
        if chars > options.chars:
            cut += 1
            continue
        if element is not None:
            line = f"{line} [ref={refs.give(element)}]"
            given += 1
        chars += len(line) + 1
        lines.append(line)
    return PageSnapshot(tuple(lines), cut, given)


def describe_change(old: Sequence[str], new: Sequence[str], most: int) -> str:
    """What is new (+) and what is gone (-), in order; "" for nothing."""
    before, after = Counter(line.strip() for line in old), Counter(line.strip() for line in new)
    gone, came = before - after, after - before
    lines = [*_take(old, gone, "-"), *_take(new, came, "+")]
    text = "\n".join(lines)
    return text if len(text) <= most else f"{text[:most]}\n… (much has changed: take a new snapshot)"


def _take(lines: Sequence[str], wanted: Counter[str], sign: str) -> Iterator[str]:
    left = Counter(wanted)
    for line in lines:
        bare = line.strip()
        if left[bare] > 0:
            left[bare] -= 1
            yield f"{sign} {bare}"


class _Walker:
    """Goes through the trees in reading order."""

    def __init__(self, trees: Mapping[str, FrameTree], options: SnapshotOptions) -> None:
        self._trees = trees
        self._options = options

    def walk(self, key: str) -> Iterator[tuple[str, ElementRef | None]]:
        tree = self._trees[key]
        nodes = {node["nodeId"]: node for node in tree.nodes}
        tops = [node for node in tree.nodes if node.get("parentId") not in nodes]
        if self._options.root:
            tops = [node for node in tree.nodes if node.get("backendDOMNodeId") == self._options.root][:1]
        for top in tops:
            yield from self._visit(tree, nodes, top, 0, named="")
        if not self._options.root:  # what has no place in the tree, such as an empty canvas
            known = {node.get("backendDOMNodeId") for node in tree.nodes}
            for ident, word in tree.marked.items():
                if ident not in known:
                    yield f"- {word}", ElementRef(tree.session, tree.frame, ident, word, name="")

    def _visit(
        self, tree: FrameTree, nodes: dict[str, AxNode], node: AxNode, depth: int, *, named: str
    ) -> Iterator[tuple[str, ElementRef | None]]:
        if depth > _DEEPEST or (self._options.depth and depth > self._options.depth):
            return
        role = _word(node.get("role")).lower()
        ident = int(node.get("backendDOMNodeId") or 0)
        mark = tree.marked.get(ident, "") if role not in INTERACTIVE else ""
        hidden = bool(node.get("ignored")) or role in _SKIPPED
        name = _clean(_word(node.get("name")))
        if mark and (hidden or role in _STRUCTURE):
            role, hidden = mark, False
        if not name and (mark or role in _TOLD_BY_TEXT):
            name = _clean(_gather(nodes, node))
        if not hidden:
            line = self._line(role, name, node, named)
            if line:
                element = None
                if ident and (role in INTERACTIVE or role in _REFERRED or mark):
                    element = ElementRef(tree.session, tree.frame, ident, role, name=name)
                yield "  " * (0 if self._options.interactive else depth) + line, element
                depth += 1
                named = f"{name or named} {_clean(_word(node.get('value')))}"
        if ident in tree.inner and tree.inner[ident] in self._trees:
            inner = self._trees[tree.inner[ident]]
            inside = {one["nodeId"]: one for one in inner.nodes}
            for top in [one for one in inner.nodes if one.get("parentId") not in inside]:
                yield from self._visit(inner, inside, top, depth, named="")
            return
        for child in node.get("childIds") or ():
            if child in nodes:
                yield from self._visit(tree, nodes, nodes[child], depth, named=named)

    def _line(self, role: str, name: str, node: AxNode, named: str) -> str:
        """The node's own line; "" where it has nothing to say that was not said already."""
        options = self._options
        if role == "statictext":
            said = not name or name in named
            return "" if said or options.interactive else f'- text "{name}"'
        if (
            options.interactive
            and role not in INTERACTIVE
            and role not in ("clickable", "draggable", "canvas", "iframe")
        ):
            return ""
        if (options.compact or role in ("paragraph", "layouttable", "layouttablerow", "layouttablecell")) and (
            role in _STRUCTURE and not name
        ):
            return ""
        words = [f"- {_RENAMED.get(role, role)}"]
        if name:
            words.append(f'"{name}"')
        words += _states(node, urls=options.urls)
        return " ".join(words)


def _states(node: AxNode, *, urls: bool) -> Iterator[str]:
    told = {one["name"]: _word(one.get("value")) for one in node.get("properties") or ()}
    value = _clean(_word(node.get("value")))
    for name in _FLAGS:
        if told.get(name) == "true":
            yield f"[{name}]"
    for name in _STATES:
        if name == "level" and _word(node.get("role")).lower() != "heading":
            continue
        if name in told and not (told[name] == "false" and name in ("invalid", "checked", "pressed")):
            yield f"[{name}={told[name]}]" if told[name] != "true" else f"[{name}]"
    if value:
        yield f'value="{value}"'
    if urls and told.get("url"):
        yield f"-> {told['url'][:500]}"


def _word(value: Any) -> str:
    found = value.get("value") if isinstance(value, dict) else None
    if isinstance(found, bool):
        return "true" if found else "false"
    return "" if found is None else str(found)


def _clean(text: str) -> str:
    flat = " ".join(text.split()).replace('"', "'")
    return flat if len(flat) <= _NAME else f"{flat[:_NAME]}…"


def _gather(nodes: Mapping[str, AxNode], node: AxNode) -> str:
    """The text below a node that has no name of its own."""
    words: list[str] = []
    waiting = [node]
    while waiting and len(words) < 20:
        one = waiting.pop(0)
        if _word(one.get("role")).lower() == "statictext":
            words.append(_word(one.get("name")))
        waiting[:0] = [nodes[child] for child in one.get("childIds") or () if child in nodes]
    return " ".join(words)
