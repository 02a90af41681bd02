"""Asking the search process: what it may see is opened and judged here; what it says comes back as an Answer."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any, NamedTuple

from palinurus.core.types.tool import ToolContext, ToolFailure
from palinurus.tools import child, files
from palinurus.tools.paths import (
    KERNEL_FOLDERS,
    ResolvedPath,
    is_inside,
    list_barred_folders,
    resolve_path,
    shorten_path,
)

SECONDS = 20.0
BYTES = 50 * 1024
_MAX_REPLY = 1 << 20
_MAX_ABOVE = 32
# -I and -S: nothing of the environment or of site-packages is loaded, and it starts in a third of the time
_FLAGS = ("-I", "-S", "-X", "utf8", "-c")
_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from palinurus.tools.search.worker import main; main()"


class SearchAnswer(NamedTuple):
    lines: list[str]
    hits: int
    full: str  # "", "limit" or "size": why it stopped early
    late: bool  # it ran out of time


async def run_search(ctx: ToolContext, path: str, job: dict[str, Any], seconds: float = SECONDS) -> SearchAnswer:
    """Search `path` (file or folder). Raises ToolFailure; an answer cut short by time says so."""
    place = resolve_path(path or ".", ctx, reading=True)
    if any(is_inside(place.real, folder) for folder in KERNEL_FOLDERS):
        raise ToolFailure(f"{shorten_path(place.given)} is not searched: it shows devices or the kernel, not files")
    only = ""
    start = place
    if not files.name_file_kind(files.stat_path(place)):
        only = os.path.basename(place.real)
        start = ResolvedPath(place.given, os.path.dirname(place.real), place.root)
    room = max(min(BYTES, ctx.settings.result_chars - 300), 200)
    whole = {**job, "only": only, "prefix": _prefix(place, only), "room": room, "seconds": seconds}
    with files.open_listing(start) as handle:
        whole |= {"folder": handle, "barred": list_barred_folders(ctx), "ignores": [] if only else _ignores(start)}
        return await _talk(ctx, whole, handle, seconds)


def _prefix(place: ResolvedPath, only: str) -> str:
    """Findings are named so that they can be given to read as they are."""
    given = place.given.rstrip("/").removeprefix("./") or ("/" if place.given.startswith("/") else "")
    if only:
        given = given.removesuffix(only).rstrip("/") if given.endswith(only) else os.path.dirname(place.real)
    return "" if given in ("", ".") else "/" if given == "/" else f"{given}/"


def _ignores(start: ResolvedPath) -> list[tuple[str, list[str]]]:
    """The .gitignore files above the start, outermost first, up to the repository's or the place's root."""
    found: list[tuple[str, list[str]]] = []
    folder, above = start.real, list[str]()
    for _ in range(_MAX_ABOVE):
        if os.path.lexists(os.path.join(folder, ".git")):
            return found[::-1]
        if folder in (start.root, "/"):
            break
        folder, name = os.path.split(folder)
        above.insert(0, name)
        text = _text(ResolvedPath(folder, os.path.join(folder, ".gitignore"), start.root))
        if text:
            found.append((text, list(above)))
    return []  # no repository: files further up mean nothing here


def _text(place: ResolvedPath) -> str:
    try:
        with files.open_file(place) as (handle, _):
            return os.read(handle, 256 * 1024).decode("utf-8", "replace")
    except ToolFailure:
        return ""


async def _talk(ctx: ToolContext, job: dict[str, Any], handle: int, seconds: float) -> SearchAnswer:
    reply = bytearray()
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    with tempfile.TemporaryFile() as stdin:
        stdin.write(json.dumps(job).encode())
        stdin.seek(0)
        spec = child.ChildSpec((sys.executable, *_FLAGS, _CODE, root), "/", {}, stdin, (handle,))

        def keep(data: bytes) -> None:
            if len(reply) < _MAX_REPLY:
                reply.extend(data)

        try:
            await child.run_child(spec, keep, seconds + 2)
        except OSError as exc:
            raise ToolFailure(f"the search could not be started: {exc.strerror or exc}") from None
    return _answer(bytes(reply))


def _answer(reply: bytes) -> SearchAnswer:
    lines: list[str] = []
    for raw in reply.split(b"\n"):
        try:
            said = json.loads(raw) if raw else ""
        except ValueError:
            continue
        if isinstance(said, dict):
            if said["error"]:
                raise ToolFailure(str(said["error"]))
            return SearchAnswer(lines, said["count"], said["full"], False)
        if raw:
            lines.append(str(said))
    return SearchAnswer(lines, len(lines), "", True)


def render_answer(answer: SearchAnswer, nothing: str, seconds: float = SECONDS) -> str:
    """The findings as text, with what is missing. Raises ToolFailure when time ran out and nothing was found."""
    late = f"Search stopped after {seconds:g} s: name a smaller folder or use a simpler pattern."
    if answer.late and not answer.lines:
        raise ToolFailure(late)
    notes = {"limit": f"First {answer.hits} shown; raise limit or narrow the search.", "size": "Cut here: too long."}
    note = late if answer.late else notes.get(answer.full, "")
    text = "\n".join(answer.lines) or nothing
    return f"{text}\n\n[{note}]" if note else text
