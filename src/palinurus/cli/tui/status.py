"""The line at the bottom: what goes on, who may what, where, which model, how full, how dear. Pure but for the branch.

Its parts and their order can be configured (ui.terminal.status); where there is no room what matters least goes first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from textual.content import Content

from palinurus.cli.render import strip_controls
from palinurus.core.text import cut_end, format_tokens
from palinurus.core.types.keys import parse_session_key

METER = 5  # cells of the meter
TITLE = 24  # letters of a session's title


class StatusBarFacts(msgspec.Struct, frozen=True):
    """What the line tells. `line` is the state of the connection: "" when it stands."""

    session: str
    row: Mapping[str, Any]  # the session as the gateway lists it
    running: float | None = None  # seconds
    line: str = ""
    waiting: int = 0  # questions that wait for an answer
    tasks: int = 0  # what goes on in the background
    cost: float = 0.0  # dollars
    profile: str = ""
    title: str = ""  # what the session is about
    folder: str = ""
    branch: str = ""
    sandbox: str = ""
    command: str = ""  # what the configured command said
    keys: str = ""  # the mode of vi


def format_model(row: Mapping[str, Any]) -> str:
    """provider/model, or "" before anybody knows."""
    return f"{row['modelProvider']}/{row['model']}" if row.get("model") else ""


def format_level(row: Mapping[str, Any]) -> str:
    """The thinking level in force."""
    return str(row.get("thinkingLevel") or row.get("thinkingDefault") or "off")


def format_cost(dollars: float) -> str:
    """An amount for people."""
    return f"${dollars:.4f}" if dollars < 1 else f"${dollars:.2f}"


def format_place(facts: StatusBarFacts) -> str:
    """Agent and session: its name or title; of a key that a machine made, only the beginning."""
    key = parse_session_key(facts.session)
    rest = key.rest if key is not None else facts.session
    name = str(facts.row.get("label") or "") or (facts.title if rest != "main" else "")
    head, _, tail = rest.rpartition(":")
    short = f"{head}:{tail[:8]}" if len(tail) > 20 else rest
    shown = cut_end(strip_controls(name), TITLE) if name else short
    place = f"{key.agent}/{shown}" if key is not None else shown
    return f"[{facts.profile}] {place}" if facts.profile else place


def _tell_state(facts: StatusBarFacts) -> str:
    shown = [facts.line] if facts.line else []
    if facts.running is not None:
        shown.append(f"working {facts.running:.0f} s, Esc stops")
    if facts.waiting:
        shown.append(f"{facts.waiting} to decide")
    return "  ".join(shown)


def _tell_context(facts: StatusBarFacts) -> str:
    used, room = facts.row.get("totalTokens") or 0, facts.row.get("contextTokens") or 0
    if not room:
        return ""
    about = "~" if facts.row.get("totalTokensFresh") is False and used else ""
    full = min(METER, -(-METER * used // room))
    return f"{'▰' * full}{'▱' * (METER - full)} {about}{format_tokens(used)}/{format_tokens(room)} tokens"


def _tell_mode(facts: StatusBarFacts) -> str:
    mode = str(facts.row.get("permissionMode") or "")
    return f"{mode} mode" if mode else ""


# Name -> what it says and how it looks; as they are ordered unless the configuration says otherwise.
# With a terminal's own colours the line is dim, and a colour that is dim, too, can hardly be read.
PARTS: Mapping[str, tuple[Callable[[StatusBarFacts], str], str]] = {
    "state": (_tell_state, "$warning not dim"),
    "keys": (lambda f: f.keys, "bold not dim"),
    "tasks": (lambda f: f"{f.tasks} in the background (F2)" if f.tasks else "", "$warning not dim"),
    "mode": (_tell_mode, "$accent not dim"),
    "session": (format_place, "bold not dim"),
    "folder": (lambda f: f.folder, ""),
    "branch": (lambda f: f"⎇ {f.branch}" if f.branch else "", ""),
    "model": (lambda f: format_model(f.row), "$primary not dim"),
    "think": (lambda f: f"think {format_level(f.row)}" if format_model(f.row) else "", ""),
    "context": (_tell_context, ""),
    "cost": (lambda f: format_cost(f.cost) if f.cost else "", ""),
    "command": (lambda f: f.command, ""),
    "sandbox": (lambda f: f.sandbox, ""),
}
# What goes first where there is no room.
YIELDING = ("sandbox", "command", "cost", "branch", "think", "folder", "context", "tasks", "model", "mode", "keys")


def render_status_line(facts: StatusBarFacts, width: int, names: Sequence[str] = ()) -> Content:
    """One line of at most `width` characters."""
    said = {name: words for name in names or PARTS if name in PARTS and (words := PARTS[name][0](facts))}
    shown = {name: words for name, words in said.items() if name not in YIELDING}
    for name in reversed(YIELDING):  # the most important first, each if it fits
        tried = {one: words for one, words in said.items() if one in shown or one == name}
        shown = tried if _measure(tried) <= width else shown
    styled = [Content.styled(words, PARTS[name][1]) for name, words in shown.items()]
    line = Content("  ").join(styled)
    return line if line.cell_length <= width else Content(cut_end(line.plain, width))


def _measure(shown: Mapping[str, str]) -> int:
    return Content("  ".join(shown.values())).cell_length


def read_branch(folder: str) -> str:
    """The branch of the repository that `folder` is in, or the first letters of a commit; "" outside of one."""
    here = folder
    while here and here != os.path.dirname(here):
        found = _read_line(os.path.join(here, ".git", "HEAD")) or _read_worktree(here)
        if found:
            return found.removeprefix("ref: refs/heads/") if found.startswith("ref: ") else found[:8]
        here = os.path.dirname(here)
    return ""


def _read_worktree(here: str) -> str:
    """Of a folder whose .git is a file that says where it is."""
    told = _read_line(os.path.join(here, ".git"))
    place = os.path.join(here, told.removeprefix("gitdir: ")) if told.startswith("gitdir: ") else ""
    return _read_line(os.path.join(place, "HEAD")) if place else ""


def _read_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return strip_controls(file.readline(4096).strip())
    except OSError:
        return ""


def shorten_folder(folder: str, home: str) -> str:
    """With ~ for one's home, the middle left out where it is long."""
    shown = (
        "~" + folder[len(home) :] if home and (folder == home or folder.startswith(home.rstrip("/") + "/")) else folder
    )
    parts = shown.split("/")
    return shown if len(shown) <= 32 or len(parts) < 4 else f"{parts[0]}/…/{'/'.join(parts[-2:])}"
