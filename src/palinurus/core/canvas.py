"""What a canvas holds and how it is written down: A2UI messages, the page around them, the policy that a browser holds
it to, and a person's action as a message. Pure.

The page is content: a model wrote it, perhaps after reading a stranger's words. It gets the origin of nobody
(`sandbox`), no network but the files beside it, and what it says is never taken for the person's own words.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from palinurus.core.policy.taint import write_sources
from palinurus.core.untrusted import clean_label, make_inert, wrap_untrusted
from palinurus.patterns import compile_late

MAX_HTML = 1_000_000  # characters of one document
MAX_SURFACES = 500_000  # bytes of all A2UI messages of one canvas
MAX_MESSAGES = 2_000
MAX_CONTEXT = 16_000  # bytes of what comes with an action
MAX_RESULT = 64_000  # characters of what eval gives back
OWN = "own canvas"  # the source of what a canvas says that was made before anything from outside was read

# `sandbox` without allow-same-origin: also opened by itself the page is of no origin, so it has no cookie, no storage
# and no request that counts as ours. 'self' is where it came from: the files beside it, nothing else answers without a
# credential. What a frame may be navigated to is the business of the page around it (frame-src there).
POLICY = (
    "sandbox allow-scripts allow-forms; default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src 'self' data: blob:; font-src data:; "
    "connect-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)
FRAME_POLICY = "default-src 'none'; frame-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'none'"
KINDS = ("surfaceUpdate", "beginRendering", "dataModelUpdate", "deleteSurface")

_DOCTYPE = compile_late(r"\s*(?:<!--.{0,2000}?-->\s*)?<!doctype[^>]{0,200}>", 2 | 16)  # IGNORECASE, DOTALL

A2uiMessage = dict[str, Any]


def parse_a2ui(text: str) -> tuple[A2uiMessage, ...] | str:
    """The messages of JSON lines (or of one JSON list), or what is wrong with them."""
    stripped = text.strip()
    if not stripped:
        return "jsonl is empty: one A2UI message on each line"
    try:
        if stripped.startswith("["):
            given = msgspec.json.decode(stripped, type=list[Any])
        else:
            given = [msgspec.json.decode(line) for line in stripped.splitlines() if line.strip()]
    except (msgspec.DecodeError, RecursionError) as exc:
        return f"jsonl cannot be read: {exc}"
    for number, one in enumerate(given, 1):
        if wrong := _find_fault(one):
            return f"message {number}: {wrong}"
    return tuple(given)


def _find_fault(message: Any) -> str:
    if not isinstance(message, dict):
        return "must be an object"
    kinds = [kind for kind in KINDS if kind in message]
    if "createSurface" in message or "updateComponents" in message:
        return "is of A2UI v0.9; this canvas takes v0.8 (surfaceUpdate, then beginRendering)"
    if len(kinds) != 1 or not isinstance(body := message[kinds[0]], dict):
        return f"must have exactly one of {', '.join(KINDS)}"
    if not isinstance(body.get("surfaceId"), str) or not body["surfaceId"]:
        return f"{kinds[0]} must have a surfaceId"
    if kinds[0] == "beginRendering" and not isinstance(body.get("root"), str):
        return "beginRendering must name the root component"
    if kinds[0] == "surfaceUpdate":
        rows = body.get("components")
        if not isinstance(rows, list) or not all(
            isinstance(row, dict) and isinstance(row.get("id"), str) for row in rows
        ):
            return "surfaceUpdate must have components, each with an id"
    if kinds[0] == "dataModelUpdate" and not isinstance(body.get("contents"), list):
        return "dataModelUpdate must have contents: [{key, valueString | valueNumber | valueBoolean | valueMap}]"
    return ""


def add_messages(old: Sequence[A2uiMessage], new: Sequence[A2uiMessage]) -> tuple[A2uiMessage, ...] | str:
    """All of them in order, without what a deleted surface had; or why they are too many."""
    kept = list(old)
    for message in new:
        if "deleteSurface" in message:
            gone = message["deleteSurface"]["surfaceId"]
            kept = [one for one in kept if next(iter(one.values())).get("surfaceId") != gone]
        else:
            kept.append(message)
    if len(kept) > MAX_MESSAGES or len(msgspec.json.encode(kept)) > MAX_SURFACES:
        return f"the canvas would hold more than {MAX_MESSAGES} messages or {MAX_SURFACES} bytes; use a2ui_reset first"
    return tuple(kept)


def add_bridge(document: str, script: str) -> str:
    """The document with our script before everything else of it."""
    found = _DOCTYPE.match(document)
    at = found.end() if found else 0
    head = document[:at] if found else "<!doctype html>"
    return f'{head}<meta charset="utf-8"><script src="{html.escape(script)}"></script>{document[at:]}'


def build_a2ui_page(messages: Sequence[A2uiMessage], title: str, script: str) -> str:
    """A page that draws these messages, and those that are told to it later."""
    data = msgspec.json.encode(messages).decode().replace("<", "\\u003c")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title or 'Canvas')}</title>"
        f'<script type="application/json" id="a2ui">{data}</script><script src="{html.escape(script)}" defer></script>'
        f"<main></main></html>"
    )


def build_frame_page(address: str) -> str:
    """What is served to who opens a canvas by itself: the frame around it keeps it from going elsewhere."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<title>Canvas</title><style>html,body,iframe{margin:0;border:0;width:100%;height:100%;display:block}</style>"
        f'<iframe title="Canvas" sandbox="allow-scripts allow-forms" src="{html.escape(address)}"></iframe></html>'
    )


class CanvasAction(msgspec.Struct, frozen=True):
    """What a person did on a canvas, as the canvas tells it."""

    name: str
    surface: str = ""
    component: str = ""
    context: Mapping[str, Any] = {}


def write_action(action: CanvasAction, taint: Sequence[str], boundary: str) -> tuple[str, str]:
    """(the message for the agent, its source). Never the person's own words: those are that something was pressed."""
    where = ", ".join(
        f"{word} {clean_label(value, 60)}"
        for word, value in (("component", action.component), ("surface", action.surface))
        if value
    )
    text = f'[Canvas] The person used "{clean_label(action.name, 80)}"{f" ({where})" if where else ""}.'
    source = write_sources(taint) or OWN
    if action.context:
        data = msgspec.json.format(msgspec.json.encode(action.context), indent=1).decode()
        told = wrap_untrusted(data, "canvas", boundary) if source != OWN else make_inert(data)
        text += f"\nWhat the canvas sends along (the page's content, filled in by the person at most in part):\n{told}"
    return text, source
