"""The apply_patch tool: several files in one call. All is worked out before the first byte is written."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from typing import Annotated, Any, NamedTuple

import msgspec

from palinurus.core.folders import is_inside
from palinurus.core.types.tool import ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.tasks import finish_in_thread
from palinurus.tools.define import define_tool
from palinurus.tools.files import handles, hunks
from palinurus.tools.files.buffers import put_in_buffer
from palinurus.tools.files.paths import ResolvedPath, resolve_path, shorten_path

MAX_PATCH = 2_000_000  # characters
MAX_FILES = 200
_BOM = "\ufeff"


def _summary(args: dict[str, Any]) -> str:
    lines = [line for line in str(args.get("input") or "").split("\n")[:2000] if line.startswith("*** ")]
    names = [line.split(":", 1)[1].strip() for line in lines if " File:" in line]
    return shorten_path(", ".join(names[:5]) + (" …" if len(names) > 5 else ""))


@define_tool("apply_patch", summary=_summary, aliases={"input": "patch content diff"})
async def apply_patch(ctx: ToolContext, input: Annotated[str, "The whole patch"]) -> ToolOutput:
    """Change several files with one patch: '*** Begin Patch', then per file '*** Add File: path' (lines with +),
    '*** Delete File: path' or '*** Update File: path' (optionally '*** Move to: path') with hunks: '@@ header', then
    lines with ' ', '-' or '+'; at the end '*** End Patch'. Nothing is written unless every hunk fits."""
    if len(input) > MAX_PATCH:
        raise ToolFailure(f"the patch has {len(input)} characters; at most {MAX_PATCH} are taken")
    try:
        changes = (
            await asyncio.to_thread(hunks.parse_patch, input)
            if len(input) > handles.SMALL_FILE
            else hunks.parse_patch(input)
        )
    except hunks.PatchError as exc:
        raise ToolFailure(f"The patch cannot be read: {exc}. Nothing was changed") from None
    if len(changes) > MAX_FILES:
        raise ToolFailure(f"the patch changes {len(changes)} files; at most {MAX_FILES} are taken")
    places = {path: _place(path, ctx) for change in changes for path in _paths(change)}
    async with AsyncExitStack() as stack:
        for real in sorted({place.real for place in places.values()}):
            await stack.enter_async_context(handles.lock_path(ResolvedPath(real, real, "/")))
        state, output = await finish_in_thread(_done, changes, places)
        notes = await state.write(ctx)
    return make_output(output + notes, state.details)


def _paths(change: hunks.FileChange) -> tuple[str, ...]:
    return (change.path, change.move) if isinstance(change, hunks.UpdateFile) and change.move else (change.path,)


def _place(path: str, ctx: ToolContext) -> ResolvedPath:
    """The judged place. Patches stay in the workspace unless tools.exec.applyPatch.workspaceOnly is off."""
    place = resolve_path(path, ctx)
    if not ctx.settings.patch_workspace_only:
        return place
    workspace = os.path.realpath(ctx.workspace)
    if not is_inside(place.real, workspace):
        raise ToolFailure(
            f"{shorten_path(path)} is outside the workspace; patches are limited to it "
            "(tools.exec.applyPatch.workspaceOnly)"
        )
    return msgspec.structs.replace(place, root=workspace)


class _Files:
    """The files as they will be: what is on disk, and what the changes so far make of it. None: not there."""

    def __init__(self) -> None:
        self._new: dict[str, tuple[ResolvedPath, bytes | None]] = {}
        self._like: dict[str, os.stat_result] = {}  # moved files keep their mode
        self.details: dict[str, Any] = {}

    def read(self, place: ResolvedPath) -> str:
        known = self._new.get(place.real)
        data = known[1] if known else handles.read_text(place, "apply_patch")
        if data is None:
            raise ToolFailure(f"{shorten_path(place.given)} does not exist any more at this point of the patch")
        return data.decode("utf-8", "surrogateescape")

    def exists(self, place: ResolvedPath) -> bool:
        known = self._new.get(place.real)
        if known:
            return known[1] is not None
        try:
            handles.stat_path(place)
        except ToolFailure:
            return False
        return True

    def put(self, place: ResolvedPath, text: str | None) -> None:
        self._new[place.real] = (place, None if text is None else text.encode("utf-8", "surrogateescape"))

    def move(self, source: ResolvedPath, target: ResolvedPath) -> None:
        """`source` goes; what is put at `target` next is still that file."""
        known = self._like.get(source.real)
        if known is None and source.real not in self._new:
            known = handles.stat_path(source)
        if known is not None:
            self._like[target.real] = known
        self.put(source, None)

    async def write(self, ctx: ToolContext) -> str:
        """What the editor takes goes there, the rest to disk, to its end once begun. Returns what is to be told."""
        done: list[str] = []
        notes = ""
        try:
            for place, data in list(self._new.values()) if ctx.settings.editor is not None else ():
                put = None
                if data is not None and place.real not in self._like:
                    put = await put_in_buffer(ctx, place, data)
                if put is not None:
                    done.append(place.given)
                    del self._new[place.real]
                    notes += f"\n{shorten_path(place.given)}:{put.note}" if put.note else ""
            await finish_in_thread(self._write, done)
        except ToolFailure as exc:
            already = f"; changed before that: {', '.join(done)}" if done else ". Nothing was changed"
            raise ToolFailure(f"{exc}{already}") from None
        return notes

    def _write(self, done: list[str]) -> None:
        """Writes first, removals last: what is moved is never nowhere."""
        for place, data in sorted(self._new.values(), key=lambda new: new[1] is None):
            if data is None:
                handles.remove_file(place)
            else:
                handles.replace_file(place, data, self._like.get(place.real))
            done.append(place.given)


class _Summary(NamedTuple):
    added: list[str]
    modified: list[str]
    deleted: list[str]


def _done(changes: tuple[hunks.FileChange, ...], places: dict[str, ResolvedPath]) -> tuple[_Files, str]:
    """The files as they will be, and what is to be told of them."""
    state, summary = _Files(), _Summary([], [], [])
    try:
        for change in changes:
            _one(change, places, state, summary)
    except hunks.PatchError as exc:
        raise ToolFailure(f"{exc}\nNothing was changed") from None
    except ToolFailure as exc:
        raise ToolFailure(f"{exc}. Nothing was changed") from None
    state.details = {"summary": summary._asdict()}
    lines = [f"{mark} {path}" for mark, paths in zip("AMD", summary, strict=True) for path in paths]
    return state, "Success. Updated the following files:\n" + "\n".join(lines)


def _one(change: hunks.FileChange, places: dict[str, ResolvedPath], state: _Files, summary: _Summary) -> None:
    place = places[change.path]
    match change:
        case hunks.AddFile(path, text):
            if state.exists(place):
                raise ToolFailure(f"{shorten_path(path)} exists already; use *** Update File to change it")
            state.put(place, text)
            summary.added.append(path)
        case hunks.DeleteFile(path):
            state.read(place)
            state.put(place, None)
            summary.deleted.append(path)
        case hunks.UpdateFile(path, move, chunks):
            text = state.read(place)
            bom = _BOM if text.startswith(_BOM) else ""
            new = bom + hunks.apply_chunks(text[len(bom) :], chunks, path)
            if move and places[move].real != place.real:
                if state.exists(places[move]):
                    raise ToolFailure(
                        f"{shorten_path(move)} exists already; {shorten_path(path)} cannot be moved there"
                    )
                state.move(place, places[move])
            state.put(places[move] if move else place, new)
            summary.modified.append(move or path)
