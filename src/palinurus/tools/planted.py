"""Files that were written after content from outside was read: remembered, so that they are not run with a network
later, in whatever session, before the owner has seen them. And what steers a fetching step: it must be older than the
taint.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any

from palinurus.core.policy import exec, networking
from palinurus.core.policy.taint import is_from_outside
from palinurus.core.types.tool import ToolContext, ToolFailure
from palinurus.files import find_real_path

MAX_MARKS = 64  # files that are marked one by one; of more, the folder is
MAX_WALK = 50_000
_PASSED = frozenset((".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"))
Ask = Callable[[str, str, dict[str, str], str], Awaitable[None]]  # (title, shown, binding, why); raises ToolFailure


async def loses_network(ctx: ToolContext, args: dict[str, Any], ask: Ask) -> bool:
    """Must this command do without the network its sandbox gives it? Perhaps a person is asked first."""
    command, cell = args.get("command"), ctx.settings.cell
    if not isinstance(command, str) or cell.kind == "none" or cell.connect == ():
        return False
    if exec.wants_node(str(args.get("host") or ""), str(args.get("node") or ""), ctx.settings.rules.host):
        return False  # neither our network nor our files are there; who sends it there asks
    verdict = networking.judge_network(command, ctx.taint, ctx.settings.taint)
    if verdict == "closed":
        return True
    rules = ctx.settings.taint
    if not rules.enabled or "exec:network" in rules.allow or networking.classify_output(command) == "command":
        return False
    marked = ctx.marked_below(find_real_path(ctx.workspace))
    newer = _list_newer(ctx, command, str(args.get("workdir") or "")) if verdict == "look" else ()
    if not marked and not newer:
        return False
    names = [os.path.relpath(path, find_real_path(ctx.workspace)) for path in (*marked, *newer)]
    why = "it may run files that were written after untrusted content was read: " + ", ".join(names[:8])
    bound = {"command": hashlib.sha256(command.encode("utf-8", "replace")).hexdigest(), "files": ",".join(names[:64])}
    try:
        await ask("let a command use the network", command, bound, why)
    except ToolFailure:
        return True
    await ctx.unmark(marked)
    return False


def _list_newer(ctx: ToolContext, command: str, workdir: str) -> tuple[str, ...]:
    """The files that steer it and were changed since untrusted content was read, or name code that may have been."""
    folder = os.path.join(ctx.workspace, workdir)
    found = []
    depth = len(os.path.relpath(folder, ctx.workspace).split("/")) if workdir else 0
    for name in networking.list_manifests(command, depth):
        path = os.path.realpath(os.path.join(folder, name))
        try:
            if os.stat(path).st_ctime_ns > ctx.tainted_at * 1_000_000 or _has_scripts(path):
                found.append(path)
        except OSError:
            continue
    return tuple(found)


def _has_scripts(path: str) -> bool:
    """Does installing run commands of the project itself?"""
    if os.path.basename(path) != "package.json":
        return False
    try:
        with open(path, "rb") as file:  # our own look; what is in it decides only whether a person is asked
            scripts = json.loads(file.read(1 << 20)).get("scripts") or {}
        return not networking.LIFECYCLE.isdisjoint(scripts)
    except (OSError, ValueError, AttributeError, TypeError):
        return True


async def mark_written(ctx: ToolContext, since_ns: int) -> None:
    """Remember what a command has written after content from outside was read. Raises StateError kinds."""
    if not is_from_outside(ctx.taint):
        return
    top = find_real_path(ctx.workspace)
    found = _list_written(top, since_ns)
    if found is None or len(found) > MAX_MARKS:
        tops = {path[len(top) + 1 :].partition("/")[0] for path in found} if found else set()
        found = [os.path.join(top, name) for name in sorted(tops)] if 0 < len(tops) <= MAX_MARKS else [top]
    for path in found:
        await ctx.mark(path)


def _list_written(top: str, since_ns: int) -> list[str] | None:
    """Files changed since then; None where there are too many to look at."""
    found, count, waiting = list[str](), 0, [top]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count += 1
                    if entry.is_dir(follow_symlinks=False):
                        if entry.name not in _PASSED:
                            waiting.append(entry.path)
                    elif entry.stat(follow_symlinks=False).st_ctime_ns >= since_ns:
                        found.append(entry.path)
        except OSError:
            continue
        if count > MAX_WALK:
            return None
    return found
