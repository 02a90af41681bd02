"""What the model is told of the browser tool's arguments: OpenClaw's names, flat, in one table."""

from __future__ import annotations

from typing import Any

ACTIONS = (
    "status", "start", "stop", "profiles", "tabs", "open", "focus", "close", "snapshot", "screenshot", "navigate",
    "console", "pdf", "upload", "download", "waitfordownload", "dialog", "cookies", "act",
)  # fmt: skip
KINDS = (
    "click", "clickCoords", "type", "press", "hover", "scrollIntoView", "drag", "select", "fill", "resize", "wait",
    "evaluate", "close",
)  # fmt: skip
_TEXT, _NUMBER, _BOOL = {"type": "string"}, {"type": "number"}, {"type": "boolean"}
_TEXTS = {"type": "array", "items": {"type": "string"}}
_TABLE: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("profile", _TEXT, "Which browser; leave out for the usual one"),
    ("targetUrl", _TEXT, "open, navigate: http(s) address"),
    ("targetId", _TEXT, "Tab (t1, t2, …); the current one if left out"),
    ("ref", _TEXT, "Element of the last snapshot, such as e12"),
    ("mode", {"enum": ["efficient", "diff"]}, "snapshot: only what can be acted on; only what changed since the last"),
    ("interactive", _BOOL, "snapshot: only elements that can be acted on"),
    ("compact", _BOOL, "snapshot: without nameless structure"),
    ("depth", _NUMBER, "snapshot: levels"),
    ("maxChars", _NUMBER, "snapshot: at most so many characters"),
    ("selector", _TEXT, "snapshot: only below this CSS selector; wait: until it is there"),
    ("frame", _TEXT, "snapshot: only this iframe (CSS selector)"),
    ("urls", _BOOL, "snapshot: with the addresses of links"),
    ("fullPage", _BOOL, "screenshot: all of it"),
    ("type", {"enum": ["png", "jpeg"]}, "screenshot"),
    ("level", _TEXT, "console: error, warning, info"),
    ("path", _TEXT, "download, pdf: file of the workspace"),
    ("paths", _TEXTS, "upload: files of the workspace. Before the click that asks for them, or with inputRef"),
    ("inputRef", _TEXT, "upload: the file input"),
    ("accept", _BOOL, "dialog: answer yes or no, before it opens or after; also name and password prompts"),
    ("promptText", _TEXT, "dialog: what is typed into it; NAME:PASSWORD for a password prompt"),
    ("domain", _TEXT, "cookies: only of this domain"),
    ("clear", _BOOL, "console, cookies: forget them"),
    ("kind", {"enum": list(KINDS)}, "act: what to do"),
    ("text", _TEXT, "type: replaces what is there; wait: until it is seen"),
    ("submit", _BOOL, "type: Enter afterwards"),
    ("slowly", _BOOL, "type: key by key, after what is there"),
    ("key", _TEXT, "press: Enter, ArrowDown, Control+A, …"),
    ("button", _TEXT, "click: left, right, middle"),
    ("doubleClick", _BOOL, "click"),
    ("modifiers", _TEXTS, "click: Shift, Control, Alt, Meta"),
    ("x", _NUMBER, "clickCoords: from the left of the view"),
    ("y", _NUMBER, "clickCoords: from its top"),
    ("startRef", _TEXT, "drag"),
    ("endRef", _TEXT, "drag"),
    (
        "points",
        {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
        "drag on ref: [[x, y], …] from its corner",
    ),
    ("values", _TEXTS, "select: values or labels"),
    (
        "fields",
        {"type": "array", "items": {"type": "object", "additionalProperties": True}},
        "fill: [{ref, value}]; true or false for boxes",
    ),
    ("width", _NUMBER, "resize"),
    ("height", _NUMBER, "resize"),
    ("timeMs", _NUMBER, "wait: so long"),
    ("textGone", _TEXT, "wait: until it is no longer seen"),
    ("url", _TEXT, "wait: until the address is like this, * for anything"),
    ("loadState", {"enum": ["load", "domcontentloaded", "networkidle"]}, "wait"),
    ("fn", _TEXT, "evaluate: a JavaScript function, of the element if a ref is given; wait: until it returns true"),
    ("timeoutMs", _NUMBER, "wait, navigate, download: at most"),
)
_SCRIPTED = ("fn",)


def describe_arguments(evaluate: bool) -> dict[str, Any]:
    """The JSON schema. Without `evaluate` nothing is said of running scripts."""
    props: dict[str, Any] = {"action": {"type": "string", "enum": list(ACTIONS)}}
    for name, form, about in _TABLE:
        if evaluate or name not in _SCRIPTED:
            props[name] = {"type": "string", **form, "description": about} if "enum" in form else {
                **form, "description": about
            }  # fmt: skip
    if not evaluate:
        kinds = [kind for kind in KINDS if kind != "evaluate"]
        props["kind"] = {**props["kind"], "enum": kinds}
    props["request"] = {
        "type": "object",
        "additionalProperties": True,
        "description": "act: the same arguments in an object of their own",
    }
    return {"type": "object", "properties": props, "required": ["action"]}
