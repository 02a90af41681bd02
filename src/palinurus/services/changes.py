"""What runs changed in their workspaces, for `pal changes|undo|redo`, the chat commands and the gateway's methods
alike: which run is meant, whether it may be undone now, and all of it in data and in words.
"""

from __future__ import annotations

import asyncio
import difflib
import os
from datetime import datetime
from typing import Any, Protocol

import msgspec

from palinurus.config.secrets import collect_secrets
from palinurus.config.settings import Settings
from palinurus.core.text import blank_values
from palinurus.core.types.changes import FileChange, FileState, RunChanges
from palinurus.errors import BadRequest, NotFound
from palinurus.patterns import compile_late
from palinurus.store.port import Store
from palinurus.tools.changes import was_cut_off
from palinurus.tools.changes.archive import ChangeArchive
from palinurus.tools.changes.journal import get_change_journal
from palinurus.tools.changes.undo import FileRestorer, UndoOutcome, recover_changes
from palinurus.tools.watches import get_persona_watches

LAST = ("", "last")
DIFF_LINES = 400  # of one file
DIFF_BYTES = 400_000  # of a file that is compared
# Files that hold keys by their names: kept and put back like others, never shown.
_SECRET = compile_late(
    r"(?:^|/)(?:\.env[^/]*|\.netrc|\.npmrc|\.pypirc|\.pgpass|\.git-credentials|id_[a-z0-9]+|[^/]*\.(?:pem|key|p12|pfx|kdbx"
    r"|keystore|jks)|(?:[^/]*[._-])?(?:credentials?|secrets?|tokens?)(?:[._-][^/]*)?)$",
    2,
)


class SessionTeller(Protocol):
    """Who tells a session something with its next turn."""

    async def wake(self, text: str, *, now: bool, session: str = "") -> None: ...


class ChangeKeeper:
    """Made when somebody asks. Raises NotFound, BadRequest, StateError kinds."""

    def __init__(self, settings: Settings, store: Store, teller: SessionTeller | None = None) -> None:
        self._settings = settings
        self._store = store
        self._teller = teller
        self._journal = get_change_journal(settings.home)
        self._rules = settings.tools.changes

    async def list_runs(self, session: str = "", limit: int = 50) -> list[RunChanges]:
        """Those that changed something, the newest first."""
        await self._catch_up()
        return (await asyncio.to_thread(list_changed_runs, self._journal.archive, session))[:limit]

    async def find(self, name: str = "", session: str = "") -> RunChanges:
        """A run by its id or the beginning of it; the last one that changed something."""
        await self._catch_up()
        return await asyncio.to_thread(find_changed_run, self._journal.archive, name, session)

    async def describe(self, run: RunChanges, *, diffs: bool = True) -> dict[str, Any]:
        """See `describe_changes`."""
        hidden = tuple(collect_secrets(self._settings))
        return await asyncio.to_thread(describe_changes, run, self._journal.archive, hidden=hidden, diffs=diffs)

    async def undo(
        self, name: str = "", session: str = "", *, redo: bool = False, force: bool = False, ident: str = ""
    ) -> dict[str, Any]:
        """Undo a run, or with `redo` do again what was undone; what was done, as data. The same `ident` twice: once."""
        await self._catch_up()
        ended = await asyncio.to_thread(self._journal.archive.find_ended, ident) if ident else None
        if ended is not None:
            return describe_outcome(UndoOutcome(*ended), redo=redo)
        run = await asyncio.to_thread(_choose, self._journal.archive, name, session, redo=redo)
        row = await self._store.item(run.item)
        if row is not None and row.outcome is None:
            raise BadRequest(f"run {run.item} is still going", fix="wait for its end, or stop it (/stop)")
        restorer = FileRestorer(self._journal.archive, self._rules)
        outcome = await asyncio.to_thread(restorer.restore, run, redo=redo, force=force, ident=ident)
        paths = tuple(step.path for step in outcome.steps)
        await asyncio.to_thread(self._journal.accept, run.workspace, paths, self._rules)
        get_persona_watches().accept([os.path.join(run.workspace, path) for path in paths])
        if self._teller is not None and outcome.steps:
            # no names of files: whoever chose them would speak with the owner's voice
            verb = "done again" if redo else "undone"
            files = f"{len(outcome.steps)} file{'' if len(outcome.steps) == 1 else 's'}"
            text = f"The owner has {verb} what you changed in {files}. Read files again before use."
            await self._teller.wake(text, now=False, session=run.session)
        return describe_outcome(outcome, redo=redo)

    async def _catch_up(self) -> None:
        """What was cut off is finished, what goes on in the background is looked at."""
        if was_cut_off(self._settings.home):
            await asyncio.to_thread(recover_changes, self._settings.home, self._rules)
        await self._journal.refresh()

    async def prune(self, now: int) -> None:
        """Forget what is old, too much, or whose run is forgotten."""
        archive, rules = self._journal.archive, self._rules
        items = await asyncio.to_thread(archive.list_runs)
        gone = {item for item in items if await self._store.item(item) is None}
        await asyncio.to_thread(self._journal.prune, rules, now - rules.age, gone)


def list_changed_runs(archive: ChangeArchive, session: str = "") -> list[RunChanges]:
    """Runs with something to show, the newest first."""
    loaded = (archive.load(item) for item in archive.list_runs())
    found = [run for run in loaded if run is not None and (run.changes or run.notes)]
    return sorted((run for run in found if session in ("", run.session)), key=lambda run: run.at, reverse=True)


def find_changed_run(archive: ChangeArchive, name: str = "", session: str = "") -> RunChanges:
    """By id or its beginning; else the last one. Raises NotFound."""
    if name in LAST:
        runs = [run for run in list_changed_runs(archive, session) if run.changes]
        if not runs:
            raise NotFound(
                "no run has changed a file yet, as far as is known", fix='`pal agent -m "write a.txt with hi"`'
            )
        return runs[0]
    items = [item for item in archive.list_runs() if item.startswith(name)]
    if len(items) > 1 and name not in items:
        raise NotFound(f"more than one run begins with {name[:64]!r}", fix="`pal changes --list` names them")
    run = archive.load(name if name in items else items[0]) if items else None
    if run is None or (session and run.session != session):
        fix = "`pal changes --list` names those that did"
        raise NotFound(f"run {name[:64]} changed no file, as far as is known", fix=fix)
    return run


def _choose(archive: ChangeArchive, name: str, session: str, *, redo: bool) -> RunChanges:
    if name in LAST:
        runs = [run for run in list_changed_runs(archive, session) if run.changes]
        if redo:  # the one that was undone last
            order = {item: at for at, item in enumerate(archive.list_runs())}
            runs.sort(key=lambda run: order.get(run.item, len(order)))
        fitting = [run for run in runs if (run.undone is not None) == redo]
        if not fitting:
            told = "nothing was undone" if redo else "there is nothing to undo"
            raise NotFound(told, fix="`pal changes --list` names what runs changed")
        return fitting[0]
    run = find_changed_run(archive, name, session)
    if not run.changes:
        raise BadRequest(f"run {run.item} changed no file that could be kept: {'; '.join(run.notes)[:400]}")
    if (run.undone is not None) != redo:
        told, other = ("was not undone", "undo") if redo else ("is undone already", "redo")
        raise BadRequest(f"run {run.item} {told}", fix=f"`pal {other} {run.item}`")
    return run


# --- as data


def describe_changes(
    run: RunChanges, archive: ChangeArchive, *, hidden: tuple[str, ...] = (), diffs: bool = True
) -> dict[str, Any]:
    """The whole as plain data. `hidden`: texts that are never shown."""
    return {
        "run": run.item,
        "sessionKey": run.session,
        "agentId": run.agent,
        "workspace": run.workspace,
        "at": run.at,
        "undone": run.undone is not None,
        "notes": list(run.notes),
        "files": [_describe_file(change, archive, hidden, diffs=diffs) for change in run.changes],
    }


def _describe_file(
    change: FileChange, archive: ChangeArchive, hidden: tuple[str, ...], *, diffs: bool
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "path": change.path,
        "what": change.what,
        "tool": change.tool,
        "before": _describe_state(change.before),
        "after": _describe_state(change.after),
        "canUndo": change.before is None or change.before.kept,
    }
    if not diffs or any(state is not None and state.kind == "folder" for state in (change.before, change.after)):
        return made
    if _SECRET.search(change.path):
        return {**made, "withheld": "a file of secrets, by its name"}
    texts = [_read(state, archive) for state in (change.before, change.after)]
    if any(text is None for text in texts):
        return {**made, "binary": True}
    before, after = (str(text) for text in texts)
    lines = _compare(change.path, before, after)
    made |= {
        "added": sum(line.startswith("+") and not line.startswith("+++") for line in lines),
        "removed": sum(line.startswith("-") and not line.startswith("---") for line in lines),
    }
    if len(lines) > DIFF_LINES:
        lines = [*lines[:DIFF_LINES], f"[… {len(lines) - DIFF_LINES} further lines]"]
    return {**made, "diff": blank_values("\n".join(lines), hidden) if hidden else "\n".join(lines)}


def _describe_state(state: FileState | None) -> dict[str, Any] | None:
    if state is None:
        return None
    made: dict[str, Any] = {"kind": state.kind, "mode": f"{state.mode:04o}"}
    if state.kind == "file":
        made |= {"size": state.size, "hash": state.hash or None}
    return {**made, "link": state.link} if state.link else made


def _read(state: FileState | None, archive: ChangeArchive) -> str | None:
    """Its text; None if it is none, or too large, or not kept."""
    if state is None:
        return ""
    if state.kind == "link":
        return f"(a link to {state.link})"
    data = archive.blobs.get(state.hash, state.size) if state.hash and state.size <= DIFF_BYTES else None
    if data is None or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _compare(path: str, before: str, after: str) -> list[str]:
    names = (f"a/{path}" if before else "/dev/null", f"b/{path}" if after else "/dev/null")
    return list(difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm=""))


def describe_outcome(outcome: UndoOutcome, *, redo: bool) -> dict[str, Any]:
    """What undoing did."""
    return {
        "run": outcome.run.item,
        "sessionKey": outcome.run.session,
        "done": "redo" if redo else "undo",
        "files": [{"path": step.path, "merged": step.merged} for step in outcome.steps],
        "left": [msgspec.to_builtins(problem) for problem in outcome.problems if problem.hard],
    }


# --- in words


def format_changes(told: dict[str, Any], *, diffs: bool = True) -> str:
    """The whole for people: a line for each file, then what changed in them."""
    files = told["files"]
    undone = "  (undone)" if told["undone"] else ""
    lines = [f"run {told['run']}  {_when(told['at'])}  {told['sessionKey']}{undone}", f"in {told['workspace']}"]
    width = max((len(one["path"]) for one in files), default=0)
    lines += [f"  {one['what']:<8} {one['path']:<{min(width, 60)}}  {_size(one)}".rstrip() for one in files]
    lines += ["  no file that could be kept"] if not files else []
    lines += [f"  note: {note}" for note in told["notes"]]
    if diffs:
        lines += [part for one in files if one.get("diff") for part in ("", one["diff"])]
    return "\n".join(lines)


def _size(one: dict[str, Any]) -> str:
    before, after = one["before"], one["after"]
    if "added" in one and one["what"] != "mode":
        return f"+{one['added']} -{one['removed']}"
    if one["what"] == "mode":
        return f"{before['mode']} -> {after['mode']}"
    sizes = [_mass(state) for state in (before, after)]
    return " -> ".join(sizes) + (f"  ({one['withheld']}: not shown)" if "withheld" in one else "")


def _mass(state: dict[str, Any] | None) -> str:
    if state is None:
        return "nothing"
    if state["kind"] != "file":
        return str(state["kind"])
    return f"{state['size']:,} B {state['hash'][:12] if state['hash'] else '(not kept)'}"


def format_outcome(told: dict[str, Any]) -> str:
    """What was done, for people."""
    verb = "Redid" if told["done"] == "redo" else "Undid"
    files = told["files"]
    names = ", ".join(one["path"] for one in files[:8]) + (" …" if len(files) > 8 else "")
    lines = [
        f"{verb} run {told['run']}: {len(files)} file{'' if len(files) == 1 else 's'}{f' ({names})' if names else ''}."
    ]
    merged = [one["path"] for one in files if one["merged"]]
    lines += [f"Kept what was changed there since: {', '.join(merged[:8])}."] if merged else []
    lines += [f"Left as it is: {one['path']} {one['why']}." for one in told["left"]]
    return "\n".join(lines)


def _when(at: int) -> str:
    return datetime.fromtimestamp(at / 1000).astimezone().isoformat(" ", "seconds")[:19]
