"""What editors are shown, in the words of the Agent Client Protocol: tool calls with diffs and places, plans, modes,
options, commands. Converts; speaks to nobody.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from acp import helpers, schema

from palinurus.core.policy import modes
from palinurus.tools.files.hunks import AddFile, PatchError, UpdateFile, parse_patch

KINDS = {  # what a tool does, in the editor's words
    **dict.fromkeys(("read", "ls", "image", "pdf"), "read"),
    **dict.fromkeys(("write", "edit", "apply_patch"), "edit"),
    **dict.fromkeys(("exec", "process"), "execute"),
    **dict.fromkeys(("grep", "find", "memory_search", "web_search"), "search"),
    "web_fetch": "fetch",
    "update_plan": "think",
}
STATES = {"completed": "completed", "in_progress": "in_progress"}
DECISIONS = {
    "allow-once": ("allow_once", "Allow once"),
    "allow-always": ("allow_always", "Always allow"),
    "deny": ("reject_once", "Deny"),
}
MODEL, THINKING = "model", "thought_level"  # ids of what can be chosen


def make_tool_start(data: Mapping[str, Any], folder: str) -> Any:
    """A call that begins: what it does, where, and what it would change."""
    name, args = str(data["name"]), data.get("args")
    given = args if isinstance(args, dict) else {}
    kind: Any = KINDS.get(name, "other")
    path = _find_path(given, folder)
    diffs = make_patch_diffs(given, folder) if name == "apply_patch" else make_diffs(name, given, path)
    places = [path] if path else list(dict.fromkeys(one.path for one in diffs))
    return helpers.start_tool_call(
        str(data["toolCallId"]),
        make_title(name, args),
        kind=kind,
        status="in_progress",
        content=diffs or None,
        locations=[schema.ToolCallLocation(path=place) for place in places] or None,
        raw_input=args,
    )


def make_tool_end(data: Mapping[str, Any], diffs: list[Any], terminal: str = "") -> Any:
    """A call that is over. What an edit changed stays to be seen, and the terminal it ran in: the editor shows them
    instead of our words."""
    result = data.get("result") or {}
    blocks = result.get("content") or ()
    details = result.get("details")
    code = details.get("exitCode") if isinstance(details, dict) else None
    failed = bool(data.get("isError")) or bool(code)
    said = [helpers.tool_content(helpers.text_block(b["text"])) for b in blocks if b.get("type") == "text"]
    shown = [helpers.tool_terminal_ref(terminal)] if terminal else said if failed else diffs or said
    return helpers.update_tool_call(str(data["toolCallId"]), status="failed" if failed else "completed", content=shown)


def make_diffs(name: str, args: Mapping[str, Any], path: str) -> list[Any]:
    """What an edit replaces by what; a file that is written is all new."""
    if not path:
        return []
    if name == "write" and isinstance(args.get("content"), str):
        return [helpers.tool_diff_content(path, args["content"])]
    edits = args.get("edits") if name == "edit" else None
    pairs = edits if isinstance(edits, list) else [args] if name == "edit" else []
    return [
        helpers.tool_diff_content(path, one["newText"], one["oldText"])
        for one in pairs
        if isinstance(one, dict) and isinstance(one.get("newText"), str) and isinstance(one.get("oldText"), str)
    ]


def make_patch_diffs(args: Mapping[str, Any], folder: str) -> list[Any]:
    """What a patch does to each file, place by place; nothing for one that cannot be read (the call will say why)."""
    try:
        changes = parse_patch(str(args.get("input") or ""))
    except PatchError:
        return []
    diffs = []
    for change in changes:
        path = _find_path({"path": change.path}, folder)
        if isinstance(change, AddFile):
            diffs.append(helpers.tool_diff_content(path, change.text))
        elif isinstance(change, UpdateFile):
            for chunk in change.chunks:
                fresh = "\n".join(line.text for line in chunk.lines if line.kind != "-")
                diffs.append(helpers.tool_diff_content(path, fresh, "\n".join(chunk.old)))
    return diffs


def make_plan(args: Any) -> Any:
    """The plan that the agent set; None if it cannot be read."""
    steps = args.get("plan") if isinstance(args, dict) else None
    if not isinstance(steps, list):
        return None
    entries = [
        helpers.plan_entry(str(one.get("step", "")), status=STATES.get(str(one.get("status")), "pending"))  # type: ignore[arg-type]
        for one in steps
        if isinstance(one, dict)
    ]
    return helpers.update_plan(entries)


def make_title(name: str, arguments: Any) -> str:
    values = [str(v) for v in arguments.values()] if isinstance(arguments, dict) else []
    return f"{name}: {values[0][:100]}" if values else name


def _find_path(args: Mapping[str, Any], folder: str) -> str:
    """The file that a call is about, as a whole path; "" if it names none, or nobody knows from where."""
    path = args.get("path")
    if not isinstance(path, str) or not path.strip() or not (folder or os.path.isabs(path)):
        return ""
    return os.path.normpath(os.path.join(folder, path))


def make_modes(row: Mapping[str, Any]) -> Any:
    """How much a session may do unasked."""
    named = [schema.SessionMode(id=name, name=name, description=modes.ABOUT[name]) for name in modes.MODES]
    return schema.SessionModeState(current_mode_id=str(row.get("permissionMode") or "default"), available_modes=named)


def make_options(row: Mapping[str, Any], models: Iterable[Mapping[str, Any]]) -> list[Any]:
    """What can be chosen for a session: its model, and how much that thinks."""
    now = f"{row.get('modelProvider')}/{row.get('model')}"
    names = list(dict.fromkeys([*(f"{one['provider']}/{one['id']}" for one in models), now]))
    levels = [(str(one["id"]), str(one["label"])) for one in row.get("thinkingLevels") or ()]
    level = str(row.get("thinkingLevel") or row.get("thinkingDefault") or "off")
    made = [_make_select(MODEL, "Model", now, [(name, name) for name in names])]
    return [*made, _make_select(THINKING, "Thinking", level, levels)] if levels else made


def _make_select(ident: Any, name: str, now: str, choices: list[tuple[str, str]]) -> Any:
    offered = [schema.SessionConfigSelectOption(value=value, name=label) for value, label in choices]
    return schema.SessionConfigOptionSelect(
        id=ident, name=name, category=ident, type="select", current_value=now, options=offered
    )


def make_choices(words: Iterable[str], *names: str) -> list[Any]:
    """What a person may answer; `names` are shown instead of the usual ones."""
    known = [word for word in words if word in DECISIONS]
    shown = names or tuple(DECISIONS[word][1] for word in known)
    kinds: list[Any] = [DECISIONS[word][0] for word in known]
    rows = zip(known, shown, kinds, strict=True)
    return [schema.PermissionOption(option_id=word, name=name, kind=kind) for word, name, kind in rows]


def make_session_info(name: str, row: Mapping[str, Any]) -> Any:
    """A session of a list."""
    title, at = str(row.get("label") or row.get("derivedTitle") or row["key"]), row.get("updatedAt")
    day = datetime.fromtimestamp(at / 1000, UTC).isoformat() if at else None
    return schema.SessionInfo(session_id=name, cwd=str(row.get("folder") or "/"), title=title, updated_at=day)


def make_commands(rows: Iterable[Mapping[str, Any]]) -> Any:
    """What can be typed after a slash."""
    words = schema.AvailableCommandInput(root=schema.UnstructuredCommandInput(hint="…"))
    told = [(str(row["name"]), str(row.get("description") or row["name"]), row.get("acceptsArgs")) for row in rows]
    made = [
        schema.AvailableCommand(name=name.lstrip("/"), description=about, input=words if more else None)
        for name, about, more in told
    ]
    return helpers.update_available_commands(made)


def read_prompt(prompt: list[Any]) -> tuple[str, list[dict[str, Any]]]:
    """The words of a prompt, files that came with it included, and its pictures."""
    words: list[str] = []
    pictures: list[dict[str, Any]] = []
    for block in prompt:
        if block.type == "text":
            words.append(block.text)
        elif block.type == "image":
            pictures.append({"type": "image", "mimeType": block.mime_type, "content": block.data})
        elif block.type == "resource_link":
            words.append(f"[{block.name}]({block.uri})")
        elif block.type == "resource" and getattr(block.resource, "text", None):
            words.append(f'<file uri="{block.resource.uri}">\n{block.resource.text}\n</file>')
    return "\n".join(words), pictures


def read_text(message: Mapping[str, Any]) -> str:
    """The words of a message of the gateway's."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "".join(b.get("text", "") for b in content or () if b.get("type") == "text")
