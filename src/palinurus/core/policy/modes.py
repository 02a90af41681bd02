"""Permission modes: how much of what a run would do is asked about, or not done at all. Pure.

One table (`VERDICTS`) says it for each kind of call. A mode never takes away what protects against injected orders:
after untrusted content, outside the sandbox and for hidden characters the gate asks in every mode as it always did.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from palinurus.core.policy import taint
from palinurus.core.types.approval import ExecRules, PermissionMode
from palinurus.core.types.caller import ADMIN
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.sandbox import SEPARATE, SandboxSpec

CallKind: TypeAlias = Literal["look", "edit", "command", "act"]
# gate: as without modes; ask: always; refuse: not at all; closed: only where nothing can be changed; free: unasked
ModeVerdict: TypeAlias = Literal["gate", "ask", "refuse", "closed", "free"]

VERDICTS: dict[PermissionMode, dict[CallKind, ModeVerdict]] = {
    "plan": {"look": "gate", "edit": "refuse", "command": "closed", "act": "refuse"},
    "ask": {"look": "gate", "edit": "ask", "command": "ask", "act": "ask"},
    "default": {"look": "gate", "edit": "gate", "command": "gate", "act": "gate"},
    "acceptEdits": {"look": "gate", "edit": "gate", "command": "gate", "act": "gate"},
    "full": {"look": "gate", "edit": "gate", "command": "free", "act": "gate"},
}
MODES: tuple[PermissionMode, ...] = tuple(VERDICTS)  # strictest first
ABOUT: dict[PermissionMode, str] = {
    "plan": "nothing is changed: the agent looks, presents a plan and ends",
    "ask": "every edit, every command and every other effect asks first",
    "default": "edits and contained commands ask nothing; the gate decides about the rest",
    "acceptEdits": "edits inside the workspace ask nothing; commands as the rules for commands say",
    "full": "nothing inside the sandbox asks; leaving it, and effects after untrusted content, still do",
}
SAID: dict[ModeVerdict, str] = {
    "gate": "as the gate says",
    "ask": "every call asks first",
    "refuse": "it is refused",
    "closed": "commands run where nothing can be written and without a network, or not at all",
    "free": "inside the sandbox nothing asks",
}
_SPELLINGS: dict[str, PermissionMode] = {
    **{mode.lower(): mode for mode in MODES},
    "edits": "acceptEdits",
    "accept": "acceptEdits",
    "bypasspermissions": "full",
    "normal": "default",
    "readonly": "plan",
}

EDITS = frozenset(("write", "edit", "apply_patch"))
COMMANDS = frozenset(("exec", "process"))
# What stays within the turn: a list of steps, a question to a model, what the program says of itself.
NOTES = frozenset(("update_plan", "llm_task", "session_status"))
# Actions of tools with several that only look.
LOOKS: dict[str, frozenset[str]] = {
    **{name: actions for name, actions in taint.FREE.items() if name != "nodes"},
    "nodes": frozenset(("status", "describe", "pending")),
    "process": frozenset(("list", "poll", "log")),
    "browser": frozenset(
        ("status", "tabs", "profiles", "snapshot", "screenshot", "console", "open", "navigate", "focus")
    ),
    "canvas": frozenset(("snapshot",)),
    "image_generate": frozenset(("list", "status")),
}
# What the model is told, before the message: there it leaves the cached beginning of the request as it is.
LINES: dict[PermissionMode, str] = {
    "plan": "[Plan mode, for this message: change nothing. Tools that only look work; edits and effects are refused, "
    "and commands can write nothing. Present a plan and end; the person decides whether it is carried out.]"
}
REFUSED = (
    "not done: this session is in plan mode, in which nothing is changed. Do not look for a way around it: present "
    "your plan and end; the person decides."
)


def parse_mode(word: object) -> PermissionMode | None:
    """The mode that a word means, Claude Code's names among them; None if it means none."""
    return _SPELLINGS.get("".join(str(word).lower().replace("-", " ").replace("_", " ").split()))


def resolve_mode(asked: str, session: str | None, usual: str, inbound: Inbound) -> PermissionMode:
    """What holds for a turn: the message's own word, then the session's, then the configured one. A word that is none
    of ours counts as the strictest. Only the owner's own turns are ever freer than the default."""
    written = asked or session or usual
    mode = (parse_mode(written) or MODES[0]) if written else "default"
    return mode if inbound.sender.may(ADMIN) else limit_mode(mode, "default")


def limit_mode(mode: PermissionMode, most: PermissionMode) -> PermissionMode:
    """The stricter of two."""
    return min(mode, most, key=MODES.index)


def classify_call(
    tool: str, effect: str, origin: str, args: Mapping[str, Any], *, here: tuple[str, str] = ("", "")
) -> CallKind:
    """What kind of call it is. `here`: the chat of the turn (channel, to), where an answer is no effect."""
    if effect == "pure":
        return "look"
    if origin:
        return "act"
    action = str(args.get("action") or "").strip().lower()
    if tool in NOTES or action in LOOKS.get(tool, ()):
        return "look"
    if tool == "message" and not taint.describe_effect(tool, args, here, (), foreign=False):
        return "look"
    return "edit" if tool in EDITS else "command" if tool in COMMANDS else "act"


def explain_mode(mode: PermissionMode, tool: str, effect: str, origin: str) -> str:
    """What the mode means for a tool, whatever its arguments; "" where it changes nothing."""
    verdict = VERDICTS[mode][classify_call(tool, effect, origin, {})]
    looks = ", ".join(sorted(LOOKS.get(tool, ()))) if not origin and verdict != "gate" else ""
    return "" if verdict == "gate" else f"mode {mode}: {SAID[verdict]}{f'; only looking: {looks}' if looks else ''}"


def apply_mode(rules: ExecRules, mode: PermissionMode) -> ExecRules:
    """The rules for commands with what the mode says about them."""
    rules = msgspec.structs.replace(rules, mode=mode)
    verdict = VERDICTS[mode]["command"]
    if verdict == "ask":
        # /elevated full would answer the question in advance
        return msgspec.structs.replace(
            rules, ask="always", elevated="on" if rules.elevated == "full" else rules.elevated
        )
    if verdict == "closed":
        return msgspec.structs.replace(rules, elevated="off", host="auto")
    return rules


def close_cell(cell: SandboxSpec) -> SandboxSpec | None:
    """The cell with nothing in it that can be written but its own temporary folder, and no network. None where the
    kernel cannot hold that."""
    if cell.kind not in SEPARATE:
        return None
    kept = (cell.temporary,) if cell.temporary in cell.write else ()
    read = tuple(dict.fromkeys((*cell.read, *(path for path in cell.write if path not in kept))))
    return msgspec.structs.replace(cell, read=read, write=kept, connect=())
