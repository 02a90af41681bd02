"""Putting files back as they were before a run, and doing it again. Whole or not at all: what is to be done is on disk
before the first file is touched, and a start after `kill -9` does the rest of it.

A file that somebody else changed since is left alone, unless the two changes do not touch each other (then both are
kept) or `force` is said. Files are reached by `beneath.py` only: no link leads out of the workspace.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import secrets

import msgspec

from palinurus import beneath
from palinurus.core.merge import merge_texts
from palinurus.core.types.changes import ChangeRules, FileState, RunChanges, UndoStep
from palinurus.crashpoints import pass_crashpoint
from palinurus.errors import BadRequest, StateUnwritable
from palinurus.tools.changes.archive import ChangeArchive, UndoPlan
from palinurus.tools.changes.journal import get_change_journal
from palinurus.tools.changes.look import FileLook

log = logging.getLogger(__name__)

SINCE = "was changed since by {who}"
SOMEBODY = SINCE.format(who="somebody else")
GONE = "was not kept (too large, or not readable), so it stays as it is"
LOST = "is not kept any more, so it stays as it is"
LINKED = "lies behind a link now, which is not followed"


class FileProblem(msgspec.Struct, frozen=True):
    """A file that cannot simply be put back. `hard`: not even by force."""

    path: str
    why: str
    hard: bool = False


class UndoOutcome(msgspec.Struct, frozen=True):
    """What was done, and what was left as it is."""

    run: RunChanges
    steps: tuple[UndoStep, ...] = ()
    problems: tuple[FileProblem, ...] = ()


class FileRestorer:
    """Undoes and does again. Raises BadRequest where it refuses, StateUnwritable where it cannot."""

    def __init__(self, archive: ChangeArchive, rules: ChangeRules) -> None:
        self._archive = archive
        self._look = FileLook(rules, archive.blobs)

    def restore(self, run: RunChanges, *, redo: bool = False, force: bool = False, ident: str = "") -> UndoOutcome:
        """Undo a run, or with `redo` what was undone. `ident`: by what `ChangeArchive.find_ended` finds it again."""
        verb = "done again" if redo else "undone"
        try:
            with self._archive.hold():
                self._finish()
                steps, problems = self._plan(run, redo=redo)
                soft = [one for one in problems if not one.hard]
                if problems and not force:
                    raise BadRequest(_explain(self._name_later(run, problems), verb))
                steps += [step for one in soft if (step := self._force(run, one.path, redo=redo)) is not None]
                plan = UndoPlan(ident or secrets.token_hex(8), run.item, run.workspace, tuple(steps), redo=redo)
                pass_crashpoint("undo.before")
                self._archive.save_plan(plan)
                self._carry_out(plan)
        except OSError as exc:
            raise StateUnwritable(f"it could not be {verb}: {exc}") from exc
        return UndoOutcome(run, plan.steps, tuple(problems))

    def recover(self) -> bool:
        """At the start: finish what was begun. Was there something?"""
        if self._archive.load_plan() is None:
            return False
        with self._archive.hold():
            return self._finish()

    def _finish(self) -> bool:
        plan = self._archive.load_plan()
        if plan is None:
            return False
        log.warning("what was being undone of run %s when the program was killed is finished", plan.item)
        self._carry_out(plan)
        return True

    def _carry_out(self, plan: UndoPlan) -> None:
        pass_crashpoint("undo.planned")
        # what stands in the way goes first, the deepest first; then folders before what is in them
        for step in sorted(plan.steps, key=lambda step: step.path, reverse=True):
            self._one(plan, step, removing=True)
        for step in sorted(plan.steps, key=lambda step: step.path):
            self._one(plan, step, removing=False)
        pass_crashpoint("undo.after")
        self._archive.end_plan(plan, plan.steps)
        pass_crashpoint("undo.marked")
        self._archive.drop_plan()

    def _one(self, plan: UndoPlan, step: UndoStep, *, removing: bool) -> None:
        goes = step.to is None or (step.was is not None and step.was.kind != step.to.kind)
        if removing and not goes:
            return
        now = self._see(plan.workspace, step.path)
        if now == step.to or (not removing and goes and now is not None):
            return
        if now is not None and now != step.was:
            log.warning("%s was changed while it was being undone and stays as it is", step.path)
            return
        if removing:
            with contextlib.suppress(FileNotFoundError):
                _remove(plan.workspace, step.path)
        elif step.to is not None:
            self._make(plan.workspace, step.path, step.to)
        pass_crashpoint("undo.middle")

    def _make(self, workspace: str, path: str, state: FileState) -> None:
        if state.kind == "folder":
            beneath.make_folder_beneath(workspace, path, state.mode)
        elif state.kind == "link":
            with contextlib.suppress(FileNotFoundError):
                beneath.remove_beneath(workspace, path)
            beneath.make_link_beneath(workspace, path, state.link)
        else:
            data = self._archive.blobs.get(state.hash, state.size)
            if data is None:
                log.error("%s cannot be put back: its content is not kept any more", path)
                return
            beneath.write_file_beneath(workspace, path, data, sync=True, mode=state.mode)

    def _see(self, workspace: str, path: str) -> FileState | None:
        seen = self._look.look_at(workspace, (path,), 0).get(path)
        return seen.state if seen is not None else None

    def _plan(self, run: RunChanges, *, redo: bool) -> tuple[list[UndoStep], list[FileProblem]]:
        steps: list[UndoStep] = []
        problems: list[FileProblem] = []
        for wanted in _list_wanted(run, redo=redo):
            made = self._judge(run.workspace, wanted)
            if isinstance(made, UndoStep):
                steps.append(made)
            elif made is not None:
                problems.append(made)
        return steps, problems

    def _judge(self, workspace: str, wanted: UndoStep) -> UndoStep | FileProblem | None:
        """What is to be done to one path: nothing (None), this, or why not."""
        path, expected, to = wanted.path, wanted.was, wanted.to
        try:
            now = self._see(workspace, path)
        except OSError as exc:
            why = LINKED if exc.errno in (errno.ELOOP, errno.ENOTDIR, errno.EXDEV) else str(exc.strerror)
            return FileProblem(path, why, hard=True)
        if now == to:
            return None
        if to is not None and not to.kept:
            return FileProblem(path, GONE, hard=True)
        if to is not None and to.hash and self._archive.blobs.get(to.hash, to.size) is None:
            return FileProblem(path, LOST, hard=True)
        if now == expected:
            return wanted
        folders = all(one is None or one.kind == "folder" for one in (now, expected, to))
        if folders:  # its mode only, or it is there still or again: what is in it decides
            return UndoStep(path, now, to) if to is not None and now is None else None
        merged = self._merge(now, expected, to)
        return UndoStep(path, now, merged, True) if merged is not None else FileProblem(path, SOMEBODY)

    def _merge(self, now: FileState | None, expected: FileState | None, to: FileState | None) -> FileState | None:
        """The present file without the run's change, if nothing else touches it."""
        texts: list[str] = []
        for state in (expected, now, to):
            data = self._archive.blobs.get(state.hash, state.size) if state is not None and state.hash else None
            if data is None or b"\0" in data:
                return None
            try:
                texts.append(data.decode())
            except UnicodeDecodeError:
                return None
        made = merge_texts(*texts)
        if made is None or now is None:
            return None
        data = made.encode()
        return msgspec.structs.replace(now, size=len(data), hash=self._archive.blobs.put(data))

    def _name_later(self, run: RunChanges, problems: list[FileProblem]) -> list[FileProblem]:
        """With the run that changed it since, where one did and stands."""
        loaded = (self._archive.load(item) for item in self._archive.list_runs())
        later = [one for one in loaded if one is not None and one.at > run.at and one.undone is None]
        who = {change.path: one.item for one in later for change in one.changes if one.workspace == run.workspace}
        return [
            msgspec.structs.replace(one, why=SINCE.format(who=f"run {who[one.path]}"))
            if one.why == SOMEBODY and one.path in who
            else one
            for one in problems
        ]

    def _force(self, run: RunChanges, path: str, *, redo: bool) -> UndoStep | None:
        """Whatever is there now; it is kept, so that it can be had again."""
        wanted = next(one for one in _list_wanted(run, redo=redo) if one.path == path)
        return UndoStep(path, self._see(run.workspace, path), wanted.to)


def _list_wanted(run: RunChanges, *, redo: bool) -> list[UndoStep]:
    """`was` is what is expected to be there."""
    if redo:
        return [UndoStep(step.path, step.to, step.was) for step in run.undone or ()]
    return [UndoStep(change.path, change.after, change.before) for change in run.changes]


def _remove(workspace: str, path: str) -> None:
    try:
        beneath.remove_beneath(workspace, path)
    except OSError as exc:
        if exc.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # a folder in which others put something stays
            raise


def _explain(problems: list[FileProblem], verb: str) -> str:
    shown = "; ".join(f"{one.path} {one.why}" for one in problems[:5])
    more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
    choice = "does it all the same" if not any(one.hard for one in problems) else "does the rest"
    return f"not {verb}, nothing was changed: {shown}{more}; --force {choice}"


def recover_changes(home: str, rules: ChangeRules) -> None:
    """At the start: finish what was being undone when the program was killed, then find what a call had changed that
    was cut off with it."""
    journal = get_change_journal(home)
    try:
        FileRestorer(journal.archive, rules).recover()
        journal.recover(rules)
    except OSError as exc:
        log.error("what was changed when the program was killed cannot be seen to: %s", exc)
