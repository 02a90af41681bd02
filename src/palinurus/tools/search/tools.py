"""find and grep, which ask the search process: what it may see is opened and judged here; what it says comes back as a
SearchAnswer."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Annotated, Any

import msgspec

from palinurus.core.folders import is_inside
from palinurus.core.types.tool import ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.tools.commands import child
from palinurus.tools.define import define_tool
from palinurus.tools.files import handles
from palinurus.tools.files.paths import KERNEL_FOLDERS, ResolvedPath, list_barred_folders, resolve_path, shorten_path
from palinurus.tools.sandbox.system import make_own_command

FIND_LIMIT, GREP_LIMIT = 1000, 100
MAX_CONTEXT = 20
SECONDS = 20.0
BYTES = 50 * 1024
_MAX_REPLY = 1 << 20
_MAX_ABOVE = 32


class SearchAnswer(msgspec.Struct, frozen=True):
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
    if not handles.name_file_kind(handles.stat_path(place)):
        only = os.path.basename(place.real)
        start = ResolvedPath(place.given, os.path.dirname(place.real), place.root)
    room = max(min(BYTES, ctx.settings.result_chars - 300), 200)
    whole = {**job, "only": only, "prefix": _prefix(place, only), "room": room, "seconds": seconds}
    with handles.open_listing(start) as handle:
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
        return handles.read_whole(place, 256 * 1024).decode("utf-8", "replace")
    except ToolFailure:
        return ""


async def _talk(ctx: ToolContext, job: dict[str, Any], handle: int, seconds: float) -> SearchAnswer:
    reply = bytearray()
    with tempfile.TemporaryFile() as stdin:
        stdin.write(json.dumps(job).encode())
        stdin.seek(0)
        line = make_own_command("palinurus.tools.search.worker")
        spec = child.ChildSpec(line, "/", {}, stdin, pass_fds=(handle,), kept=False)

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


def _summary(args: dict[str, Any]) -> str:
    return f"{args.get('pattern') or ''} in {args.get('path') or '.'}"[:80]


@define_tool(
    "find",
    description=(
        "Find files and directories by glob. Without a slash the pattern matches names at any depth (*.py); with one "
        f"it matches the path below `path` (src/**/*.py). Leaves out what .gitignore names. "
        f"At most {FIND_LIMIT} results."
    ),
    effect="pure",
    summary=_summary,
    aliases={"pattern": "glob name query", "path": "dir directory"},
)
async def find_files(
    ctx: ToolContext,
    pattern: Annotated[str, "Glob: *, ?, [abc], {a,b}, ** for any folders"],
    path: Annotated[str, "Where to search, the workspace if left out"] = ".",
    limit: Annotated[int, f"At most this many results ({FIND_LIMIT})"] = FIND_LIMIT,
) -> ToolOutput:
    if not pattern.strip("/ "):
        raise ToolFailure("pattern is empty; give a glob such as **/*.py")
    answer = await run_search(ctx, path, {"mode": "find", "pattern": pattern.strip(), "limit": max(limit, 1)})
    return make_output(render_answer(answer, "No files match."), {"count": answer.hits, "truncated": bool(answer.full)})


class GrepArguments(msgspec.Struct, frozen=True):
    """The arguments of a call; the search process is handed them as they are."""

    pattern: Annotated[str, "Regular expression, or text if literal is true"]
    path: Annotated[str, "File or directory, the workspace if left out"] = "."
    glob: Annotated[str, "Only files that match, e.g. *.py"] = ""
    ignoreCase: Annotated[bool, "Upper and lower case count as the same"] = False
    literal: Annotated[bool, "The pattern is plain text"] = False
    context: Annotated[int, "Lines to show before and after each match"] = 0
    limit: Annotated[int, f"At most this many matches ({GREP_LIMIT})"] = GREP_LIMIT


@define_tool(
    "grep",
    description=(
        "Search the content of files, line by line, for a regular expression (Python syntax) or literal text. "
        "Leaves out binary files and what .gitignore names. Shows file:line: text, lines cut at 500 characters, "
        f"at most {GREP_LIMIT} matches."
    ),
    effect="pure",
    summary=_summary,
    aliases={"pattern": "query regex", "glob": "include", "path": "dir directory", "ignoreCase": "-i"},
)
async def grep_files(ctx: ToolContext, args: GrepArguments) -> ToolOutput:
    if not args.pattern:
        raise ToolFailure("pattern is empty")
    bounds = {"context": min(max(args.context, 0), MAX_CONTEXT), "limit": max(args.limit, 1)}
    try:
        answer = await run_search(ctx, args.path, {"mode": "grep", **msgspec.structs.asdict(args), **bounds})
    except ToolFailure as failure:
        if "regular expression" in str(failure):
            raise ToolFailure(f"{failure}. For plain text set literal to true") from None
        raise
    return make_output(
        render_answer(answer, "No matches found."), {"matches": answer.hits, "truncated": bool(answer.full)}
    )
